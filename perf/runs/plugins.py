"""What run headers name as not the project's own, compared: whether two runs measured the same plugins and ops."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from tileops.proto import benchmark_pb2


def difference(ours: Sequence[benchmark_pb2.Plugin], theirs: Sequence[benchmark_pb2.Plugin]) -> str | None:
    """What tells the plugins of two runs apart, as a clause; None where they are the same code in the same order.

    Where a plugin's file lies is of no account: machines differ in that.
    """
    names = [[_short(plugin) for plugin in plugins] for plugins in (ours, theirs)]
    if names[0] != names[1]:
        brought = ", and ".join(", ".join(each) or "nothing that is named" for each in names)
        return f"--plugin, --spec_dir and --generated_dir brought {brought}"
    for one, other in zip(ours, theirs, strict=True):
        if one.sources != other.sources:
            files = {
                file for file in {*one.sources, *other.sources} if one.sources.get(file) != other.sources.get(file)
            }
            return f"{_short(one)} is not the same (its {', '.join(sorted(files))})"
    return None


def _short(plugin: benchmark_pb2.Plugin) -> str:
    return pathlib.PurePath(plugin.name).name
