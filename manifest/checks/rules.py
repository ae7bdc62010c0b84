"""Checks shape rules, dtype combinations, and expressions that constants decide."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tileops.manifest.diagnostics import Report
from tileops.manifest.language import expr, kinds
from tileops.manifest.language.text import shown
from tileops.manifest.model import Entry, Expression, Signature, Tensor
from tileops.manifest.plans import constants as values
from tileops.manifest.plans.domain import Domain
from tileops.manifest.plans.points import TooManyPointsError, domain_restrictions


def definitions(entry: Entry, told: Collection[str], report: Report) -> None:
    """Reports rules that only define a name, and rules that appear twice.

    Rules whose paths are in `told` have defects already.
    """
    forall = entry.signature.forall
    stand: dict[expr.Expr, int] = {}
    for position, rule in enumerate(entry.signature.rules):
        path = f"signature.shape_rules[{position}]"
        if stand.setdefault(rule.expr, position) != position:
            report(path, "M027", f"{shown(rule.text)} is shape_rules[{stand[rule.expr]}] again")
        node = rule.expr
        if path in told or not (isinstance(node, expr.Compare) and node.ops == ("==",)):
            continue
        for side, other in (node.operands, node.operands[::-1]):
            if not isinstance(side, expr.Name) or not isinstance(forall.get(side.id), (kinds.Dim, kinds.Shape)):
                continue
            if side.id not in expr.names(other) and not isinstance(other, expr.Literal):
                instead = f"write {shown(expr.to_source(other))} in the shape, or a `let`"
                report(path, "M026", f"{shown(rule.text)} defines {side.id!r}; {instead}")
                break


def combos(entry: Entry, broken: frozenset[str], report: Report) -> None:
    """Checks that the dtype combinations assign the same indices and parameters, valid dtypes, and differ."""
    signature = entry.signature
    unread = {gap.rpartition("]")[0] + "]" for gap in entry.signature_gaps if gap.startswith("signature.dtype_combos[")}
    paths = [f"signature.dtype_combos[{position}]" for position in range(len(signature.combos))]
    first = next(
        (combo.keys() for path, combo in zip(paths, signature.combos, strict=True) if path not in unread), None
    )
    for position, (path, combo) in enumerate(zip(paths, signature.combos, strict=True)):
        if path in unread:
            continue
        problems = [
            problem
            for name, dtype in combo.items()
            if name not in broken and (problem := _misfit(_column(signature, name), name, dtype))
        ]
        for problem in problems:
            report(path, "M053", problem)
        columns = all(_column(signature, name) is not None for name in combo)
        if not combo:
            report(path, "M053", "assigns no dtype index and no dtype parameter")
        elif columns and combo.keys() != first:
            report(path, "M053", "every combination must assign the same indices and parameters")
        elif combo in signature.combos[:position]:
            report(path, "M053", f"is dtype_combos[{signature.combos.index(combo)}] again")


def _column(signature: Signature, name: str) -> kinds.Kind | None:
    """Returns the kind of a dtype index or of a parameter that is a dtype, or may be None; None for another name."""
    param = signature.params.get(name)
    kind = signature.forall.get(name) if param is None else param.kind
    return kind if kind is not None and isinstance(kind.given, kinds.DType) else None


def _misfit(kind: kinds.Kind | None, name: str, dtype: str | None) -> str:
    if kind is None or not isinstance(kind.given, kinds.DType):
        return f"{shown(name)} is no dtype index and no dtype parameter"
    if dtype is None:
        return "" if isinstance(kind, kinds.Maybe) else f"{shown(name)} is never None"
    return "" if dtype in kind.given.values else f"{shown(dtype)} is not in {kind.given}"


def constants(entry: Entry, report: Report) -> None:
    """Reports rules that are the same in every call, and expressions that have no value at some point."""
    signature = entry.signature
    try:
        for position, rule in enumerate(signature.rules):
            always = values.constant(signature, rule.expr)
            if always is not None:
                message = "holds in every call; remove it" if always else "rejects every call"
                report(f"signature.shape_rules[{position}]", "M027", f"{shown(rule.text)} {message}")
                return
        domain = Domain(signature)
        if not all(domain.points([rule]) for rule in domain_restrictions(signature)):
            report("signature.shape_rules", "M027", "the rules together reject every call")
            return
        for path, expression, tensor in _expressions(signature):
            for problem in values.without_value(signature, expression.expr, tensor):
                report(path, "M028", problem)
    except TooManyPointsError as error:
        report("signature", "M042", str(error))


def _expressions(signature: Signature) -> Iterator[tuple[str, Expression, Tensor | None]]:
    for name, let in signature.lets.items():
        yield f"signature.let.{name}", let, None
    for position, rule in enumerate(signature.rules):
        yield f"signature.shape_rules[{position}]", rule, None
    for section, tensors in signature.sections.items():
        for name, tensor in tensors.items():
            yield f"signature.{section}.{name}.dtype", tensor.dtype, None
            yield f"signature.{section}.{name}.shape", tensor.shape, tensor
