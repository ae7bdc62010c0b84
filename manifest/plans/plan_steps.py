"""The steps of an inference plan: each solves an index or let, or checks a tensor against known indices."""

from __future__ import annotations

import dataclasses

from tileops.manifest.language import expr


@dataclasses.dataclass(frozen=True)
class Offset:
    """A position among a tensor's axes: a number of axes plus the lengths of runs already known."""

    axes: int
    runs: tuple[expr.Expr, ...] = ()


@dataclasses.dataclass(frozen=True)
class Rank:
    """Tensor `tensor` has `least` axes, exactly or (`open`: one run is unknown) at least."""

    tensor: str
    term: str
    least: Offset
    open: bool


@dataclasses.dataclass(frozen=True)
class SolveDType:
    """`index` := dtype of `tensor`, which must be one of `allowed`."""

    tensor: str
    index: str
    allowed: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class CheckDType:
    """The dtype of `tensor` is what `term` gives."""

    tensor: str
    term: expr.Expr


@dataclasses.dataclass(frozen=True)
class SolveAxis:
    """`index` := (size - offset) / factor, exact and >= 0, of the axis at `at` from the front or the back."""

    tensor: str
    index: str
    term: expr.Expr
    factor: int
    offset: expr.Expr
    at: Offset
    from_back: bool


@dataclasses.dataclass(frozen=True)
class CheckAxis:
    """The axis at `at` is what `term` gives."""

    tensor: str
    term: expr.Expr
    at: Offset
    from_back: bool


@dataclasses.dataclass(frozen=True)
class SolveRun:
    """`index` := the axes after `front` and before `back`."""

    tensor: str
    index: str
    front: Offset
    back: Offset


@dataclasses.dataclass(frozen=True)
class CheckRun:
    """The axes from `at` on are what `term` (of known length) gives; `last`: no axis follows them."""

    tensor: str
    term: expr.Expr
    at: Offset
    from_back: bool
    last: bool


@dataclasses.dataclass(frozen=True)
class SolveLet:
    """`name` := what its expression gives."""

    name: str
    term: expr.Expr


TensorStep = Rank | SolveDType | CheckDType | SolveAxis | CheckAxis | SolveRun | CheckRun
Step = TensorStep | SolveLet
