"""The toy ops of these tests, and where their files are."""

import pathlib

from tileops.perf.harness import catalogue

_HERE = pathlib.Path(__file__).absolute().parent
GENERATED = _HERE / "toy" / "generated"


def plugin(name: str) -> str:
    """Path of a plugin of the toy ops."""
    return str(_HERE / "toy" / f"{name}.py")


def load(*plugins: str) -> dict:
    """The toy ops with what the named plugins add."""
    return catalogue.load(
        catalogue.Sources(generated_dir=str(GENERATED), plugins=tuple(plugin(name) for name in plugins))
    )


def case(op_class, label: str):
    """The op's case of a label."""
    return next(found for found in op_class.CASES if found.label == label)
