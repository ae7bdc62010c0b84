"""Checks what fills a metadata tensor, and what its contents must satisfy."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from tileops.manifest.diagnostics import Report
from tileops.manifest.language import declarations, expr, kind_check, kinds
from tileops.manifest.language.invariants import expect
from tileops.manifest.language.kind_check import CODES, FORM, KIND, Scope
from tileops.manifest.language.kinds import INT, Kind
from tileops.manifest.model import Expression, Signature, Tensor
from tileops.manifest.plans.domain import Domain
from tileops.manifest.plans.plan import item_terms
from tileops.manifest.plans.planner import present_at
from tileops.manifest.plans.points import TooManyPointsError
from tileops.manifest.plans.shapes import NoCaseError, shape_at


def contents(signature: Signature, tensor: Tensor, path: str, dtype: Kind | None, names: Scope, report: Report) -> None:
    """Checks `values` and `requires` of a metadata tensor.

    Args:
      signature: the tensor's signature.
      tensor: the tensor, which has `values`.
      path: the tensor's field.
      dtype: the kind of its dtype; None if that has a defect.
      names: what a generator's arguments may read.
      report: takes each defect.
    """
    _generator(tensor, path, names, report)
    if tensor.requires and isinstance(dtype, kinds.DType) and not all("int" in name for name in dtype.values):
        report(f"{path}.requires", "M051", f"requires needs an integer dtype, not {dtype}")
    # A requirement may read the contents of another metadata tensor of rank 1, by its name.
    others = {
        other.name: other
        for other in signature.bound.values()
        if other.values is not None and other.name != tensor.name
    }
    names = dataclasses.replace(names, names={**names.names, **dict.fromkeys(others, kinds.Seq(INT))})
    for position, required in enumerate(tensor.requires):
        _predicate(tensor, f"{path}.requires[{position}]", required.expr, others, names, report)


def _generator(tensor: Tensor, path: str, names: Scope, report: Report) -> None:
    call = expect(tensor.values, Expression).expr
    place = f"{path}.values"
    if not isinstance(call, expr.Call) or call.function not in declarations.GENERATORS:
        report(place, CODES[FORM], f"must be a call of a generator: {', '.join(declarations.GENERATORS)}")
        return
    forms = declarations.GENERATORS[call.function].forms
    form = _form(call)
    if form is None:
        counts = " or ".join(str(len(one.args)) for one in forms)
        report(place, CODES[KIND], f"{call.function} takes {counts} arguments, not {len(call.args)}")
        return
    _check_arguments(call, form.args, names, _coded(report, place))
    rank = _rank(tensor)
    if rank is None:
        report(place, CODES[KIND], f"write the sizes out: {call.function}((N, M), 0) fills a tensor of 2 axes")
        return
    term = tensor.shape.expr
    runs = isinstance(term, expr.ShapeTerm) and any(isinstance(axis, expr.Splice) for axis in term.axes)
    if isinstance(term, expr.ShapeTerm) and not runs and len(term.axes) != rank:
        report(place, "M051", f"{call.function} gives {rank} axes, and {tensor.name} has {len(term.axes)}")


def _predicate(
    tensor: Tensor, path: str, call: expr.Expr, others: dict[str, Tensor], names: Scope, report: Report
) -> None:
    if not isinstance(call, expr.Call) or call.function not in declarations.PREDICATES:
        report(path, CODES[FORM], f"must be a call of a predicate: {', '.join(declarations.PREDICATES)}")
        return
    declared = declarations.PREDICATES[call.function]
    if len(call.args) != len(declared.args):
        report(path, CODES[KIND], f"{call.function} takes {len(declared.args)} arguments, not {len(call.args)}")
        return
    rank = _rank(tensor)
    if None not in (rank, declared.rank) and rank != declared.rank:
        axes = "1 axis" if declared.rank == 1 else f"{declared.rank} axes"
        report(path, "M051", f"{call.function} is about a tensor of {axes}, and {tensor.name} has {rank}")
        return
    for name in expr.names(call):
        if name in others and _rank(others[name]) not in (None, 1):
            message = f"{name!r} has {_rank(others[name])} axes; a requirement reads the contents of tensors of 1 axis"
            report(path, "M051", message)
            return
    _check_arguments(call, declared.args, names, _coded(report, path))


def _form(call: expr.Expr) -> declarations.Form | None:
    """Returns the form of a generator's call; None if it is no such call or has another number of arguments."""
    if not isinstance(call, expr.Call) or call.function not in declarations.GENERATORS:
        return None
    return declarations.GENERATORS[call.function].form(len(call.args))


def _rank(tensor: Tensor) -> int | None:
    """Returns the number of axes that a metadata tensor's generator gives; None if its call has a defect."""
    call = expect(tensor.values, Expression).expr
    form = _form(call)
    if form is None:
        return None
    if form.rank is None:
        sizes = expect(call, expr.Call).args[0]
        return len(sizes.items) if isinstance(sizes, expr.Tuple) else None
    return form.rank


def _coded(report: Report, path: str) -> Callable[[str, str], None]:
    return lambda what, message: report(path, CODES[what], message)


def _check_arguments(
    call: expr.Call, wanted: tuple[Kind, ...], names: Scope, report: Callable[[str, str], None]
) -> None:
    for arg, kind in zip(call.args, wanted, strict=True):
        found = kind_check.check(arg, names, report)
        if found is not None and not declarations.fits(found, kind):
            report(KIND, f"{expr.to_source(arg)!r} must be {declarations.described(kind)}, and is {found}")


def ranks(signature: Signature, report: Report) -> None:
    """Reports metadata tensors whose type family gives another number of axes than their generator.

    The kinds of the signature must be right by then.
    """
    domain = Domain(signature)
    for section, tensors in signature.sections.items():
        for tensor in tensors.values():
            if tensor.values is None or not isinstance(tensor.shape.expr, expr.FamilyTerm):
                continue
            path = f"signature.{section}.{tensor.name}.values"
            try:
                problem = _other_rank(signature, domain, tensor)
            except TooManyPointsError as error:
                report("signature", "M042", f"{error.args[0]} discriminant points are too many")
                return
            if problem:
                report(path, "M051", problem)


def _other_rank(signature: Signature, domain: Domain, tensor: Tensor) -> str:
    """Returns the message that a tensor's family gives another number of axes at some point; "" if it does not."""
    rank = _rank(tensor)
    for point in domain.points(item_terms(signature, tensor.name)):
        try:
            axes = shape_at(signature, tensor, point).axes
        except NoCaseError:
            continue  # which the inference plan reports
        runs = any(isinstance(axis, expr.Splice) for axis in axes)
        if present_at(tensor, point) and not runs and len(axes) != rank:
            call = expect(expect(tensor.values, Expression).expr, expr.Call)
            return f"{call.function} gives {rank} axes, and {tensor.name} has {len(axes)} ({point})"
    return ""


def presence(signature: Signature, report: Report) -> None:
    """Reports requirements that read the contents of a tensor which need not be there where they are checked.

    Presence conditions must be replaced by then (plans/presence.py).
    """
    domain = Domain(signature)
    bound = signature.bound
    for tensor in bound.values():
        section = "params" if tensor.name in signature.constants else "inputs"
        for position, required in enumerate(tensor.requires):
            path = f"signature.{section}.{tensor.name}.requires[{position}]"
            read = [name for name in expr.names(required.expr) if name in bound]
            try:
                for name in read:
                    problem = _absent(signature, domain, tensor, required.expr, bound[name])
                    if problem:
                        report(path, "M051", problem)
            except TooManyPointsError as error:
                report("signature", "M042", f"{error.args[0]} discriminant points are too many")
                return


def _absent(signature: Signature, domain: Domain, tensor: Tensor, required: expr.Expr, other: Tensor) -> str:
    """Returns the message that a call has `tensor` and reads `other`, but need not have it; "" if it always has it."""
    here, there = _condition(tensor), _condition(other)
    for point in domain.points([here, there, required]):
        reads = other.name in _contents_read(point.fold(required))
        if reads and point.fold(here) == expr.Literal(True) and point.fold(there) != expr.Literal(True):
            return (
                f"reads the contents of {other.name!r}, which a call with {tensor.name!r} may lack ({point}); give both"
                " one condition, or read it under a guard"
            )
    return ""


def _condition(tensor: Tensor) -> expr.Expr:
    """Returns when a tensor is present."""
    if tensor.optional:
        return expr.Call("present", (expr.Name(tensor.name),))
    return expr.Literal(True) if tensor.when is None else tensor.when.expr


def _contents_read(node: expr.Expr) -> set[str]:
    """Returns the names whose values, not only presence, an expression reads."""
    if isinstance(node, expr.Call) and node.function == "present":
        return set()
    own = {node.id} if isinstance(node, expr.Name) else set()
    return own.union(*map(_contents_read, expr.children(node)))
