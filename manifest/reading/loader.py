"""Loads spec files, each a mapping from op name to entry, and types.yaml."""

from __future__ import annotations

import dataclasses
import keyword
import pathlib

from tileops.manifest.diagnostics import Diagnostics
from tileops.manifest.language import kinds
from tileops.manifest.model import Entry
from tileops.manifest.reading import source
from tileops.manifest.reading.forms import FAMILY
from tileops.manifest.reading.parse import parse_entry
from tileops.manifest.reading.parse_types import parse_adts
from tileops.tools.cli import paths


@dataclasses.dataclass(frozen=True)
class Manifest:
    """The entries by op name, in the order of files and lines, and every defect found while reading them."""

    entries: dict[str, Entry]
    diagnostics: Diagnostics


def spec_files(spec_dir: str) -> list[str]:
    """Returns the spec files of a folder, sorted. Raises FileNotFoundError if the folder has no spec file or does not exist."""
    if why := paths.not_a_folder(spec_dir):
        raise FileNotFoundError(f"{spec_dir}: {why}")
    files = sorted(str(path) for path in pathlib.Path(spec_dir).glob("*.yaml"))
    if not files:
        raise FileNotFoundError(f"{spec_dir}: no spec file (*.yaml)")
    return files


FAMILIES = "families"  # the module that lists the others
TYPES_FILE = "types.yaml"
MAX_ENTRIES = 1000  # of one file, which holds a family


def load(files: list[str]) -> Manifest:
    """Returns the entries and defects of spec files; a defect names its file as given. Bad content raises nothing."""
    diagnostics = Diagnostics()
    entries: dict[str, Entry] = {}
    adts: dict[str, kinds.Adt] | None = {}
    for path in files:
        if pathlib.PurePath(path).name == TYPES_FILE:
            root = source.read(path, pathlib.Path(path).as_posix(), diagnostics)
            adts = parse_adts(root, pathlib.Path(path).as_posix(), diagnostics)
    for path in (path for path in files if pathlib.PurePath(path).name != TYPES_FILE):
        for entry in _load_file(path, adts, diagnostics):
            if entry.op in entries:
                first = entries[entry.op]
                entry.report(diagnostics, "", "M015", f"the op is already in {first.file}:{first.line}")
            else:
                entries[entry.op] = entry
    return Manifest(entries, diagnostics)


def op_names(files: list[str]) -> list[str]:
    """Returns the names of the ops in spec files, and reports no defect of them."""
    roots = (source.read(path, path, Diagnostics()) for path in files if pathlib.PurePath(path).name != TYPES_FILE)
    return [op for root in roots if isinstance(root, source.Mapping) for op in root.entries if isinstance(op, str)]


def _load_file(path: str, adts: dict[str, kinds.Adt] | None, diagnostics: Diagnostics) -> list[Entry]:
    file = pathlib.Path(path).as_posix()
    root = source.read(path, file, diagnostics)
    if root is None:
        return []
    if isinstance(root, source.Mapping) and root.partial and not root.entries:
        return []
    if not isinstance(root, source.Mapping) or not root.entries:
        diagnostics.add_of_file(file, root.line, "M012", "must be a mapping from op name to entry, with at least one")
        return []
    stem = pathlib.Path(path).stem
    if not FAMILY.fullmatch(stem):
        diagnostics.add_of_file(file, 1, "M016", f"the file's name must be <family>[_<shard>].yaml, not {stem!r}")
    elif keyword.iskeyword(stem) or stem == FAMILIES:
        why = (
            "the build writes a module of that name itself"
            if stem == FAMILIES
            else "a Python keyword cannot name a module"
        )
        diagnostics.add_of_file(file, 1, "M016", f"{stem!r} is no name of a family: {why}")
    if len(root.entries) > MAX_ENTRIES:
        diagnostics.add_of_file(
            file, root.line, "M003", f"{len(root.entries)} entries in one file; at most {MAX_ENTRIES} are read"
        )
        return []
    entries = []
    for op, node in root.entries.items():
        line = root.key_lines[op]
        if op in root.doubtful:
            continue
        if not isinstance(op, str):
            diagnostics.add_of_file(file, line, "M013", f"{op!r} is no op name; write {{Pascal}}[Fwd|Bwd]Op")
            continue
        entry = parse_entry(op, node, line, file, diagnostics, adts)
        if entry.family and stem != entry.family and not stem.startswith(entry.family + "_"):
            entry.report(diagnostics, "family", "M016", f"is {entry.family!r} in a file of {stem!r}")
        entries.append(entry)
    return entries
