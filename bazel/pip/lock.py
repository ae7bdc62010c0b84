"""Writes lock.bzl: every distribution that requirements.in leads to, with its version, hashes and dependencies.

    python3 bazel/pip/lock.py

Asks pip (23 or later, with the registries of its own configuration) to resolve for each supported Python minor and
machine, without installing anything. torch's CUDA libraries stand apart, since its build differs by machine: see
torch.bzl. Its hashes are those of the builds with CUDA, and of the CPU builds that pip finds where lock.py runs.
"""

import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile

from pip._vendor.packaging import markers, requirements, utils

PYTHON_MINORS = ("3.11", "3.12", "3.13")
MACHINES = ("x86_64", "aarch64")
# pip takes the platform tags it is given and no older ones: up to the glibc 2.36 of Debian 12.
MANYLINUX = ("1", "2010", "2014", *(f"_2_{minor}" for minor in range(5, 37)))

HERE = pathlib.Path(__file__).resolve().parent

HEADER = '''\
"""Third-party Python distributions. Written by lock.py from requirements.in: do not edit."""

PYTHON_MINORS = [%s]

'''


class Distribution:
    """One distribution at one version: what it requires by name, and the hashes of its files."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.deps: set[str] = set()
        self.sha256: set[str] = set()


def resolve(lines: list[str], minor: str, machine: str, *options: str) -> list[dict] | None:
    """Returns the `install` entries of pip's report for these requirement lines, or None if pip finds no answer."""
    with tempfile.TemporaryDirectory() as scratch:
        report = pathlib.Path(scratch, "report.json")
        listed = pathlib.Path(scratch, "requirements.txt")
        listed.write_text("\n".join(lines) + "\n")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--no-input"]
        command += ["--only-binary=:all:", f"--target={scratch}/target", f"--python-version={minor}"]
        command += [f"--platform=manylinux{tag}_{machine}" for tag in MANYLINUX]
        command += [f"--report={report}", f"--requirement={listed}", *options]
        if subprocess.run(command, check=False).returncode != 0:
            return None
        return json.loads(report.read_text())["install"]


def resolve_all(lines: list[str], minor: str, machine: str) -> list[dict]:
    """Returns what `resolve` does.

    Raises:
      SystemExit: pip found no answer; its own words are on stderr.
    """
    entries = resolve(lines, minor, machine)
    if entries is None:
        sys.exit(f"lock.py: pip found no answer for Python {minor} on {machine}")
    return entries


def required(entry: dict, minor: str, machine: str, system: str) -> set[str]:
    """Returns the names that a report's entry requires, without extras, on that Python and system."""
    environment = markers.default_environment() | {
        "python_version": minor,
        "python_full_version": f"{minor}.0",
        "platform_machine": machine,
        "platform_system": system,
        "sys_platform": system.lower(),
        "extra": "",
    }
    parsed = [requirements.Requirement(line) for line in entry["metadata"].get("requires_dist", ())]
    return {utils.canonicalize_name(r.name) for r in parsed if not r.marker or r.marker.evaluate(environment)}


def entry_name(entry: dict) -> str:
    return utils.canonicalize_name(entry["metadata"]["name"])


def sha256(entry: dict) -> str:
    return entry["download_info"]["archive_info"]["hashes"]["sha256"]


def add(table: dict[str, Distribution], entry: dict, deps: set[str]) -> None:
    """Adds what one report says of one distribution; versions must agree between reports."""
    name, version = entry_name(entry), entry["metadata"]["version"]
    distribution = table.setdefault(name, Distribution(version))
    if distribution.version != version:
        sys.exit(f"lock.py: {name} resolves to {distribution.version} and to {version}; name one in requirements.in")
    distribution.deps |= deps
    distribution.sha256.add(sha256(entry))


def lock(lines: list[str]) -> tuple[dict[str, Distribution], dict[str, Distribution]]:
    """Returns (distributions, what torch's CUDA build needs beside them), by name."""
    torch = next(line for line in lines if line.startswith("torch=="))
    torch_version = torch.removeprefix("torch==")
    distributions: dict[str, Distribution] = {}
    cuda: dict[str, Distribution] = {}
    for minor in PYTHON_MINORS:
        for machine in MACHINES:
            print(f"resolving for Python {minor} on {machine}", file=sys.stderr)
            with_cuda = {
                entry_name(entry): entry for entry in resolve_all([f"{torch},!={torch_version}+cpu"], minor, machine)
            }
            for_cpu = resolve([f"{torch}+cpu"], minor, machine, "--no-deps") or []
            # Every wheel of torch names its CUDA libraries as requirements of Linux alone.
            plain = required(with_cuda["torch"], minor, machine, "Darwin")
            pins = [f"{name}=={with_cuda[name]['metadata']['version']}" for name in sorted(plain)]
            for entry in resolve_all([line for line in lines if line != torch] + pins, minor, machine):
                add(distributions, entry, required(entry, minor, machine, "Linux"))
            locked_torch = distributions.setdefault("torch", Distribution(torch_version))
            locked_torch.deps |= plain
            locked_torch.sha256 |= {sha256(entry) for entry in [with_cuda["torch"], *for_cpu]}
            for name, entry in with_cuda.items():
                if name != "torch" and (name not in distributions or name == "triton"):
                    add(cuda, entry, set())
    return distributions, cuda


def emit(table: dict[str, Distribution]) -> collections.abc.Iterator[str]:
    """Yields the lines of a table in Starlark."""
    for name, distribution in sorted(table.items()):
        yield f'    "{name}": struct('
        yield f'        version = "{distribution.version}",'
        for field in ("deps", "sha256"):
            values = sorted(getattr(distribution, field))
            if values:
                yield f"        {field} = ["
                yield from (f'            "{value}",' for value in values)
                yield "        ],"
            else:
                yield f"        {field} = [],"
        yield "    ),"


def main() -> None:
    text = (HERE / "requirements.in").read_text()
    lines = [line.strip() for line in re.sub(r"#.*", "", text).splitlines() if line.strip()]
    distributions, cuda = lock(lines)
    output = [HEADER % ", ".join(f'"{minor}"' for minor in PYTHON_MINORS) + "DISTRIBUTIONS = {"]
    output += [*emit(distributions), "}", "", "# What torch's CUDA build needs beside its own dependencies."]
    output += ["CUDA_DISTRIBUTIONS = {", *emit(cuda), "}"]
    (HERE / "lock.bzl").write_text("\n".join(output) + "\n")


if __name__ == "__main__":
    main()
