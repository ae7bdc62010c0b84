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


# ---- inputs that are passed by name, and ops without outputs


def _into():
    """y is `out`, of [N, 2] float32; x and bias are [N] float16."""
    return {
        "family": "demo",
        "status": "spec-only",
        "signature": {
            "forall": {"N": "Dim"},
            "inputs": {
                "x": {"dtype": "float16", "shape": "[N]"},
                "bias": {"dtype": "float16", "shape": "[N]", "optional": True, "kw_only": True},
                "out": {
                    "dtype": "float32",
                    "shape": "[N, 2]",
                    **dict.fromkeys(("mutated", "write_only", "kw_only"), True),
                },
            },
            "outputs": {"y": {"dtype": "float32", "shape": "[N, 2]", "alias": "out"}},
        },
        "workloads": [{"label": "a", "N": 5, "some": ["bias"]}],
        "roofline": {"flops": "N if present(out) else 0"},
    }


def test_a_required_buffer_is_passed_by_name_and_is_the_output(tmp_path):
    op = type("Mine", (build(tmp_path, {"IntoFwdOp": _into()})["IntoFwdOp"],), {})
    op.register("mine", lambda op, call, x, bias, out: out.fill_(1))
    instance, x, out = op(), torch.zeros(5, dtype=torch.float16), torch.zeros(5, 2)
    assert instance(x, out=out) is out and out.sum() == 10
    assert instance.eval_roofline() == (5, 10 + 40) and instance.eval_roofline_read_bytes() == 10
    assert instance(x, bias=x, out=out) is out and instance.eval_roofline() == (5, 20 + 40)
    for arguments, named in (((x, x), {"out": out}), ((x,), {}), ((x, None, out), {})):
        with pytest.raises(TypeError):
            instance(*arguments, **named)
    with pytest.raises(OpCallError, match="input 'out' must be a tensor"):
        instance(x, out=None)
    with pytest.raises(OpCallError, match="axis 1 of 'out'"):
        instance(x, out=torch.zeros(5, 3))


def test_an_implementation_that_writes_elsewhere_is_told(tmp_path):
    op = type("Mine", (build(tmp_path, {"IntoFwdOp": _into()})["IntoFwdOp"],), {})
    op.register("mine", lambda op, call, x, bias, out: out.clone())
    with pytest.raises(OpCallError, match="not as the input that this call writes"):
        op()(torch.zeros(5, dtype=torch.float16), out=torch.zeros(5, 2))


def _clear():
    entry = _entry(mutated=True, write_only=True)
    entry["signature"]["outputs"] = {}
    del entry["signature"]["inputs"]["extra"], entry["signature"]["params"]
    return entry


def test_an_op_without_outputs_returns_none_and_is_charged_what_it_writes(tmp_path):
    op = type("Mine", (build(tmp_path, {"ClearFwdOp": _clear()})["ClearFwdOp"],), {})
    op.register("mine", lambda op, call, x, state: None if state.zero_() is state else None)
    op.register("wrong", lambda op, call, x, state: state.zero_())
    state = torch.ones(5)
    instance = op(target="mine")
    assert instance(torch.zeros(5), state) is None and state.sum() == 0
    assert instance.eval_roofline() == (5, 40) and instance.eval_roofline_read_bytes() == 20
    assert instance(torch.empty(5, device="meta"), torch.empty(5, device="meta")) is None
    with pytest.raises(OpCallError, match="returned 1 outputs, but the signature declares 0: return None"):
        op(target="wrong")(torch.zeros(5), state)


def test_both_are_operators_of_a_traced_graph(tmp_path):
    entries = {"ClearFwdOp": _clear(), "IntoFwdOp": _into()}
    clear, into = (type(f"Own{name}", (op,), {}) for name, op in build(tmp_path, entries).items())
    clear.register("mine", lambda op, call, x, state: None if state.zero_() is state else None)
    into.register("mine", lambda op, call, x, bias, out: out.fill_(1))
    clears, intos = clear(), into()

    def run(x, state, out):
        clears(x.float(), state)
        return intos(x, out=out) + 1

    x, state, out = torch.zeros(5, dtype=torch.float16), torch.ones(5), torch.zeros(5, 2)
    compiled = torch.compile(run, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(x, state, out), torch.full((5, 2), 2.0))
    assert state.sum() == 0 and out.sum() == 10


def test_a_price_may_ask_whether_storage_was_passed(tmp_path):
    entry = _entry(optional=True)
    entry["signature"]["outputs"] = {"y": {"dtype": "float32", "shape": "[N]", "buffer": "out"}}
    entry["signature"]["let"] = {"extra_work": "2 if present(out) else 3"}
    entry["roofline"] = {"flops": "N * extra_work + (100 if present(out) else 0)"}
    op = build(tmp_path, {"StepFwdOp": entry})["StepFwdOp"]
    x, instance = torch.empty(5, device="meta"), op()
    instance(x)
    assert instance.eval_roofline()[0] == 15
    instance(x, out=torch.empty(5, device="meta"))
    assert instance.eval_roofline()[0] == 110 and instance.last_call.present("out")
