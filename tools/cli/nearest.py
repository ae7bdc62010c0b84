"""Names that a user may have meant."""

import difflib
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence

_NEAREST = 3
# Up to this count, naming all takes less room than the command that lists them.
_ALL = 8
# The part of the wanted letters that a near name has, in the same order.
_SHARED = 2 / 3
ROWS = "./bazelw run //perf:bench -- --list"


def rows(**flags: Sequence[str]) -> str:
    """Returns the command that lists the rows and implementations of a manifest and plug-ins.

    Args:
      **flags: The values of `spec_dir`, `root`, `plugin` and the like, as the user gave them.
    """
    return " ".join([ROWS, *_written(flags)])


def reported(program: str = "roofline", more: Sequence[str] = (), **flags: Sequence[str]) -> str:
    """Returns the command that lists the rows and implementations of run files.

    Args:
      program: `roofline` or `predict`.
      more: Further flags.
      **flags: The values of `run` or `profile`, as the user gave them.
    """
    return " ".join([f"./bazelw run //perf:{program} --", *more, *_written(flags), "--implementation=all --top=all"])


def _written(flags: Mapping[str, Sequence[str]]) -> list[str]:
    return [shlex.quote(f"--{name}={value}") for name, values in flags.items() for value in values]


def instead(name: str, known: Iterable[str], listed_by: str, written: Callable[[str], str] = str) -> str:
    """Returns which names exist in place of an unknown one, for the end of an error message.

    Names all of them if they are few. Otherwise names up to three similar ones and the command that lists all.

    Args:
      name: What the user wrote, a glob perhaps.
      known: The names that exist.
      listed_by: The command that lists all of them.
      written: Returns a name as the message has it, in quotes perhaps. The order is that of the names alone.
    """
    names = sorted(set(known))
    if len(names) <= _ALL:
        return f"there are: {', '.join(map(written, names)) or 'none'}"
    plain = name.casefold().strip("*?")
    near = [(likeness, each) for each in names if (likeness := _likeness(plain, each.casefold())) is not None]
    near.sort(key=lambda found: found[0], reverse=True)
    listed = f"{listed_by} lists all {len(names)}"
    if not near:
        return listed
    return f"the nearest are {', '.join(written(each) for _, each in near[:_NEAREST])}; {listed}"


def _likeness(wanted: str, name: str) -> tuple[bool, float] | None:
    """Returns how alike two names are, the more the larger; None if they share too few letters in one order."""
    matcher = difflib.SequenceMatcher(None, name, wanted)
    shared = sum(block.size for block in matcher.get_matching_blocks())
    return (wanted in name, matcher.ratio()) if wanted and shared >= _SHARED * len(wanted) else None
