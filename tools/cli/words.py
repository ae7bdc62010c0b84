"""Words that the messages of all commands share."""


def counted(count: int, noun: str, plural: str = "") -> str:
    """Returns a count with its noun: "1 row", "2 rows"; with a `plural`, "2 entries"."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def printable(text: str) -> str:
    """Returns a text without control characters: ESC becomes \\x1b."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
