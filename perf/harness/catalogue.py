"""The ops that a run measures: the project's, or those of another manifest, with what plug-ins add."""

from __future__ import annotations

import dataclasses
import linecache
import pathlib
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping

from tileops.ops import catalogue
from tileops.ops.implementations import Implementation
from tileops.ops.op import Op
from tileops.perf.harness import errors, fingerprint
from tileops.perf.harness import plugins as bench_plugins
from tileops.perf.harness import settings as bench_settings
from tileops.tools.cli import errors as cli_errors
from tileops.tools.cli import paths


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sources:
    """Where ops come from; picklable, so that every process of a run loads the same ones.

    Attributes:
      generated_dir: folder of generated modules that stand in for the project's; None for the project's own.
      plugins: modules by dotted name, or absolute paths of .py files, imported in this order.
      plugin_files: what is in the plugins' files; a process that finds another content there does not go on.
    """

    generated_dir: str | None = None
    plugins: tuple[str, ...] = ()
    plugin_files: tuple[bench_plugins.SourceFile, ...] = ()


class CatalogueError(cli_errors.UserError):
    """Ops could not be loaded; the message says which file or module, and why."""

    has_lines = True  # those of another module's error


class SourceChangedError(CatalogueError):
    """A file that ops come from is not what it was when the run began; the message says which."""


def load(
    sources: Sources,
    on_idle: Callable[[str], None] = lambda plugin: None,
    brought: dict[tuple[str, str], str] | None = None,
) -> dict[str, type[Op]]:
    """Op classes by entry name. A plugin's own class of an entry's name stands in for the generated one.

    Args:
      sources: where they come from.
      on_idle: called with each plugin that brings neither an implementation of one of these ops nor a class.
      brought: gets the plugin of each implementation that one brings, by op and name.

    Raises:
      SourceChangedError: one of `sources.plugin_files` holds something else.
      CatalogueError: a generated module or a plugin cannot be imported, or a plugin replaced code of the project's,
        left a process-wide setting changed or a thread that computes, by which every implementation would be measured,
        took the name of an implementation that the op had, or the reference's place, or shares the name of a module
        with another plugin.
    """
    _refuse_changed(sources.plugin_files)  # before an import, which may fail in the midst of an edit
    if sources.generated_dir is not None or sources.plugins:
        paths.make_user_modules_importable(sources.plugins)
    try:
        classes = catalogue.load(sources.generated_dir)
    except Exception as error:
        raise CatalogueError(_generated_error(sources.generated_dir, error)) from error
    guard = fingerprint.Guard(classes.values(), with_implementations=False) if sources.plugins else None
    settings, threads = bench_settings.read(), bench_settings.alive()
    registered = {} if brought is None else brought
    for plugin in sources.plugins:
        before, classes_before, loaded = _implementations(classes), dict(classes), set(sys.modules)
        try:
            module = catalogue.import_plugin(plugin)
        except (Exception, SystemExit) as error:  # a script that was not written to be imported may end itself
            raise CatalogueError(_plugin_error(plugin, error)) from error
        classes |= catalogue.classes_of([module])
        assert guard is not None  # there is a plug-in
        if names := guard.changed():
            raise CatalogueError(f"--plugin={plugin}: {fingerprint.describe(names)}")
        if said := bench_settings.describe(settings, bench_settings.read()):
            raise CatalogueError(f"--plugin={plugin}: on import, {said}")
        if names := bench_settings.busy(threads):
            raise CatalogueError(
                f"--plugin={plugin}: threads that its import started are still computing ({', '.join(names)})"
            )
        for name, file in bench_plugins.namesakes(plugin, sources.plugins):
            raise CatalogueError(
                f"--plugin={plugin}: the module {name!r} beside it is not the one that is loaded, which is {file}: give"
                " one of them another name, or measure the plugins in two runs"
            )
        after = _implementations(classes)
        _refuse_taken_names(plugin, before, after, registered)
        _refuse_another_reference(plugin, before, after)
        # One that is loaded already brought what it brings when another plugin imported it.
        if module.__name__ not in loaded and after == before and classes == classes_before:
            on_idle(plugin)
    _refuse_changed(sources.plugin_files)  # what was imported is what the header says
    return classes


def _refuse_changed(files: Iterable[bench_plugins.SourceFile]) -> None:
    """Raises SourceChangedError where a file holds something else than at the run's beginning."""
    for file in files:
        if file.is_changed():
            raise SourceChangedError(f"{file.path} was changed while the run went on, whose header says what is in it")


def _refuse_taken_names(
    plugin: str,
    before: Mapping[tuple[str, str], Implementation],
    after: Mapping[tuple[str, str], Implementation],
    registered: dict[tuple[str, str], str],
) -> None:
    """Raises CatalogueError where a plugin gave an implementation the name of one that the op had; notes its own.

    Args:
      plugin: which was imported.
      before, after: every implementation before that and behind it.
      registered: by op and name the plugin whose implementation it is.
    """
    for key, found in after.items():
        if before.get(key) is found:
            continue
        owner = registered.setdefault(key, plugin)
        if owner != plugin or key in before:
            op, name = key
            whose = "that the op has already" if owner == plugin else f"in {owner}"
            raise CatalogueError(
                f"--plugin={plugin}: its implementation {name!r} of {op} takes the place of the one of that name"
                f" {whose}; a record could be of either: give one of them another name"
            )


def _refuse_another_reference(
    plugin: str, before: Mapping[tuple[str, str], Implementation], after: Mapping[tuple[str, str], Implementation]
) -> None:
    """Raises CatalogueError where a plugin's class has another reference than the op had, which judges all others."""
    references = _references(after)
    for op, name in _references(before).items():
        if references.get(op) != name:
            raise CatalogueError(
                f"--plugin={plugin}: {op} has the reference {references.get(op, 'none')!r} now, in place of {name!r}:"
                " subclass the op's own class rather than the generated one, or register the implementation"
            )


def _references(implementations: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Returns the name of each op's reference: its first implementation."""
    found: dict[str, str] = {}
    for op, name in implementations:
        found.setdefault(op, name)
    return found


def _implementations(classes: Mapping[str, type[Op]]) -> dict[tuple[str, str], Implementation]:
    """Returns every implementation by op and name."""
    return {(op, each.name): each for op, op_class in classes.items() for each in op_class.implementations()}


def is_hand_written(op_class: type[Op]) -> bool:
    """Returns whether an entry has a class of its own beside the generated one, which alone declares a roof."""
    return "eval_roofline" not in vars(op_class)


# ---- why ops could not be loaded: where the user has to look, and what to do


_GENERATED = "tileops_generated_"
# How generated code imports the module of a formula, and where it says which line of the manifest names the formula.
_IMPORT = re.compile(r"import (\S+) as _\w+\s*$")
_FUNC = re.compile(r'# (\S+\.yaml:\d+): func\s+return _checks\.price_pair\(\s*"[^"]*",\s*"([^"]+)"')


def _plugin_error(plugin: str, error: BaseException) -> str:
    """Returns what was wrong with a plugin's import."""
    said = f"--plugin={plugin}: {errors.describe(error)}"
    missing = (isinstance(error, ModuleNotFoundError) and error.name) or ""
    if missing.startswith(_GENERATED):
        family = missing.removeprefix(_GENERATED)
        return f"{said}; that is family {family!r} of a manifest outside the project: name its folder with --spec_dir"
    return said


def _generated_error(generated_dir: str | None, error: Exception) -> str:
    """Returns what was wrong with the import of generated modules; None are the project's.

    Where a formula's module cannot be imported it names the manifest's line: the generated file is nothing that the
    user wrote, and may be gone by the time they read this.
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
    """Returns (file:line of the manifest, module) of the formula that could not be imported; None if it was no"
    " formula."""
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
