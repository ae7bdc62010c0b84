"""FLOP oracle, kind (c): algorithms over scalars that count each operation as they perform it.

The kind for recurrent and chunked algorithms. Counts of small calls are exact; those of rows come from the polynomial
that the small ones decide. An op that another kind counts may stand here too, as a further opinion.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from tileops.tests.oracle.scalar_count import Arithmetic, Polynomial, Scalar, polynomial
from tileops.tests.oracle.small_call import SmallCall

Params = Mapping[str, Any]
Inputs = tuple[torch.Tensor | None, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class ScalarReference:
    """An algorithm over scalars.

    Attributes:
      compute: (arithmetic, parameters, inputs as nested lists of its numbers) -> the outputs as such lists.
      branches: what else than extents decides the count, each in one value.
      grid: small values of each extent, one more than the degree that the count has in it.
      call: (branch, extents) -> a small call.
      place: (parameters, inputs) -> the branch and the extents of a call.
    """

    compute: Callable[..., Any]
    branches: Sequence[Any]
    grid: Mapping[str, Sequence[int]]
    call: Callable[[Any, Mapping[str, int]], SmallCall]
    place: Callable[[Params, Inputs], tuple[Any, dict[str, int]]]

    def calls(self) -> list[SmallCall]:
        """A call of each branch at each point of the grid."""
        points = [dict(zip(self.grid, point, strict=True)) for point in itertools.product(*self.grid.values())]
        return [self.call(branch, extents) for branch in self.branches for extents in points]

    def run(self, params: Params, inputs: Inputs) -> tuple[int, Any]:
        """FLOPs and outputs of a small call."""
        arithmetic = Arithmetic()
        outputs = self.compute(
            arithmetic, params, *(None if one is None else arithmetic.numbers(one) for one in inputs)
        )
        return arithmetic.flops, outputs

    def flops_at_scale(self, params: Params, inputs: Inputs) -> int:
        """FLOPs of a call of any size, by the polynomial of its branch; only shapes of the inputs are read."""
        branch, extents = self.place(params, inputs)
        return _polynomial(self, branch).at(extents)


@functools.cache
def _polynomial(reference: ScalarReference, branch: Any) -> Polynomial:
    def count(extents: dict[str, int]) -> int:
        small = reference.call(branch, extents)
        return reference.run(small.params, small.inputs)[0]

    return polynomial(reference.grid, count)


def _sum(arithmetic: Arithmetic, terms: Iterable[Scalar]) -> Scalar:
    """n adds for n terms."""
    return functools.reduce(Scalar.__add__, terms, arithmetic.number(0.0))


def _random(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(math.prod(shape))).add(0.5).to(dtype)


# ---- attention


def attention(arithmetic: Arithmetic, params: Params, q: Any, k: Any, v: Any) -> Any:
    """o [B][S][H][D] of q [B][S][H][D], k and v [B][S_kv][H_kv][D], a causal mask aligned at the bottom right."""
    outputs = []
    for queries, keys, values in zip(q, k, v, strict=True):
        shared = len(queries[0]) // len(keys[0])  # query heads of one head of k and v
        outputs.append(
            [
                [
                    _attend(arithmetic, head, *([one[at // shared] for one in rows[:seen]] for rows in (keys, values)))
                    for at, head in enumerate(heads)
                ]
                for seen, heads in _seen(queries, len(keys), params["is_causal"])
            ]
        )
    return outputs


def _seen(queries: Any, keys: int, is_causal: bool) -> list[tuple[int, Any]]:
    """Each query with how many keys it sees."""
    return [(row + keys - len(queries) + 1 if is_causal else keys, heads) for row, heads in enumerate(queries)]


def _attend(
    arithmetic: Arithmetic, query: list[Scalar], keys: list[list[Scalar]], values: list[list[Scalar]]
) -> list[Scalar]:
    """One head of one query: scores, the greatest, the weights and their sum, what they weigh, the divide."""
    scale = len(query) ** -0.5
    scores = [_dot(arithmetic, query, key) * arithmetic.number(scale) for key in keys]
    greatest = functools.reduce(Scalar.max, scores, arithmetic.number(-math.inf))
    weights = [(score - greatest).exp() for score in scores]
    total = _sum(arithmetic, weights)
    return [_dot(arithmetic, weights, column) / total for column in zip(*values, strict=True)]


def _dot(arithmetic: Arithmetic, one: Iterable[Scalar], other: Iterable[Scalar]) -> Scalar:
    return _sum(arithmetic, (left * right for left, right in zip(one, other, strict=True)))


def _attention_call(is_causal: bool, extents: Mapping[str, int]) -> SmallCall:
    batch, queries, keys, heads, width = extents.values()
    k, v = (_random(batch, keys, 2, width) for _ in "kv")  # one or two query heads of each
    return SmallCall({"is_causal": is_causal}, (_random(batch, queries, heads, width), k, v))


def _attention_place(params: Params, inputs: Inputs) -> tuple[bool, dict[str, int]]:
    batch, queries, heads, width = inputs[0].shape
    keys = inputs[1].shape[1]
    return params["is_causal"], {"batch": batch, "queries": queries, "keys": keys, "heads": heads, "width": width}


# ---- normalization by the root mean square


def rms_norm(arithmetic: Arithmetic, params: Params, x: Any, weight: Any) -> Any:
    """x [rows][width] over its root mean square, times weight [width] where there is one."""
    outputs = []
    for row in x:
        mean = _sum(arithmetic, (one * one for one in row)) / arithmetic.number(len(row))
        scale = (mean + params["eps"]).rsqrt()
        scaled = [one * scale for one in row]
        outputs.append(scaled if weight is None else [one * factor for one, factor in zip(scaled, weight, strict=True)])
    return outputs


def _rms_norm_call(weighted: bool, extents: Mapping[str, int]) -> SmallCall:
    rows, width = extents.values()
    x, weight = _random(rows, width), _random(width) if weighted else None
    return SmallCall({"normalized_shape": (width,), "eps": 1e-6}, (x, weight))


def _rms_norm_place(params: Params, inputs: Inputs) -> tuple[bool, dict[str, int]]:
    width = math.prod(params["normalized_shape"])
    return inputs[1] is not None, {"rows": inputs[0].numel() // width, "width": width}


SCALAR_REFERENCES: dict[str, ScalarReference] = {
    "GQADenseFwdOp": ScalarReference(
        attention,
        (False, True),
        # Under a causal mask the scores are of the second degree in the queries; no grid has more queries than keys.
        {"batch": (1, 2), "queries": (1, 2, 3), "keys": (3, 4), "heads": (2, 4), "width": (2, 3)},
        _attention_call,
        _attention_place,
    ),
    "RMSNormFwdOp": ScalarReference(
        rms_norm, (False, True), {"rows": (1, 2), "width": (3, 4)}, _rms_norm_call, _rms_norm_place
    ),
}

# Those whose own kind is another.
FURTHER_OPINIONS = frozenset({"GQADenseFwdOp", "RMSNormFwdOp"})
