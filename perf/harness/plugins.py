"""What is in the files that a run takes from outside the project, as its header says it: plugins and manifests."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pathlib
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

from tileops.ops import catalogue
from tileops.perf.harness import errors
from tileops.proto import benchmark_pb2

# Sources of kernels, which a plugin reads or has compiled: what they become is no module of Python's.
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
        """Whether the file holds something else by now, or is gone."""
        try:
            return _sha256(pathlib.Path(self.path).read_bytes()) != self.sha256
        except OSError:
            return True


def described(plugin: str, name: str) -> tuple[benchmark_pb2.Plugin, list[SourceFile]]:
    """What a run header says of an imported plugin, and its files for those who watch them.

    Counted are the plugin's own file, the modules that are loaded by now from the same folder or below it, and sources
    of kernels that lie beside one of these. Of a plugin that is named as a module: the modules of the same top-level
    package. Not counted is what a call imports later, and any file of another kind.

    Args:
      plugin: as `catalogue.import_plugin` took it.
      name: as the user gave it.
    """
    imported = catalogue.import_plugin(plugin)  # it was before
    is_file = plugin.endswith(".py")
    folder = pathlib.Path(plugin).parent
    found = _beside(imported, folder) if is_file else _of_package(imported, plugin.partition(".")[0])
    told = benchmark_pb2.Plugin(name=name)
    files = []
    for module in found:
        content = _content(module)
        if content is None or module.__file__ is None:
            continue
        path = pathlib.Path(module.__file__)
        shown = path.relative_to(folder).as_posix() if is_file else module.__name__
        told.sources[shown] = _sha256(content)
        if path.is_file():  # not within a zip, which nobody edits
            files.append(SourceFile(str(path), told.sources[shown]))
    for path in _kernel_sources({pathlib.Path(file.path).parent for file in files}) if is_file else ():
        shown = path.relative_to(folder).as_posix()
        told.sources[shown] = _sha256(path.read_bytes())
        files.append(SourceFile(str(path), told.sources[shown]))
    return told, files


def namesakes(plugin: str, others: Iterable[str]) -> list[tuple[str, str]]:
    """Modules that were loaded from beside another plugin's file while one of their name stands beside this one's.

    Whoever imports such a name gets what is loaded: Python has one module of a name, whichever folder it came from.

    Args:
      plugin: as `catalogue.import_plugin` takes it, and so are the others.
      others: plugins of the same run.

    Returns:
      The name of each, and the file that it was loaded from.
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


def manifest(name: str, files: Iterable[pathlib.Path]) -> tuple[benchmark_pb2.Plugin, list[SourceFile]]:
    """What a run header says of a manifest outside the project, and its files for those who watch them.

    Args:
      name: as the user gave it, with its flag.
      files: of one folder.
    """
    found = [SourceFile(str(path.absolute()), _sha256(path.read_bytes())) for path in files]
    sources = {pathlib.Path(file.path).name: file.sha256 for file in found}
    return benchmark_pb2.Plugin(name=name, sources=sources), found


def _beside(plugin: types.ModuleType, folder: pathlib.Path) -> Iterator[types.ModuleType]:
    yield plugin
    for name, module in list(sys.modules.items()):
        if module is plugin or name == "__main__" or name.startswith(("tileops.", "tileops_generated_")):
            continue
        file = getattr(module, "__file__", None)
        if file and _is_users(pathlib.Path(file), folder):
            yield module


def _kernel_sources(folders: Iterable[pathlib.Path]) -> list[pathlib.Path]:
    """Those that can be read; what cannot, no plugin read either."""
    found = (path for folder in folders for path in folder.iterdir() if path.suffix in _KERNEL_SOURCES)
    return sorted(path for path in found if path.is_file() and os.access(path, os.R_OK))


def _of_package(plugin: types.ModuleType, top: str) -> Iterator[types.ModuleType]:
    yield plugin
    for name, module in list(sys.modules.items()):
        if module is not plugin and (name == top or name.startswith(f"{top}.")):
            yield module


def _is_users(path: pathlib.Path, folder: pathlib.Path) -> bool:
    """Whether a module's file is one of those beside a plugin, and no installed package's or the interpreter's."""
    return path.is_relative_to(folder) and not errors.is_packaged(path)


def _content(module: types.ModuleType) -> bytes | None:
    """What is in a module's file, also in one within a zip; None of a module that has no file."""
    loader: Any = getattr(module, "__loader__", None)
    if not getattr(module, "__file__", None) or not hasattr(loader, "get_data"):
        return None
    return loader.get_data(module.__file__)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
