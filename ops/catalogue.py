"""All ops by name: generated classes, replaced by the hand-written class of the same name where there is one."""

from __future__ import annotations

import importlib
import importlib.util
import pathlib
import sys
import types
import zlib
from collections.abc import Iterable

from tileops.ops.errors import OpError, UnknownOpError
from tileops.ops.op import Op
from tileops.tools.cli import nearest


class Classes(dict[str, type[Op]]):
    """Op classes by entry name. An unknown name raises UnknownOpError."""

    def __missing__(self, name: str) -> type[Op]:
        raise UnknownOpError(f"no op {name!r}; {nearest.instead(name, self, nearest.ROWS)}")


def load(generated_dir: str | None = None) -> Classes:
    """Returns every op class by entry name, by family and then in the order of the file.

    Args:
      generated_dir: folder of modules that `//codegen:emit` wrote for a manifest outside the project. Their entries
        replace the project's; their implementations come from plug-ins.

    Raises:
      OpError: `generated_dir` holds no generated module.
    """
    if generated_dir is not None:
        return classes_of([import_generated(path) for path in generated_files(generated_dir)])
    families = importlib.import_module("tileops.ops.generated.families").FAMILIES
    modules = []
    for family in families:
        modules.append(importlib.import_module(f"tileops.ops.generated.{family}"))
        if importlib.util.find_spec(f"tileops.ops.families.{family}") is not None:  # a spec-only family has none
            modules.append(importlib.import_module(f"tileops.ops.families.{family}"))
    return classes_of(modules)


def generated_files(generated_dir: str) -> list[pathlib.Path]:
    """Returns the modules of families that `//codegen:emit` wrote into a folder. Raises OpError if there is none."""
    files = sorted(path for path in pathlib.Path(generated_dir).glob("*.py") if path.name != "families.py")
    if not files:
        raise OpError(f"{generated_dir}: no generated module; write them with //codegen:emit --out_dir={generated_dir}")
    return files


def import_generated(path: pathlib.Path) -> types.ModuleType:
    """Imports the generated module of a family outside the project, under the name by which plug-ins import it."""
    return import_file(path, f"tileops_generated_{path.stem}")


def import_plugin(plugin: str) -> types.ModuleType:
    """Imports a plug-in: a module by its dotted name, or a .py file by its absolute path."""
    if plugin.endswith(".py"):
        # Two plugins may have one file name; their modules need two.
        return import_file(
            pathlib.Path(plugin), f"tileops_plugin_{pathlib.Path(plugin).stem}_{zlib.crc32(plugin.encode()):08x}"
        )
    return importlib.import_module(plugin)


def import_file(path: pathlib.Path, name: str) -> types.ModuleType:
    """Imports a .py file under a module name of its own, once per process."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise OpError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def classes_of(modules: Iterable[types.ModuleType]) -> Classes:
    """Returns the op classes that modules define under their entry's name, by that name. Later modules replace earlier."""
    found = Classes()
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Op) and value.ENTRY and value.__name__ == value.ENTRY:
                if value.__module__ == module.__name__:
                    found[value.ENTRY] = value
    return found
