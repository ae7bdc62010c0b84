"""Names that a user may have meant."""

import difflib
import shlex
from collections.abc import Callable, Iterable, Sequence

_NEAREST = 3
# So many names are shorter than a sentence that says where they are listed.
_ALL = 8
ROWS = "./bazelw run //perf:bench -- --list"
REPORTED = "./bazelw run //perf:roofline -- --top=all"


def rows(**flags: Sequence[str]) -> str:
    """Returns the command that lists the rows and implementations of a manifest and plug-ins.

    Args:
      **flags: The values of `spec_dir`, `generated_dir` or `plugin`, as the user gave them.
    """
    return " ".join([ROWS, *(shlex.quote(f"--{name}={value}") for name, values in flags.items() for value in values)])


def instead(name: str, known: Iterable[str], listed_by: str, written: Callable[[str], str] = str) -> str:
    """Returns which names there are in place of an unknown one, for the end of an error message.

    All names if they are few; else the three nearest and the command that lists all.

    Args:
      name: What the user wrote, a glob perhaps.
      known: The names that there are.
      listed_by: The command that lists all of them.
      written: Returns a name as the message has it, in quotes perhaps. The order is that of the names alone.
    """
    names = sorted(set(known))
    if len(names) <= _ALL:
        return f"there are: {', '.join(map(written, names)) or 'none'}"
    plain = name.casefold().strip("*?")

    def distance(known_name: str) -> tuple[bool, float]:
        other = known_name.casefold()
        return plain not in other, -difflib.SequenceMatcher(None, other, plain).ratio()

    nearest = ", ".join(map(written, sorted(names, key=distance)[:_NEAREST]))
    return f"the nearest are {nearest}; {listed_by} lists all {len(names)}"
