"""The ops that a run measures: the project's or another manifest's, with implementations of plug-ins."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterable, Mapping

from tileops.manifest.foreign import roots as formula_roots
from tileops.ops import catalogue
from tileops.ops.errors import OpFormulaError
from tileops.ops.implementations import Implementation
from tileops.ops.op import Op
from tileops.perf.harness import baselines, errors, fingerprint
from tileops.perf.harness import plugins as bench_plugins
from tileops.perf.harness import settings as bench_settings
from tileops.tools.cli import errors as cli_errors
from tileops.tools.cli import paths


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sources:
    """Where ops come from. It can be pickled, so that every process of a run loads the same ops.

    Attributes:
      generated_dir: folder of generated modules that replace the project's; None for the project's own.
      roots: package and folder of each --root, where formulas of another manifest are.
      plugins: dotted names of modules, or absolute paths of .py files, imported in this order.
      libraries: libraries of --baselines, imported after the plug-ins.
      plugin_files: the files of the plug-ins. A process stops if their contents changed.
    """

    generated_dir: str | None = None
    roots: tuple[tuple[str, str], ...] = ()
    plugins: tuple[str, ...] = ()
    libraries: tuple[baselines.Library, ...] = ()
    plugin_files: tuple[bench_plugins.SourceFile, ...] = ()

    def library(self, plugin: str) -> baselines.Library | None:
        """Returns the library whose file a plug-in is; None for a plug-in of --plugin."""
        return next((library for library in self.libraries if library.path == plugin), None)

    def flag(self, plugin: str) -> str:
        """Returns the flag that brought a plug-in, for messages."""
        library = self.library(plugin)
        return f"--plugin={plugin}" if library is None else library.flag


class CatalogueError(cli_errors.UserError):
    """Ops cannot be loaded; the message says which file or module, and why."""

    has_lines = True  # those of another module's error


class SourceChangedError(CatalogueError):
    """A file that ops come from changed during the run; the message says which file."""


def load(
    sources: Sources,
    on_idle: Callable[[str], None] = lambda flag: None,
    brought: dict[tuple[str, str], str] | None = None,
) -> dict[str, type[Op]]:
    """Returns the op classes by entry name. A plug-in's class with an entry's name replaces the generated class.

    Args:
      sources: where the ops come from.
      on_idle: called with the flag of each plug-in that brings neither a class nor an implementation of these ops.
      brought: gets the plug-in of each implementation that a plug-in brings, by op and name.

    Raises:
      SourceChangedError: one of `sources.plugin_files` changed.
      CatalogueError: a generated module or a plug-in cannot be imported, or a plug-in
        - replaced code of the project,
        - left a process-wide setting changed or a thread computing, which would affect all implementations,
        - reused the name of an implementation, replaced the reference, or states a price of its own,
        - has a module of the same name as another plug-in's,
        - is that of a library, and gave an implementation another name than the library's.
    """
    _refuse_changed(sources.plugin_files)  # first: an import in the midst of an edit may fail for another reason
    if sources.generated_dir is not None or sources.plugins:
        paths.make_user_modules_importable(sources.plugins)
    formula_roots.use(dict(sources.roots))
    try:
        classes = catalogue.load(sources.generated_dir)
    except Exception as error:
        raise CatalogueError(_generated_error(sources.generated_dir, error)) from error
    plugins = (*sources.plugins, *(library.path for library in sources.libraries))
    guard = fingerprint.Guard(classes.values(), with_implementations=False) if plugins else None
    settings, threads = bench_settings.read(), bench_settings.alive()
    registered = {} if brought is None else brought
    for plugin in plugins:
        flag, library = sources.flag(plugin), sources.library(plugin)
        before, classes_before, loaded = _implementations(classes), dict(classes), set(sys.modules)
        try:
            module = catalogue.import_plugin(plugin)
        except (Exception, SystemExit) as error:  # a script that was not written to be imported may call sys.exit
            raise CatalogueError(_plugin_error(flag, error)) from error
        classes |= catalogue.classes_of([module])
        assert guard is not None  # since there is a plug-in
        if names := guard.changed():
            raise CatalogueError(f"{flag}: {fingerprint.describe(names)}")
        if said := bench_settings.describe(settings, bench_settings.read()):
            raise CatalogueError(f"{flag}: on import, {said}")
        if names := bench_settings.busy(threads):
            raise CatalogueError(f"{flag}: what its import started is still computing ({', '.join(names)})")
        # Nothing is imported from beside the file of a library.
        for name, file in bench_plugins.namesakes(plugin, sources.plugins) if library is None else ():
            raise CatalogueError(
                f"{flag}: the module {name!r} beside it is not loaded, since {file} has the same name: rename one of"
                " them, or measure the plug-ins in two runs"
            )
        after = _implementations(classes)
        _refuse_taken_names(flag, plugin, before, after, registered)
        _refuse_another_reference(flag, before, after)
        _refuse_another_price(flag, classes_before, classes)
        if library is not None:
            _refuse_foreign_names(library, before, after)
        # If another plug-in has imported this one already, its implementations were counted then.
        if module.__name__ not in loaded and after == before and classes == classes_before:
            on_idle(flag)
    _refuse_changed(sources.plugin_files)  # the header names what was imported
    return classes


def _refuse_changed(files: Iterable[bench_plugins.SourceFile]) -> None:
    """Raises SourceChangedError if a file changed since the run began."""
    for file in files:
        if file.is_changed():
            raise SourceChangedError(f"{file.path} changed during the run, whose header names its contents")


def _refuse_taken_names(
    flag: str,
    plugin: str,
    before: Mapping[tuple[str, str], Implementation],
    after: Mapping[tuple[str, str], Implementation],
    registered: dict[tuple[str, str], str],
) -> None:
    """Raises CatalogueError if a plug-in reused the name of an implementation. Notes the plug-in's implementations.

    Args:
      flag: what brought the plug-in.
      plugin: the imported plug-in.
      before, after: all implementations before and after the import.
      registered: the plug-in of each implementation, by op and name.
    """
    for key, found in after.items():
        if before.get(key) is found:
            continue
        owner = registered.setdefault(key, plugin)
        if owner != plugin or key in before:
            op, name = key
            whose = "of the op" if owner == plugin else f"of {owner}"
            raise CatalogueError(
                f"{flag}: its implementation {name!r} of {op} has the name of an implementation {whose}, so a"
                " record could be of either: rename one of them"
            )


def _refuse_foreign_names(
    library: baselines.Library,
    before: Mapping[tuple[str, str], Implementation],
    after: Mapping[tuple[str, str], Implementation],
) -> None:
    """Raises CatalogueError if the plug-in of a library gave an implementation another name than the library's."""
    for (op, name), found in after.items():
        if before.get((op, name)) is not found and not library.owns(name):
            raise CatalogueError(
                f"{library.flag}: its implementation {name!r} of {op} is not named after the library: name it"
                f" {library.name!r}, or {library.name + '_...'!r}"
            )


def _refuse_another_reference(
    flag: str, before: Mapping[tuple[str, str], Implementation], after: Mapping[tuple[str, str], Implementation]
) -> None:
    """Raises CatalogueError if a plug-in's class has another reference, with which all others would be compared."""
    references = _references(after)
    for op, name in _references(before).items():
        if references.get(op) != name:
            raise CatalogueError(
                f"{flag}: {op} now has the reference {references.get(op, 'none')!r} instead of {name!r}:"
                " subclass the op's own class and not the generated one, or register the implementation"
            )


def _refuse_another_price(flag: str, before: Mapping[str, type[Op]], after: Mapping[str, type[Op]]) -> None:
    """Raises CatalogueError where a plugin's class states a price: one that calls itself generated may."""
    for op, op_class in before.items():
        if after[op].eval_roofline is not op_class.eval_roofline:
            raise CatalogueError(
                f"{flag}: its class {op} has a price of its own; the price of an op is the one that its manifest"
                " entry states: subclass the op's own class, without generated=True"
            )


def _references(implementations: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Returns the name of each op's reference: its first implementation."""
    found: dict[str, str] = {}
    for op, name in implementations:
        found.setdefault(op, name)
    return found


def _implementations(classes: Mapping[str, type[Op]]) -> dict[tuple[str, str], Implementation]:
    """Returns all implementations by op and name."""
    return {(op, each.name): each for op, op_class in classes.items() for each in op_class.implementations()}


def is_hand_written(op_class: type[Op]) -> bool:
    """Returns whether an op has a hand-written class. A generated class declares no roof."""
    return "eval_roofline" not in vars(op_class)


# ---- why ops cannot be loaded: where to look, and what to do


_GENERATED = "tileops_generated_"


def _plugin_error(flag: str, error: BaseException) -> str:
    """Returns why a plug-in cannot be imported."""
    said = f"{flag}: {errors.describe(error)}"
    missing = (isinstance(error, ModuleNotFoundError) and error.name) or ""
    if missing.startswith(_GENERATED):
        family = missing.removeprefix(_GENERATED)
        return f"{said}; this is family {family!r} of a manifest outside the project: name its folder with --spec_dir"
    return said


def _generated_error(generated_dir: str | None, error: Exception) -> str:
    """Returns why generated modules cannot be imported; `generated_dir` None means the project's.

    If a formula's module cannot be imported, the message names the manifest's line: the user did not write the generated
    file, which may be gone already.
    """
    if not isinstance(error, OpFormulaError):
        return f"{generated_dir or 'tileops.ops.generated'}: cannot load ops: {errors.describe(error)}"
    cause = error.__cause__
    if cause is None:
        return str(error)
    said = f"{error.place}: func: {error.module} cannot be imported: {errors.describe(cause)}"
    if isinstance(cause, ModuleNotFoundError) and cause.name and f"{error.module}.".startswith(f"{cause.name}."):
        folder = paths.user_path(".").absolute()
        package = cause.name.partition(".")[0]
        return (
            f"{said}; put it into {folder}, where the command runs, install it, or name by --root={package}=DIR the folder"
            f" in which {package} is"
        )
    return said
