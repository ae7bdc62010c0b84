"""The header of a run file: machine, software, revision of the sources, plug-ins, and part of the rows."""

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
    """Returns the environment of a run on `device`, a value of --device.

    "auto" is "cuda" if this machine has a GPU, else "cpu". On a GPU this makes a CUDA context, so the parent of a run
    asks a child.

    Raises:
      RuntimeError: there is no such device, or several GPUs are not of one model.
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
            raise RuntimeError("torch sees no GPU on this machine: use --device=cpu or --device=meta")
        environment.device_name, environment.device_count = _gpus(device)
        environment.driver_version = device_state.driver_version()
        environment.cuda_version = torch.version.cuda or torch.version.hip or ""
    elif device_kind == "cpu":
        environment.device_name = _cpu_name()
        environment.device_count = 1
    return environment


def kind(device: str) -> str:
    """Returns the kind of a value of --device: "cuda", "cpu" or "meta"; for "auto", what this machine has."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(device.partition(":")[0].partition(",")[0]).type


def describe_prices(reproducible: bool) -> benchmark_pb2.Environment:
    """Returns the environment of a run of prices; if `reproducible`, without anything that differs between machines."""
    return benchmark_pb2.Environment(device_kind="meta") if reproducible else describe("meta")


def _gpus(device: str) -> tuple[str, int]:
    """Returns name and number of the GPUs of `device`. Raises RuntimeError if they are of several models."""
    names = device.split(",")
    if device == "cuda:all":
        names = [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    models = {name: torch.cuda.get_device_name(torch.device(name)) for name in names}
    first = next(iter(models))
    for name, model in models.items():
        if model != models[first]:
            raise RuntimeError(f"{first} is a {models[first]} and {name} a {model}; name GPUs of one model")
    return models[first], len(models)


def _machine_hash() -> str:
    """Returns a hash that tells machines apart. It includes the system's id, since many machines share a host name."""
    try:
        machine_id = _MACHINE_ID.read_text(encoding="ascii").strip()
    except (OSError, ValueError):  # missing on some systems and in some containers
        machine_id = ""
    return hashlib.sha256(f"{machine_id}\n{platform.node()}".encode()).hexdigest()[:_HASH_LENGTH]


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _cpu_name() -> str:
    """Returns the model of the processor, or the architecture if the system does not say."""
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()


def _revision() -> tuple[str, bool]:
    """Returns the git revision of the sources and whether they differ from it; ("", False) if unknown.

    `bazel run` names the workspace; in a plain checkout it contains this file. A zip or a copy has no history: the
    user who makes it sets TILEOPS_REVISION, which counts as unmodified. If the variable is not set, the launcher of a zip sets it.
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
    sources: bench_catalogue.Sources, names: Sequence[str], spec_dirs: Sequence[str], funcs: Sequence[str] = ()
) -> tuple[list[benchmark_pb2.Plugin], tuple[bench_plugins.SourceFile, ...]]:
    """Returns what the header says of code beside the project's own: another manifest, plug-ins, and libraries.

    Args:
      sources: the manifest, plug-ins and libraries as they are imported.
      names: the plug-ins as the user wrote them, in the same order.
      spec_dirs: the manifest from which `sources.generated_dir` was just emitted, as the user wrote it; empty if the
        user named that folder.
      funcs: the paths of the ops' formulas.

    Returns:
      What the header says, and the files that must not change during the run.
    """
    found = [(f"--spec_dir={spec_dir}", emitting.spec_files(paths.user_path(spec_dir))) for spec_dir in spec_dirs]
    if sources.generated_dir is not None and not found:
        found = [(f"--generated_dir={sources.generated_dir}", catalogue.generated_files(sources.generated_dir))]
    shown = [bench_plugins.of_files(name, files) for name, files in found]
    shown += [bench_plugins.formulas(name, funcs) for name, _ in sources.roots]
    shown += [bench_plugins.described(plugin, name) for plugin, name in zip(sources.plugins, names, strict=True)]
    shown += [bench_plugins.of_files(each.flag, [pathlib.Path(each.path)]) for each in sources.libraries]
    watched = shown[len(spec_dirs) :]  # modules that this run emitted are its own
    return [each for each, _ in shown], tuple(file for _, files in watched for file in files)


def header(
    environment: benchmark_pb2.Environment,
    plugins: Sequence[benchmark_pb2.Plugin],
    shard: Shard,
    is_reproducible: bool = False,
    libraries: Sequence[benchmark_pb2.Baseline] = (),
) -> benchmark_pb2.RunHeader:
    """Returns the header of a run that begins now; a reproducible header has no time and no command line."""
    made = benchmark_pb2.RunHeader(environment=environment, plugins=plugins, baselines=libraries)
    if shard.count > 1:
        made.parts.count = shard.count
        made.parts.indices.append(shard.index)
    if not is_reproducible:
        made.run_id = uuid.uuid4().hex
        made.started_at.GetCurrentTime()
        made.command_line.extend(sys.argv)
    return made
