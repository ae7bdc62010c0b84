"""Numbers as Nsight Compute prints them: with the separators of a locale, in units that it chose."""

from __future__ import annotations

import dataclasses
import decimal
import re
from collections.abc import Sequence

# Bytes in a unit. ncu's own units are decimal ("Kbyte" is 1000 bytes); binary ones come from other tools' exports.
_BYTES = {
    "byte": 1,
    "bytes": 1,
    "b": 1,
    "kbyte": 10**3,
    "kb": 10**3,
    "mbyte": 10**6,
    "mb": 10**6,
    "gbyte": 10**9,
    "gb": 10**9,
    "tbyte": 10**12,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
# What locales put between groups of three digits, beside comma and point: spaces of several widths, apostrophes.
_SPACES = r" \u00a0\u2009\u202f'\u2019"
# By decimal mark, what a number looks like. Groups are of three digits behind the first, which does not start with 0
# (nobody groups "0,369"), and one sign stands between all of them.
_FORMS = {
    mark: re.compile(
        rf"(?P<whole>[0-9]+|[1-9][0-9]{{0,2}}(?P<between>[{other}{_SPACES}])[0-9]{{3}}(?:(?P=between)[0-9]{{3}})*)"
        rf"(?:{re.escape(mark)}(?P<fraction>[0-9]+))?"
    )
    for mark, other in ((".", ","), (",", "."))
}


class NumberError(ValueError):
    """A text that is no count of bytes, or one that may be two; the message says which and why."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Printed:
    """A count as a file has it.

    Attributes:
      text: the number, as in "268,455,424", "268.46" or "1.234.567,8".
      unit: its unit, as in "byte", "Kbyte", "MB", "GiB".
      place: where it stands, for messages.
    """

    text: str
    unit: str
    place: str


def parse_all(wanted: Sequence[Printed], others: Sequence[Printed] = ()) -> list[int]:
    """The counts of one file, in bytes.

    A file was printed in one locale, so all of its numbers have one decimal mark. A group of exactly three digits
    behind a lone mark may be either thing, so that the other numbers have to tell.

    Args:
      wanted: the numbers to read.
      others: more numbers of the file, which help to tell its mark; what is no number there does not matter.

    Raises:
      NumberError: no number or unit, marks of two locales in one file, or a number that no other explains.
    """
    values = [_values(printed) for printed in wanted]
    witnesses = list(zip(wanted, values, strict=True))
    for printed in others:
        try:
            witnesses.append((printed, _values(printed)))
        except NumberError:
            continue
    marks = {mark: printed for printed, found in witnesses if len(found) == 1 for mark in found}
    if len(marks) > 1:
        parts = " and ".join(f"{marks[mark].text!r} ({marks[mark].place}), where it is {mark!r}" for mark in _FORMS)
        raise NumberError(f"the file has numbers of two decimal marks: {parts}; ncu prints one locale's")
    read = []
    for printed, found in zip(wanted, values, strict=True):
        kept = {value for mark, value in found.items() if mark in (marks or found)}
        if len(kept) > 1:
            low, high = sorted(kept)
            raise NumberError(
                f"{printed.place}: {printed.text!r} {printed.unit} is {low} bytes in one locale and {high} in another,"
                " and no other number of the file tells: run ncu with --print-units base"
            )
        read += kept
    return read


def _values(printed: Printed) -> dict[str, int]:
    """What a number means by each decimal mark under which it means something. Bytes."""
    factor = _BYTES.get(printed.unit.strip().lower())
    if factor is None:
        raise NumberError(
            f"{printed.place}: unit {printed.unit!r} is none of bytes; ncu prints byte, Kbyte, Mbyte, Gbyte"
        )
    plain = printed.text.strip()
    found = {}
    for mark, form in _FORMS.items():
        match = form.fullmatch(plain)
        if match is None:
            continue
        value = decimal.Decimal(f"{re.sub('[^0-9]', '', match['whole'])}.{match['fraction'] or 0}")
        if factor > 1 or value == int(value):  # of bytes there are no fractions
            found[mark] = round(value * factor)
    if not found:
        kind = "number of bytes" if factor == 1 else "number"
        raise NumberError(f"{printed.place}: {printed.text!r} is no {kind} in any locale")
    return found
