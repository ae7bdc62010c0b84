"""Bounds the effort of evaluating a formula for the rows of its entry."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from tileops.manifest.language import expr
from tileops.manifest.language.evaluate import UnknownNameError, evaluate
from tileops.manifest.rows.cases import Case

# Reported elsewhere: domain errors when the row is priced, an unsolved index with the formula's branch.
_SAID_ELSEWHERE = (UnknownNameError, ValueError, ArithmeticError, IndexError)


def work_out(node: expr.Expr, cases: Iterable[Case]) -> None:
    """Evaluates a kind-checked formula on every case. Raises effort.ExhaustedError if that costs too much."""
    for case in cases:
        sizes = {tensor.name: tensor.bytes for tensor in (*case.constants, *case.inputs, *case.outputs)}
        with contextlib.suppress(*_SAID_ELSEWHERE):
            evaluate(node, case.values, case.present, sizes)
