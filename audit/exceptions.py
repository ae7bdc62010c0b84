"""Calls on which a kernel may skip reads that the formula charges, so that the audit's second premise fails.

If an input's values decide nothing at some positions, an implementation may predicate those loads away. An op gets an
entry here after a measurement of that behaviour. The entry's condition says on which calls, and all other rows of the
op are judged as before. An example, a masked fill whose kernel need not load what the mask replaces:

    ReadException(op="MaskedFillTensorFwdOp", when="A == M", reason="elements under the mask are not loaded; measured on ...")

A condition may depend on the values of metadata tensors. It is then evaluated on the measured call itself, by the process
that made the call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from tileops.manifest.language import evaluate, expr, expr_parser
from tileops.manifest.language.declarations import PRIMITIVES
from tileops.ops.checked_call import CheckedCall
from tileops.ops.op import Op
from tileops.tools.cli import errors


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReadException:
    """One exception.

    Attributes:
      op: name of the manifest entry.
      when: a predicate in the manifest's expression language over the checked call: its parameters, indices,
        `present(t)`, and the values of its metadata tensors by name, one tuple per axis, as in "A == M" or
        "max(lengths) < S".
      reason: why a conforming implementation may read less there, and which measurement showed it.
    """

    op: str
    when: str
    reason: str


EXCEPTIONS: tuple[ReadException, ...] = ()


class ExceptionTableError(errors.UserError):
    """The table has malformed exceptions; the message has a line per defect."""

    has_lines = True


def check(
    table: Sequence[ReadException], calls: Mapping[str, Sequence[CheckedCall]], classes: Mapping[str, type[Op]]
) -> None:
    """Checks the form of a table.

    Args:
      table: the exceptions.
      calls: per op that the table names, a checked call of each of its rows.
      classes: every op by name.

    Raises:
      ExceptionTableError: an exception names no op, gives no reason, appears twice, or its condition is no predicate
        over the op's calls.
    """
    defects = []
    seen: set[tuple[str, str]] = set()
    for one in table:
        where = f"audit/exceptions.py: {one.op}: when {one.when!r}"
        if one.op not in classes:
            defects.append(f"{where}: there is no such op")
            continue
        if not one.reason.strip():
            defects.append(f"{where}: gives no reason")
        if (one.op, one.when) in seen:
            defects.append(f"{where}: appears twice")
        seen.add((one.op, one.when))
        defects += [f"{where}: {defect}" for defect in _form_defects(one, calls.get(one.op, ()), classes[one.op])]
    if defects:
        raise ExceptionTableError("\n".join(defects))


def holds(one: ReadException, call: CheckedCall) -> bool:
    """Returns whether an exception of a checked table applies to a call of its op."""
    return bool(_value(one, call))


def conditions(table: Iterable[ReadException], call: CheckedCall) -> dict[str, bool]:
    """Returns whether a call meets the conditions of its op, by the conditions' text."""
    return {one.when: holds(one, call) for one in table if one.op == call.op}


def _value(one: ReadException, call: CheckedCall) -> object:
    node = expr_parser.parse(one.when)
    present = _PresentOrNot(dict.fromkeys(call.tensors, True))
    read = (part.id for part in expr.walk(node) if isinstance(part, expr.Name) and part.id in call.metadata)
    contents = {name: _tuples(call.values(name).tolist()) for name in read}
    return evaluate.evaluate(node, {**call.params, **call.indices, **contents}, present)


def _tuples(values: object) -> object:
    """Returns nested lists as the nested tuples that the language knows."""
    return tuple(map(_tuples, values)) if isinstance(values, list) else values


def find(table: Iterable[ReadException], op: str, met: Mapping[str, bool]) -> ReadException | None:
    """Returns the first exception of an op whose condition is met. `met` is as `conditions` returns it."""
    return next((one for one in table if one.op == op and met.get(one.when)), None)


def notes(table: Sequence[ReadException], calls: Mapping[str, Sequence[CheckedCall]]) -> list[str]:
    """Returns what a reviewer should know of a checked table: conditions that no row meets, ops that are all exempt.

    Args:
      table: the exceptions.
      calls: per op to report on, a checked call of each of its rows.
    """
    found = []
    for one in table:
        if one.op in calls and not any(holds(one, call) for call in calls[one.op]):
            found.append(f"{one.op}: no row meets the condition of the exception when {one.when!r}")
    for op in dict.fromkeys(one.op for one in table):
        if calls.get(op) and all(any(conditions(table, call).values()) for call in calls[op]):
            found.append(f"{op}: every row is exempt, so that nothing of its read half is judged")
    return found


class _PresentOrNot(dict):
    """Presence by name of a tensor: True if it is in the dict, else False."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> bool:
        return False


def _form_defects(one: ReadException, calls: Sequence[CheckedCall], op_class: type[Op]) -> list[str]:
    try:
        node = expr_parser.parse(one.when)
    except expr_parser.ExprError as error:
        return [str(error)]
    defects = []
    tensors = (*op_class.CONSTANT_NAMES, *op_class.INPUT_NAMES, *op_class.OUTPUT_NAMES)
    reads = set()
    for part in expr.walk(node):
        if isinstance(part, expr.Call) and part.function == "present":
            name = part.args[0].id if len(part.args) == 1 and isinstance(part.args[0], expr.Name) else None
            if name not in tensors:
                defects.append(f"present() takes one tensor of the op: {', '.join(tensors)}")
            reads.add(name)
        elif isinstance(part, expr.Call) and part.function not in PRIMITIVES:
            defects.append(f"calls {part.function!r}, which is no function here: {', '.join(sorted(PRIMITIVES))}")
    if calls:
        known = {*calls[0].params, *calls[0].indices, *op_class.METADATA_NAMES}
        values = set(expr.names(node)) - (reads - known)
        if unknown := sorted(values - known):
            defects.append(f"reads {', '.join(unknown)}; the call has {', '.join(sorted(known))}")
        reads |= values & known
    if not reads:
        defects.append("reads nothing of the call: write a condition on the call, not on the whole op")
    return defects or [defect for call in calls for defect in _value_defects(one, call)][:1]


def _value_defects(one: ReadException, call: CheckedCall) -> list[str]:
    """Returns what goes wrong when the condition, of good form, is evaluated on a call."""
    try:
        value = _value(one, call)
    except Exception as error:  # anything that a primitive or an operator raises on the call's values
        return [f"raises {type(error).__name__}: {error} on a row of the op"]
    return [] if isinstance(value, bool) else [f"is {value!r} on a row of the op, not True or False"]
