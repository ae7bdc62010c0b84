"""Checks that the `func` formulas of implemented entries resolve. No other check imports them."""

from __future__ import annotations

import contextlib
import importlib
import sys

from tileops.codegen.analysis import Analysis
from tileops.manifest.diagnostics import Diagnostics
from tileops.manifest.foreign import roots
from tileops.manifest.foreign.server import problem_of, torch_import
from tileops.manifest.model import Entry


def check_func(entry: Entry, analysis: Analysis, diagnostics: Diagnostics) -> None:
    """Reports a func path that names no formula. The module of a spec-only entry is not imported.

    What a module prints on import goes to stderr, because stdout has the command's data.
    """
    if not analysis.func or entry.status != "implemented" or not analysis.emittable:
        return
    interpreter = roots.interpreter_of(analysis.func)
    problem = _problem(analysis.func) if interpreter is None else interpreter.problem(analysis.func)
    if problem:
        entry.report(diagnostics, "roofline.func", "R021", problem)


def _problem(path: str) -> str:
    """Returns why a path names no formula that this process can import, or ""."""
    module_name, _, name = path.rpartition(".")
    try:
        with contextlib.redirect_stdout(sys.stderr):
            module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever a formula module does on import is this entry's defect
        package = module_name.partition(".")[0]
        # If the package itself is missing, its folder was not named.
        is_missing = isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}.")
        hint = f"; --root={package}=DIR names the folder in which {package} is" if is_missing else ""
        return f"{module_name} cannot be imported: {type(error).__name__}: {error}{hint}"
    return problem_of(module_name, name, getattr(module, name, None)) or torch_import(module)
