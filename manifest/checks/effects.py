"""Checks conditions of presence and effects, and outputs that are inputs."""

from __future__ import annotations

from tileops.manifest.checks import families
from tileops.manifest.diagnostics import Report
from tileops.manifest.language import expr
from tileops.manifest.language.invariants import expect
from tileops.manifest.language.text import shown
from tileops.manifest.model import Entry, Expression, Signature, Tensor
from tileops.manifest.plans.points import TooManyPointsError, discriminants, domain_restrictions, enumerate_points


def aliases(entry: Entry, unclear: set[str], report: Report) -> None:
    """Checks `alias` and `write_only`. `unclear` has the paths of tensors that have other defects."""
    for tensor in entry.signature.inputs.values():
        path = f"signature.inputs.{tensor.name}"
        if tensor.write_only and tensor.mutated is None and f"{path}.mutated" not in entry.malformed:
            report(f"{path}.write_only", "M050", "write_only needs `mutated`, true or a condition")
    _required_buffer(entry, report)
    taken: dict[str, str] = {}
    for output in entry.signature.outputs.values():
        source = f"signature.inputs.{output.alias}"
        if not output.alias or {source, f"{source}.mutated"} & entry.malformed:
            continue
        problem = _alias_problem(
            entry.signature, output, taken, bool(unclear & {source, f"signature.outputs.{output.name}"})
        )
        if problem:
            report(f"signature.outputs.{output.name}.alias", "M050", problem)
        taken.setdefault(output.alias, output.name)


def _required_buffer(entry: Entry, report: Report) -> None:
    """Checks that an input `out` is the storage of one output, and that no output has another buffer."""
    outputs = entry.signature.outputs
    if "out" not in entry.signature.inputs or any(path.startswith("signature.outputs") for path in entry.malformed):
        return
    buffered = [output.name for output in outputs.values() if output.buffer]
    for name in buffered:
        message = "the input 'out' is the buffer of this op; write `alias: out`"
        report(f"signature.outputs.{name}.buffer", "M050", message)
    if not buffered and not any(output.alias == "out" for output in outputs.values()):
        report("signature.inputs.out", "M050", "no output is this buffer; give one `alias: out`")


def _alias_problem(signature: Signature, output: Tensor, taken: dict[str, str], unclear: bool) -> str:
    source = signature.inputs.get(output.alias)
    if source is None:
        return f"{shown(output.alias)} is no input"
    if source.mutated is None:
        return f"the input {source.name!r} is never written, so an output cannot be this input"
    if output.buffer:
        return f"the output is the input {source.name!r} if that is written, so it takes no `buffer`"
    if source.name in taken:
        return f"the input {source.name!r} is the output {taken[source.name]!r} already"
    if not unclear and (source.dtype.expr, source.shape.expr) != (output.dtype.expr, output.shape.expr):
        return f"dtype and shape must be those of the input {source.name!r}"
    return ""


def conditions(entry: Entry, report: Report) -> None:
    """Checks that conditions of presence and effects read only discriminants, and differ between calls."""
    asked = {name: _asks_for(tensor) for name, tensor in entry.signature.tensors.items() if tensor.when is not None}
    circular = families.cycles(asked)
    for section, tensors in entry.signature.sections.items():
        for tensor in tensors.values():
            path = f"signature.{section}.{tensor.name}"
            if tensor.name in circular:
                report(
                    f"{path}.{_FIELD[section]}",
                    "M041",
                    "depends on its own presence, directly or through other tensors",
                )
            if circular and tensor.when is not None and _asks_for(tensor) & asked.keys():
                continue  # the condition is not known
            if tensor.when is not None:
                _condition(entry.signature, f"{path}.{_FIELD[section]}", tensor.when, "M052", report)
            if tensor.mutated is not None and tensor.mutated.text != "true":
                _condition(entry.signature, f"{path}.mutated", tensor.mutated, "M050", report)


_FIELD = {"params": "optional", "inputs": "optional", "outputs": "nullable"}


def _asks_for(tensor: Tensor) -> set[str]:
    """Returns the names whose presence decides the presence of a tensor."""
    when = expect(tensor.when, Expression).expr
    calls = (part for part in expr.walk(when) if isinstance(part, expr.Call) and part.function == "present")
    return {name for call in calls for name in expr.names(call)}


def _condition(signature: Signature, path: str, condition: Expression, constant: str, report: Report) -> None:
    finite = discriminants(signature, [condition.expr])
    unknown = [name for name in expr.names(condition.expr) if name not in {one.name for one in finite}]
    for name in unknown:
        report(path, "M052", f"{name!r} is no discriminant (a Bool or enum parameter, an algebraic value, a presence)")
    if unknown:
        return
    restrictions = [
        rule for rule in domain_restrictions(signature) if set(expr.names(rule)) <= {one.name for one in finite}
    ]
    try:
        found = {point.fold(condition.expr) for point in enumerate_points(finite, restrictions)}
    except TooManyPointsError:
        return  # which the inference plan, or the price, reports
    if not found <= {expr.Literal(True), expr.Literal(False)}:
        report(path, "M052", f"{shown(condition.text)} does not depend on finite facts of a call only; {_FINITE}")
    elif found == {expr.Literal(True)}:
        report(
            path, constant, f"{shown(condition.text)} holds in every call that the rules accept; {_ALWAYS[constant]}"
        )
    elif found == {expr.Literal(False)}:
        report(path, constant, f"{shown(condition.text)} holds in no call that the rules accept; leave it out")


_FINITE = "a condition may compare Bools, enums, dtypes and finite fields of algebraic values, and test presence"
_ALWAYS = {"M050": "write true", "M052": "leave it out: the tensor is always there"}
