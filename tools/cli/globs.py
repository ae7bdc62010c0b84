"""The globs that flags such as --op take: * and ? and [...], case-sensitive on every system."""

import fnmatch
from collections.abc import Iterable


def of_flag(values: Iterable[str]) -> tuple[str, ...]:
    """Returns the globs of a repeatable flag, whose values hold globs separated by commas.

    An empty glob stays in the result: it fits nothing, which an error then says.
    """
    return tuple(glob.strip() for value in values for glob in value.split(","))


def fits(name: str, *globs: str) -> bool:
    """Returns whether a name fits at least one of the globs. Without globs, every name fits."""
    return not globs or any(fnmatch.fnmatchcase(name, glob) for glob in globs)
