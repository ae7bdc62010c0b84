"""Mixture-of-experts permutation: reference and interpreted kernels against a sort of Python tuples."""

import pytest
import torch

from tileops.ops.families.moe import MoePermuteNopadFwdOp
from tileops.ops.kernels.moe import permute as kernels
from tileops.tests.ops.comparing import DTYPES

CASES = [  # tokens, slots, width, experts, local experts (None: no map)
    (1, 8, 72, 16, None),
    (5, 3, 129, 7, None),
    (9, 4, 30, 12, 5),
    (33, 2, 16, 40, 20),
    (40, 1, 5, 1, None),
    (3, 2, 9, 6, 2),
    (0, 4, 8, 6, None),
    (3, 2, 0, 6, None),
]


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def _routing(tokens, slots, experts, local):
    rows = [torch.randperm(experts)[:slots] for _ in range(tokens)]
    ids = torch.stack(rows).int() if rows else torch.zeros(0, slots, dtype=torch.int32)
    if local is None:
        return ids, None
    expert_map = torch.full((experts,), -1, dtype=torch.int32)
    expert_map[torch.randperm(experts)[:local]] = torch.arange(local, dtype=torch.int32)
    return ids, expert_map


def _check(op, hidden, ids, expert_map, local):
    outputs = op(hidden, ids, expert_map)
    perm, offsets, sizes, first, rows = op.specified_outputs(op.last_call, outputs)
    place = lambda expert: expert if expert_map is None else expert_map[expert].item()  # noqa: E731
    pairs = sorted((place(expert), flat) for flat, expert in enumerate(ids.flatten().tolist()) if place(expert) >= 0)
    by_expert = [sum(1 for expert, _ in pairs if expert == e) for e in range(local)]

    assert sizes.tolist() == by_expert
    assert offsets.tolist() == [sum(by_expert[:e]) for e in range(local)]
    assert first.tolist() == [sum(by_expert[:e]) for e in range(local + 1)] and first.dtype == torch.int64
    expected = [-1] * ids.numel()
    for row, (_, flat) in enumerate(pairs):
        expected[flat] = row
    assert rows.tolist() == expected
    assert torch.equal(perm, hidden[[flat // ids.shape[1] for _, flat in pairs]])
    tokens = {flat // ids.shape[1] for _, flat in pairs}
    named = len(set(ids.flatten().tolist())) if expert_map is not None else 0
    assert op.roof_key() == "cuda_core.int32"
    assert op.roofline_data_terms() == {
        "local_pairs": len(pairs),
        "tokens_read": len(tokens),
        "experts_hit": len({expert for expert, _ in pairs}),
        "map_entries_read": named,
    }
    assert op.eval_roofline_read_bytes() == (
        len(tokens) * hidden.shape[1] * hidden.element_size() + ids.numel() * 4 + named * 4
    )


@pytest.mark.parametrize("launches", ["reference", "one", "three", "three, in blocks"])
@pytest.mark.parametrize("tokens, slots, width, experts, local", CASES)
def test_permute(tokens, slots, width, experts, local, launches, monkeypatch):
    if launches.startswith("three"):
        monkeypatch.setattr(kernels, "_ONE_LAUNCH", 0)
    if launches.endswith("blocks"):
        monkeypatch.setattr(kernels, "_BLOCK", 16)
        monkeypatch.setattr(kernels, "_SCAN_TILE", 64)  # and a scan in several steps
    ids, expert_map = _routing(tokens, slots, experts, local)
    target = "torch" if launches == "reference" else "triton"
    op = MoePermuteNopadFwdOp(experts, local or experts, target=target)
    for dtype in DTYPES[:2]:
        _check(op, torch.randn(tokens, width).to(dtype), ids, expert_map, local or experts)


@pytest.mark.parametrize("target", ["torch", "triton"])
def test_one_expert_may_take_every_pair_and_a_token_may_name_it_twice(target):
    ids = torch.full((9, 2), 1, dtype=torch.int32)
    _check(MoePermuteNopadFwdOp(3, 3, target=target), torch.randn(9, 8).half(), ids, None, 3)


@pytest.mark.parametrize("target", ["torch", "triton"])
def test_no_pair_may_be_local(target):
    ids, expert_map = torch.zeros(4, 2, dtype=torch.int32), torch.tensor([-1, 0], dtype=torch.int32)
    _check(MoePermuteNopadFwdOp(2, 1, target=target), torch.randn(4, 8).half(), ids, expert_map, 1)


@pytest.mark.parametrize("one_launch", [0, 4096])
def test_an_id_out_of_range_is_local_to_nobody(one_launch, monkeypatch):
    monkeypatch.setattr(kernels, "_ONE_LAUNCH", one_launch)
    hidden = torch.randn(2, 8).half()
    ids = torch.tensor([[0, -1], [7, 1]], dtype=torch.int32)
    for target in ("torch", "triton"):
        _, _, sizes, _, rows = MoePermuteNopadFwdOp(2, 2, target=target)(hidden, ids)
        assert sizes.tolist() == [1, 1] and rows.tolist() == [0, -1, -1, 1]


def test_views_are_read_by_their_strides():
    hidden, ids = torch.randn(16, 10).half().T, torch.randint(0, 4, (3, 10), dtype=torch.int32).T
    _check(MoePermuteNopadFwdOp(4, 4, target="triton"), hidden, ids, None, 4)


def test_more_slots_than_the_kernel_unrolls_are_left_to_torch():
    op = MoePermuteNopadFwdOp(40, 40)
    call = op.check(torch.ones(1, 4).half(), torch.zeros(1, 33, dtype=torch.int32))
    assert op.serving(call) == ("torch",)
