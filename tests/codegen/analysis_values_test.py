"""The roofline document, sections 4.7 and 4.2: traffic that values decide, and what the benchmark layer reads.

One test a sentence. Stages of composites are in tests/runtime; that no bench source computes a price is held by
tests/harness/sources_test.py.
"""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest
import torch

from tileops.manifest.language import generators
from tileops.ops import catalogue, workloads
from tileops.ops.errors import OpCallError, OpNotAvailableError
from tileops.perf.harness import records
from tileops.tests.codegen.small_entries import OP, called, demo, meta, module, text_of

IDS = {"dtype": "int32", "shape": "[M, 2]", "values": "topk_ids(M, 2, 8)", "requires": ["in_range(0, 8)"]}
ROUTED = demo(
    {"func": "demo_formulas.distinct"},
    inputs={"x": {"dtype": "T", "shape": "[M, N]"}, "ids": IDS},
    outputs={"y": {"dtype": "T", "shape": "[M, N]"}, "seen": {"dtype": "int32", "shape": "[8]"}},
)


@pytest.fixture(autouse=True)
def formulas(monkeypatch):
    """demo_formulas.distinct: a row of x for each id that occurs."""
    made = types.ModuleType("demo_formulas")
    made.distinct = lambda call: (0, len(set(call.values("ids").flatten().tolist())) * call.indices["N"] * 2)
    monkeypatch.setitem(sys.modules, "demo_formulas", made)
    return made


def ids(*rows) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.int32)


# ---- 4.7


@pytest.mark.requirement("4.7.1")
def test_4_7_a_formula_prices_this_call_and_not_an_average_over_calls_of_that_shape():
    op = called(ROUTED, meta(3, 5), ids([0, 1], [0, 1], [0, 1]))
    assert op.eval_roofline()[1] == 2 * 10
    op(meta(3, 5), ids([0, 1], [2, 3], [4, 5]))
    assert op.eval_roofline()[1] == 6 * 10


@pytest.mark.requirement("4.7.2")
def test_4_7_it_reads_the_checked_calls_metadata_tensors_and_never_what_the_op_computed():
    call = called(ROUTED, meta(3, 5), ids([0, 1], [0, 1], [0, 1])).last_call
    for name in ("seen", "y", "x", "nothing"):
        with pytest.raises(KeyError, match=f"'{name}' is no metadata tensor of this call; its metadata tensors: ids"):
            call.values(name)


def test_4_7_values_that_were_written_since_the_call_are_no_longer_the_calls():
    held = ids([0, 1], [0, 1], [0, 1])
    op = called(ROUTED, meta(3, 5), held)
    held[0, 0] = 7
    with pytest.raises(OpNotAvailableError, match="DemoFwdOp: 'ids' was written after the call was checked"):
        op.eval_roofline()


def test_4_7_values_that_no_call_holds_on_meta_are_not_available():
    with pytest.raises(OpNotAvailableError, match="on meta"):
        called(ROUTED, meta(3, 5), meta(3, 2, dtype=torch.int32)).eval_roofline()


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint64"])
def test_4_7_a_price_that_numpy_counted_is_a_price(formulas, dtype):
    formulas.distinct = lambda call: (call.values("ids").sum().astype(dtype), call.values("ids").max().astype(dtype))
    found = called(ROUTED, meta(3, 5), ids([0, 1], [0, 1], [0, 7])).eval_roofline()
    assert found == (9, 7) and [type(value) for value in found] == [int, int]


@pytest.mark.parametrize("wrong", [True, 1.5, np.float32(2), np.bool_(True), np.int64(-1), torch.tensor(3)])
def test_4_7_what_is_no_count_is_no_price(formulas, wrong):
    formulas.distinct = lambda call: (wrong, 1)
    with pytest.raises(OpCallError, match="a price must be a finite non-negative integer"):
        called(ROUTED, meta(3, 5), ids([0, 1], [0, 1], [0, 7])).eval_roofline()


@pytest.mark.parametrize("huge", [2**63, 1e300])
def test_4_7_a_price_that_no_record_holds_is_an_error(formulas, huge):
    formulas.distinct = lambda call: (huge, 1)
    with pytest.raises(OpCallError, match=f"a price must be at most {2**63 - 1}"):
        called(ROUTED, meta(3, 5), ids([0, 1], [0, 1], [0, 7])).eval_roofline()


@pytest.mark.requirement("4.7.5")
def test_4_7_a_rows_deciding_values_come_from_a_generator_of_their_own_and_not_the_global_stream():
    made = getattr(module(text_of(ROUTED)), OP)
    (case,) = made.CASES
    first = workloads.build_inputs(made, case, "cpu")["ids"]
    torch.manual_seed(99)
    torch.rand(1000)
    assert torch.equal(first, workloads.build_inputs(made, case, "cpu")["ids"])
    assert torch.equal(first, workloads.build_inputs(made, case, "cpu", variant=3)["ids"])
    assert torch.equal(first, workloads.build_inputs(made, case, "meta")["ids"])


@pytest.mark.requirement("4.7.5")
def test_4_7_a_draw_added_upstream_moves_no_values():
    """A tensor's stream is its own: named by op, case and tensor, whatever stands before it in the signature."""
    before = demo(
        ROUTED["roofline"],
        inputs={"x": {"dtype": "T", "shape": "[M, N]"}, "early": {**IDS, "values": "topk_ids(M, 2, 8)"}, "ids": IDS},
        outputs=ROUTED["signature"]["outputs"],
    )
    both = []
    for entry in (ROUTED, before):
        made = getattr(module(text_of(entry)), OP)
        both.append(workloads.build_inputs(made, made.CASES[0], "cpu"))
    assert torch.equal(both[0]["ids"], both[1]["ids"])
    assert not torch.equal(both[1]["early"], both[1]["ids"])
    seeds = {generators.tensor_seed(op, case, name) for op in "AB" for case in "cd" for name in ("ids", "x")}
    assert len(seeds) == 8


def test_4_7_a_seeded_generators_draw_depends_on_its_seed_alone():
    one, again, other = (generators.generate("topk_ids", (64, 2, 8), seed).tolist() for seed in (1, 1, 2))
    assert one == again != other


@pytest.mark.requirement("4.7.6")
def test_4_7_an_op_states_what_decided_the_number_and_the_benchmark_records_it():
    made = catalogue.load()["MoePermuteNopadFwdOp"]
    case = made.CASES[0]
    op = workloads.construct(made, case, device="meta")
    op(**workloads.build_inputs(made, case, "meta"))
    record = records.new_record(made, case, implementation="")
    records.set_price(record, op)
    assert dict(record.data_terms) == op.roofline_data_terms() and record.data_terms["local_pairs"] > 0


def test_4_7_an_op_whose_shapes_decide_alone_has_no_data_terms():
    assert called(demo(), meta(3, 5)).roofline_data_terms() == {}


@pytest.mark.requirement("4.7.6")
def test_4_7_every_project_op_with_deciding_values_states_its_terms():
    """A func that reads values has terms; an entry whose price no value moves has none."""
    for made in catalogue.load().values():
        case = made.CASES[0]
        op = workloads.construct(made, case, device="meta")
        inputs = workloads.build_inputs(made, case, "meta")
        unvalued = {
            name: tensor.to("meta") if name in made.METADATA_NAMES and tensor is not None else tensor
            for name, tensor in inputs.items()
        }
        op(**unvalued)
        try:
            op.eval_roofline()
            decided = False
        except OpNotAvailableError:
            decided = True
        op(**inputs)
        assert bool(op.roofline_data_terms()) is decided, made.ENTRY


# ---- 1.2, statement 3


@pytest.mark.requirement("1.2.20")
def test_1_2_every_row_binds_one_storage_per_declared_input():
    for made in catalogue.load().values():
        for case in made.CASES:
            bound = [one for one in workloads.build_inputs(made, case, "meta").values() if one is not None]
            bound += [one for one in workloads.construct(made, case, device="meta").params.values() if _is_tensor(one)]
            assert len({one.untyped_storage()._cdata for one in bound}) == len(bound), (made.ENTRY, case.case_id)


def _is_tensor(value) -> bool:
    return isinstance(value, torch.Tensor)


# ---- 4.2 Benchmark layer


@pytest.mark.requirement("2.1.2", "3.6", "4.2.4")
def test_4_2_a_record_holds_flops_bytes_and_the_roof_key_as_the_op_gives_them():
    for made in catalogue.load().values():
        for case in made.CASES[:2]:
            op = workloads.construct(made, case, device="meta")
            op(**workloads.build_inputs(made, case, "meta"))
            record = records.new_record(made, case, implementation="")
            records.set_price(record, op)
            assert (record.flops, record.bytes) == op.eval_roofline()
            assert record.roof_key == op.roof_key() and record.op == made.ENTRY


@pytest.mark.requirement("4.2.2")
def test_4_2_a_row_is_instantiated_as_it_says():
    """Its params construct the op; indices, some and dtype_cases build the tensors; label names the case."""
    inputs = {"x": {"dtype": "T", "shape": "[M, N]"}, "w": {"dtype": "float32", "shape": "[k]", "optional": True}}
    rows = [
        {"label": "bare", "M": 3, "N": 5, "k": 7, "dtype_cases": [{"T": "float32"}, {"T": "float16"}]},
        {"label": "with", "M": 2, "N": 1, "k": 4, "some": ["w"], "dtype_cases": [{"T": "float16"}]},
    ]
    made = getattr(module(text_of(demo(inputs=inputs, rows=rows, params={"k": {"type": "int"}}))), OP)
    assert [case.case_id for case in made.CASES] == ["bare-float32", "bare-float16", "with-float16"]
    assert [workloads.construct(made, case).params for case in made.CASES] == [{"k": 7}, {"k": 7}, {"k": 4}]
    shown = [
        {
            name: None if tensor is None else (tuple(tensor.shape), str(tensor.dtype))
            for name, tensor in workloads.build_inputs(made, case, "cpu").items()
        }
        for case in made.CASES
    ]
    assert shown == [
        {"x": ((3, 5), "torch.float32"), "w": None},
        {"x": ((3, 5), "torch.float16"), "w": None},
        {"x": ((2, 1), "torch.float16"), "w": ((4,), "torch.float32")},
    ]
