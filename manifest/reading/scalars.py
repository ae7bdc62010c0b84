"""What a plain scalar of YAML means in a spec file: the values that YAML 1.1 and YAML 1.2 read alike.

Two tables read each scalar: PyYAML's resolver is that of YAML 1.1, `_CORE` the core schema of YAML 1.2. A scalar that
the two read differently is refused, such as `010`, `1_0`, `1e6`, `yes` and `2020-01-01`, and the message says what to
write instead. Patterns of our own for the forms that both versions share took 82 lines in place of these 61.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from typing import Any

import yaml

MAX_NUMBER = 40  # characters; no size, constant or seed has more
_CORE = {
    "null": re.compile(r"~|null|Null|NULL|"),
    "bool": re.compile(r"true|True|TRUE|false|False|FALSE"),
    "int": re.compile(r"[-+]?[0-9]+|0o[0-7]+|[-+]?0x[0-9a-fA-F]+"),
    "float": re.compile(
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
    ),
}
_PYYAML = yaml.SafeLoader("")


@dataclasses.dataclass(frozen=True)
class Reading:
    """What a plain scalar is.

    Attributes:
      value: None, a bool, an int, a finite or infinite float, or text.
      objection: what is wrong with writing it so, or ""; if it is not "", `value` is the likeliest meaning.
    """

    value: Any
    objection: str = ""


@functools.lru_cache(maxsize=4096)
def read(text: str) -> Reading:
    """Returns the meaning of an unquoted scalar without a tag."""
    old, new = _PYYAML.resolve(yaml.ScalarNode, text, (True, False)).rpartition(":")[2], _core_sort(text)
    if len(text) > MAX_NUMBER and {old, new} & {"int", "float"}:
        return Reading(0, f"a number of {len(text)} characters; at most {MAX_NUMBER} are read")
    if old == "timestamp":
        return Reading(text, f"{text[:MAX_NUMBER]} is a date to some readers of YAML and text to others; quote it")
    before, now = _yaml_1_1(old, text), _core_value(new, text)
    if now in (math.inf, -math.inf) and text[-1].isdigit():
        return Reading(0.0, f"{text} is more than a float holds; write .inf for infinity")
    if now != now:
        return Reading(0.0, f"{text} equals nothing, not even itself, so no rule and no row can hold it")
    # Some readers of YAML 1.1 take a leading 0 for octal, whatever follows.
    if (type(before), before) == (type(now), now) and not re.match(r"[-+]?0[0-9]+$", text):
        return Reading(now)
    meant = [value for value in (before, now) if not isinstance(value, str)]
    write = " or ".join(dict.fromkeys(_plainly(value) for value in meant))
    quoted = ", or quote it" if len(meant) < 2 else ""
    return Reading(meant[-1], f"readers of YAML differ on {text}; write {write}{quoted}")


def _core_sort(text: str) -> str:
    return next((sort for sort, form in _CORE.items() if form.fullmatch(text)), "str")


def _core_value(sort: str, text: str) -> Any:
    """Returns what YAML 1.2 reads."""
    if sort == "null":
        return None
    if sort == "bool":
        return text.lower() == "true"
    if sort == "int":
        return int(text, 0) if "x" in text or "o" in text else int(text)
    return float(re.sub(r"^([-+]?)\.(?=[a-zA-Z])", r"\1", text)) if sort == "float" else text


def _yaml_1_1(sort: str, text: str) -> Any:
    """Returns what YAML 1.1 reads."""
    if sort not in _CORE:
        return text
    try:
        return getattr(_PYYAML, f"construct_yaml_{sort}")(yaml.ScalarNode(f"tag:yaml.org,2002:{sort}", text))
    except (ValueError, OverflowError):  # `0x_`, which no reader takes for a number
        return text


def _plainly(value: Any) -> str:
    """Returns a bool or a number as all readers of YAML take it."""
    if isinstance(value, float):
        digits = repr(value).replace("e", ".0e") if "." not in repr(value) else repr(value)
        return digits if "e-" in digits else digits.replace("e", "e+").replace("++", "+")
    return str(value).lower()
