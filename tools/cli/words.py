"""Words that every command's messages share."""


def counted(count: int, noun: str, plural: str = "") -> str:
    """Returns a count with its noun: "1 row", "2 rows"; of a `plural` given, "2 entries"."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"
