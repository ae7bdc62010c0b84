"""lock.bzl is what lock.py made of requirements.in, every name in there has a label, and pip gets every hash."""

import collections
import pathlib
import re
import types

import pytest

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
    """A build with CUDA for each, and the CPU builds that lock.py found."""
    assert len(set(DISTRIBUTIONS["torch"].sha256)) > 2 * len(LOCK["PYTHON_MINORS"])


def requirements(has_driver: bool, environment: dict[str, str]) -> dict[str, list[str]]:
    """The requirement lines that the repository rules hand to pip, by distribution; Starlark runs as Python."""
    lines: dict[str, list[str]] = collections.defaultdict(list)

    def write(name: str, text: str, executable: bool) -> None:
        if name == "requirements.txt":
            for line in text.splitlines():
                lines[re.split("[=,]", line)[0]].append(line)

    def rule(implementation, **_):
        def declared(name: str, **attributes) -> None:
            implementation(
                types.SimpleNamespace(
                    attr=types.SimpleNamespace(**attributes),
                    execute=lambda *_, **__: types.SimpleNamespace(return_code=0, stdout="", stderr=""),
                    file=write,
                    os=types.SimpleNamespace(environ=environment),
                    path=lambda _: types.SimpleNamespace(exists=has_driver),
                    read=lambda _: f"cuda = {'13.0' if has_driver else None}",
                    which=lambda _: None,
                )
            )

        return declared

    def load(label: str) -> dict:
        file = label.rpartition(":")[2]
        if file == "host_python.bzl":
            return {"read_interpreter": lambda _: ("", "python3")}
        kinds = ("bool", "string", "string_list")
        scope: dict = {
            "attr": types.SimpleNamespace(**dict.fromkeys(kinds, lambda **_: None)),
            "fail": pytest.fail,
            "load": lambda label, *names: scope.update({name: load(label)[name] for name in names}),
            "repository_rule": rule,
            "struct": types.SimpleNamespace,
        }
        exec((PIP / file).read_text(), scope)
        return scope

    load("repositories.bzl")["pip_repositories"]()
    return lines


@pytest.mark.parametrize("has_driver", [False, True])
def test_pip_gets_every_distribution_with_its_hashes_and_none_without(has_driver):
    found = requirements(has_driver, {})
    locked = {**DISTRIBUTIONS, **(CUDA_DISTRIBUTIONS if has_driver else {})}
    assert found.keys() == locked.keys()
    for name, lines in found.items():
        for line in lines:
            version, *hashes = line.split(" ")
            assert version.startswith(f"{name}=={locked[name].version}")
            assert sorted(hashes) == sorted(f"--hash=sha256:{one}" for one in locked[name].sha256)


def test_a_torch_that_the_user_trusts_has_a_hash_too():
    (line,) = requirements(False, {"TILEOPS_TORCH_SHA256": "ab" * 32})["torch"]
    assert set(line.split(" ")[1:]) == {f"--hash=sha256:{one}" for one in (*DISTRIBUTIONS["torch"].sha256, "ab" * 32)}


def test_dependencies_are_locked_too():
    for name, locked in DISTRIBUTIONS.items():
        assert set(locked.deps) <= DISTRIBUTIONS.keys(), name


def test_every_requirement_has_a_label():
    facade = (PIP / "BUILD.bazel").read_text()
    assert set(re.findall(r'"([a-z][\w-]*)",', facade[facade.index("pip_facade([") :])) >= set(REQUIRED)
