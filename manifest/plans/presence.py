"""Replaces `present(t)` of a conditional tensor by the tensor's condition."""

from __future__ import annotations

import dataclasses

from tileops.manifest.language import expr
from tileops.manifest.model import Entry, Expression, Signature, Tensor


def resolve(entry: Entry) -> Entry:
    """Returns the entry with each `present(t)` of a conditional tensor replaced by the condition, cycles excepted."""
    conditions = conditions_of(entry.signature)
    if not conditions:
        return entry
    signature = entry.signature

    def one(expression: Expression) -> Expression:
        return dataclasses.replace(expression, expr=substitute_presence(expression.expr, conditions))

    def perhaps(expression: Expression | None) -> Expression | None:
        return None if expression is None else one(expression)

    def tensors(found: dict[str, Tensor]) -> dict[str, Tensor]:
        return {
            name: dataclasses.replace(
                tensor,
                dtype=one(tensor.dtype),
                shape=one(tensor.shape),
                when=perhaps(tensor.when),
                mutated=perhaps(tensor.mutated),
                values=perhaps(tensor.values),
                requires=tuple(one(part) for part in tensor.requires),
            )
            for name, tensor in found.items()
        }

    return dataclasses.replace(
        entry,
        signature=dataclasses.replace(
            signature,
            inputs=tensors(signature.inputs),
            outputs=tensors(signature.outputs),
            constants=tensors(signature.constants),
            lets={name: one(let) for name, let in signature.lets.items()},
            rules=tuple(one(rule) for rule in signature.rules),
        ),
    )


def conditions_of(signature: Signature) -> dict[str, expr.Expr]:
    """Returns the condition of every tensor that is not optional, with conditions inside conditions replaced."""
    always: dict[str, expr.Expr] = {
        name: expr.Literal(True) for name, tensor in signature.tensors.items() if not tensor.may_be_absent
    }
    conditions = {
        name: substitute_presence(tensor.when.expr, always)
        for name, tensor in signature.tensors.items()
        if tensor.when is not None
    }
    for _ in conditions:
        worked = {name: substitute_presence(node, conditions, name) for name, node in conditions.items()}
        if all(worked[name] is node for name, node in conditions.items()):
            break
        conditions = worked
    return always | conditions


def substitute_presence(node: expr.Expr, conditions: dict[str, expr.Expr], but: str = "") -> expr.Expr:
    """Returns `node` with present(t) replaced by t's condition, for every t but `but`. Raises ExhaustedError."""

    def condition(part: expr.Expr) -> expr.Expr | None:
        if isinstance(part, expr.Call) and part.function == "present" and len(part.args) == 1:
            arg = part.args[0]
            if isinstance(arg, expr.Name) and arg.id != but:
                return conditions.get(arg.id)
        return None

    return expr.substitute(node, condition)


def is_its_input(signature: Signature, output: Tensor) -> expr.Expr | None:
    """Returns when an output is the input named in its `alias`: if that input is present and written; None without."""
    source = signature.inputs.get(output.alias)
    if source is None or source.mutated is None:
        return None
    here = (
        expr.Call("present", (expr.Name(source.name),))
        if source.optional
        else None
        if source.when is None
        else source.when.expr
    )
    parts = tuple(part for part in (here, source.mutated.expr) if part not in (None, expr.Literal(True)))
    if len(parts) == 2:
        return expr.Logic("and", parts)
    return parts[0] if parts else expr.Literal(True)
