"""The ops that a run measures: the project's, or those of a manifest outside it, with what plugins add."""

from __future__ import annotations

import dataclasses

from tileops.ops import catalogue
from tileops.ops.op import Op
from tileops.perf import bench_integrity, bench_torch_state, paths


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sources:
    """Where ops come from; picklable, so that every process of a run loads the same ones.

    Attributes:
      generated_dir: folder of generated modules that stand in for the project's; None for the project's own.
      plugins: modules by dotted name, or absolute paths of .py files, imported in this order.
    """

    generated_dir: str | None = None
    plugins: tuple[str, ...] = ()


class CatalogueError(Exception):
    """Ops could not be loaded; the message says which file or module, and why."""


def load(sources: Sources) -> dict[str, type[Op]]:
    """Op classes by entry name. A plugin's own class of an entry's name stands in for the generated one.

    Raises:
      CatalogueError: a generated module or a plugin cannot be imported, or a plugin replaced code of the project's
        or left a process-wide setting of PyTorch changed, which every implementation would be measured by.
    """
    if sources.generated_dir is not None or sources.plugins:
        paths.make_user_modules_importable()
    try:
        classes = catalogue.load(sources.generated_dir)
    except Exception as error:
        where = sources.generated_dir or "tileops.ops.generated"
        raise CatalogueError(f"{where}: cannot load ops: {type(error).__name__}: {error}") from error
    guard = bench_integrity.Guard(classes.values(), with_implementations=False) if sources.plugins else None
    settings = bench_torch_state.read()
    for plugin in sources.plugins:
        try:
            module = catalogue.import_plugin(plugin)
        except (Exception, SystemExit) as error:  # a script that was not written to be imported may end itself
            raise CatalogueError(f"--plugin={plugin}: {type(error).__name__}: {error}") from error
        classes |= catalogue.classes_of([module])
        if names := guard.changed():
            raise CatalogueError(f"--plugin={plugin}: {bench_integrity.describe(names)}")
        if said := bench_torch_state.describe(settings, bench_torch_state.read()):
            raise CatalogueError(f"--plugin={plugin}: on import, {said}")
    return classes


def is_hand_written(op_class: type[Op]) -> bool:
    """Whether an entry has a class of its own beside the generated one, which alone declares a roof."""
    return "eval_roofline" not in vars(op_class)
