"""Generated classes of the spec files that stand beside the tests."""

from __future__ import annotations

import sys
import types

from tileops.codegen.pipeline import analyse_files
from tileops.tests.runtime import entry_formulas
from tileops.tools.cli import paths

# Where a team's own formulas would be: a manifest names none of this package but those of //perf/formulas.
sys.modules["team_formulas"] = entry_formulas


def generated(spec: str) -> types.ModuleType:
    """The module that codegen emits of the spec file `spec`, each time a new one.

    Raises:
      ValueError: its entries have defects.
    """
    analysed = analyse_files([str(paths.data_path("tests", "runtime", spec))])
    if len(analysed.diagnostics):
        raise ValueError("\n".join(str(found) for found in analysed.diagnostics))
    (source,) = analysed.modules().values()
    module = types.ModuleType(f"tileops_{spec.removesuffix('.yaml')}")
    exec(compile(source, module.__name__, "exec"), vars(module))  # noqa: S102  # our own emission
    return module
