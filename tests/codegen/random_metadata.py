"""Random metadata tensors: a generator call, the contents that it must give, and the requirement that they meet."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tileops.tests.codegen import random_scope as sorts
from tileops.tests.codegen.random_build import Build
from tileops.tests.codegen.random_indices import add
from tileops.tests.codegen.random_model import Axis, Tensor
from tileops.tests.codegen.random_terms import ATOM, Env, Term, all_reads, literal, name

Contents = list[Any]


def _sums(values: Sequence[int]) -> Contents:
    return [sum(values[: at + 1]) for at in range(len(values))]


def _chunked(lengths: Sequence[int], chunk: int) -> list[list[int]]:
    """The tokens of each sequence in runs of at most `chunk`."""
    return [[len(range(length)[at : at + chunk]) for at in range(0, length, chunk)] for length in lengths]


def _padded(lengths: Sequence[int], pad: int) -> Contents:
    return [0, *_sums([next(n for n in range(length, length + pad) if n % pad == 0) for length in lengths])]


# Generators of one list: their other arguments, the contents, and the rows of the result for n items or a total.
LISTS: dict[str, tuple[tuple[int, ...], Callable[..., Contents]]] = {
    "as_tensor": ((), list),
    "running_sums": ((), _sums),
    "offsets": ((), lambda values: [0, *_sums(values)]),
    "starts": ((), lambda values: [0, *_sums(values)][:-1]),
    "packed_positions": ((), lambda values: [at for length in values for at in range(length)]),
    "padded_offsets": ((4,), _padded),
    "chunk_indices": ((2,), lambda v, c: [[s, at] for s, runs in enumerate(_chunked(v, c)) for at in range(len(runs))]),
    "token_indices": ((), lambda v: [[s, at] for s, length in enumerate(v) for at in range(length)]),
    "chunk_offsets": ((3,), lambda v, c: [0, *_sums([len(runs) for runs in _chunked(v, c)])]),
}


# What published manifests call some of them.
PUBLISHED = {"offsets": "prefix_sum", "starts": "exclusive_prefix_sum", "padded_offsets": "padded_exclusive_prefix_sum"}


NOT_EMPTY = ("starts", "packed_positions")
# What the contents that a list makes always satisfy.
KEPT = {
    "starts": "exclusive_prefix_of({list})",
    "chunk_indices": "in_range(0, 5)",
    "packed_positions": "in_range(0, 4)",
    "as_tensor": "sums_to(sum({list}))",
}


def filled_by_list(build: Build) -> Tensor:
    """A required input that a list of the row fills, and whose size determines an index that no row writes."""
    draw = build.draw
    function = draw.choice(list(LISTS))
    others, contents = LISTS[function]
    draw.use(f"generator {function}")
    values = build.name("L")
    build.model.indices[values] = "Seq[Int]"
    for env in build.envs:
        least, items = (1 if function == "packed_positions" else 0), (1 if function in NOT_EMPTY else 0)
        env[values] = tuple(draw.integer(least, 4) for _ in range(draw.integer(items, 3)))
    tensor = Tensor(build.name("meta"), "input", "", lambda env: (), literal(None))
    arguments = [name(values), *map(literal, others)]
    written = PUBLISHED[function] if function in PUBLISHED and draw.chance(50) else function
    tensor.generator = (
        f"{written}({', '.join(argument.text for argument in arguments)})",
        lambda env: contents(*(argument.of(env) for argument in arguments)),
    )
    tensor.list_index, tensor.generated = values, build.name("G")
    _dtype(build, tensor)
    rows = [len(tensor.generator[1](env)) for env in build.envs]
    factor, offset = draw.choice(
        [
            (factor, offset)
            for factor in (1, 2)
            for offset in (0, 1)
            if all(size >= offset and (size - offset) % factor == 0 for size in rows)
        ]
    )
    term = name(tensor.generated, True)
    term = build.write.arithmetic("*", literal(factor), term) if factor > 1 else term
    term = build.write.arithmetic("+", term, literal(offset)) if offset else term
    axes = [Axis(term, solves=(tensor.generated, factor, literal(offset)))]
    if function in ("chunk_indices", "token_indices"):
        axes.append(Axis(literal(2)))
    tensor.shape_text, tensor.axes = build.text(axes), lambda env: tuple(axes)
    for env, size in zip(build.envs, rows, strict=True):
        env[tensor.generated] = (size - offset) // factor
    build.model.indices[tensor.generated] = "Dim"
    build.known[tensor.generated] = sorts.Integer(True)
    if function == "offsets" and draw.chance(60):
        draw.use("requirement prefix_offsets")
        total = build.name("total")
        build.model.indices[total] = "Dim"
        for env in build.envs:
            env[total] = sum(env[values])
        tensor.requires = (f"prefix_offsets({total})", f"max_segment({total} + 1)")
        _host(build, total)
    elif function in KEPT and draw.chance(50):
        tensor.requires = (KEPT[function].replace("{list}", values),)
        draw.use(f"requirement {tensor.requires[0].partition('(')[0]}")
    elif draw.chance(50):
        draw.use("requirement in_range")
        tensor.requires = ("in_range(-1, 40)",)
    return tensor


def _host(build: Build, total: str) -> None:
    """A data tensor that determines the total of the lists."""
    axis = Axis(name(total, True), solves=(total, 1, literal(0)))
    build.known[total] = sorts.Integer(True)
    add(build, Tensor(build.name("packed"), "input", f"[{total}]", lambda env: (axis,), build.dtype(build.envs)))


PUBLISHED_FORMS = (
    "random_ids",
    "sample_indices",
    "full",
    "key_windows",
    "causal_topk_indices",
    "attn.sparse_topk_positions",
)


def drawn_at_random(build: Build, presence: Any, envs: Sequence[Env]) -> Tensor:
    """A tensor that a seeded generator fills, of a shape that its own arguments state."""
    draw = build.draw
    layouts = [
        found for found, sort in build.known.items() if isinstance(sort, sorts.Algebraic) and sort.type == "Layout"
    ]
    others = ("topk_ids", "paged_block_table", "nsa_block_counts", "local_expert_map", *PUBLISHED_FORMS)
    function = "moe.layout_metadata" if layouts and draw.chance(60) else draw.choice(others)
    draw.use(f"generator {function}")
    rows, columns = (_count(build, envs) for _ in range(2))
    contents: Callable[[Env], Any] = _drawn
    requires: tuple[str, ...] = ()
    if function == "topk_ids":
        pool = _sum(build, columns, literal(draw.integer(0, 2)))
        text, axes, bound = f"topk_ids({rows.text}, {columns.text}, {pool.text})", (rows, columns), pool
    elif function == "paged_block_table":
        pool = columns if draw.chance(50) else build.write.arithmetic("*", rows, columns)
        text, axes, bound = f"paged_block_table({rows.text}, {columns.text}, {pool.text})", (rows, columns), pool
    elif function == "nsa_block_counts":
        most = literal(draw.integer(1, 3))
        text, axes = f"nsa_block_counts({rows.text}, {columns.text}, {most.text})", (rows, columns)
        bound = _sum(build, most, literal(1))
    elif function == "moe.layout_metadata":
        layout, experts = draw.choice(layouts), draw.integer(1, 3)
        total = (
            f"{experts} * {layout}.capacity if {layout}.kind == 'Masked'"
            f" else {experts} * {layout}.block if {layout}.kind == 'Padded' else {experts}"
        )
        text, axes, bound = f"{function}({layout}, {total}, {experts})", (literal(experts),), literal(40)
        contents = _of_layout(layout, experts)
        requires = (f"moe.layout_valid({layout}, {total}, {experts})",)
    elif function in PUBLISHED_FORMS:
        more, wide = _sum(build, rows, literal(1)), _sum(build, columns, literal(1))
        text, axes, bound = {
            "random_ids": (f"random_ids({more.text}, {wide.text}, 7)", (more, wide), literal(7)),
            "sample_indices": (f"sample_indices({rows.text}, {more.text})", (rows,), more),
            "full": (f"full(({rows.text}, {columns.text}, 2), -1)", (rows, columns, literal(2)), literal(0)),
            "key_windows": (f"key_windows((2, 3), 1, 3, {'start' if draw.chance(50) else 'end'!r})", (), literal(6)),
            "causal_topk_indices": (
                f"causal_topk_indices({more.text}, 2, 1, {wide.text}, 4, 3, 2)",
                (more, literal(2), literal(1), wide),
                literal(5),
            ),
            "attn.sparse_topk_positions": (
                f"attn.sparse_topk_positions((2, 4), 2, {wide.text})",
                (literal(2), literal(2), wide),
                literal(4),
            ),
        }[function]
        if function == "full":
            contents = _all_alike(-1, rows, columns, literal(2))
        if function == "key_windows":
            axes, contents = (literal(3),), _listed([0, 2, 2] if "start" in text else [2, 3, 4])
    else:
        text, axes, bound = f"local_expert_map({rows.text}, 0, 0)", (rows,), literal(1)
    tensor = Tensor(build.name("ids"), "input", "", lambda env: (), literal(None), presence=presence)
    found = [Axis(axis) for axis in axes]
    tensor.shape_text, tensor.axes = build.text(found), lambda env: tuple(found)
    tensor.generator = (text, contents)
    _dtype(build, tensor)
    if requires:
        draw.use("requirement moe.layout_valid")
        tensor.requires = requires
    elif draw.chance(60):
        draw.use("requirement in_range")
        tensor.requires = (f"in_range(-1, {bound.text})",)
    return tensor


def _drawn(env: Env) -> None:
    """Contents that only their seed decides."""


def _listed(contents: Contents) -> Callable[[Env], Contents]:
    return lambda env: contents


def _all_alike(value: int, *sizes: Term) -> Callable[[Env], Contents]:
    return lambda env: [value] * math.prod(size.of(env) for size in sizes)


def _of_layout(param: str, experts: int) -> Callable[[Env], Contents]:
    """What a layout with one row, or one block of rows, of each expert says of them."""

    def contents(env: Env) -> Contents:
        layout = env[param]
        form = type(layout).__name__
        if form == "Masked":
            return [layout.capacity if expert % 2 == 0 else layout.capacity // 2 for expert in range(experts)]
        if form == "Padded":
            return [layout.block * (expert + 1) - layout.block // 2 for expert in range(experts)]
        return [expert + 1 for expert in range(experts)]

    return contents


def _sum(build: Build, first: Term, second: Term) -> Term:
    return build.write.arithmetic("+", first, second)


def _count(build: Build, envs: Sequence[Env]) -> Term:
    """A small count that is known by now."""
    names = [term for term in build.scope().of(sorts.Integer) if term.dim]
    if not names or build.draw.chance(30):
        return literal(build.draw.integer(0, 3))
    return build.draw.choice(names)


def _dtype(build: Build, tensor: Tensor) -> None:
    dtype = build.draw.choice(("int32", "int64"))
    tensor.dtype = Term(dtype, ATOM, lambda env: dtype, all_reads())
    tensor.on_cpu = build.draw.chance(10)
