"""The structural oracle: every row of every implemented op recounts to what its formula prices (seed, section 4.6)."""

from __future__ import annotations

import functools

import pytest
import torch

from tileops.manifest import loader
from tileops.perf import paths
from tileops.tests.oracle import binder, priced_calls
from tileops.tests.oracle.bytes_by_hand import BY_HAND

OPS = priced_calls.implemented()
CASES = [(name, case) for name, op in OPS.items() for case in op.CASES]


@functools.cache
def _signatures():
    return binder.signatures(loader.spec_files(str(paths.data_path("manifest", "spec"))))


def _bound(name: str) -> dict[str, binder.Recount]:
    """The binder's recount of each row of an op, by case id."""
    entry, cases = _signatures()[name]
    return {case.case_id: binder.recount_case(entry, case) for case in cases}


def test_every_implemented_entry_is_recounted_case_by_case():
    assert OPS.keys() == _signatures().keys()
    for name, op in OPS.items():
        assert [case.case_id for case in op.CASES] == [case.case_id for case in _signatures()[name][1]]


def test_the_binder_is_given_no_roofline_block():
    assert all(entry.roofline is None for entry, _ in _signatures().values())


@pytest.mark.parametrize(("name", "case"), CASES, ids=[f"{name}-{case.case_id}" for name, case in CASES])
def test_bytes_equal_the_recount_of_the_bound_tensors(name, case):
    op = priced_calls.call_case(OPS[name], case)
    if name in BY_HAND:
        found = BY_HAND[name](dict(op.last_call.params), priced_calls.case_inputs(OPS[name], case))
        assert (op.eval_roofline()[1], op.roofline_data_terms()) == (found.total, found.terms)
    else:
        assert op.eval_roofline()[1] == _bound(name)[case.case_id].total


@pytest.mark.parametrize("name", [name for name in OPS if name not in BY_HAND])
def test_the_read_half_equals_the_recount_of_what_is_read(name):
    for case in OPS[name].CASES:
        assert priced_calls.call_case(OPS[name], case).eval_roofline_read_bytes() == _bound(name)[case.case_id].read


def test_an_op_is_at_exactly_one_level():
    """A hand-written case stands for an op that the binder cannot recount: for none else, and for no op that is gone."""
    assert BY_HAND.keys() <= OPS.keys()
    for name in BY_HAND:
        priced = {case.case_id: priced_calls.call_case(OPS[name], case).eval_roofline()[1] for case in OPS[name].CASES}
        assert priced != {case_id: one.total for case_id, one in _bound(name).items()}, f"{name}: the binder recounts it"


EFFECTS = """
EffectsFwdOp:
  family: effects
  status: implemented
  signature:
    forall: {{N: Dim}}
    params: {{table: {{type: torch.Tensor, dtype: complex64, shape: "[N]"}}, update: {{type: bool, default: true}}}}
    inputs:
      state: {{dtype: float32, shape: "[N]", mutated: "update"}}
      packed: {{dtype: uint8, shape: "[N, N // 2]"}}
      scratch: {{dtype: float16, shape: "[N]", mutated: true, write_only: true}}
      mask: {{dtype: bool, shape: "[N]", optional: true}}
    outputs:
      new_state: {{dtype: float32, shape: "[N]", alias: state}}
      result: {{dtype: float8_e4m3fn, shape: "[N]", buffer: out}}
  workloads:
    - {{label: a, N: 10, update: {update}, some: [{some}]}}
    - {{label: b, N: 10, update: {update}, some: [{other}]}}
  roofline: {{flops: "N"}}
"""


def _recount(tmp_path, update: bool, mask: bool) -> binder.Recount:
    text = EFFECTS.format(update=str(update).lower(), some="mask" if mask else "", other="" if mask else "mask")
    (tmp_path / "effects.yaml").write_text(text)
    entry, cases = binder.signatures([str(tmp_path / "effects.yaml")])["EffectsFwdOp"]
    return binder.recount_case(entry, cases[0])


def test_a_written_alias_is_one_storage_charged_once_each_way(tmp_path):
    found = _recount(tmp_path, update=True, mask=False)
    # complex64 table, state and packed are read, scratch is not; state, scratch and result are written, new_state is state.
    assert found == binder.Recount(read=10 * 8 + 10 * 4 + 10 * 5, written=10 * 4 + 10 * 2 + 10 * 1)


def test_on_the_branch_that_does_not_write_the_alias_is_an_output_of_its_own(tmp_path):
    found = _recount(tmp_path, update=False, mask=False)
    assert found == binder.Recount(read=10 * 8 + 10 * 4 + 10 * 5, written=10 * 2 + 10 * 4 + 10 * 1)


def test_an_optional_tensor_counts_where_it_is_passed(tmp_path):
    with_mask, without = _recount(tmp_path, True, True), _recount(tmp_path, True, False)
    assert with_mask.read - without.read == 10 * 1 and with_mask.written == without.written


def test_hand_written_cases_see_the_values_that_a_measured_run_has():
    name = "MoePermuteNopadFwdOp"
    inputs = priced_calls.case_inputs(OPS[name], OPS[name].CASES[0])
    assert inputs["topk_ids"].device == torch.device("cpu") and inputs["hidden_states"].device == torch.device("meta")
