"""Dotted paths of Python functions and classes that generated code may import."""

from __future__ import annotations

import keyword
import sys

from tileops.manifest.foreign import roots
from tileops.manifest.language.text import shown
from tileops.manifest.reading.forms import DOTTED_PATH

# The module of this project's formulas.
FORMULAS = "tileops.perf.formulas"


def path_problem(path: str, last_may_be_private: bool = False) -> str:
    """Returns why a dotted path may not be imported, or "". Modules may begin with one underscore.

    Python's own modules are no part of a manifest: importing one may do anything, and none of them prices a call.
    """
    if not DOTTED_PATH.fullmatch(path):
        return f"{shown(path)} is no module path; write package.module.name"
    parts = path.split(".")
    for part in parts:
        if keyword.iskeyword(part):
            return f"{shown(path)}: {part!r} is a keyword of Python"
        if part.startswith("__"):
            return f"{shown(path)}: {shown(part)} begins with two underscores; a module may begin with one"
    if parts[-1].startswith("_") and not last_may_be_private:
        return f"{shown(path)}: {shown(parts[-1])} is private to its module"
    if parts[0] in sys.stdlib_module_names:
        return f"{shown(path)} is in Python's own {parts[0]!r}; name a module of yours"
    return ""


def formula_problem(path: str) -> str:
    """Returns why `path` cannot name a formula, or "". The project's own formulas live in tileops.perf.formulas.

    A published package may have this project's import name: its formulas are in private modules, of which this project
    has none, or the user says by --root where the package is.
    """
    problem = path_problem(path)
    modules = path.split(".")[:-1]
    is_ours = modules[:1] == ["tileops"] and not any(part.startswith("_") for part in modules)
    if not problem and is_ours and ".".join(modules) != FORMULAS and roots.interpreter_of(path) is None:
        return (
            f"{shown(path)} is no formula; those of this project are {FORMULAS}.<name>,"
            " and --root=tileops=DIR says where another package of this name is"
        )
    return problem
