"""Names that rows had in earlier versions, and what they are called today: `renames.toml`, loaded and applied.

A table per op, under the name that the op had (for an op that keeps its name: that name):

    [ops.OldFwdOp]
    name = "NewFwdOp"                     # left out if the op keeps its name
    sets = {approximate = "tanh"}         # parameters of today's op that were not parameters then, as text
    tensors = {x = "input"}
    indices = {B = "M"}                   # indices and dtype indices
    params = {dtype = "out_dtype"}

    [ops.OldFwdOp.labels]                 # of every case of a label; its id keeps what follows the label
    prefill = "llama-8b-prefill"

    [ops.OldFwdOp.cases]                  # of one case; goes before its label's
    prefill-float64 = {case_id = "small-float64", label = "small"}

`[families]` renames families, of whatever op. Values are kept as they were recorded. The map changes nothing when it is
applied a second time.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tileops.perf.roof import measured_time
from tileops.proto import benchmark_pb2
from tileops.tools.cli import errors, paths, words

_FILE = ("perf", "runs", "renames.toml")
# A run with one of these took its entries from elsewhere, and their names with them.
_OTHER_ENTRIES = ("--spec_dir=", "--generated_dir=")


class RenamesError(errors.UserError):
    """A map that cannot be used, or records that it would give one name; the message says which."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class OpRenames:
    """What one op, and what belongs to it, is called today.

    Attributes:
      name: The op.
      sets: Values of parameters that the op did not have, by name.
      tensors, indices, params: New names by old ones.
      labels: New labels by old ones.
      cases: New case id and label by old case id.
      earlier: The same, of case ids that are another call's today. They are renamed only in records that have an old
        name of a tensor, index or parameter too.
    """

    name: str
    sets: Mapping[str, str]
    tensors: Mapping[str, str]
    indices: Mapping[str, str]
    params: Mapping[str, str]
    labels: Mapping[str, str]
    cases: Mapping[str, tuple[str, str]]
    earlier: Mapping[str, tuple[str, str]]

    def case(self, case_id: str, label: str = "", is_earlier: bool = False) -> tuple[str, str]:
        """Returns a case's id and label of today.

        Args:
          case_id: As it was.
          label: As it was; "" if it is not known, and then the longest label that the id begins with is it.
          is_earlier: Whether the case is known to be of an earlier version.
        """
        if is_earlier and case_id in self.earlier:
            return self.earlier[case_id]
        if case_id in self.cases:
            return self.cases[case_id]
        if not label:
            begins = [old for old in self.labels if case_id == old or case_id.startswith(f"{old}-")]
            label = max(begins, key=len, default="")
        if label not in self.labels:
            return case_id, label
        new = self.labels[label]
        return (new + case_id.removeprefix(label) if case_id.startswith(label) else case_id), new


@dataclasses.dataclass(frozen=True, kw_only=True)
class Renames:
    """The map.

    Attributes:
      families: New names by old ones.
      ops: By the name that the op had.
    """

    families: Mapping[str, str]
    ops: Mapping[str, OpRenames]

    def row(self, op: str, case_id: str) -> tuple[str, str]:
        """Returns op and case id of today."""
        known = self.ops.get(op)
        return (op, case_id) if known is None else (known.name, known.case(case_id)[0])

    def label(self, op: str, label: str, dtype: str) -> tuple[str, str]:
        """Returns op and label of today, of cases in which all operands have the dtype."""
        known = self.ops.get(op)
        if known is None:
            return op, label
        moved = [
            new for old, (_, new) in known.cases.items() if set(old.removeprefix(f"{label}-").split("-")) == {dtype}
        ]
        return known.name, moved[0] if moved else known.labels.get(label, label)

    def rename(self, record: benchmark_pb2.BenchmarkRecord) -> bool:
        """Gives a record today's names; returns whether it had others."""
        was = _key(record), record.family
        record.family = self.families.get(record.family, record.family)
        known = self.ops.get(record.op)
        changed = False
        if known is not None:
            record.op = known.name
            changed = _rename_keys(record.bindings, {**known.indices, **known.params})
            changed |= _rename_keys(record.dtypes, {**known.tensors, **known.indices})
            record.case_id, record.label = known.case(record.case_id, record.label, is_earlier=changed)
            for name, value in known.sets.items():
                record.bindings[name] = value
        return changed or was != (_key(record), record.family)


def applies(header: benchmark_pb2.RunHeader) -> bool:
    """Whether names of a run are the project's: it took its entries from nowhere else."""
    return not any(plugin.name.startswith(_OTHER_ENTRIES) for plugin in header.plugins)


def counted(count: int, noun: str = "record") -> str:
    """Returns in words that so many records, or what `noun` calls them, were read under today's names."""
    return f"{words.counted(count, noun)} with names of an earlier version, read as today's ({'/'.join(_FILE)})"


class Renaming:
    """Records given today's names, with what is to be said of them.

    Attributes:
      renamed: Records that had other names. A count.
      kept: Records of which the map names nothing. A count.
    """

    def __init__(self, names: Renames) -> None:
        self.renamed = self.kept = 0
        self._names = names

    def __call__(self, records: Iterable[benchmark_pb2.BenchmarkRecord]) -> Iterator[benchmark_pb2.BenchmarkRecord]:
        """Yields the records under today's names.

        Raises:
          RenamesError: Two of them that succeeded had different names, and would have one.
        """
        names = {known.name for known in self._names.ops.values()}
        had: dict[_Key, _Key] = {}
        for record in records:
            old = _key(record)
            if self._names.rename(record):
                self.renamed += 1
            else:
                self.kept += 1
            # An error before a success is what `--resume` leaves.
            if record.op in names and record.status in measured_time.SUCCESSFUL_STATUSES:
                first = had.setdefault(_key(record), old)
                if first != old:
                    raise RenamesError(
                        f"{' '.join(first)} and {' '.join(old)} are one row under today's names,"
                        f" {' '.join(_key(record))}; take one of them out"
                    )
            yield record

    def __str__(self) -> str:
        return (
            f"{words.counted(self.renamed, 'record')} renamed; {words.counted(self.kept, 'record')} kept: the map has"
            " no entry for them"
        )


@functools.cache
def load() -> Renames:
    """Returns the project's map."""
    return read(paths.data_path(*_FILE))


def read(path: pathlib.Path) -> Renames:
    """Returns the map of a file.

    Raises:
      RenamesError: It is no map, or one that changes names again when it is applied twice.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        _check_keys("the file", tables, ("families", "ops"))
        families = _names("families", tables.get("families", {}))
        ops = {op: _op(op, table) for op, table in tables.get("ops", {}).items()}
        _check_once("families", families, families.values())
        _check_once(
            "ops", {op for op, known in ops.items() if known.name != op}, (known.name for known in ops.values())
        )
        _check_alone(ops)
    except (OSError, ValueError) as error:
        raise RenamesError(f"{path}: {error}") from error
    return Renames(families=families, ops=ops)


_Key = tuple[str, str, str]


def _key(record: benchmark_pb2.BenchmarkRecord) -> _Key:
    return record.op, record.case_id, record.implementation


def _rename_keys(fields: Any, names: Mapping[str, str]) -> bool:
    """Renames keys of a map field, all at once: two may change places. Returns whether there were any."""
    found = {old: fields[old] for old in names if old in fields}
    for old in found:
        del fields[old]
    for old, value in found.items():
        fields[names[old]] = value
    return bool(found)


def _op(op: str, table: Any) -> OpRenames:
    place = f"ops.{op}"
    if not isinstance(table, dict):
        raise ValueError(f"{place} is no table")
    kinds = ("sets", "tensors", "indices", "params", "labels")
    _check_keys(place, table, ("name", *kinds, "cases", "earlier"))
    name = _names(place, {"name": table.get("name", op)})["name"]
    maps = {kind: _names(f"{place}.{kind}", table.get(kind, {})) for kind in kinds}
    cases, earlier = (_cases(f"{place}.{kind}", table.get(kind, {})) for kind in ("cases", "earlier"))
    if name == op:
        for kind in ("tensors", "indices", "params", "labels"):
            _check_once(f"{place}.{kind}", maps[kind], maps[kind].values())
        _check_once(f"{place}.cases", cases, (case_id for case_id, _ in cases.values()))
    return OpRenames(name=name, cases=cases, earlier=earlier, **maps)


def _cases(place: str, table: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Returns new case id and label by old case id."""
    cases = {}
    for old, new in table.items():
        new = _names(f"{place}.{old}", new)
        if new.keys() != {"case_id", "label"} or not new["case_id"].startswith(new["label"]):
            raise ValueError(f"{place}.{old} is not {{case_id, label}}, the id beginning with the label")
        cases[old] = new["case_id"], new["label"]
    return cases


def _names(place: str, table: Any) -> dict[str, str]:
    if not isinstance(table, dict) or not all(isinstance(name, str) and name for name in table.values()):
        raise ValueError(f"{place} is no table of names")
    return table


def _check_keys(place: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
    for key in table:
        if key not in known:
            raise ValueError(f"{place} has {key!r}; it may have {', '.join(known)}")


def _check_once(place: str, old: Iterable[str], new: Iterable[str]) -> None:
    """Raises ValueError if a name is both old and new: a second application would change it again."""
    for name in set(old).intersection(new):
        raise ValueError(f"{place}: {name!r} is an old name and a new one")


def _check_alone(ops: Mapping[str, OpRenames]) -> None:
    """Raises ValueError if two cases get one id."""
    owners: dict[tuple[str, str], str] = {}
    for op, known in ops.items():
        for old, (case_id, _) in known.cases.items():
            owner = owners.setdefault((known.name, case_id), f"{op} {old}")
            if owner != f"{op} {old}":
                raise ValueError(f"{owner} and {op} {old} both become {known.name} {case_id}")
