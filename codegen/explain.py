"""//codegen:explain: what the analysis decided for one op, and the class that emission writes from it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from absl import app, flags

from tileops.codegen.analysis import Analysis
from tileops.codegen.emit_class import emit_class
from tileops.codegen.outside import Outside
from tileops.codegen.pipeline import analyse_files, chosen_spec_files
from tileops.codegen.source_text import Lines
from tileops.manifest import expr, plan
from tileops.manifest.apart import Apart
from tileops.manifest.check import Checked
from tileops.manifest.model import Signature
from tileops.manifest.points import Parts, Split
from tileops.perf import command, nearest

_OP = flags.DEFINE_string("op", None, "the op to explain", required=True)
_SPEC_DIR = flags.DEFINE_multi_string("spec_dir", [], "folder of spec files (default: the project's); one alone")


def main(argv: list[str]) -> int:
    """Exit status: 0 explained, 1 the op has defects, 2 no such op or bad usage."""
    analysed = analyse_files(chosen_spec_files(_SPEC_DIR.value))
    if _OP.value not in analysed.entries:
        raise app.UsageError(f"no op {_OP.value!r}; {nearest.instead(_OP.value, analysed.entries, nearest.rows(spec_dir=_SPEC_DIR.value))}")
    found = analysed.diagnostics.of(_OP.value)
    for diagnostic in found:
        print(diagnostic, file=sys.stderr)
    if found:
        return 1
    checked, analysis = analysed.entries[_OP.value]
    print("\n".join(explanation(checked, analysis)))
    return 0


def explanation(checked: Checked, analysis: Analysis) -> list[str]:
    """Lines that explain one entry: points with their inference plans, the price, the emitted class."""
    lines = [f"{checked.entry.op}  ({checked.entry.file}:{checked.entry.line})"]
    for point, made in checked.plans:
        lines += ["", f"inference plan where {point}:", *(f"  {_step(step)}" for step in made.steps)]
    if checked.apart is not None:
        lines += _apart(checked.apart)
    lines += ["", "price:"]
    if analysis.func:
        lines.append(f"  {analysis.func}(call)")
    if analysis.flops is not None:
        lines += _tree("flops", analysis.flops.tree, _source)
    if analysis.bytes is not None:
        lines += _tree("bytes", analysis.bytes.tree, _source)
    if analysis.traffic is not None:
        lines += _tree(
            "bytes, from the signature", analysis.traffic,
            lambda traffic, decided: (
                f"reads {_charged(checked.entry.signature, traffic.read, decided)};"
                f" writes {_charged(checked.entry.signature, traffic.written, decided)}"
            ),
        )
    emitted = Lines()
    emit_class(checked, analysis, Outside([checked.entry], [analysis.func] if analysis.func else []), emitted)
    code, _, cases = emitted.text().partition("    CASES = (\n")
    if cases:  # long, and what the rows say already
        code += f"    CASES = (...)  # the {len(checked.cases)} cases of its workload rows\n"
    return [*lines, "", "emitted class:", "", code]


def _apart(found: Apart) -> list[str]:
    """The plan of many points: what each of a part's points does, those that do the same once."""
    lines = ["", "inference plan, part by part:", *(f"  {_step(step)}" for step in found.deciding)]
    for segment in found.segments:
        places: dict[tuple[plan.Step, ...], list[str]] = {}
        for point, steps in segment.branches:
            places.setdefault(steps, []).append(str(point))
        for steps, points in places.items():
            where = "in every call" if len(places) == 1 else f"where {' or '.join(points[:4])}{' or ...' if len(points) > 4 else ''}"
            lines += [f"  {where}:", *(f"    {_step(step)}" for step in steps)]
    return lines


def _source(node: expr.Expr, decided: Mapping[str, Any]) -> str:
    """A formula's leaf."""
    del decided
    return expr.to_source(node)


def _charged(signature: Signature, names: Sequence[str], decided: Mapping[str, Any]) -> str:
    """Tensors that are charged at a leaf: not those that are absent there; those that may be are said to."""
    said = []
    for name in names:
        is_there = decided.get(f"present({name})")
        if is_there is not False:
            may_be_absent = is_there is None and (signature.tensors[name].optional or signature.tensors[name].when is not None)
            said.append(f"{name} if present" if may_be_absent else name)
    return ", ".join(said) or "nothing"


def _tree(
    name: str, node: Any, show: Callable[[Any, Mapping[str, Any]], str], decided: Mapping[str, Any] = MappingProxyType({})
) -> list[str]:
    """A line for each leaf of a decision tree, or of each that adds up; `decided` are the branches that lead to it."""
    if isinstance(node, Parts):
        return [line for tree in node.trees for line in _tree(f"{name}, added up", tree, show, decided)]
    if not isinstance(node, Split):
        where = ", ".join(f"{key} = {value}" for key, value in decided.items())
        return [f"  {name}{f' where {where}' if where else ''}: {show(node, decided)}"]
    lines = []
    for value, branch in node.branches:
        lines += _tree(name, branch, show, {**decided, node.discriminant.key: value})
    return lines


def _step(step: plan.Step) -> str:
    """What a step finds out (`:=`) or compares with what is known by then."""
    if isinstance(step, plan.Rank):
        axes = "axis" if (count := _length(step.least)) == "1" else "axes"
        return f"{step.tensor} has {'at least ' if step.open else ''}{count} {axes}, for {step.term}"
    if isinstance(step, plan.SolveDType):
        return f"{step.index} := dtype of {step.tensor}, one of {', '.join(step.allowed)}"
    if isinstance(step, plan.CheckDType):
        return f"dtype of {step.tensor} is {expr.to_source(step.term)}"
    if isinstance(step, plan.SolveAxis):
        term = expr.to_source(step.term)
        return f"{step.index} := {_axis(step)} of {step.tensor}" + (f", which is {term}" if term != step.index else "")
    if isinstance(step, plan.SolveRun):
        return f"{step.index} := the axes of {step.tensor} that no other term takes"
    if isinstance(step, plan.SolveLet):
        return f"{step.name} := {expr.to_source(step.term)}"
    if isinstance(step, plan.CheckRun):
        return f"the axes of {step.tensor} from {_axis(step)} on are *{expr.to_source(step.term)}"
    return f"{_axis(step)} of {step.tensor} is {expr.to_source(step.term)}"


def _axis(step: plan.SolveAxis | plan.CheckAxis | plan.CheckRun) -> str:
    """Which axis, as a tensor's shape is indexed."""
    at = _length(step.at)
    if not step.from_back:
        return f"axis {at}"
    return f"axis -({at})" if " + " in at else f"axis -{at}"


def _length(offset: plan.Offset) -> str:
    """How many axes."""
    runs = [f"len({expr.to_source(run)})" for run in offset.runs]
    return " + ".join([str(offset.axes)] * (offset.axes > 0 or not runs) + runs)


if __name__ == "__main__":
    command.run(main)
