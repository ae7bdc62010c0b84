"""Dotted paths of Python functions and classes that generated code may import."""

from __future__ import annotations

import keyword
import sys

from tileops.manifest.language.text import shown
from tileops.manifest.reading.forms import DOTTED_PATH

# The module of this project's formulas.
FORMULAS = "tileops.perf.formulas"


def path_problem(path: str) -> str:
    """Returns why generated code may not import a dotted path, or "".

    Python's own modules are no part of a manifest: importing one may do anything, and none of them prices a call.
    """
    if not DOTTED_PATH.fullmatch(path):
        return f"{shown(path)} is no module path; write package.module.name"
    parts = path.split(".")
    for part in parts:
        if keyword.iskeyword(part):
            return f"{shown(path)}: {part!r} is a keyword of Python"
        if part.startswith("_"):
            return f"{shown(path)}: {shown(part)} is private to its module"
    if parts[0] in sys.stdlib_module_names:
        return f"{shown(path)} is in Python's own {parts[0]!r}; name a module of yours"
    return ""


def formula_problem(path: str) -> str:
    """Returns why `path` cannot name a formula, or "". The project's own formulas live in tileops.perf.formulas."""
    problem = path_problem(path)
    if not problem and path.split(".")[0] == "tileops" and path.rpartition(".")[0] != FORMULAS:
        return f"{shown(path)} is no formula; those of this project are {FORMULAS}.<name>"
    return problem
