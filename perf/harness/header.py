"""The header of a run file that the bench writes: what ran, where, when, and which part of the whole."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Sequence

from tileops.ops import catalogue, emitting
from tileops.perf.harness import catalogue as bench_catalogue
from tileops.perf.harness import plugins as bench_plugins
from tileops.perf.harness import shards
from tileops.proto import benchmark_pb2
from tileops.tools.cli import paths


def plugins(
    sources: bench_catalogue.Sources, names: Sequence[str], spec_dirs: Sequence[str]
) -> tuple[list[benchmark_pb2.Plugin], tuple[bench_plugins.SourceFile, ...]]:
    """What the header says of all that is not the project's, and is loaded: the manifest, if it is another, and plugins.

    Args:
      sources: names them as they are imported.
      names: plugins as the user gave them, in the same order.
      spec_dirs: the manifest that `sources.generated_dir` was emitted of just now, as the user gave it; empty where
        they gave that folder.

    Returns:
      What the header says, and the files that must not change while the run goes on.
    """
    found = [(f"--spec_dir={spec_dir}", emitting.spec_files(paths.user_path(spec_dir))) for spec_dir in spec_dirs]
    if sources.generated_dir is not None and not found:
        found = [(f"--generated_dir={sources.generated_dir}", catalogue.generated_files(sources.generated_dir))]
    told = [bench_plugins.manifest(name, files) for name, files in found]
    told += [bench_plugins.described(plugin, name) for plugin, name in zip(sources.plugins, names, strict=True)]
    watched = told[len(spec_dirs) :]  # what was emitted of a manifest is this run's own
    return [each for each, _ in told], tuple(file for _, files in watched for file in files)


def header(
    environment: benchmark_pb2.Environment,
    plugins: Sequence[benchmark_pb2.Plugin],
    shard: shards.Shard,
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
