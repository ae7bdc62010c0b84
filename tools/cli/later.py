"""Modules that are imported when something in them is first used.

torch takes seconds to import. A command that names its modules by `later` answers `--help` and wrong flags without it:

    torch = later.module("torch")
"""

import importlib
from typing import Any


class _Later:
    """Stands for a module; each of its attributes is the module's."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)


def load(*modules: Any) -> None:
    """Imports modules that `module` stands for."""
    for each in modules:
        importlib.import_module(vars(each)["_name"])


def module(name: str) -> Any:
    """Returns what stands for the module of a dotted name, and imports it on first use."""
    return _Later(name)
