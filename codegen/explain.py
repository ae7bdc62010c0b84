"""Prints how the calls of ops are checked and priced, and the class that is generated for each.

Exit status: 0 if every op is explained, 1 if one has defects, 2 if a flag is wrong or fits no op.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from absl import app, flags

from tileops.codegen.analysis import Analysis
from tileops.codegen.emit_class import emit_class
from tileops.codegen.imports import Outside
from tileops.codegen.pipeline import analyse_files, chosen_spec_files
from tileops.codegen.source_text import Lines
from tileops.manifest.check import Checked
from tileops.manifest.foreign import roots
from tileops.manifest.language import expr
from tileops.manifest.language.invariants import expect
from tileops.manifest.model import Signature
from tileops.manifest.plans import plan_steps
from tileops.manifest.plans.plan import Plan
from tileops.manifest.plans.trees import Path, Tree, paths
from tileops.tools.cli import command, globs, nearest, words

T = TypeVar("T")

_OP = flags.DEFINE_multi_string("op", None, "Globs of op names, comma-separated", required=True)
_SPEC_DIR = flags.DEFINE_multi_string("spec_dir", [], "Folder of spec files, at most one. Default: the project's")
_ROOT = flags.DEFINE_multi_string("root", [], roots.HELP)


def main(argv: Sequence[str]) -> int:
    """Explains the ops that have no defect; returns the exit status."""
    roots.use(roots.parse(_ROOT.value))
    analysed = analyse_files(chosen_spec_files(_SPEC_DIR.value))
    for glob in globs.of_flag(_OP.value):
        if not any(globs.fits(op, glob) for op in analysed.entries):
            instead = nearest.instead(glob, analysed.entries, nearest.rows(spec_dir=_SPEC_DIR.value, root=_ROOT.value))
            raise app.UsageError(f"--op={glob} fits no op; {instead}")
    status = command.EXIT_OK
    for op, (checked, analysis) in analysed.entries.items():
        if not globs.fits(op, *globs.of_flag(_OP.value)):
            continue
        if found := analysed.diagnostics.of(op):
            print("\n".join(map(str, found)), file=sys.stderr)
            status = command.EXIT_FOUND
        else:
            print("\n".join(explanation(checked, analysis)))
    return status


def explanation(checked: Checked, analysis: Analysis) -> list[str]:
    """Returns lines that explain one entry: the inference plan, the price, the generated class."""
    lines = [f"{checked.entry.op}  ({checked.entry.file}:{checked.entry.line})"]
    lines += ["", "inference plan:", *_plan(expect(checked.plan, Plan)), "", "price:"]
    if analysis.func:
        lines.append(f"  {analysis.func}(call)")
    if analysis.flops is not None:
        lines += _trees("flops", analysis.flops.trees, _source)
    if analysis.bytes is not None:
        lines += _trees("bytes", analysis.bytes.trees, _source)
    if analysis.traffic is not None:
        lines += _trees(
            "bytes, from the signature",
            analysis.traffic,
            lambda traffic, decided: (
                f"reads {_charged(checked.entry.signature, traffic.read, decided)};"
                f" writes {_charged(checked.entry.signature, traffic.written, decided)}"
            ),
        )
    emitted = Lines()
    emit_class(checked, analysis, Outside([checked.entry], [analysis.func] if analysis.func else []), emitted)
    code, _, cases = emitted.text().partition("    CASES = (\n")
    if cases:  # long, and the rows say the same
        code += f"    CASES = (...)  # {words.counted(len(checked.cases), 'case')} of its workload rows\n"
    return [*lines, "", "emitted class:", "", code]


def _plan(found: Plan) -> list[str]:
    """Returns the steps in order, by branch where there are several."""
    lines = [f"  {_step(step)}" for step in found.deciding]
    for segment in found.segments:
        for path, branch in paths(segment.tree):
            steps = [_step(step) for step in branch.steps] or ["nothing"]
            if path:
                lines.append(f"  if {_tests(path)}:")
            lines += [f"{'    ' if path else '  '}{step}" for step in steps]
    return lines


def _tests(path: Path) -> str:
    """Returns the tests that lead to a leaf."""
    return ", ".join(f"{one.key} = {value}" for one, value in path)


def _source(node: expr.Expr, decided: Mapping[str, Any]) -> str:
    """Returns a formula's leaf as text."""
    del decided
    return expr.to_source(node)


def _charged(signature: Signature, names: Sequence[str], decided: Mapping[str, Any]) -> str:
    """Returns the tensors that a leaf charges, without absent ones. Those that may be absent are marked."""
    said = []
    for name in names:
        is_there = decided.get(f"present({name})")
        if is_there is not False:
            may_be_absent = is_there is None and signature.tensors[name].may_be_absent
            said.append(f"{name} if present" if may_be_absent else name)
    return ", ".join(said) or "nothing"


def _trees(name: str, trees: Sequence[Tree[T]], show: Callable[[T, Mapping[str, Any]], str]) -> list[str]:
    """Returns a line per leaf of each tree. Several trees add up."""
    added = ", added up" if len(trees) > 1 else ""
    lines = []
    for path, value in (leaf for tree in trees for leaf in paths(tree)):
        condition = f" if {_tests(path)}" if path else ""
        lines.append(f"  {name}{added}{condition}: {show(value, {one.key: value for one, value in path})}")
    return lines


def _step(step: plan_steps.Step) -> str:
    """Returns a step as text: what it solves (`:=`) or compares."""
    if isinstance(step, plan_steps.Rank):
        axes = "axis" if (count := _length(step.least)) == "1" else "axes"
        return f"{step.tensor} has {'at least ' if step.open else ''}{count} {axes}, for {step.term}"
    if isinstance(step, plan_steps.SolveDType):
        return f"{step.index} := dtype of {step.tensor}, one of {', '.join(step.allowed)}"
    if isinstance(step, plan_steps.CheckDType):
        return f"dtype of {step.tensor} is {expr.to_source(step.term)}"
    if isinstance(step, plan_steps.SolveAxis):
        term = expr.to_source(step.term)
        return f"{step.index} := {_axis(step)} of {step.tensor}" + (f", which is {term}" if term != step.index else "")
    if isinstance(step, plan_steps.SolveRun):
        return f"{step.index} := the axes of {step.tensor} that no other term takes"
    if isinstance(step, plan_steps.SolveLet):
        return f"{step.name} := {expr.to_source(step.term)}"
    if isinstance(step, plan_steps.CheckRun):
        return f"the axes of {step.tensor} from {_axis(step)} on are *{expr.to_source(step.term)}"
    return f"{_axis(step)} of {step.tensor} is {expr.to_source(step.term)}"


def _axis(step: plan_steps.SolveAxis | plan_steps.CheckAxis | plan_steps.CheckRun) -> str:
    """Returns an axis as text, as a shape is indexed."""
    at = _length(step.at)
    if not step.from_back:
        return f"axis {at}"
    return f"axis -({at})" if " + " in at else f"axis -{at}"


def _length(offset: plan_steps.Offset) -> str:
    """Returns the number of axes as text."""
    runs = [f"len({expr.to_source(run)})" for run in offset.runs]
    return " + ".join([str(offset.axes)] * (offset.axes > 0 or not runs) + runs)


if __name__ == "__main__":
    command.run(main)
