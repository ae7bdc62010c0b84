"""Generated code of an entry with many independent discriminants checks, solves and returns each fact by itself."""

from __future__ import annotations

import pytest
import torch

from tileops.ops.errors import OpCallError
from tileops.tests.codegen.emitted import build
from tileops.tests.manifest.entries import OP, small
from tileops.tests.manifest.independent import MANY, WAYS, many


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    return {way: build(tmp_path_factory.mktemp("apart"), {OP: many(way)})[OP] for way in WAYS}


def meta(*shape: int) -> torch.Tensor:
    return torch.empty(shape, device="meta")


def test_an_output_is_there_where_its_input_is(classes):
    op = classes[WAYS[0]]()
    call = op.check(meta(3, 5), t4=meta(3), t16=meta(3))
    assert list(call.outputs) == ["y", "z4", "z16"] and call.tensors["z16"].shape == (3,)
    with pytest.raises(OpCallError, match="t4"):
        op.check(meta(3, 5), t4=meta(4))


def test_each_output_has_the_shape_that_its_own_flag_chooses(classes):
    call = classes[WAYS[1]](p2=True).check(meta(3, 5))
    assert [record.shape for record in call.outputs.values()] == [(3,) if at == 2 else (5,) for at in range(MANY)]


def test_each_conditional_input_is_passed_exactly_where_its_flag_holds(classes):
    op = classes[WAYS[2]](p3=True)
    assert "t3" in op.check(meta(3, 5), t3=meta(3)).tensors
    with pytest.raises(OpCallError, match="t3"):
        op.check(meta(3, 5))
    with pytest.raises(OpCallError, match="t4"):
        op.check(meta(3, 5), t3=meta(3), t4=meta(3))


def test_each_family_applies_by_its_own_flag(classes):
    op = classes[WAYS[3]](p0=True, p5=True)
    shapes = {f"t{at}": meta(5, 3) if at in (0, 5) else meta(3, 5) for at in range(MANY)}
    assert op.check(**shapes).indices == {"N": 3, "M": 5}
    with pytest.raises(OpCallError, match="t5"):
        op.check(**shapes | {"t5": meta(3, 5)})


def test_an_index_is_bound_where_its_input_is_there(classes):
    call = classes[WAYS[4]](p1=True).check(meta(3, 5), t1=meta(7, 3))
    assert (
        call.indices == {"N": 3, "M": 5, "K1": 7}
        and call.tensors["z1"].shape == (8,)
        and call.tensors["z2"].shape == (5,)
    )


def test_an_index_that_one_optional_input_alone_solves_is_bound_where_it_is_passed(classes):
    call = classes[WAYS[7]]().check(meta(3, 5), t1=meta(7, 3))
    assert call.indices == {"N": 3, "M": 5, "K1": 7}
    assert call.tensors["z1"].shape == (8,) and call.tensors["z2"].shape == (5,)


def test_an_output_is_the_input_that_is_written(classes):
    passed = {f"t{at}": meta(3) for at in range(MANY)}
    call = classes[WAYS[5]](p2=True).check(meta(3, 5), **passed)
    assert list(call.aliases) == ["z2"] and call.aliases["z2"] is passed["t2"]


def test_a_buffer_for_an_output_that_the_call_lacks_is_refused(tmp_path):
    entry = many(WAYS[0])
    for name, tensor in entry["signature"]["outputs"].items():
        tensor.update(buffer="out") if name != "y" else None
    op = build(tmp_path, {OP: entry})[OP]()
    buffers = [meta(3) if at in (4, 5) else None for at in range(MANY)]
    assert list(op.check(meta(3, 5), t4=meta(3), t5=meta(3), out=tuple(buffers)).buffers) == ["z4", "z5"]
    with pytest.raises(OpCallError, match="a buffer for output 'z5' was passed, but this call has no such output"):
        op.check(meta(3, 5), t4=meta(3), out=tuple(buffers))


def test_an_index_that_a_flag_lets_one_tensor_solve_and_another_always_does_is_compared(tmp_path):
    inputs = {"w": {"dtype": "float32", "shape": "[K if p else 1]"}, "v": {"dtype": "float32", "shape": "[K]"}}
    entry = small(
        forall={"N": "Dim", "K": "Dim"},
        params={"p": {"type": "bool", "default": False}},
        inputs={"x": {"dtype": "float32", "shape": "[N]"}, **inputs},
        workloads=[{"label": "row", "N": 3, "K": 4}],
    )
    op = build(tmp_path, {OP: entry})[OP]
    assert op(p=True).check(meta(3), meta(4), meta(4)).indices["K"] == 4
    assert op().check(meta(3), meta(1), meta(5)).indices["K"] == 5
    with pytest.raises(OpCallError, match="axis 0 of 'v' is declared 'K', which is 4 in this call, but 5 was found"):
        op(p=True).check(meta(3), meta(4), meta(5))


def test_a_rule_may_read_a_dtype_that_only_calls_of_one_branch_have(tmp_path):
    entry = small(
        forall={"N": "Dim", "T": "DType[float16 | float32]"},
        params={"p": {"type": "bool", "default": False}},
        inputs={"x": {"dtype": "float32", "shape": "[N]"}, "w": {"dtype": "T", "shape": "[N]", "optional": "p"}},
        shape_rules=["(N > 4 if T == 'float16' else True) if p else True"],
        workloads=[{"label": "row", "N": 3}, {"label": "with", "N": 5, "p": True, "dtype_cases": [{"T": "float16"}]}],
    )
    op = build(tmp_path, {OP: entry})[OP]
    assert op().check(meta(3)).indices == {"N": 3}
    assert op(p=True).check(meta(3), meta(3)).indices == {"N": 3, "T": "float32"}
    with pytest.raises(OpCallError, match=r"does not hold for this call \(p = True, N = 3, T = float16\)"):
        op(p=True).check(meta(3), meta(3).half())


def test_steps_that_all_branches_share_are_written_once(tmp_path):
    tensors = {"w": "[K if p else 1]", "v": "[K]", "u": "[N]"}
    entry = small(
        forall={"N": "Dim", "K": "Dim"},
        params={"p": {"type": "bool", "default": False}},
        inputs={"x": {"dtype": "float32", "shape": "[N]"}}
        | {name: {"dtype": "float32", "shape": shape} for name, shape in tensors.items()},
        outputs={"y": {"dtype": "float32", "shape": "[K if p else N]"}},
        workloads=[{"label": "row", "N": 3, "K": 4}],
    )
    build(tmp_path, {OP: entry})
    (text,) = [path.read_text() for path in tmp_path.glob("demo_*.py")]
    body = text.partition("def check(")[2].partition("def eval_roofline")[0]
    assert body.count('"u", "float32"') == body.count("return _CheckedCall") == 1
    assert "        if not p:\n            _y_shape = (N,)\n        else:\n            _y_shape = (K,)\n" in body


def test_a_rule_that_fails_says_what_the_call_bound(tmp_path):
    entry = many(WAYS[4])
    entry["signature"]["shape_rules"] = ["p1 and K1 > 3 or p0 or N == 3"]
    op = build(tmp_path, {OP: entry})[OP]
    with pytest.raises(OpCallError, match=r"does not hold for this call \(p0 = False, p1 = False, N = 4\)"):
        op().check(meta(4, 5))
    with pytest.raises(OpCallError, match=r"does not hold for this call \(p0 = False, p1 = True, N = 4, K1 = 2\)"):
        op(p1=True).check(meta(4, 5), t1=meta(2, 4))
