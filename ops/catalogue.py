"""All ops by name: generated classes, replaced by the hand-written class of the same name where there is one."""

from __future__ import annotations

import importlib
import importlib.util
import pathlib
import sys
import types

from tileops.ops.errors import OpError
from tileops.ops.op import Op


def load(generated_dir: str | None = None) -> dict[str, type[Op]]:
    """Every op class by entry name, in family then file order.

    Args:
      generated_dir: folder of modules that `//codegen:emit` wrote for a manifest outside the project; their entries
        replace the project's. Their implementations come from plugins.

    Raises:
      OpError: `generated_dir` holds no generated module.
    """
    if generated_dir is not None:
        return _classes(_outside_modules(pathlib.Path(generated_dir)))
    families = importlib.import_module("tileops.ops.generated.families").FAMILIES
    modules = []
    for family in families:
        modules.append(importlib.import_module(f"tileops.ops.generated.{family}"))
        if importlib.util.find_spec(f"tileops.ops.{family}") is not None:  # a spec-only family has none
            modules.append(importlib.import_module(f"tileops.ops.{family}"))
    return _classes(modules)


def _outside_modules(folder: pathlib.Path) -> list[types.ModuleType]:
    files = sorted(path for path in folder.glob("*.py") if path.name != "families.py")
    if not files:
        raise OpError(f"{folder}: no generated module; make them with //codegen:emit --out_dir={folder}")
    return [import_file(path, f"tileops_generated_{path.stem}") for path in files]


def import_file(path: pathlib.Path, name: str) -> types.ModuleType:
    """Import a .py file under a module name of its own; once a process."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise OpError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _classes(modules: list[types.ModuleType]) -> dict[str, type[Op]]:
    found: dict[str, type[Op]] = {}
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Op) and value.__name__ == value.ENTRY:
                if value.__module__ == module.__name__:
                    found[value.ENTRY] = value
    return found
