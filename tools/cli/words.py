"""Words between a command and its user: globs that come in, counts and names that go out."""

from collections.abc import Iterable


def globs(values: Iterable[str]) -> tuple[str, ...]:
    """Returns the globs of a repeatable flag, each of whose values holds one or more, separated by commas.

    An empty glob stays: it fits nothing, and the user is told so.
    """
    return tuple(glob.strip() for value in values for glob in value.split(","))


def counted(count: int, one: str, many: str = "") -> str:
    """Returns a count with its noun: "1 row", "2 rows"; `many` is the plural if it is not `one` with an s."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def printable(text: str) -> str:
    """Returns a text in which nothing steers a terminal: ESC is shown as \\x1b."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
