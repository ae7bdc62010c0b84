"""Calls near a row's: with other sizes throughout, or with one tensor changed."""

from __future__ import annotations

from typing import Any

from tileops.tests.codegen.random_draw import Draw
from tileops.tests.codegen.random_model import Model, RefusedError
from tileops.tests.codegen.random_params import DTYPES
from tileops.tests.codegen.random_terms import Env, OutOfBoundsError

Found = dict[str, tuple[tuple[int, ...], str]]


def other_call(model: Model, env: Env, shapes: Found, draw: Draw) -> Found | None:
    """The tensors of a call with other indices and own presences; None where its shapes have no value."""
    fresh = Env({p.name: env[p.name] for p in model.params}, model.lets)
    for index, kind in model.indices.items():
        if kind == "Dim":
            size = draw.weighted({0: 1, 1: 2, 2: 3, 3: 3, 6: 1, 30: 1})
            fresh[index] = size if draw.chance(60) else env.get(index, 2)
        elif kind == "Shape":
            run = tuple(draw.integer(0, 3) for _ in range(draw.integer(0, 3)))
            fresh[index] = run if draw.chance(50) else env[index]
    for index, values in model.dtype_indices.items():
        fresh[index] = draw.choice(values) if draw.chance(50) or index not in env else env[index]
    found: Found = {}
    try:
        for param in model.params:
            fresh["present", param.name] = fresh[param.name] is not None
        for tensor in model.of_role("constant", "input"):
            if tensor.presence == "own":
                fresh["present", tensor.name] = draw.chance(50)
        model.presences(fresh)
        for tensor in model.of_role("constant", "input"):
            if fresh["present", tensor.name]:
                shape = model.shape(tensor, fresh)
                if any(size < 0 or size > 200 for size in shape):
                    return None
                found[tensor.name] = shape, tensor.dtype.of(fresh)
    except (RefusedError, OutOfBoundsError, ArithmeticError, ValueError, IndexError):
        return None
    return found


def perturbed(model: Model, env: Env, shapes: Found, draw: Draw) -> Found | None:
    """One tensor with another size, rank or dtype, left out, or passed where it was not."""
    if not shapes:
        return None
    name = draw.choice(list(shapes))
    shape, dtype = shapes[name]
    found: Found = dict(shapes)
    form = draw.weighted({"size": 6, "longer": 1, "shorter": 1, "dtype": 3, "absent": 2, "passed": 1, "swapped": 1})
    if form == "size" and shape:
        at = draw.integer(0, len(shape) - 1)
        size = max(0, shape[at] + draw.choice((-2, -1, 1, 2)))
        found[name] = (*shape[:at], size, *shape[at + 1 :]), dtype
    elif form == "longer":
        at = draw.integer(0, len(shape))
        found[name] = (*shape[:at], draw.integer(0, 2), *shape[at:]), dtype
    elif form == "shorter" and shape:
        found[name] = shape[1:] if draw.chance(50) else shape[:-1], dtype
    elif form == "swapped" and len(shape) > 1:
        found[name] = shape[::-1], dtype
    elif form == "absent":
        del found[name]
    elif form == "passed":
        absent: list[Any] = [t.name for t in model.of_role("input") if t.name not in shapes]
        if not absent:
            return None
        found[draw.choice(absent)] = shape, dtype
    else:
        found[name] = shape, draw.choice(DTYPES)
    return found
