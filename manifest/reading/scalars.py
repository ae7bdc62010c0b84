"""What a plain scalar of YAML means in a spec file: the values that YAML 1.1 and YAML 1.2 read alike.

The two read some scalars differently, such as `010`, `1_0`, `0b1`, `1:30`, `yes` and `off`. Such a scalar is refused,
and the message says what to write instead. So are a date, which some readers take for text, and `1e6`: a float has a
point, and its exponent a sign (`1.0e+6`).
"""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

MAX_NUMBER = 40  # characters; no size, constant or seed has more
_NULLS = frozenset(["", "~", "null", "Null", "NULL"])
_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*|0x[0-9a-fA-F]+)")
_FLOAT = re.compile(r"(?:[-+]?[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+][0-9]+)?")
_INFINITY = re.compile(r"[-+]?\.(?:inf|Inf|INF)")
_NAN = frozenset([".nan", ".NaN", ".NAN"])
# What only one of the two versions takes for a bool or a number.
_OTHER_BOOLS = {
    form: value
    for words, value in ((("yes", "on"), True), (("no", "off"), False))
    for word in words
    for form in (word, word.capitalize(), word.upper())
}
_BASED = re.compile(r"[-+]?0(?:b[01_]+|o[0-7_]+|[0-9_]+)")
_SPACED = re.compile(r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?")
_SIGNED_POINT = re.compile(r"[-+]\.[0-9]+(?:[eE][-+][0-9]+)?")
_EXPONENT = re.compile(r"(?P<minus>[-+]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?[eE](?P<sign>[-+]?)(?P<power>[0-9]+)")
_DATE = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt]|[ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}.*"
)
_SIXTIES = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")


@dataclasses.dataclass(frozen=True)
class Reading:
    """What a plain scalar is.

    Attributes:
      value: None, a bool, an int, a finite or infinite float, or text.
      objection: what is wrong with writing it so, "" where nothing is; `value` then is the likeliest meaning.
    """

    value: Any
    objection: str = ""


def read(text: str) -> Reading:
    """The meaning of an unquoted scalar without a tag."""
    if text in _NULLS:
        return Reading(None)
    if text in _BOOLS:
        return Reading(_BOOLS[text])
    if text in _OTHER_BOOLS:
        value = _OTHER_BOOLS[text]
        return Reading(
            value,
            f"{text} is {str(value).lower()} to some readers of YAML and text to others; write"
            f" {str(value).lower()}, or quote it",
        )
    if text[:1] not in _NUMBER_STARTS:
        return Reading(text)
    return _number(text)


_NUMBER_STARTS = frozenset("+-.0123456789")


def _number(text: str) -> Reading:
    numeric = _INTEGER.fullmatch(text) or _FLOAT.fullmatch(text)
    if numeric and len(text) > MAX_NUMBER:
        return Reading(0, f"a number of {len(text)} characters; at most {MAX_NUMBER} are read")
    if _INTEGER.fullmatch(text):
        return Reading(int(text, 16) if "x" in text else int(text))
    if _FLOAT.fullmatch(text):
        value = float(text)
        if math.isinf(value):
            return Reading(0.0, f"{text} is more than a float holds; write .inf for infinity")
        return Reading(value)
    if _INFINITY.fullmatch(text):
        return Reading(-math.inf if text[0] == "-" else math.inf)
    if text in _NAN:
        return Reading(0.0, f"{text} equals nothing, not even itself, so no rule and no row can hold it")
    odd = any(form.fullmatch(text) for form in (_BASED, _SIXTIES, _SIGNED_POINT))
    if odd or ("_" in text and _SPACED.fullmatch(text)):
        return Reading(
            _plainly(text),
            f"{text[:MAX_NUMBER]} is one number to some readers of YAML and another, or text, to others; write it in"
            " decimal, a digit before the point, without leading zeros and without _, or quote it",
        )
    if _DATE.fullmatch(text):
        return Reading(text, f"{text[:MAX_NUMBER]} is a date to some readers of YAML and text to others; quote it")
    loose = _EXPONENT.fullmatch(text)
    if loose and (loose["whole"] or loose["part"]) and len(text) <= MAX_NUMBER:
        sure = f"{loose['minus']}{loose['whole'] or '0'}.{loose['part'] or '0'}e{loose['sign'] or '+'}{loose['power']}"
        value = float(text)
        return Reading(
            0.0 if math.isinf(value) else value,
            f"{text} is a number to some readers of YAML and text to others; write {sure}, or quote it",
        )
    return Reading(text)


def _plainly(text: str) -> int:
    """An integer in the place of what was written, as near to it as a bound lets it be."""
    digits = re.sub(r"[^0-9]", "", text)[:18]
    return int(digits or "0")
