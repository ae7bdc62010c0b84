"""Where a call without data tensors is: by its parameter, by its metadata, or where new tensors are; and its price."""

from __future__ import annotations

import pytest
import torch

from tileops.ops import workloads
from tileops.ops.errors import OpConstructionError
from tileops.perf.harness import records
from tileops.proto import benchmark_pb2
from tileops.tests.codegen.small_entries import demo, op_class

IDS = {"dtype": "int32", "shape": "[N, K]", "values": "topk_ids(N, K, n)"}
OUTPUTS = {"y": {"dtype": "float32", "shape": "[n]"}}


def made(rows, inputs=None, params=None, **signature):
    params = {"n": {"type": "int"}, **(params or {})}
    parts = {"forall": {}, "params": params, "outputs": OUTPUTS, "shape_rules": ["n > 0"], **signature}
    entry = demo({"flops": "n"}, rows, status="spec-only", **parts)
    if inputs is None:
        del entry["signature"]["inputs"]
    else:
        entry["signature"]["inputs"] = inputs
    return op_class(entry)


def ramp(**row):
    device = {"device": {"type": "torch.device | str | None", "default": None}}
    return made([{"label": "a", "n": 3}, {"label": "b", "n": 3, **row}], params=device)


def by_metadata():
    return made([{"label": "a", "N": 4, "K": 2, "n": 8}], {"ids": IDS}, forall={"N": "Dim", "K": "Dim"})


def on_the_cpu():
    seed = {"dtype": "int64", "shape": "[]", "device": "cpu"}
    return made([{"label": "a", "n": 3}], {"seed": seed})


def optional():
    x = {"dtype": "float32", "shape": "[n]", "optional": True}
    return made([{"label": "a", "n": 3}, {"label": "b", "n": 3, "some": ["x"]}], {"x": x})


@pytest.mark.parametrize("make", [ramp, lambda: ramp(device="cuda:7"), by_metadata, on_the_cpu, optional])
def test_a_row_without_data_is_priced_without_an_implementation(make):
    for case in make().CASES:
        record = records.price_case(make(), case)
        assert (record.status, record.message) == (benchmark_pb2.STATUS_OK, ""), case.case_id
        assert record.flops == case.params["n"]


@pytest.mark.parametrize("make", [ramp, by_metadata, on_the_cpu, optional])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_call_of_a_row_is_where_the_run_is(make, device):
    op = make()
    seen = []
    op.register("reference", lambda op, call, *inputs: seen.append(call.device) or torch.zeros(op.params["n"]))
    for case in op.CASES:
        inputs = workloads.build_inputs(op, case, device)
        with workloads.calls_on(device, inputs):
            found = workloads.construct(op, case, device=device)(**inputs)
        assert found.device.type == device
    assert set(seen) == ({"cpu"} if device == "cpu" else set())


def test_the_parameter_says_where_the_call_is_and_none_leaves_it_to_pytorch():
    op = ramp()
    for device, wanted in ((None, "cpu"), ("meta", "meta"), (torch.device("cuda:1"), "cuda:1"), ("cpu", "cpu")):
        assert op(3, device).check().device == wanted
    with torch.device("meta"):
        assert op(3).check().device == "meta" and op(3, "cpu").check().device == "cpu"
    assert [case.case_id for case in ramp(device="cuda").CASES] == ["a", "b"]
    for wrong in ("nowhere", 3.5, object(), ["cpu"]):
        with pytest.raises(OpConstructionError, match="'device' is declared .* which is no device"):
            op(3, wrong)


def test_metadata_on_the_cpu_is_a_call_on_the_cpu_unless_new_tensors_are_on_meta():
    ids = torch.zeros(4, 2, dtype=torch.int32)
    assert by_metadata()(8).check(ids).device == "cpu"
    with torch.device("meta"):
        assert by_metadata()(8).check(ids).device == "meta"


def test_an_object_beside_other_types_is_passed_as_it_is():
    seed = {
        "seed": {"type": "torch.Generator | int | None", "default": None},
        "how": {"type": "Options | None", "default": None},
    }
    op = made([{"label": "a", "n": 3, "seed": 4}], params=seed)
    assert workloads.construct(op, op.CASES[0]).params["seed"] == 4
    given = torch.Generator(), object()
    assert tuple(op(3, *given).params[name] for name in seed) == given
