"""The roofline document, section 2.2, "Derived bytes", and the statements of 1.2 that they follow from.

Each test calls an emitted op on meta and counts by hand what its tensors move: (bytes, of which reads).
"""

from __future__ import annotations

import pytest
import torch

from tileops.ops.errors import OpNotAvailableError
from tileops.tests.codegen.small_entries import called, demo, meta, op_class, source_of, verdict

X = {"dtype": "T", "shape": "[M, N]"}
HALF = [{"T": "float16"}]


def moved(op) -> tuple[int, int]:
    """(bytes, of which reads) of the last call."""
    return op.eval_roofline()[1], op.eval_roofline_read_bytes()


def rows(*changes) -> list[dict]:
    """A row of 3 by 5 for each of the changes."""
    return [{"label": f"r{at}", "M": 3, "N": 5, "dtype_cases": HALF, **change} for at, change in enumerate(changes)]


@pytest.mark.requirement("1.2.11", "2.2.9", "4.4.2b")
def test_each_tensor_is_read_or_written_once():
    op = called(demo(inputs={"a": X, "b": X}), meta(3, 5), meta(3, 5))
    assert moved(op) == (30 + 30 + 30, 60)


@pytest.mark.requirement("1.2.17")
def test_a_call_that_computes_nothing_moves_nothing_that_it_does_not_read():
    inputs = {"x": X, "w": {"dtype": "T", "shape": "[N]"}}
    assert moved(called(demo(inputs=inputs), meta(0, 5), meta(5))) == (0, 0)
    # A state that the call writes is a result too, so that the call reads what decides the state.
    state = {**inputs, "w": {"dtype": "T", "shape": "[N]", "mutated": True}}
    assert moved(called(demo(inputs=state), meta(0, 5), meta(5))) == (20, 10)
    # What the entry says holds.
    stated = demo({"flops": "M", "bytes": "bytes(w) + bytes(y)"}, inputs=inputs)
    assert called(stated, meta(0, 5), meta(5)).eval_roofline()[1] == 10


@pytest.mark.requirement("1.2.12", "2.2.11")
def test_every_output_is_one_write():
    op = called(demo(outputs={"y": X, "z": {"dtype": "int64", "shape": "[M]"}}), meta(3, 5))
    assert moved(op) == (30 + 30 + 24, 30)


@pytest.mark.requirement("1.2.21", "2.2.9")
def test_every_tensor_argument_is_its_own_storage_so_an_aliasing_call_is_two_operands():
    x = meta(3, 5)
    assert moved(called(demo(inputs={"a": X, "b": X}), x, x)) == (90, 60)


def test_a_tensor_is_charged_its_own_shape_and_not_the_broadcast_one():
    entry = demo(inputs={"x": X, "w": {"dtype": "T", "shape": "[N]"}})
    assert moved(called(entry, meta(3, 5), meta(5))) == (30 + 10 + 30, 40)


def test_size_follows_the_dtype_of_this_call():
    assert moved(called(demo(), meta(3, 5, dtype=torch.float32))) == (120, 60)


@pytest.mark.requirement("2.2.12")
@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        ("bool", 1),
        ("uint8", 1),
        ("float8_e4m3fn", 1),
        ("float16", 2),
        ("bfloat16", 2),
        ("int32", 4),
        ("float64", 8),
        ("complex64", 8),
        ("complex128", 16),
    ],
)
def test_size_is_prod_of_shape_times_bits_over_eight(dtype, size):
    entry = demo(outputs={"y": {"dtype": dtype, "shape": "[M, N]"}})
    assert moved(called(entry, meta(3, 5))) == (30 + 15 * size, 30)


@pytest.mark.requirement("2.2.12")
def test_packed_dtypes_are_charged_by_carrier():
    """Two four-bit values a byte: [N, K // 2] of uint8 is N * K / 2 bytes."""
    entry = demo(
        forall={"N": "Dim", "K": "Dim"},
        let={"packed": "K // 2"},
        inputs={"x": {"dtype": "float16", "shape": "[K]"}, "q": {"dtype": "uint8", "shape": "[N, packed]"}},
        outputs={"y": {"dtype": "float16", "shape": "[N]"}},
        rows=[{"label": "row", "N": 4, "K": 6}],
        roofline={"flops": "0"},
    )
    assert moved(called(entry, meta(6), meta(4, 3, dtype=torch.uint8))) == (12 + 12 + 8, 24)


def test_an_absent_tensor_is_charged_nothing():
    entry = demo(inputs={"x": X, "w": {"dtype": "T", "shape": "[N]", "optional": True}}, rows=rows({}, {"some": ["w"]}))
    assert moved(called(entry, meta(3, 5))) == (60, 30)
    assert moved(called(entry, meta(3, 5), meta(5))) == (70, 40)


def test_a_nullable_output_is_written_where_it_is_there():
    entry = demo(
        params={"save": {"type": "bool", "default": False}},
        outputs={"y": X, "s": {"dtype": "float32", "shape": "[M]", "nullable": "save"}},
        rows=rows({}, {"save": True}),
    )
    assert moved(called(entry, meta(3, 5))) == (60, 30)
    assert moved(called(entry, meta(3, 5), save=True)) == (72, 30)


def test_a_tensor_with_a_shared_presence_tag_is_read_where_its_condition_holds():
    entry = demo(
        params={"mode": {"type": "'plain' | 'scaled'", "default": "plain"}},
        inputs={"x": X, "w": {"dtype": "T", "shape": "[N]", "optional": "mode == 'scaled'"}},
        rows=rows({}, {"mode": "scaled"}),
    )
    assert moved(called(entry, meta(3, 5))) == (60, 30)
    assert moved(called(entry, meta(3, 5), meta(5), mode="scaled")) == (70, 40)


@pytest.mark.requirement("2.2.11")
def test_a_mutated_input_is_read_and_written():
    entry = demo(inputs={"x": X, "s": {"dtype": "float32", "shape": "[N]", "mutated": True}})
    assert moved(called(entry, meta(3, 5), meta(5, dtype=torch.float32))) == (30 + 20 + 20 + 30, 50)


@pytest.mark.requirement("1.2.13")
def test_a_conditionally_mutated_input_is_both_where_it_is_written_and_a_read_elsewhere():
    entry = demo(
        params={"train": {"type": "bool", "default": False}},
        inputs={"x": X, "s": {"dtype": "float32", "shape": "[N]", "mutated": "train"}},
        rows=rows({}, {"train": True}),
    )
    s = meta(5, dtype=torch.float32)
    assert moved(called(entry, meta(3, 5), s)) == (30 + 20 + 30, 50)
    assert moved(called(entry, meta(3, 5), s, train=True)) == (30 + 20 + 20 + 30, 50)


@pytest.mark.requirement("1.2.14", "2.2.11")
def test_a_write_only_input_is_one_write():
    entry = demo(inputs={"x": X, "s": {"dtype": "float32", "shape": "[N]", "mutated": True, "write_only": True}})
    assert moved(called(entry, meta(3, 5), meta(5, dtype=torch.float32))) == (30 + 20 + 30, 30)


def test_a_conditionally_write_only_input_is_one_write_where_it_is_written_and_one_read_elsewhere():
    entry = demo(
        params={"fill": {"type": "bool", "default": False}},
        inputs={"x": X, "s": {"dtype": "float32", "shape": "[N]", "mutated": "fill", "write_only": True}},
        rows=rows({}, {"fill": True}),
    )
    s = meta(5, dtype=torch.float32)
    assert moved(called(entry, meta(3, 5), s)) == (80, 50)
    assert moved(called(entry, meta(3, 5), s, fill=True)) == (80, 30)


@pytest.mark.requirement("1.2.15", "2.2.10")
def test_a_declared_alias_is_one_storage():
    entry = demo(inputs={"x": {**X, "mutated": True}}, outputs={"y": {**X, "alias": "x"}})
    assert moved(called(entry, meta(3, 5))) == (60, 30)


def test_an_alias_is_an_output_of_its_own_where_its_input_is_not_written():
    entry = demo(
        params={"inplace": {"type": "bool", "default": False}},
        inputs={"x": {**X, "mutated": "inplace"}, "r": X},
        outputs={"y": {**X, "alias": "x"}},
        rows=rows({}, {"inplace": True}),
    )
    assert moved(called(entry, meta(3, 5), meta(3, 5))) == (30 + 30 + 30, 60)  # reads x and r, writes y
    assert moved(called(entry, meta(3, 5), meta(3, 5), inplace=True)) == (30 + 30 + 30, 60)  # reads x and r, writes x


@pytest.mark.requirement("2.2.10")
def test_a_buffer_is_the_outputs_own_storage_whether_it_is_passed_or_not():
    entry = demo(outputs={"y": {**X, "buffer": "out"}})
    op = op_class(entry)()
    op(meta(3, 5))
    assert moved(op) == (60, 30)
    op(meta(3, 5), out=meta(3, 5))
    assert moved(op) == (60, 30)


def test_a_construction_time_tensor_is_a_read():
    entry = demo(params={"w": {"type": "torch.Tensor", "dtype": "float32", "shape": "[N]"}})
    assert moved(called(entry, meta(3, 5), w=meta(5, dtype=torch.float32))) == (30 + 20 + 30, 50)


def test_a_metadata_tensor_is_a_read_like_any_input():
    entry = demo(inputs={"x": X, "ids": {"dtype": "int32", "shape": "[M, 2]", "values": "topk_ids(M, 2, 8)"}})
    assert moved(called(entry, meta(3, 5), torch.zeros(3, 2, dtype=torch.int32))) == (30 + 24 + 30, 54)


def test_an_empty_tensor_moves_nothing_and_a_scalar_one_element():
    assert moved(called(demo(), meta(0, 5))) == (0, 0)
    entry = demo(outputs={"y": {"dtype": "float32", "shape": "[]"}})
    assert moved(called(entry, meta(3, 5))) == (34, 30)


def test_an_op_without_inputs_writes_alone():
    entry = demo(
        {"flops": "0"},
        forall={},
        params={"n": {"type": "int"}},
        inputs={},
        outputs={"y": {"dtype": "int64", "shape": "[n]"}},
        rows=[{"label": "row", "n": 4}],
    )
    torch.set_default_device("meta")
    try:
        assert moved(called(entry, n=4)) == (32, 0)
    finally:
        torch.set_default_device(None)


@pytest.mark.requirement("1.2.16")
def test_an_intermediate_never_counts():
    """A let that is larger than every tensor is no tensor."""
    assert moved(called(demo(let={"scores": "M * N * M * N"}, roofline={"flops": "scores"}), meta(3, 5))) == (60, 30)


@pytest.mark.requirement("1.2.16")
def test_what_one_stage_leaves_to_another_never_counts():
    stages = [{"name": "scores", "op": "MulFwdOp"}, {"name": "result", "op": "RMSNormFwdOp"}]
    composite = {**demo(), "composition": {"kind": "composite", "stages": stages}}
    assert moved(called(composite, meta(3, 5))) == (60, 30)


@pytest.mark.requirement("2.2.2", "2.2.13")
def test_an_entry_whose_traffic_differs_writes_bytes_and_those_stand():
    assert called(demo({"flops": "0", "bytes": "7"}), meta(3, 5)).eval_roofline() == (0, 7)


# ---- the read half: only where the bytes are derived


@pytest.mark.parametrize(
    "block", [{"flops": "0", "bytes": "2 * bytes(x)"}, {"func": "tileops.perf.formulas.moe_permute_nopad_roofline"}]
)
def test_an_entry_with_bytes_or_func_of_its_own_has_no_read_half(block):
    assert "eval_roofline_read_bytes" not in source_of(demo(block))
    with pytest.raises(OpNotAvailableError, match="DemoFwdOp: no read half is declared"):
        called(demo(block), meta(3, 5)).eval_roofline_read_bytes()


def test_the_read_half_is_generated_where_the_bytes_are_derived():
    assert source_of(demo()).count("def eval_roofline_read_bytes") == 1


def test_an_entry_with_malformed_bytes_is_not_charged_by_its_signature():
    analysis, _ = verdict(demo({"flops": "0", "bytes": ""}))
    assert analysis.traffic is None and not analysis.emittable
