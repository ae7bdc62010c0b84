"""Checks plain values of YAML against kinds."""

from __future__ import annotations

import math
import re
from typing import Any

from tileops.manifest.language import kinds, text
from tileops.manifest.language.adt import AdtValue
from tileops.manifest.language.evaluate import evaluate


def fits(value: Any, kind: kinds.Kind) -> bool:
    """Returns whether a plain value (lists as tuples, algebraic values as AdtValue) has a kind."""
    if isinstance(kind, kinds.Maybe):
        return value is None or fits(value, kind.item)
    if isinstance(kind, kinds.Union):
        return any(fits(value, item) for item in kind.items)
    if isinstance(kind, kinds.Bool):
        return isinstance(value, bool)
    if isinstance(kind, kinds.Int):
        return type(value) is int and (value >= 0 or not isinstance(kind, kinds.Dim))
    if isinstance(kind, kinds.Real):
        if isinstance(value, bool):
            return isinstance(kind, kinds.Number)
        return type(value) in (int, float) and not math.isnan(value)
    if isinstance(kind, kinds.Seq):
        right_length = isinstance(value, tuple) and kind.length in (None, len(value))
        right_length = right_length and (not kind.lengths or len(value) in kind.lengths)
        return right_length and all(map(fits, value, kind.each or (kind.item,) * len(value)))
    if isinstance(kind, (kinds.Enum, kinds.DType)):
        return isinstance(value, str) and value in kind.values
    if isinstance(kind, kinds.Text):
        return isinstance(value, str)
    if isinstance(kind, kinds.Adt):
        return isinstance(value, AdtValue) and any(_constructs(value, constructor) for constructor in kind.constructors)
    if isinstance(kind, kinds.Opaque):  # an object has no form in YAML, but another member of its union may have
        return any(fits(value, other) for other in kind.others)
    return isinstance(kind, kinds.NoneKind) and value is None


def _constructs(value: AdtValue, constructor: kinds.Constructor) -> bool:
    declared = dict(constructor.fields)
    written = dict(value.fields)
    return (
        value.kind == constructor.name
        and written.keys() == declared.keys()
        and all(fits(written[name], kind) for name, kind in declared.items())
        and _fulfils(written, constructor)
    )


def _fulfils(written: dict[str, Any], constructor: kinds.Constructor) -> bool:
    """Returns whether fields of their kinds fulfil the constructor's invariant; never outside a primitive's domain."""
    if constructor.invariant is None:
        return True
    try:
        return bool(
            evaluate(constructor.invariant[1], written, {name: value is not None for name, value in written.items()})
        )
    except (ValueError, ArithmeticError, IndexError):
        return False


def as_algebraic(value: Any, kind: kinds.Kind) -> Any:
    """Returns `{constructor: {field: value}}` as an AdtValue if the kind is algebraic; any other value as it is."""
    inner = kind.given
    if isinstance(inner, kinds.Adt) and isinstance(value, dict) and len(value) == 1:
        ((name, fields),) = value.items()
        if isinstance(fields, dict) and all(isinstance(key, str) for key in (name, *fields)):
            order = {one.name: one for one in inner.constructors}.get(name)
            names = [field for field, _ in order.fields] if order else []
            if set(names) == fields.keys():
                return AdtValue(name, tuple((field, fields[field]) for field in names))
    return value


def misfit(value: Any, kind: kinds.Kind, declared: str) -> str:
    """Returns the message for a value that is not of the kind written as `declared`, with what to write instead."""
    inner = kind.given
    problem = f"{shown(value)} is no {declared}"
    if not isinstance(inner, kinds.Adt):
        return problem
    forms = {one.name: form_of(one) for one in inner.constructors}
    named = (
        value.kind
        if isinstance(value, AdtValue)
        else next(iter(value), None)
        if isinstance(value, dict) and len(value) == 1
        else value
    )
    meant = [forms[named]] if isinstance(named, str) and named in forms else forms.values()
    return f"{problem}; write {' or '.join(meant)}"


def form_of(constructor: kinds.Constructor) -> str:
    """Returns how a value of a constructor is written, with the kinds of its fields and its invariant."""
    fields = ", ".join(f"{field}: {kind}" for field, kind in constructor.fields)
    where = f" where {constructor.invariant[0]}" if constructor.invariant is not None else ""
    return f"{{{constructor.name}: {{{fields}}}}}{where}"


def shown(value: Any) -> str:
    """Returns a value as a message shows it, with a hint if it is a number in quotes."""
    slip = isinstance(value, str) and re.fullmatch(r"\d+e-?\d+", value)
    return f"{text.shown(value)}{' (a number has no quotes, a point and a sign: 1.0e-6)' if slip else ''}"
