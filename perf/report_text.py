"""How reports put things in words: enum values, counts, untrusted text."""

import functools

from google.protobuf import descriptor


def enum_name(message, field: str) -> str | None:
    """Returns an enum field's value as reports write it.

    In lower case and without the enum's prefix: VERDICT_AT_CEILING is
    "at_ceiling". None where the field is unspecified.
    """
    names = enum_names(message.DESCRIPTOR.fields_by_name[field].enum_type)
    return names[getattr(message, field)]


@functools.cache
def enum_names(enum: descriptor.EnumDescriptor) -> dict[int, str | None]:
    """Returns the name of each value as reports write it; None for the unspecified."""
    prefix = enum.values_by_number[0].name.removesuffix("UNSPECIFIED")
    return {
        value.number: value.name.removeprefix(prefix).lower() if value.number else None
        for value in enum.values
    }


def counted(count: int, noun: str) -> str:
    """Returns a count with its noun, whose plural takes an s: "1 row", "2 rows"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def printable(text: str) -> str:
    """Returns a text in which nothing steers a terminal: ESC is shown as \\x1b."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode()
        for char in text
    )
