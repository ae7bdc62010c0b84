"""The ops that a run measures: the project's, or those of a manifest outside it, with what plugins add."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tileops.ops import catalogue
from tileops.ops.implementations import Implementation
from tileops.ops.op import Op
from tileops.perf import bench_integrity, bench_plugins, bench_settings, bench_threads, paths


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


class CatalogueError(Exception):
    """Ops could not be loaded; the message says which file or module, and why."""


def load(sources: Sources) -> dict[str, type[Op]]:
    """Op classes by entry name. A plugin's own class of an entry's name stands in for the generated one.

    Raises:
      CatalogueError: a generated module or a plugin cannot be imported, or a plugin replaced code of the project's,
        left a process-wide setting changed or a thread that computes, by which every implementation would be measured,
        took an implementation's name from another plugin, or was changed since the run began.
    """
    if sources.generated_dir is not None or sources.plugins:
        paths.make_user_modules_importable()
    try:
        classes = catalogue.load(sources.generated_dir)
    except Exception as error:
        where = sources.generated_dir or "tileops.ops.generated"
        raise CatalogueError(f"{where}: cannot load ops: {type(error).__name__}: {error}") from error
    guard = bench_integrity.Guard(classes.values(), with_implementations=False) if sources.plugins else None
    settings, threads = bench_settings.read(), bench_threads.alive()
    registered: dict[tuple[str, str], str] = {}
    for plugin in sources.plugins:
        before = _implementations(classes)
        try:
            module = catalogue.import_plugin(plugin)
        except (Exception, SystemExit) as error:  # a script that was not written to be imported may end itself
            raise CatalogueError(f"--plugin={plugin}: {type(error).__name__}: {error}") from error
        classes |= catalogue.classes_of([module])
        if names := guard.changed():
            raise CatalogueError(f"--plugin={plugin}: {bench_integrity.describe(names)}")
        if said := bench_settings.describe(settings, bench_settings.read()):
            raise CatalogueError(f"--plugin={plugin}: on import, {said}")
        if names := bench_threads.busy(threads):
            raise CatalogueError(f"--plugin={plugin}: threads that its import started compute on ({', '.join(names)})")
        _refuse_taken_names(plugin, before, _implementations(classes), registered)
    for file in sources.plugin_files:
        if file.is_changed():
            raise CatalogueError(
                f"{file.path} was changed while the run went on, whose header says what is in it; begin another run"
            )
    return classes


def _refuse_taken_names(
    plugin: str,
    before: Mapping[tuple[str, str], Implementation],
    after: Mapping[tuple[str, str], Implementation],
    registered: dict[tuple[str, str], str],
) -> None:
    """Raises CatalogueError where a plugin gave an implementation the name of another plugin's; notes its own.

    Args:
      plugin: which was imported.
      before, after: every implementation before that and behind it.
      registered: by op and name the plugin whose implementation it is.
    """
    for key, found in after.items():
        if before.get(key) is not found and registered.setdefault(key, plugin) != plugin:
            op, name = key
            raise CatalogueError(
                f"--plugin={plugin}: its implementation {name!r} of {op} takes the place of the one of that name in"
                f" {registered[key]}; a record could be of either: give one of them another name"
            )


def _implementations(classes: Mapping[str, type[Op]]) -> dict[tuple[str, str], Implementation]:
    """Every implementation by op and name."""
    return {(op, each.name): each for op, op_class in classes.items() for each in op_class.implementations()}


def is_hand_written(op_class: type[Op]) -> bool:
    """Whether an entry has a class of its own beside the generated one, which alone declares a roof."""
    return "eval_roofline" not in vars(op_class)
