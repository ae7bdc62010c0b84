"""Effects: who is whose storage on which branch, and what is charged there."""

from __future__ import annotations

import pytest
import torch

from tileops.ops.errors import OpCallError
from tileops.tests.codegen.emitted import build


def _entry(**state):
    """y is `state` where that is written; T[N] float32 of N = 5 is 20 bytes."""
    return {
        "family": "demo",
        "status": "spec-only",
        "signature": {
            "forall": {"N": "Dim"},
            "params": {"train": {"type": "bool", "default": False}, "keep": {"type": "bool", "default": False}},
            "inputs": {
                "x": {"dtype": "float32", "shape": "[N]"},
                "extra": {"dtype": "float32", "shape": "[N]", "optional": "keep"},
                "state": {"dtype": "float32", "shape": "[N]", **state},
            },
            "outputs": {"y": {"dtype": "float32", "shape": "[N]", "alias": "state"}},
        },
        "workloads": [{"label": "a", "N": 5}],
        "roofline": {"flops": "N"},
    }


def _call(op, present, **params):
    """(read, written) bytes of a call, and whether its output is the state."""
    mine = type("Mine", (op,), {})
    mine.register("mine", lambda op, call, *inputs: call.aliases.get("y", torch.zeros(5)))
    instance, state = mine(**params), torch.zeros(5) if present else None
    extra = torch.zeros(5) if params.get("keep") else None
    result = instance(torch.zeros(5), extra, state)
    read = instance.eval_roofline_read_bytes()
    return read, instance.eval_roofline()[1] - read, result is state


def test_an_output_whose_aliased_input_is_absent_is_charged_as_its_own(tmp_path):
    op = build(tmp_path, {"StepFwdOp": _entry(optional=True, mutated=True)})["StepFwdOp"]
    assert _call(op, True) == (40, 20, True)
    assert _call(op, False) == (20, 20, False)


def test_an_aliased_input_with_a_shared_tag_is_the_output_where_it_is_there_and_written(tmp_path):
    op = build(tmp_path, {"StepFwdOp": _entry(optional="keep", mutated="train")})["StepFwdOp"]
    assert _call(op, True, keep=True, train=True) == (60, 20, True)
    assert _call(op, True, keep=True) == (60, 20, False)
    assert _call(op, False, train=True) == (20, 20, False)


def test_a_write_only_input_is_read_on_no_branch_where_it_is_written(tmp_path):
    op = build(tmp_path, {"StepFwdOp": _entry(optional=True, mutated="train", write_only=True)})["StepFwdOp"]
    assert _call(op, True, train=True) == (20, 20, True)
    assert _call(op, True) == (40, 20, False)
    assert _call(op, False, train=True) == (20, 20, False)


def test_a_condition_that_asks_for_a_tensor_with_a_shared_tag_decides_what_is_charged(tmp_path):
    op = build(tmp_path, {"StepFwdOp": _entry(optional=True, mutated="present(extra)")})["StepFwdOp"]
    assert _call(op, True, keep=True) == (60, 20, True)
    assert _call(op, True) == (40, 20, False)


def test_an_alias_that_is_no_output_of_its_own_must_be_returned(tmp_path):
    op = build(tmp_path, {"StepFwdOp": _entry(optional=True, mutated=True)})["StepFwdOp"]
    op.register("copies", lambda op, call, *inputs: torch.zeros(5))
    op()(torch.zeros(5), None, None)
    with pytest.raises(OpCallError, match="'y' as a new tensor, not as the input that this call writes"):
        op()(torch.zeros(5), None, torch.zeros(5))


@pytest.mark.parametrize(
    "others", [{}, {"z": {"dtype": "float32", "shape": "[N]", "buffer": "out"}}], ids=["alone", "of several"]
)
def test_a_buffer_for_an_output_that_the_call_lacks_is_refused(tmp_path, others):
    entry = _entry()
    signature = entry["signature"]
    signature["inputs"] = {"x": signature["inputs"]["x"]}
    signature["outputs"] = {"y": {"dtype": "float32", "shape": "[N]", "nullable": "keep", "buffer": "out"}, **others}
    op = type("Mine", (build(tmp_path, {"StepFwdOp": entry})["StepFwdOp"],), {})
    both = (lambda y: (y, torch.zeros(5))) if others else (lambda y: y)
    op.register("mine", lambda op, call, x, *buffers: buffers if others else buffers[0])
    buffer = torch.zeros(5)
    message = "StepFwdOp: a buffer for output 'y' was passed, but this call has no such output: pass None"
    with pytest.raises(OpCallError, match=message):
        op()(torch.zeros(5), out=both(buffer))
    passed = op(keep=True)(torch.zeros(5), out=both(buffer))
    assert (passed[0] if others else passed) is buffer


@pytest.mark.parametrize(
    "state, params, is_written",
    [
        ({"mutated": True}, {}, True),
        ({"mutated": "train"}, {"train": True}, True),
        ({"mutated": "train"}, {}, False),
        ({"optional": True, "mutated": "train or keep"}, {"keep": True}, True),
        ({"optional": "keep", "mutated": "not train"}, {"keep": True}, True),
        ({"optional": "keep", "mutated": "not train"}, {"keep": True, "train": True}, False),
        ({"mutated": True, "write_only": True}, {}, True),
    ],
)
@pytest.mark.parametrize("has_alias", [True, False])
@pytest.mark.parametrize("parts", [0, 18], ids=["whole", "in_parts"])
def test_an_input_whose_elements_share_memory_is_refused_exactly_where_it_is_written(
    tmp_path, state, params, is_written, has_alias, parts
):
    entry = _entry(**state)
    signature = entry["signature"]
    names = ("x", "state", "extra") if "optional" not in state else ("x", "extra", "state")
    signature["inputs"] = {name: signature["inputs"][name] for name in names}
    for at in range(parts):  # so many choices that the check is made part by part
        signature["inputs"][f"more{at}"] = {"dtype": "float32", "shape": "[N]", "optional": True}
        signature["outputs"][f"out{at}"] = {"dtype": "float32", "shape": "[N]", "nullable": f"present(more{at})"}
    if not has_alias:
        signature["outputs"]["y"] = {"dtype": "float32", "shape": "[N]"}
    op = build(tmp_path, {"StepFwdOp": entry})["StepFwdOp"](**params)
    extra = torch.zeros(5) if params.get("keep") else None

    def check(held):
        op.check(x=torch.zeros(1).expand(5), extra=extra, state=held)

    for shared in (torch.zeros(1).expand(5), torch.zeros(5).as_strided((5,), (0,))):
        if is_written:
            with pytest.raises(
                OpCallError, match=r"StepFwdOp: the call writes 'state', and its elements may share memory"
            ):
                check(shared)
        else:
            check(shared)
    check(torch.zeros(10)[::2])  # gaps are nothing shared, and what is only read may be anything
