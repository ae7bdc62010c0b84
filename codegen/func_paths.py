"""Whether the `func` formulas of implemented entries resolve: imports them, which no other check does."""

from __future__ import annotations

import importlib

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
        if callable(getattr(module, name, None)):
            return
        problem = f"{module_name} has no function {name!r}"
    diagnostics.add(entry.file, analysis.func_line, entry.op, "roofline.func", "R021", problem)
