"""The libraries of --baselines: one plug-in file for each, in perf/baselines. docs/baselines.md explains them.

An example: `--baselines=liger` finds perf/baselines/liger.py, which has the line `PACKAGE = "liger-kernel"`. The version
of that distribution is in the header of the run. The file registers implementations named `liger` or `liger_...`.

The module imports no torch and no library: it reads the files as text.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib.metadata
import pathlib
from collections.abc import Sequence

from tileops.tools.cli import errors, nearest, paths

ALL = "all"
_LISTED_BY = "the folder perf/baselines"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Library:
    """A library, by its plug-in file.

    Attributes:
      name: of the library: that of the file, without its ending.
      path: of the file; absolute.
      package: name of the distribution.
      modules: what the functions of the plug-in import when they are called.
    """

    name: str
    path: str
    package: str
    modules: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        """Returns the flag that loads it, for messages."""
        return f"--baselines={self.name}"

    def owns(self, implementation: str) -> bool:
        """Returns whether an implementation has the library's name, alone or as in `liger_fused`."""
        return implementation == self.name or implementation.startswith(f"{self.name}_")

    def version(self) -> str | None:
        """Returns the version of the installed distribution; None if it is not installed."""
        try:
            return importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return None


class BaselineError(errors.UserError):
    """A library that does not exist, or a file that lacks what each has to say; the message names it."""


def find(wanted: Sequence[str], folder: str | None = None) -> tuple[Library, ...]:
    """Returns the libraries of these names, each once; "all" is every library, by name.

    Args:
      wanted: --baselines.
      folder: --baselines_dir; None for the project's own.

    Raises:
      BaselineError: there is no such library or folder, or a library's file does not say what it needs.
    """
    if not wanted:
        return ()
    where = paths.data_path("perf", "baselines") if folder is None else paths.user_path(folder).absolute()
    if why := paths.not_a_folder(where):
        raise BaselineError(f"--baselines_dir={folder}: {why}")
    files = {path.stem: path for path in sorted(where.glob("*.py")) if not path.stem.startswith("_")}
    for name in wanted:
        if name != ALL and name not in files:
            shown = _LISTED_BY if folder is None else str(where)
            raise BaselineError(f"--baselines={name}: no such library; {nearest.instead(name, files, shown)}")
    chosen = files if ALL in wanted else dict.fromkeys(wanted)
    return tuple(_read(files[name]) for name in chosen)


def _read(path: pathlib.Path) -> Library:
    stated = _constants(path)
    package, modules = stated.get("PACKAGE"), stated.get("MODULES", ())
    if not isinstance(package, str) or not package:
        raise BaselineError(
            f'{path}: no line PACKAGE = "name" at the start of a line; name the distribution as pip does, as a string'
        )
    if not isinstance(modules, tuple) or not all(isinstance(name, str) for name in modules):
        raise BaselineError(f'{path}: MODULES is no tuple of strings, as in MODULES = ("liger_kernel.ops.swiglu",)')
    return Library(name=path.stem, path=str(path), package=package, modules=modules)


def _constants(path: pathlib.Path) -> dict[str, object]:
    """Returns the constants that the file assigns to names, without running it."""
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except (OSError, SyntaxError, ValueError) as error:
        raise BaselineError(f"{path}: cannot be read as Python: {error}") from error
    found: dict[str, object] = {}
    for statement in tree.body:
        if not isinstance(statement, ast.Assign):
            continue
        for target in statement.targets:
            if isinstance(target, ast.Name):
                try:
                    found[target.id] = ast.literal_eval(statement.value)
                except ValueError:
                    found[target.id] = None  # a value that only running the file would give
    return found
