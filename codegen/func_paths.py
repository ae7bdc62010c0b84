"""Whether the `func` formulas of implemented entries resolve: imports them, which no other check does."""

from __future__ import annotations

import importlib
import inspect
import types

from tileops.codegen.analysis import Analysis
from tileops.manifest.diagnostics import Diagnostics
from tileops.manifest.model import Entry


def check_func(entry: Entry, analysis: Analysis, diagnostics: Diagnostics) -> None:
    """Report a func path that names no module-level function; entries that are not implemented are not imported."""
    if not analysis.func or entry.status != "implemented" or not analysis.emittable:
        return
    module_name, _, name = analysis.func.rpartition(".")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # noqa: BLE001  # whatever a formula module does on import is this entry's defect
        problem = f"{module_name} cannot be imported: {type(error).__name__}: {error}"
    else:
        problem = _problem(module_name, name, getattr(module, name, None))
    if problem:
        diagnostics.add(entry.file, analysis.func_line, entry.op, "roofline.func", "R021", problem)


def _problem(module: str, name: str, found: object) -> str:
    """Why what a path names is no formula: a module-level function of the checked call and nothing else."""
    if found is None:
        return f"{module} has no function {name!r}"
    if not isinstance(found, types.FunctionType):
        return f"{module}.{name} is no function but a {type(found).__name__}"
    if found.__module__ != module:
        return f"{module}.{name} is a function of {found.__module__}; name it there"
    parameters = list(inspect.signature(found).parameters.values())
    if len(parameters) != 1 or parameters[0].kind not in _POSITIONAL or parameters[0].default is not inspect.Parameter.empty:
        return f"{module}.{name}{inspect.signature(found)} must take the checked call and nothing else"
    return ""


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
