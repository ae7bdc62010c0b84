"""Numbers as Nsight Compute prints them: with the separators of a locale, in units that it chose."""

from __future__ import annotations

import decimal
import re
from collections.abc import Iterable

# Bytes in a unit. ncu's own units are decimal ("Kbyte" is 1000 bytes); binary ones come from other tools' exports.
_BYTES = {
    "byte": 1, "bytes": 1, "b": 1,
    "kbyte": 10**3, "kb": 10**3, "mbyte": 10**6, "mb": 10**6, "gbyte": 10**9, "gb": 10**9, "tbyte": 10**12, "tb": 10**12,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
}  # fmt: skip
# What locales put between groups of three digits, beside comma and point: spaces of several widths, apostrophes.
_GROUPING = re.compile(r"(?<=\d)[\s\u00a0\u2009\u202f'\u2019](?=\d{3})")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


class NumberError(ValueError):
    """A text that is no count of bytes; the message says which and why."""


def decimal_mark(texts: Iterable[str]) -> str:
    """The decimal mark of the locale in which a file's numbers were printed.

    Args:
      texts: all numbers of the file. A group of exactly three digits behind a lone mark may be either thing, so it
        takes the others to tell; where none does, the mark is the point, as in the locale "C".
    """
    for text in map(_ungrouped, texts):
        marks = re.findall("[.,]", text)
        if len(set(marks)) == 2:
            return marks[-1]
        if len(marks) == 1 and len(re.split("[.,]", text)[1]) != 3:
            return marks[0]
        if len(marks) > 1:  # one mark several times separates groups
            return "." if marks[0] == "," else ","
    return "."


def parse_bytes(text: str, unit: str, mark: str) -> int:
    """A count of bytes.

    Args:
      text: the number, as in "268,455,424", "268.46" or "1.234.567,8".
      unit: its unit, as in "byte", "Kbyte", "MB", "GiB".
      mark: the decimal mark, as `decimal_mark` finds it.

    Raises:
      NumberError: no such number or unit, or a count that is negative or not finite.
    """
    factor = _BYTES.get(unit.strip().lower())
    if factor is None:
        raise NumberError(f"unit {unit!r} is none of bytes; ncu prints byte, Kbyte, Mbyte, Gbyte")
    plain = _ungrouped(text)
    if not _NUMBER.fullmatch(plain):
        raise NumberError(f"{text!r} is no number")
    if factor == 1 and re.fullmatch(r"\d{1,3}([.,]\d{3})+", plain):
        return int(re.sub("[.,]", "", plain))  # bytes have no fractions: these are groups, whatever the locale
    whole, _, fraction = plain.partition(mark)
    digits = re.sub("[.,]", "", whole)
    if re.search("[.,]", fraction):
        raise NumberError(f"{text!r} is no number where {mark!r} is the decimal mark")
    return round(decimal.Decimal(f"{digits}.{fraction or 0}") * factor)


def _ungrouped(text: str) -> str:
    return _GROUPING.sub("", text.strip())
