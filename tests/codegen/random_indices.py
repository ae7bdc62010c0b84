"""Random indices, and the required inputs that determine them: one axis or run for each, in a drawn order."""

from __future__ import annotations

import dataclasses

from tileops.tests.codegen import random_scope as sorts
from tileops.tests.codegen.random_build import MAX_AXIS, Build
from tileops.tests.codegen.random_families import hosting_family
from tileops.tests.codegen.random_model import Axis, Tensor
from tileops.tests.codegen.random_params import DTYPES
from tileops.tests.codegen.random_terms import Env, Term, literal, name


def size(build: Build) -> int:
    """A small axis length, often 0 or 1."""
    return build.draw.weighted({0: 2, 1: 4, 2: 5, 3: 5, 4: 3, 5: 2, 7: 1})


def shape(build: Build) -> tuple[int, ...]:
    """A short run of axes, often none."""
    return tuple(size(build) for _ in range(build.draw.weighted({0: 3, 1: 4, 2: 3, 3: 1})))


def dtype_indices(build: Build, most: int) -> None:
    """Dtype indices, each with a dtype in every call."""
    for _ in range(build.draw.integer(0, most)):
        found = build.name("T")
        values = tuple(build.draw.some(DTYPES, 1, 3))
        build.model.dtype_indices[found] = values
        build.points *= len(values)
        for env in build.envs:
            env[found] = build.draw.choice(values)
        build.draw.use("index DType")


def determining_inputs(build: Build) -> None:
    """Dims and Shapes, with the required inputs and constants that determine them."""
    draw = build.draw
    waiting = ["Dim"] * draw.weighted({0: 1, 1: 3, 2: 4, 3: 3, 4: 1}) + ["Shape"] * draw.weighted({0: 4, 1: 4, 2: 1})
    waiting = draw.shuffled(waiting)
    dtypes = [*build.model.dtype_indices]
    declared: list[tuple[str, str]] = []
    while waiting or dtypes:
        hosted, waiting = _hosted(build, waiting)
        role = "constant" if draw.chance(10) else "input"
        tensor = Tensor(build.name("t"), role, "", lambda env: (), literal(None))
        _shape(build, tensor, hosted, declared)
        if dtypes and (draw.chance(70) or not waiting):
            tensor.dtype_index = dtypes.pop()
            tensor.dtype = name(tensor.dtype_index)
            build.known[tensor.dtype_index] = sorts.DTypeName(build.model.dtype_indices[tensor.dtype_index])
        else:
            tensor.dtype = build.dtype(build.envs)
        add(build, tensor)
    for index, kind in draw.shuffled(declared):
        build.model.indices[index] = kind


def add(build: Build, tensor: Tensor) -> None:
    """Take the tensor into the model; later parts may ask for its presence."""
    build.model.tensors[tensor.name] = tensor
    for env in build.envs:
        if tensor.presence == "own":
            env.setdefault(("present", tensor.name), build.draw.chance(50))
        else:
            env["present", tensor.name] = tensor.presence is None or tensor.presence.of(env)
    if isinstance(tensor.presence, Term):
        build.model.conditional.append(tensor.name)
    if tensor.role != "output":
        build.model.order.append(tensor.name)
    build.tags[tensor.name] = "shared" if isinstance(tensor.presence, Term) else tensor.presence or "always"
    build.draw.use(f"tensor {tensor.role} {build.tags[tensor.name]}")


def _hosted(build: Build, waiting: list[str]) -> tuple[list[str], list[str]]:
    """The kinds that the next tensor determines: at most one Shape among them."""
    count = build.draw.integer(1, 3) if waiting else 0
    hosted: list[str] = []
    rest = list(waiting)
    while rest and len(hosted) < count and not (rest[0] == "Shape" and "Shape" in hosted):
        hosted.append(rest.pop(0))
    return hosted, rest


def _shape(build: Build, tensor: Tensor, hosted: list[str], declared: list[tuple[str, str]]) -> None:
    """Axes that determine the hosted kinds, among others that are only compared."""
    draw = build.draw
    if hosted and "Shape" not in hosted and draw.chance(25):
        names = [_declare(build, kind, declared) for kind in hosted]
        found = hosting_family(build, names)
        if found is not None:
            tensor.shape_text, tensor.axes = found
            return
        axes = [Axis(name(one, True), solves=(one, 1, literal(0))) for one in names]
    else:
        axes = []
        run = build.run(build.scope(), build.envs) if draw.chance(15) else None
        for turn, kind in enumerate(hosted):
            index = _declare(build, kind, declared, known=False)
            if kind == "Shape":
                axes.append(Axis(name(index, True), run=True, solves=(index, 1, literal(0))))
            else:
                axes.append(dataclasses.replace(affine(build, index), turn=turn))
            build.known[index] = sorts.Sequence(True) if kind == "Shape" else sorts.Integer(True)
        if run is not None:
            axes.append(run)
            draw.use("known run beside what is solved")
    for _ in range(draw.weighted({0: 4, 1: 3, 2: 1})):
        axes.append(build.axis(build.scope(), build.envs))
    axes = draw.shuffled(axes)
    tensor.shape_text = build.text(axes)
    tensor.axes = lambda env: tuple(axes)


def _declare(build: Build, kind: str, declared: list[tuple[str, str]], known: bool = True) -> str:
    index = build.name("n" if kind == "Dim" else "s")
    for env in build.envs:
        env[index] = size(build) if kind == "Dim" else shape(build)
    build.draw.use(f"index {kind}")
    declared.append((index, kind))
    if known:
        build.known[index] = sorts.Integer(True) if kind == "Dim" else sorts.Sequence(True)
    return index


def affine(build: Build, index: str, envs: list[Env] | None = None) -> Axis:
    """An axis that determines the index: itself, or constants times it plus terms that are known by now."""
    draw, write = build.draw, build.write
    envs = build.envs if envs is None else envs
    for _ in range(8):
        term, factor, offset = name(index, True), 1, literal(0)
        for _ in range(draw.weighted({0: 5, 1: 4, 2: 2})):
            op = draw.choice("++-*")
            if op == "*":
                by = draw.integer(1, 3)
                term = write.arithmetic("*", *draw.shuffled([term, literal(by)]))
                factor, offset = factor * by, write.arithmetic("*", offset, literal(by))
                continue
            other = build.make.integer(build.scope(), draw.integer(0, 1))
            if index in other.reads:
                continue
            term = write.arithmetic(op, *([term, other] if op == "-" else draw.shuffled([term, other])))
            offset = write.arithmetic(op, offset, other)
        try:
            if all(0 <= term.of(env) <= 2 * MAX_AXIS for env in envs):
                draw.use("axis solved by itself" if term.text == index else "axis solved from a linear term")
                return Axis(term, solves=(index, factor, offset))
        except (ArithmeticError, ValueError, IndexError):
            continue
    return Axis(name(index, True), solves=(index, 1, literal(0)))
