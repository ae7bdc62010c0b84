"""Names that a user may have meant."""

import difflib
from collections.abc import Iterable

_NEAREST = 3
# So many names are shorter than a sentence that says where they are listed.
_ALL = 8
ROWS = "./bazelw run //perf:bench -- --list"


def instead(name: str, known: Iterable[str], listed_by: str) -> str:
    """Returns which names there are in place of an unknown one, for the end of an error message.

    All names if they are few; else the three nearest and the command that lists all.

    Args:
      name: What the user wrote, a glob perhaps.
      known: The names that there are.
      listed_by: The command that lists all of them.
    """
    # By their small letters: who forgets a capital means the same name.
    names = {each.casefold(): each for each in sorted(set(known))}
    if len(names) <= _ALL:
        return f"there are: {', '.join(names.values()) or 'none'}"
    plain = name.casefold().strip("*?")
    found = difflib.get_close_matches(plain, names, n=_NEAREST, cutoff=0.0)
    return f"nearest are {', '.join(names[each] for each in found)}; {listed_by} lists all {len(names)}"
