"""Checks that the `func` formulas of implemented entries resolve. No other check imports them."""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import sys
import types

from tileops.codegen.analysis import Analysis
from tileops.manifest.diagnostics import Diagnostics
from tileops.manifest.model import Entry


def check_func(entry: Entry, analysis: Analysis, diagnostics: Diagnostics) -> None:
    """Reports a func path that names no formula. The module of a spec-only entry is not imported.

    What a module prints on import goes to stderr, because stdout has the command's data.
    """
    if not analysis.func or entry.status != "implemented" or not analysis.emittable:
        return
    module_name, _, name = analysis.func.rpartition(".")
    try:
        with contextlib.redirect_stdout(sys.stderr):
            module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever a formula module does on import is this entry's defect
        problem = f"{module_name} cannot be imported: {type(error).__name__}: {error}"
    else:
        problem = _problem(module_name, name, getattr(module, name, None)) or _torch_import(module)
    if problem:
        entry.report(diagnostics, "roofline.func", "R021", problem)


def _problem(module: str, name: str, found: object) -> str:
    """Returns why an object is no formula, or "". A formula is a module-level function of the checked call."""
    if found is None:
        return f"{module} has no function {name!r}"
    if not isinstance(found, types.FunctionType):
        return f"{module}.{name} is no function but a {type(found).__name__}"
    if found.__module__ != module and not found.__module__.startswith(f"{module}."):
        return f"{module}.{name} is a function of {found.__module__}; name it by that module"
    if inspect.iscoroutinefunction(found) or inspect.isgeneratorfunction(found) or inspect.isasyncgenfunction(found):
        return f"{module}.{name} is a coroutine or a generator, and a formula returns (flops, bytes)"
    parameters = list(inspect.signature(found).parameters.values())
    if (
        len(parameters) != 1
        or parameters[0].kind not in _POSITIONAL
        or parameters[0].default is not inspect.Parameter.empty
    ):
        return f"{module}.{name}{inspect.signature(found)} must take the checked call and nothing else"
    return ""


def _torch_import(module: types.ModuleType) -> str:
    """Returns where a module of formulas imports torch, which is not allowed, or ""."""
    try:
        source = inspect.getsource(module)
    except (OSError, TypeError):  # a compiled module has none
        return ""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        else:
            continue
        if any(name.partition(".")[0] == "torch" for name in names):
            return f"{module.__name__} imports torch (line {node.lineno}): formulas compute on the NumPy arrays of the call"
    return ""


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
