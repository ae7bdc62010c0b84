"""Why ops could not be loaded, in words: where the user has to look, and what to do."""

from __future__ import annotations

import linecache
import pathlib
import re
import traceback

from tileops.perf.harness import errors
from tileops.tools.cli import paths

_GENERATED = "tileops_generated_"
# How generated code imports the module of a formula, and where it says which line of the manifest names the formula.
_IMPORT = re.compile(r"import (\S+) as _\w+\s*$")
_FUNC = re.compile(r'# (\S+\.yaml:\d+): func\s+return _checks\.price_pair\(\s*"[^"]*",\s*"([^"]+)"')


def of_plugin(plugin: str, error: BaseException) -> str:
    """What was wrong with a plugin's import."""
    said = f"--plugin={plugin}: {errors.describe(error)}"
    missing = (isinstance(error, ModuleNotFoundError) and error.name) or ""
    if missing.startswith(_GENERATED):
        family = missing.removeprefix(_GENERATED)
        return f"{said}; that is family {family!r} of a manifest outside the project: name its folder with --spec_dir"
    return said


def of_generated(generated_dir: str | None, error: Exception) -> str:
    """What was wrong with the import of generated modules; None are the project's.

    Where a formula's module cannot be imported it names the manifest's line: the generated file is nothing that the user
    wrote, and may be gone by the time they read this.
    """
    described = errors.describe(error)
    formulas = None if generated_dir is None else _formulas(pathlib.Path(generated_dir), error)
    if formulas is None:
        return f"{generated_dir or 'tileops.ops.generated'}: cannot load ops: {described}"
    where, module = formulas
    said = f"{where}: func: {module} cannot be imported: {described}"
    if isinstance(error, ModuleNotFoundError) and error.name and f"{module}.".startswith(f"{error.name}."):
        folder = paths.user_path(".").absolute()
        return f"{said}; it has to be in {folder}, where the command is run, or be installed"
    return said


def _formulas(folder: pathlib.Path, error: Exception) -> tuple[str, str] | None:
    """(file:line of the manifest, module) of the formula that a generated module could not import; None of no formula."""
    found = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        path = pathlib.Path(frame.f_code.co_filename)
        imported = _IMPORT.match(linecache.getline(str(path), line)) if path.parent == folder else None
        if imported:
            for func in _FUNC.finditer("".join(linecache.getlines(str(path)))):
                if func[2].rpartition(".")[0] == imported[1]:
                    found = func[1], imported[1]
                    break
    return found
