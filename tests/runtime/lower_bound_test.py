"""Seed 4.7: a cost that the data decide and no checked call carries is priced at its least over every value."""

from __future__ import annotations

import pytest
import torch

from tileops.ops.implementations import implementation
from tileops.tests.runtime import entry_classes

M, E, N = 5, 4, 3
KEPT = 0.9  # the mass of scores that a token's rows cover

generated = entry_classes.generated("lower_bound.yaml")


class TopPMixFwdOp(generated.TopPMixFwdOp):
    """Mixes, for each token, the rows of its best scores: as few as reach the mass. Notes how many rows it read."""

    @implementation("torch")
    def _torch(self, call, scores, table):
        best, order = scores.sort(dim=1, descending=True)
        kept = best.cumsum(1) - best < KEPT
        self.rows_read = order[kept].unique().numel()
        return torch.stack([best[token, keep] @ table[order[token, keep]] for token, keep in enumerate(kept)])


def _scores(draw: torch.Generator, sharp: float) -> torch.Tensor:
    return (torch.rand(M, E, generator=draw) * sharp).softmax(dim=1)


def _recount(rows: int) -> int:
    """Bytes of a call that read `rows` rows of the table."""
    return 4 * (M * E + rows * N + M * N)


@pytest.mark.requirement("4.7.4")
def test_a_data_dependent_cost_that_no_checked_call_carries_is_priced_at_its_lower_bound():
    op, draw = TopPMixFwdOp(), torch.Generator().manual_seed(0)
    table = torch.rand(E, N, generator=draw)
    read = set()
    for sharp in (0.0, 1.0, 10.0, 1000.0):
        for _ in range(10):
            op(_scores(draw, sharp), table)
            read.add(op.rows_read)
            assert op.eval_roofline()[1] == _recount(1) <= _recount(op.rows_read)  # never more than any call moves
    assert max(read) == E  # the data did decide


@pytest.mark.requirement("4.7.4")
def test_the_lower_bound_is_reached_by_a_value_that_the_signature_admits():
    op = TopPMixFwdOp()
    scores = torch.zeros(M, E)
    scores[:, 2] = 1.0  # one row serves all tokens
    op(scores, torch.rand(E, N))
    assert op.rows_read == 1 and op.eval_roofline()[1] == _recount(op.rows_read)
