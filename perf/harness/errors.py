"""Errors of the user's code in words: what they say, and where in the user's files they were raised."""

from __future__ import annotations

import functools
import pathlib
import sys
import sysconfig
import traceback

_PACKAGE_FOLDERS = frozenset({"site-packages", "dist-packages"})
# Names of the command's own module, here and in child processes.
_MAINS = frozenset({"__main__", "__mp_main__"})
# Limit of a text that is followed by a place, so that a cut of the record's message keeps the place.
_TEXT_LENGTH = 400


def describe(error: BaseException) -> str:
    """Returns an exception's type and message and the user's line that raised it, as "(my_kernels.py:17, in f)"."""
    text, where = str(error), place(error)
    if where and len(text) > _TEXT_LENGTH:
        text = text[: _TEXT_LENGTH - 3] + "..."
    return (f"{type(error).__name__}: {text}" if text else type(error).__name__) + where


def place(error: BaseException) -> str:
    """Returns " (file:line, in function)" of the innermost frame in the user's own files; "" if there is none."""
    found = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        if _is_users(code.co_filename, str(frame.f_globals.get("__name__", ""))):
            function = "" if code.co_name == "<module>" else f", in {code.co_name}"
            found = f" ({pathlib.Path(code.co_filename).name}:{line}{function})"
    return found


def is_packaged(path: pathlib.Path) -> bool:
    """Returns whether a file or folder is the interpreter's, or lies where packages are installed."""
    if _PACKAGE_FOLDERS & set(path.parts):
        return True
    return any(path.is_relative_to(sysconfig.get_path(which)) for which in ("stdlib", "platstdlib"))


def _is_users(file: str, module: str) -> bool:
    """Returns whether code is the user's: not the project's, not generated, not Python's or an installed package's.

    The module decides before the file: the user's files may lie in a checkout of the project, a compiler's anywhere.
    """
    top = module.partition(".")[0]
    if file.startswith("<") or top == "tileops" or top.startswith("tileops_generated_"):
        return False
    if top in _MAINS or top in sys.stdlib_module_names:
        return False
    owner = getattr(sys.modules.get(top), "__file__", None)
    return not any(_is_installed(pathlib.Path(each).parent) for each in (file, owner) if each)


@functools.cache
def _is_installed(folder: pathlib.Path) -> bool:
    """Returns whether a module's folder belongs to the interpreter, or pip installed something into it."""
    return is_packaged(folder) or any(any(each.glob("*.dist-info")) for each in (folder, folder.parent))
