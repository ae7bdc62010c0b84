"""Checks that `__init__`, `forward` and the implementations take what the entry's signature declares."""

from __future__ import annotations

import inspect
from typing import Any

from tileops.ops.conformance.classes import Subject, place_of
from tileops.ops.conformance.findings import Findings
from tileops.ops.implementations import Implementation

_KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: "positional-only",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "positional",
    inspect.Parameter.KEYWORD_ONLY: "keyword-only",
    inspect.Parameter.VAR_POSITIONAL: "a star argument",
    inspect.Parameter.VAR_KEYWORD: "a double-star argument",
}


def check_signatures(subject: Subject, findings: Findings) -> None:
    """Compares `__init__` and `forward` of the public class with those of the generated class."""
    for name, code in (("__init__", "C005"), ("forward", "C006")):
        declared, found = (inspect.unwrap(getattr(owner, name)) for owner in (subject.generated, subject.public))
        if found is declared:
            continue
        for message in differences(inspect.signature(declared), inspect.signature(found)):
            findings.add(place_of(found) or subject.place, subject.entry, name, code, message)


def differences(declared: inspect.Signature, found: inspect.Signature) -> list[str]:
    """Returns the differences of two signatures: a missing, added or misplaced parameter, its kind, its default."""
    wanted, given = dict(declared.parameters), dict(found.parameters)
    messages = [f"lacks {name!r}, which the signature declares" for name in wanted if name not in given]
    messages += [f"takes {name!r}, which the signature does not declare" for name in given if name not in wanted]
    common = [name for name in wanted if name in given]
    order = [name for name in given if name in wanted]
    if common != order:
        messages.append(f"takes {', '.join(order)} in this order, but the signature declares {', '.join(common)}")
    for name in common:
        one, other = wanted[name], given[name]
        if one.kind is not other.kind:
            messages.append(f"takes {name!r} as {_KINDS[other.kind]}, but the signature declares it {_KINDS[one.kind]}")
        if not _same(one.default, other.default):
            messages.append(f"{_default(other)} for {name!r}, but the signature declares {_default(one)}")
    return messages


def _same(one: Any, other: Any) -> bool:
    """Returns whether two values are equal and of one type: True is not 1, and 1 is not 1.0."""
    return type(one) is type(other) and one == other


def _default(parameter: inspect.Parameter) -> str:
    return (
        "has no default" if parameter.default is inspect.Parameter.empty else f"has the default {parameter.default!r}"
    )


def check_implementation(subject: Subject, implementation: Implementation, findings: Findings) -> None:
    """Checks that an implementation can be called as `(op, call, *inputs)`, output buffers last."""
    function = implementation.function
    member = f"implementation {implementation.name}"
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some callables of extensions have no signature to read
        findings.not_reached(f"{subject.entry}: arguments of {member}: Python cannot read its signature")
        return
    inputs, buffers = subject.generated.INPUT_NAMES, subject.generated.BUFFER_NAMES
    for passed, what in ((inputs, "(op, call, inputs)"), ((*inputs, *buffers), "(op, call, inputs, buffers)")):
        try:
            signature.bind("op", "call", *passed)
        except TypeError as error:
            message = f"cannot be called as {what} with {', '.join(passed) or 'no inputs'}: {error}"
            findings.add(place_of(function) or subject.place, subject.entry, member, "C011", message)
            return
