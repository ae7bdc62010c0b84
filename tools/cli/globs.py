"""The globs that flags such as --op take: * and ? and [...], case-sensitive on every system."""

import fnmatch
from collections.abc import Iterable


def of_flag(values: Iterable[str]) -> tuple[str, ...]:
    """Returns the globs of a repeatable flag, each of whose values holds one or more, separated by commas.

    An empty glob stays: it fits nothing, and the user is told so.
    """
    return tuple(glob.strip() for value in values for glob in value.split(","))


def fits(name: str, *globs: str) -> bool:
    """Returns whether a name fits at least one of the globs."""
    return any(fnmatch.fnmatchcase(name, glob) for glob in globs)
