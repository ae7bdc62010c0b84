"""Loads, checks and analyses spec files, for all commands of codegen."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence

from absl import app

from tileops.codegen.analysis import Analysis
from tileops.codegen.emission import module_source
from tileops.codegen.memory import Memory
from tileops.manifest.check import Checked
from tileops.manifest.checks.stages import check_stages
from tileops.manifest.diagnostics import Diagnostics
from tileops.manifest.language import effort
from tileops.manifest.reading import loader
from tileops.tools.cli import paths


@dataclasses.dataclass(frozen=True)
class Unreached:
    """A check of an entry that was not made. `reason` says which, and names the missing fact."""

    file: str
    line: int
    op: str
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.op}: not judged: {self.reason}"


@dataclasses.dataclass(frozen=True)
class Analysed:
    """A manifest with every entry checked and analysed, and every defect."""

    entries: dict[str, tuple[Checked, Analysis]]
    diagnostics: Diagnostics

    @property
    def unreached(self) -> list[Unreached]:
        """Returns the checks that were not made because something that they need has a defect."""
        return [
            Unreached(checked.entry.file, checked.entry.line, op, reason)
            for op, (checked, analysis) in self.entries.items()
            for reason in (*checked.unreached, *analysis.unreached)
        ]

    def modules(self) -> dict[str, str]:
        """Returns the source of each family's module, by family. Call it only if there is no diagnostic."""
        families: dict[str, list[tuple[Checked, Analysis]]] = {}
        for checked, analysis in self.entries.values():
            families.setdefault(checked.entry.family, []).append((checked, analysis))
        return {family: module_source(family, entries) for family, entries in families.items()}


def chosen_spec_files(spec_dirs: Sequence[str] = ()) -> list[str]:
    """Returns the spec files of the folder that the user names by `--spec_dir`, else of the project.

    Raises:
      app.UsageError: several folders are named, the folder does not exist, or it holds no spec file.
    """
    if len(spec_dirs) > 1:
        raise app.UsageError(f"--spec_dir takes one folder, and {len(spec_dirs)} are named: {', '.join(spec_dirs)}")
    try:
        return loader.spec_files(str(paths.user_path(spec_dirs[0])) if spec_dirs else _project())
    except FileNotFoundError as error:
        raise app.UsageError(f"--spec_dir={error}" if spec_dirs else str(error)) from None


def _project() -> str:
    return str(paths.data_path("manifest", "spec"))


def analyse_files(files: list[str], complete: bool = True, memory: Memory | None = None) -> Analysed:
    """Returns loaded, checked and analysed spec files. Bad content raises nothing.

    Args:
      files: the spec files.
      complete: these are a whole manifest, whose composites run only its own ops and the project's.
      memory: remembers entries from one call to the next. Entries that did not change are then not checked again.
    """
    manifest = loader.load(files)
    memory = memory or Memory()
    entries = {}
    efforts: dict[str, effort.FileEffort] = collections.defaultdict(effort.FileEffort)
    for op, entry in manifest.entries.items():
        with efforts[entry.file].entry() as allowed:
            entries[op] = memory.check(entry, manifest.diagnostics, allowed)
    others = (lambda: loader.op_names(loader.spec_files(_project()))) if complete else None
    check_stages(manifest.entries.values(), manifest.diagnostics, others)
    return Analysed(entries, manifest.diagnostics)
