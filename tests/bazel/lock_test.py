"""lock.bzl is what lock.py made of requirements.in, and every name in there has a label."""

import pathlib
import re

PIP = pathlib.Path("bazel/pip")
REQUIRED = dict(re.findall(r"^([\w-]+)==(\S+)$", (PIP / "requirements.in").read_text(), re.MULTILINE))
LOCK = (PIP / "lock.bzl").read_text()


def entries(table: str) -> list[tuple[str, str, str]]:
    """(name, version, the rest of its lines) of each distribution in a table of lock.bzl."""
    text = re.search(rf"^{table} = {{\n(.*?)^}}", LOCK, re.DOTALL | re.MULTILINE).group(1)
    return re.findall(r'"([\w-]+)": struct\(\n\s+version = "([^"]+)",\n(.*?)\n    \),', text, re.DOTALL)


DISTRIBUTIONS = entries("DISTRIBUTIONS")


def test_versions_are_those_required():
    locked = {name: version for name, version, _ in DISTRIBUTIONS}
    assert {name: locked.get(name) for name in REQUIRED} == REQUIRED


def test_everything_has_hashes():
    everything = DISTRIBUTIONS + entries("CUDA_DISTRIBUTIONS")
    assert [name for name, _, entry in everything if not re.search(r'"[0-9a-f]{64}"', entry)] == []


def test_torch_has_a_hash_for_each_python_and_machine():
    torch = next(entry for name, _, entry in DISTRIBUTIONS if name == "torch")
    assert len(re.findall(r'"[0-9a-f]{64}"', torch)) >= 6


def test_dependencies_are_locked_too():
    names = {name for name, *_ in DISTRIBUTIONS}
    for name, _, entry in DISTRIBUTIONS:
        deps = re.search(r"deps = \[(.*?)\]", entry, re.DOTALL).group(1)
        assert set(re.findall(r'"([\w-]+)"', deps)) <= names, name


def test_every_requirement_has_a_label():
    facade = (PIP / "BUILD.bazel").read_text()
    assert set(re.findall(r'"([a-z][\w-]*)",', facade[facade.index("pip_facade([") :])) >= set(REQUIRED)
