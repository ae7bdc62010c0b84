"""Every implemented op states its read half, so that no row of it is without a verdict."""

import pytest

from tileops.audit import calls, choose
from tileops.ops import catalogue, workloads
from tileops.perf.harness import rows

IMPLEMENTED = {name: op_class for name, op_class in catalogue.load().items() if op_class.STATUS == "implemented"}


@pytest.mark.requirement("4.5.10")
@pytest.mark.parametrize("op", sorted(IMPLEMENTED))
def test_an_implemented_op_declares_its_read_half(op):
    assert calls.declares(IMPLEMENTED[op]), (
        f"{op} has no eval_roofline_read_bytes(): its entry states `bytes` or `func`, so its class has to say which part of"
        " them is read (docs/auditing-bytes.md)"
    )


@pytest.mark.requirement("4.5.10")
@pytest.mark.parametrize("op", sorted(IMPLEMENTED))
def test_the_read_half_is_a_part_of_the_bytes_on_every_row(op):
    op_class = IMPLEMENTED[op]
    assert op_class.CASES
    for case in op_class.CASES:
        found = calls.declared(op_class, case)
        assert found.error == ""
        price = _bytes(op_class, case)
        written = sum(record.bytes for record in found.call.outputs.values())
        assert bool(op_class.INPUT_NAMES) <= found.read_bytes <= price, case.case_id  # one without inputs reads nothing
        # What is not read is written: an output, or an input that the op writes.
        mutated = sum(found.call.tensors[name].bytes for name in op_class.MUTATED_NAMES if found.call.present(name))
        assert price - found.read_bytes <= written + mutated, case.case_id


@pytest.mark.requirement("4.5.19")
@pytest.mark.parametrize("op", sorted(IMPLEMENTED))
def test_the_rows_to_audit_take_every_branch_that_rows_take(op):
    op_class = IMPLEMENTED[op]
    taken = {branch for case in choose.cover(op_class.CASES) for branch in case.branches}
    assert taken == {branch for case in op_class.CASES for branch in case.branches}
    assert len(taken) + len(choose.unreached(op_class)) == len(op_class.BRANCHES)


@pytest.mark.requirement("4.5.20")
@pytest.mark.parametrize("op", sorted(IMPLEMENTED))
def test_the_rows_to_audit_are_the_manifests_own_with_the_shapes_that_the_bench_runs(op):
    op_class = IMPLEMENTED[op]
    choice = choose.Choice(
        selection=rows.Selection(ops=(op,)), case_ids=(), implementation="", every_row=False, listed_by=""
    )
    chosen = choice.to_measure(IMPLEMENTED, choice.by_op(IMPLEMENTED))
    assert [(op_class, case) for case in choose.cover(op_class.CASES)] == chosen
    for _, case in chosen:
        assert case in op_class.CASES
        inputs = workloads.build_inputs(op_class, case, "meta")
        recorded = calls.declared(op_class, case).call.inputs
        assert {name: tuple(one.shape) for name, one in inputs.items() if one is not None} == {
            name: recorded[name].shape for name in recorded if name in inputs
        }


def _bytes(op_class, case):
    op = workloads.construct(op_class, case, device="meta")
    inputs = workloads.build_inputs(op_class, case, "meta")
    with workloads.calls_on("meta", inputs):
        op(**inputs)
    return op.eval_roofline()[1]
