"""Implementations that the user asked for, by name or with a plug-in, and that serve none of the selected rows.

Example: a plug-in registers "mine" with `when=lambda call: call.params["dim"] == 0`, and
every selected row has dim -1. The run measures the others and leaves no record of
"mine", so it says so, with that `when`; `--list` says the same.
"""

from __future__ import annotations

import inspect
import pathlib
from collections.abc import Collection, Iterable, Mapping, Sequence

from tileops.ops.implementations import Implementation, When
from tileops.ops.op import Op
from tileops.perf.harness import rows as bench_rows

# Op and implementation.
Name = tuple[str, str]
# What a line quotes of a `when` that is no longer than this.
_LONGEST_QUOTE = 200


def asked(
    classes: Iterable[type[Op]], wanted: Sequence[str], brought: Mapping[Name, str]
) -> dict[Name, Implementation]:
    """Returns the implementations of these ops that somebody asked for.

    Args:
      classes: ops that have selected rows.
      wanted: names of implementations, or `all` among them.
      brought: plug-ins by the op and name of what each of them registered.
    """
    is_named = bool(wanted) and bench_rows.ALL not in wanted
    return {
        (op_class.ENTRY, each.name): each
        for op_class in classes
        for each in op_class.implementations()
        if (each.name in wanted if is_named else (op_class.ENTRY, each.name) in brought)
    }


def unserved(
    wanted: Mapping[Name, Implementation],
    served: Collection[Name],
    rows: Mapping[str, int],
    brought: Mapping[Name, str],
) -> list[str]:
    """Returns a line for each implementation that was asked for and serves no row.

    Args:
      wanted: as `asked` gives them.
      served: op and name of each that serves a row.
      rows: how many rows of each op are selected.
      brought: as of `asked`.
    """
    lines = []
    for key, implementation in wanted.items():
        if key in served or implementation.when is None:
            continue
        op, name = key
        count = rows.get(op, 0)
        which = "the one selected row" if count == 1 else f"any of the {count} selected rows"
        plugin = f" of --plugin={brought[key]}" if key in brought else ""
        lines.append(f"{op}: {name}{plugin} does not serve {which}: {_refusal(implementation.when)}")
    return lines


def idle_plugins(
    wanted: Mapping[Name, Implementation], served: Collection[Name], brought: Mapping[Name, str]
) -> list[str]:
    """Returns the plug-ins that brought implementations which were asked for, none of which serves a row."""
    plugins = dict.fromkeys(brought[key] for key in wanted if key in brought)
    busy = {brought[key] for key in served if key in brought}
    return [plugin for plugin in plugins if plugin not in busy]


def _refusal(when: When) -> str:
    """Returns what a `when` asks for that no row has: where it is, and its words or code."""
    function = inspect.unwrap(when)
    code = getattr(function, "__code__", None)
    name = getattr(function, "__name__", type(function).__name__)
    if code is None:
        return f"its when, {name}, says no"
    place = f"{pathlib.Path(code.co_filename).name}:{code.co_firstlineno}"
    said = _first_line(function.__doc__) or _source(function)
    shown = "its when" if name == "<lambda>" else f"its when, {name}"
    return f"{shown} ({place}), says no" + (f": {said}" if said else "")


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]


def _source(function: When) -> str:
    """Returns the code of a short function on one line; "" where it is long or its file is gone."""
    try:
        lines, _ = inspect.getsourcelines(function)
    except (OSError, TypeError):
        return ""
    text = " ".join(" ".join(line.split()) for line in lines)
    return text if len(text) <= _LONGEST_QUOTE else text[: _LONGEST_QUOTE - 3] + "..."
