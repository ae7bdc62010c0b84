"""Random roofline blocks: inline flops, inline bytes over bytes(t) or none, or a func."""

from __future__ import annotations

import dataclasses

from tileops.tests.codegen import random_primitives as primitives
from tileops.tests.codegen import random_scope as sorts
from tileops.tests.codegen.random_build import Build
from tileops.tests.codegen.random_terms import MAX_VALUE, Term, literal
from tileops.tests.codegen.random_types import FOREIGN, FORMULAS


def roofline(build: Build) -> None:
    """Draw the block; its formulas are prices in every row's call."""
    draw, model = build.draw, build.model
    if draw.chance(4):
        draw.use("roofline func")
        if draw.chance(50):
            draw.use("roofline func of another package")
            model.func = FOREIGN
        else:
            model.func = f"{FORMULAS}.every_tensor"
        return
    model.flops = _formula(build, sizes=False)
    if draw.chance(40):
        draw.use("roofline bytes written")
        model.bytes = _formula(build, sizes=True)
    else:
        draw.use("roofline bytes derived")


def _formula(build: Build, sizes: bool) -> Term:
    """An integer over everything that a formula may read, made >= 0 in one of the ways in which authors do."""
    draw, write = build.draw, build.write
    scope = build.scope(sizes, types=False)
    if any(tensor.buffer for tensor in build.model.tensors.values()):
        scope = dataclasses.replace(scope, tensors={**scope.tensors, "out": "own"})
    term = build.accepted(
        lambda: build.make.integer(scope, draw.integer(1, 4)),
        lambda value: abs(value) < MAX_VALUE // 1000,
        lambda: literal(1),
    )
    if "out" in scope.tensors and "out" not in build.model.tensors and draw.chance(50):
        draw.use("present(out) of a buffered output")
        chosen = write.conditional(build.make.conditions.present("out"), literal(draw.integer(0, 3)), literal(1))
        term = write.arithmetic("+", term, chosen)
    if term.dim:
        draw.use("formula >= 0 by its kind")
        return term
    form = draw.weighted({"max": 2, "abs": 1, "plus": 4})
    names = [one for one in scope.of(sorts.Integer) if one.dim]
    draw.use(f"formula made >= 0 by {form}")
    if form == "abs":
        return write.call("abs", abs, term, dim=True)
    if form == "max" or not names:
        return write.call("max", primitives.largest, write.tuple(term, literal(draw.integer(0, 5))))
    lowest = min(0, *(term.of(env) for env in build.envs))
    # An index is part of the sum, so that no discriminant point makes it a constant below 0.
    total = write.arithmetic("+", term, draw.choice(names))
    return write.arithmetic("+", total, literal(-lowest)) if lowest < 0 else total
