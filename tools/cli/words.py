"""Words that every command's messages share."""


def counted(count: int, noun: str, plural: str = "") -> str:
    """Returns a count with its noun: "1 row", "2 rows"; of a `plural` given, "2 entries"."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def printable(text: str) -> str:
    """Returns a text in which nothing steers a terminal: ESC is shown as \\x1b."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
