"""Batches of random entries: one spec file, one emitted module, and everything held against the models."""

from __future__ import annotations

import dataclasses
import pathlib
import random
import sys
import tempfile
import types
from typing import Any

import yaml

from tileops.codegen import pipeline
from tileops.manifest.reading import loader
from tileops.ops.op import Op
from tileops.tests.codegen.random_checks import MismatchError, check_entry
from tileops.tests.codegen.random_draw import Draw
from tileops.tests.codegen.random_entries import entry
from tileops.tests.codegen.random_faults import fault
from tileops.tests.codegen.random_model import Model
from tileops.tests.codegen.random_rows import FAMILY
from tileops.tests.codegen.random_types import types_yaml, use_foreign_formulas

BATCH = 40


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):
    """Writes out what stands twice; the language has no anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


@dataclasses.dataclass
class Outcome:
    """What a batch found: failures as (entry, message), and how often each feature and each check occurred."""

    failures: list[tuple[Model, str]] = dataclasses.field(default_factory=list)
    features: dict[str, int] = dataclasses.field(default_factory=dict)
    checks: dict[str, int] = dataclasses.field(default_factory=dict)
    entries: int = 0

    def add(self, other: Outcome) -> None:
        """Take in another batch's."""
        self.failures += other.failures
        self.entries += other.entries
        for mine, theirs in ((self.features, other.features), (self.checks, other.checks)):
            for name, count in theirs.items():
                mine[name] = mine.get(name, 0) + count


def dump(entries: dict[str, Any]) -> str:
    """The spec file of the entries."""
    return yaml.dump(entries, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000)


def run_batch(source: random.Random, count: int = BATCH) -> Outcome:
    """Draw entries, put them through the validator, the analysis and emission, import them and check every call."""
    use_foreign_formulas()
    draw = Draw(source)
    outcome = Outcome(features=draw.features, entries=count)
    models = [entry(draw, f"R{at}FwdOp") for at in range(count)]
    sums = draw.chance(50)
    draw.use("algebraic types under adts" if sums else "algebraic types by class")
    for model in models:
        model.sums = sums
    analysed = _analysed({model.op: model.yaml for model in models}, sums)
    faulty = {found.op for found in analysed.diagnostics}
    for model in models:
        if model.op in faulty:
            said = "; ".join(str(found) for found in analysed.diagnostics if found.op == model.op)
            outcome.failures.append((model, f"a defect in a well-formed entry: {said}"))
    clean = [model for model in models if model.op not in faulty]
    classes = _import(pipeline.Analysed({m.op: analysed.entries[m.op] for m in clean}, analysed.diagnostics))
    for model in clean:
        try:
            check_entry(model, classes[model.op], draw, outcome.checks)
        except MismatchError as error:
            outcome.failures.append((model, str(error)))
    _check_faults(clean, draw, outcome)
    return outcome


def _check_faults(models: list[Model], draw: Draw, outcome: Outcome) -> None:
    """Gives some entries a row that does not fit: one defect of that row, and one more per further rule it breaks."""
    chosen = ((model, fault(model, draw)) for model in models if draw.chance(25))
    wrong = {model.op: (model, found) for model, found in chosen if found is not None}
    sums = any(model.sums for model in models)
    said = list(_analysed({op: found[1] for op, (_, found) in wrong.items()}, sums).diagnostics) if wrong else []
    for op, (model, (what, written, code)) in wrong.items():
        row = f"workloads[{len(written['workloads']) - 1}]"
        found = [one for one in said if one.op == op]
        are_of_the_row = bool(found) and all(one.code == code and f": {row}" in str(one) for one in found)
        if are_of_the_row and (len(found) == 1 or all(": the rule " in str(one) for one in found)):
            outcome.checks[f"row refused: {what}"] = outcome.checks.get(f"row refused: {what}", 0) + 1
        else:
            message = f"a row with {what} must give {code} at {row} alone: {[str(one) for one in found]}"
            outcome.failures.append((dataclasses.replace(model, yaml=written), message))


def _analysed(entries: dict[str, Any], sums: bool) -> pipeline.Analysed:
    """The entries as files on a disk, read back and analysed."""
    with tempfile.TemporaryDirectory() as folder:
        spec = pathlib.Path(folder)
        (spec / "types.yaml").write_text(yaml.safe_dump(types_yaml(sums)))
        (spec / f"{FAMILY}.yaml").write_text(dump(entries), encoding="utf-8")
        return pipeline.analyse_files(loader.spec_files(folder))


def _import(analysed: pipeline.Analysed) -> dict[str, type[Op]]:
    """The classes of the entries, through the source that emission writes."""
    module = types.ModuleType("tileops_random_entries")
    sys.modules[module.__name__] = module
    for family, text in analysed.modules().items():
        exec(compile(text, f"{family}.py", "exec"), module.__dict__)
    return {name: value for name, value in vars(module).items() if isinstance(value, type) and issubclass(value, Op)}
