"""What a run file's header says: the machine, the software, the sources, the plug-ins and the part of the rows."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import pathlib
import platform
import subprocess
import sys
import uuid
from collections.abc import Sequence

import torch

from tileops.ops import catalogue, emitting
from tileops.perf.clock import device_state
from tileops.perf.harness import catalogue as bench_catalogue
from tileops.perf.harness import plugins as bench_plugins
from tileops.perf.harness.rows import Shard
from tileops.proto import benchmark_pb2
from tileops.tools.cli import paths

_HASH_LENGTH = 12
_MACHINE_ID = pathlib.Path("/etc/machine-id")


def describe(device: str) -> benchmark_pb2.Environment:
    """The environment of a run on `device`: as --device takes it, one or several.

    "auto" is answered with the kind that this machine offers: "cuda" where there is a GPU, else "cpu". On a GPU this
    makes a CUDA context: a run's parent leaves the question to a child.

    Raises:
      RuntimeError: there is no such device, or several are not of one model.
    """
    if device == "auto":
        device = kind(device)
    device_kind = kind(device)
    revision, is_dirty = _revision()
    environment = benchmark_pb2.Environment(
        device_kind=device_kind,
        torch_version=torch.__version__,
        triton_version=_version("triton"),
        python_version=platform.python_version(),
        project_revision=revision,
        project_dirty=is_dirty,
        hostname_hash=_machine_hash(),
    )
    if device_kind == "cuda":
        if not torch.cuda.is_available():
            raise RuntimeError("torch sees no GPU on this machine")
        environment.device_name, environment.device_count = _gpus(device)
        environment.driver_version = device_state.driver_version()
        environment.cuda_version = torch.version.cuda or torch.version.hip or ""
    elif device_kind == "cpu":
        environment.device_name = _cpu_name()
        environment.device_count = 1
    return environment


def kind(device: str) -> str:
    """The kind of a device that --device names: "cuda", "cpu" or "meta"; of "auto", what this machine offers."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(device.partition(":")[0].partition(",")[0]).type


def describe_prices(reproducible: bool) -> benchmark_pb2.Environment:
    """The environment of a run that only prices; `reproducible` names nothing that differs between machines."""
    return benchmark_pb2.Environment(device_kind="meta") if reproducible else describe("meta")


def _gpus(device: str) -> tuple[str, int]:
    """Name and number of the GPUs that `device` names. Raises RuntimeError where they are of several models."""
    names = device.split(",")
    if device == "cuda:all":
        names = [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    models = {name: torch.cuda.get_device_name(torch.device(name)) for name in names}
    first = next(iter(models))
    for name, model in models.items():
        if model != models[first]:
            raise RuntimeError(f"{first} is a {models[first]} and {name} a {model}; a run measures one model of GPU")
    return models[first], len(models)


def _machine_hash() -> str:
    """Tells machines apart without naming them: many have one host name, so the system's own id counts too."""
    try:
        machine_id = _MACHINE_ID.read_text(encoding="ascii").strip()
    except (OSError, ValueError):  # not on every system, and not in every container
        machine_id = ""
    return hashlib.sha256(f"{machine_id}\n{platform.node()}".encode()).hexdigest()[:_HASH_LENGTH]


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _cpu_name() -> str:
    """Model of the processor; the architecture where the system does not tell."""
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()


def _revision() -> tuple[str, bool]:
    """Git revision of the sources and whether they differ from it; ("", False) where it cannot be told.

    `bazel run` names the workspace; a plain checkout is where this file is. A zip or a copy has no history: who makes
    one states its revision in TILEOPS_REVISION, which counts as unmodified. For a zip of which nobody does, its
    launcher states what is in it.
    """
    if stated := os.environ.get("TILEOPS_REVISION"):
        return stated, False
    here = os.environ.get("BUILD_WORKSPACE_DIRECTORY") or str(pathlib.Path(__file__).resolve().parents[2])
    head = _git(here, "rev-parse", "HEAD")
    if head is None:
        return "", False
    return head, bool(_git(here, "status", "--porcelain", "--untracked-files=no"))


def _git(directory: str, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", directory, *arguments], capture_output=True, text=True, check=False, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


# ---- the header


def plugins(
    sources: bench_catalogue.Sources, names: Sequence[str], spec_dirs: Sequence[str]
) -> tuple[list[benchmark_pb2.Plugin], tuple[bench_plugins.SourceFile, ...]]:
    """Returns what the header says of loaded code that is not the project's: another manifest, and plug-ins.

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
    shard: Shard,
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
