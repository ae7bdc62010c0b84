"""The header of a run file that the bench writes: what ran, where, when, and which part of the whole."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Sequence

from tileops.perf import bench_catalogue, bench_plugins, bench_shards
from tileops.proto import benchmark_pb2


def plugins(
    sources: bench_catalogue.Sources, names: Sequence[str]
) -> tuple[list[benchmark_pb2.Plugin], tuple[bench_plugins.SourceFile, ...]]:
    """What the header says of the plugins, which are loaded, and the files that must not change while the run goes on.

    Args:
      sources: names them as they are imported.
      names: as the user gave them, in the same order.
    """
    told, files = [], []
    for plugin, name in zip(sources.plugins, names, strict=True):
        plugin_told, plugin_files = bench_plugins.described(plugin, name)
        told.append(plugin_told)
        files += plugin_files
    return told, tuple(files)


def header(
    environment: benchmark_pb2.Environment,
    plugins: Sequence[benchmark_pb2.Plugin],
    shard: bench_shards.Shard,
    is_reproducible: bool = False,
) -> benchmark_pb2.RunHeader:
    """The header of a run that begins now; nothing in a reproducible one tells when and by which command."""
    made = benchmark_pb2.RunHeader(environment=environment, plugins=plugins)
    if shard.count > 1:
        made.parts.count = shard.count
        made.parts.indices.append(shard.index)
    if not is_reproducible:
        made.run_id = uuid.uuid4().hex
        made.started_at.GetCurrentTime()
        made.command_line.extend(sys.argv)
    return made
