"""Every assignment of the finite facts that a condition reads, to see that the condition is no constant."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from tileops.tests.codegen import random_scope as sorts
from tileops.tests.codegen.random_model import Model
from tileops.tests.codegen.random_terms import Env, OutOfBoundsError, Term
from tileops.tests.codegen.random_types import CLASSES

MOST = 3000


def varies(model: Model, term: Term, rules: Sequence[Term]) -> bool:
    """Whether the condition holds at some point that the rules accept and fails at another."""
    acting = [rule for rule in rules if finite(model, rule)]
    reads = _closure(model, term).union(*(_closure(model, rule) for rule in acting))
    found = set()
    for env in points(model, reads):
        try:
            if all(rule.of(env) for rule in acting):
                found.add(bool(term.of(env)))
        except (ArithmeticError, ValueError, IndexError, OutOfBoundsError):
            continue
        if len(found) == 2:
            return True
    return False


def points(model: Model, reads: frozenset[str]) -> Iterator[Env]:
    """Each assignment of the facts, with the presences that follow from it; at most MOST."""
    if model.combos and reads & model.combos[0].keys():
        reads |= model.combos[0].keys()
    domains = [(name, values) for name in sorted(reads) if (values := _values(model, name))]
    for chosen in itertools.islice(itertools.product(*(values for _, values in domains)), MOST):
        env = Env({}, model.lets)
        for (name, _), value in zip(domains, chosen, strict=True):
            if name in model.tensors:
                env["present", name] = value
            else:
                env[name] = value
                env["present", name] = value is not None
        if model.combos and reads & model.combos[0].keys() and {n: env[n] for n in model.combos[0]} not in model.combos:
            continue
        for tensor in model.tensors.values():
            if tensor.presence is None:
                env["present", tensor.name] = True
        for name in model.conditional:
            if _closure(model, model.tensors[name].presence) <= reads:
                env["present", name] = model.tensors[name].presence.of(env)
        yield env


def _closure(model: Model, term: Term) -> frozenset[str]:
    """What the condition reads, a tensor with a condition of its own and a let, standing for what that reads."""
    found, waiting = set(), set(term.reads)
    while waiting:
        name = waiting.pop()
        tensor = model.tensors.get(name)
        if tensor is not None and isinstance(tensor.presence, Term):
            waiting |= tensor.presence.reads
        elif name in model.lets:
            waiting |= model.lets[name].reads
        else:
            found.add(name)
    return frozenset(found)


def finite(model: Model, term: Term) -> bool:
    """Whether finite facts alone decide the term, at least in part of its branches."""
    return all(
        _values(model, name) or name in model.tensors or (name in model.lets and finite(model, model.lets[name]))
        for name in term.reads
    )


def _values(model: Model, name: str) -> tuple[Any, ...]:
    """The values of a finite fact; none of what follows from others, or is not finite."""
    if name in model.tensors:
        return (False, True) if model.tensors[name].presence == "own" else ()
    if name in model.dtype_indices:
        return model.dtype_indices[name]
    param = next((one for one in model.params if one.name == name), None)
    return () if param is None else _sort_values(param.sort)


def decidable(model: Model, term: Term) -> bool:
    """Whether some branch of the term may be a constant: it reads a finite fact, or nothing at all."""
    return not term.reads or any(
        _values(model, name) or name in model.tensors or (name in model.lets and decidable(model, model.lets[name]))
        for name in term.reads
    )


def _some(sort: sorts.Sort) -> Any:
    """A value of a sort that has no finite set of them; the points tell its presence alone."""
    return (1,) if isinstance(sort, sorts.Sequence) else 1


def _sort_values(sort: sorts.Sort) -> tuple[Any, ...]:
    if isinstance(sort, sorts.Maybe):
        return (*(_sort_values(sort.item) or (_some(sort.item),)), None)
    if isinstance(sort, sorts.Flag):
        return (False, True)
    if isinstance(sort, (sorts.Word, sorts.DTypeName)):
        return sort.values
    if isinstance(sort, sorts.Algebraic):
        return tuple(
            CLASSES[constructor](**dict(zip(fields, chosen, strict=True)))
            for constructor, fields in sort.constructors.items()
            for chosen in itertools.product(*(_sort_values(one) or (1,) for one in fields.values()))
        )
    return ()
