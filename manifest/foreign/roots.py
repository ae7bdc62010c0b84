"""Where the packages of other manifests' formulas are: what `--root=NAME=DIR` says, for the whole process."""

from __future__ import annotations

import keyword
import pathlib
import sys
from collections.abc import Iterable

from tileops.manifest.foreign.interpreter import Interpreter
from tileops.tools.cli import errors, paths

# --help of --root, which every command has that loads manifests of others.
HELP = "NAME=DIR: the package NAME of the manifest's formulas is in the folder DIR. Once per package."

_INTERPRETERS: dict[str, Interpreter] = {}
_FOLDERS: dict[str, str] = {}


class RootError(errors.UserError):
    """A --root is wrong; the message says which, and what to write."""


def parse(written: Iterable[str]) -> dict[str, str]:
    """Returns the folder of each package of `NAME=DIR`, as an absolute path.

    Raises:
      RootError: the form is wrong, the folder has no such package, or a package is given two folders.
    """
    found: dict[str, str] = {}
    for text in written:
        name, equals, folder = text.partition("=")
        if not equals or not name.isidentifier() or not name.isascii() or keyword.iskeyword(name) or not folder:
            raise RootError(f"--root={text}: write --root=NAME=DIR, such as --root=acme=/src: acme is in /src")
        if name in sys.stdlib_module_names:
            raise RootError(f"--root={text}: {name!r} is a module of Python's own; name the package of the formulas")
        path = paths.user_path(folder).absolute()
        if not (path / name).is_dir() and not (path / f"{name}.py").is_file():
            raise RootError(f"--root={text}: there is no folder {name} and no {name}.py in {path}")
        if found.setdefault(name, str(path)) != str(path):
            raise RootError(f"--root={text}: {name!r} is in {found[name]} already; give each package one folder")
    return found


def use(roots: dict[str, str]) -> None:
    """Makes these the roots of this process, in place of earlier ones. Starts no interpreter."""
    for name in [name for name in _INTERPRETERS if roots.get(name) != _FOLDERS[name]]:
        _INTERPRETERS.pop(name).close()
        del _FOLDERS[name]
    for name, folder in roots.items():
        if name not in _INTERPRETERS:
            _INTERPRETERS[name], _FOLDERS[name] = Interpreter(folder), folder


def interpreter_of(path: str) -> Interpreter | None:
    """Returns the interpreter of the package of a dotted path, or None if it has no root."""
    return _INTERPRETERS.get(path.partition(".")[0])


def source_files(path: str) -> list[pathlib.Path]:
    """Returns the file of the module of a function, given by its dotted path; [] if its package has no root."""
    parts = path.split(".")[:-1]
    if not parts or parts[0] not in _FOLDERS:
        return []
    folder = pathlib.Path(_FOLDERS[parts[0]])
    module = folder.joinpath(*parts)
    return [file for file in (module.with_suffix(".py"), module / "__init__.py") if file.is_file()][:1]
