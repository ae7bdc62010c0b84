"""The globs that flags such as --op take: * and ? and [...], case-sensitive on every system."""

import fnmatch


def fits(name: str, *globs: str) -> bool:
    """Returns whether a name fits at least one of the globs."""
    return any(fnmatch.fnmatchcase(name, glob) for glob in globs)
