"""lock.bzl is what lock.py made of requirements.in, and every name in there has a label."""

import collections
import pathlib
import re
import types

PIP = pathlib.Path("bazel/pip")
REQUIREMENTS = [line.partition("#")[0].strip() for line in (PIP / "requirements.in").read_text().splitlines()]
REQUIRED = dict(line.split("==") for line in REQUIREMENTS if line)  # another form of requirement is an error
# Starlark, and Python as well: no entry can be overlooked for its form.
LOCK: dict = {}
exec((PIP / "lock.bzl").read_text(), {"struct": types.SimpleNamespace}, LOCK)
DISTRIBUTIONS, CUDA_DISTRIBUTIONS = LOCK["DISTRIBUTIONS"], LOCK["CUDA_DISTRIBUTIONS"]


def test_versions_are_those_required():
    assert {name: DISTRIBUTIONS[name].version for name in REQUIRED} == REQUIRED


def test_everything_has_hashes_of_its_own():
    everything = [*DISTRIBUTIONS.items(), *CUDA_DISTRIBUTIONS.items()]
    assert len(everything) > 30
    owners = collections.defaultdict(set)
    for name, locked in everything:
        assert locked.sha256 and all(re.fullmatch("[0-9a-f]{64}", one) for one in locked.sha256), name
        for one in locked.sha256:
            owners[one].add((name, locked.version))
    assert [found for found in owners.values() if len(found) > 1] == []


def test_torch_has_a_hash_for_each_python_and_machine():
    assert len(set(DISTRIBUTIONS["torch"].sha256)) >= 2 * len(LOCK["PYTHON_MINORS"])


def test_dependencies_are_locked_too():
    for name, locked in DISTRIBUTIONS.items():
        assert set(locked.deps) <= DISTRIBUTIONS.keys(), name


def test_every_requirement_has_a_label():
    facade = (PIP / "BUILD.bazel").read_text()
    assert set(re.findall(r'"([a-z][\w-]*)",', facade[facade.index("pip_facade([") :])) >= set(REQUIRED)
