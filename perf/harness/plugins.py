"""The files that a run takes from outside the project, plug-ins and manifests, as its header names them."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pathlib
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

from tileops.manifest.foreign import roots
from tileops.ops import catalogue
from tileops.perf.harness import errors
from tileops.proto import benchmark_pb2

# Sources of kernels that a plug-in reads or compiles; they are no Python modules.
_KERNEL_SOURCES = frozenset({".c", ".cc", ".cpp", ".cu", ".cuh", ".cxx", ".h", ".hip", ".hpp"})


@dataclasses.dataclass(frozen=True)
class SourceFile:
    """One source file of a plugin.

    Attributes:
      path: where it is.
      sha256: of its content, in hexadecimal.
    """

    path: str
    sha256: str

    def is_changed(self) -> bool:
        """Returns whether the file was changed or is gone."""
        try:
            return _sha256(pathlib.Path(self.path).read_bytes()) != self.sha256
        except OSError:
            return True


def described(plugin: str, name: str) -> tuple[benchmark_pb2.Plugin, list[SourceFile]]:
    """Returns what a run header says of an imported plug-in, and its files, which must not change during the run.

    The files of a plug-in are its own file, the loaded modules from the same folder or below it, and sources of kernels
    beside one of these. A plug-in that is named as a module has the modules of its top-level package. Modules that a
    call imports later and files of other kinds do not count.

    Args:
      plugin: as `catalogue.import_plugin` took it.
      name: as the user wrote it.
    """
    imported = catalogue.import_plugin(plugin)  # already loaded
    is_file = plugin.endswith(".py")
    folder = pathlib.Path(plugin).parent
    found = _beside(imported, folder) if is_file else _of_package(imported, plugin.partition(".")[0])
    made = benchmark_pb2.Plugin(name=name)
    files = []
    for module in found:
        content = _content(module)
        if content is None or module.__file__ is None:
            continue
        path = pathlib.Path(module.__file__)
        shown = path.relative_to(folder).as_posix() if is_file else module.__name__
        made.sources[shown] = _sha256(content)
        if path.is_file():  # a file in a zip does not change
            files.append(SourceFile(str(path), made.sources[shown]))
    for path in _kernel_sources({pathlib.Path(file.path).parent for file in files}) if is_file else ():
        shown = path.relative_to(folder).as_posix()
        made.sources[shown] = _sha256(path.read_bytes())
        files.append(SourceFile(str(path), made.sources[shown]))
    return made, files


def namesakes(plugin: str, others: Iterable[str]) -> list[tuple[str, str]]:
    """Returns modules that are beside this plug-in, but were loaded from the folder of another plug-in.

    An example: a/mine.py and b/yours.py both import `helpers`. Python loads a/helpers.py, and yours.py gets that too.

    Args:
      plugin: as `catalogue.import_plugin` takes it.
      others: all plug-ins of the run.

    Returns:
      The name of each such module, and the file from which it was loaded.
    """
    if not plugin.endswith(".py"):
        return []
    folder = pathlib.Path(plugin).parent
    elsewhere = {pathlib.Path(other).parent for other in others if other.endswith(".py")} - {folder}
    found = []
    for name, module in list(sys.modules.items()) if elsewhere else ():
        path = pathlib.Path(getattr(module, "__file__", None) or "")
        if "." in name or not {path.parent, path.parent.parent} & elsewhere or path.is_relative_to(folder):
            continue
        if (folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file():
            found.append((name, str(path)))
    return found


def of_files(name: str, files: Iterable[pathlib.Path]) -> tuple[benchmark_pb2.Plugin, list[SourceFile]]:
    """Returns what a run header says of a manifest outside the project or of a library's plug-in, and its files.

    Args:
      name: the flag as the user wrote it.
      files: all files, of one folder. They must not change during the run.
    """
    found = [SourceFile(str(path.absolute()), _sha256(path.read_bytes())) for path in files]
    sources = {pathlib.Path(file.path).name: file.sha256 for file in found}
    return benchmark_pb2.Plugin(name=name, sources=sources), found


def formulas(name: str, funcs: Iterable[str]) -> tuple[benchmark_pb2.Plugin, list[SourceFile]]:
    """Returns what a run header says of a package of formulas, and its files, which must not change.

    Args:
      name: the package that a --root names; its folder does not count, since it differs between machines.
      funcs: dotted paths of formulas. Their modules are the files of the package that count.
    """
    of_package = sorted({func.rpartition(".")[0] for func in funcs if func.partition(".")[0] == name})
    made, files = benchmark_pb2.Plugin(name=f"--root={name}"), []
    for module in of_package:
        for path in roots.source_files(f"{module}.function"):
            made.sources[module] = _sha256(path.read_bytes())
            files.append(SourceFile(str(path), made.sources[module]))
    return made, files


def _beside(plugin: types.ModuleType, folder: pathlib.Path) -> Iterator[types.ModuleType]:
    yield plugin
    for name, module in list(sys.modules.items()):
        if module is plugin or name == "__main__" or name.startswith(("tileops.", "tileops_generated_")):
            continue
        file = getattr(module, "__file__", None)
        if file and _is_users(pathlib.Path(file), folder):
            yield module


def _kernel_sources(folders: Iterable[pathlib.Path]) -> list[pathlib.Path]:
    """Returns the sources of kernels in these folders that can be read."""
    found = (path for folder in folders for path in folder.iterdir() if path.suffix in _KERNEL_SOURCES)
    return sorted(path for path in found if path.is_file() and os.access(path, os.R_OK))


def _of_package(plugin: types.ModuleType, top: str) -> Iterator[types.ModuleType]:
    yield plugin
    for name, module in list(sys.modules.items()):
        if module is not plugin and (name == top or name.startswith(f"{top}.")):
            yield module


def _is_users(path: pathlib.Path, folder: pathlib.Path) -> bool:
    """Returns whether a module's file is in a plug-in's folder, and not of an installed package or the interpreter."""
    return path.is_relative_to(folder) and not errors.is_packaged(path)


def _content(module: types.ModuleType) -> bytes | None:
    """Returns the contents of a module's file, also in a zip; None if the module has no file."""
    loader: Any = getattr(module, "__loader__", None)
    if not getattr(module, "__file__", None) or not hasattr(loader, "get_data"):
        return None
    return loader.get_data(module.__file__)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
