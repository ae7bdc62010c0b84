"""The structural oracle: every row of every implemented op recounts to what its formula prices (seed, section 4.6)."""

from __future__ import annotations

import functools

import pytest
import torch

from tileops.manifest.reading import loader
from tileops.ops.op import Op
from tileops.tests.oracle import binder, priced_calls
from tileops.tests.oracle.bytes_by_hand import BY_HAND
from tileops.tests.oracle.expected import entries
from tileops.tests.oracle.recount import Recount
from tileops.tests.oracle.whole_storage import disagreement
from tileops.tools.cli import paths

OPS = priced_calls.implemented()
CASES = [(name, case) for name, op in OPS.items() for case in op.CASES]


# An op of the base class's declares no read half: the bytes audit has no verdict on it (section 4.5).
READ_HALVES = [name for name, op in OPS.items() if op.eval_roofline_read_bytes is not Op.eval_roofline_read_bytes]
LEVEL_TWO = [(name, case) for name, case in CASES if name in BY_HAND]


def _ids(cases):
    return [f"{name}-{case.case_id}" for name, case in cases]


@functools.cache
def _bound(name: str) -> dict[str, Recount]:
    """The binder's recount of each row of an op, by case id."""
    entry, cases = entries()[name]
    return {case.case_id: binder.recount_case(entry, case) for case in cases}


@pytest.mark.requirement("4.6.6", "4.6.10")
def test_every_implemented_entry_is_recounted_case_by_case():
    assert OPS.keys() == entries().keys()
    for name, op in OPS.items():
        assert [case.case_id for case in op.CASES] == [case.case_id for case in entries()[name][1]]


@pytest.mark.requirement("4.6.2", "4.6.8")
def test_the_binder_is_given_no_roofline_block():
    assert all(entry.roofline is None for entry, _ in entries().values())


@pytest.mark.requirement("1.2.11", "2.2.13", "3.10", "4.6.1", "4.6.3", "4.6.10")
@pytest.mark.parametrize(("name", "case"), CASES, ids=_ids(CASES))
def test_bytes_equal_the_recount(name, case):
    op = priced_calls.call_case(OPS[name], case)
    if name in BY_HAND:
        found = BY_HAND[name].recount(op.last_call.params, priced_calls.case_inputs(OPS[name], case))
    else:
        found = _bound(name)[case.case_id]
    _agrees(op, found)


@pytest.mark.requirement("1.2.18", "4.6.5")
@pytest.mark.parametrize(("name", "case"), LEVEL_TWO, ids=_ids(LEVEL_TWO))
def test_bytes_equal_the_recount_where_the_case_constructs_what_selects(name, case):
    drawn = priced_calls.case_inputs(OPS[name], case)
    params = priced_calls.call_case(OPS[name], case).last_call.params
    own = BY_HAND[name].select(params, drawn)
    assert own.keys() == {tensor for tensor in OPS[name].METADATA_NAMES if drawn[tensor] is not None}
    inputs = {**drawn, **own}
    _agrees(priced_calls.call_case(OPS[name], case, inputs), BY_HAND[name].recount(params, inputs))


@pytest.mark.requirement("4.6.5")
@pytest.mark.parametrize("name", [name for name in BY_HAND if OPS[name].METADATA_NAMES])
def test_what_the_case_constructs_selects_otherwise_than_what_the_workload_draws(name):
    terms = []
    for case in OPS[name].CASES:
        drawn = priced_calls.case_inputs(OPS[name], case)
        params = priced_calls.call_case(OPS[name], case).last_call.params
        own = {**drawn, **BY_HAND[name].select(params, drawn)}
        terms.append([BY_HAND[name].recount(params, inputs).terms for inputs in (drawn, own)])
    assert sum(drawn != own for drawn, own in terms) > len(terms) // 2


def _agrees(op: Op, found: Recount) -> None:
    """Requires that price, read half (where there is one) and data terms are what a recount found.

    The bytes that a formula charges by the licence of whole storages are reads.
    """
    assert (disagreement(op, found), op.roofline_data_terms()) == ("", found.terms)
    if op.ENTRY in READ_HALVES:
        assert op.eval_roofline_read_bytes() == found.read + op.eval_roofline()[1] - found.total


def test_only_an_entry_that_states_its_bytes_may_have_no_read_half():
    manifest = loader.load(loader.spec_files(str(paths.data_path("manifest", "spec"))))
    blocks = {name: manifest.entries[name].roofline for name in OPS}
    assert {name for name, block in blocks.items() if not {"bytes", "func"} & block.keys()} <= set(READ_HALVES)


@pytest.mark.requirement("4.6.7", "4.6.8", "4.6.9")
def test_an_op_is_at_exactly_one_level():
    """A hand-written case stands for an op that the binder cannot recount: for none else, and for no op that is gone."""
    assert BY_HAND.keys() <= OPS.keys()
    for name in BY_HAND:
        priced = {case.case_id: priced_calls.call_case(OPS[name], case).eval_roofline()[1] for case in OPS[name].CASES}
        assert priced != {case_id: one.total for case_id, one in _bound(name).items()}, (
            f"{name}: the binder recounts it"
        )


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


def _recount(tmp_path, update: bool, mask: bool) -> Recount:
    text = EFFECTS.format(update=str(update).lower(), some="mask" if mask else "", other="" if mask else "mask")
    (tmp_path / "effects.yaml").write_text(text)
    entry, cases = binder.signatures([str(tmp_path / "effects.yaml")])["EffectsFwdOp"]
    return binder.recount_case(entry, cases[0])


@pytest.mark.requirement("4.6.2")
def test_a_written_alias_is_one_storage_charged_once_each_way(tmp_path):
    found = _recount(tmp_path, update=True, mask=False)
    # complex64 table, state and packed are read, scratch is not; state, scratch and result are written, new_state is
    # state.
    assert found == Recount(read=10 * 8 + 10 * 4 + 10 * 5, written=10 * 4 + 10 * 2 + 10 * 1)


def test_on_the_branch_that_does_not_write_the_alias_is_an_output_of_its_own(tmp_path):
    found = _recount(tmp_path, update=False, mask=False)
    assert found == Recount(read=10 * 8 + 10 * 4 + 10 * 5, written=10 * 2 + 10 * 4 + 10 * 1)


def test_an_optional_tensor_counts_where_it_is_passed(tmp_path):
    with_mask, without = _recount(tmp_path, True, True), _recount(tmp_path, True, False)
    assert with_mask.read - without.read == 10 * 1 and with_mask.written == without.written


OPTIONAL = """
IntoFwdOp:
  family: effects
  status: implemented
  signature:
    forall: {N: Dim, G: Dim, R: "DType[float16 | float64]"}
    params:
      centred: {type: bool, default: false}
      mean: {dtype: float32, shape: "[N]", optional: "centred"}
      gain: {dtype: R, shape: "[G]", optional: true}
    inputs:
      x: {dtype: float16, shape: "[N]"}
      out: {dtype: float32, shape: "[N, 2]", mutated: true, write_only: true, kw_only: true}
    outputs:
      y: {dtype: float32, shape: "[N, 2]", alias: out}
  workloads:
    - {label: plain, N: 10}
    - {label: all, N: 10, G: 3, centred: true, some: [gain], dtype_cases: [{R: float64}]}
  roofline: {flops: "N"}
ClearFwdOp:
  family: effects
  status: implemented
  signature:
    forall: {N: Dim}
    inputs:
      x: {dtype: int32, shape: "[N]"}
      log: {dtype: int64, shape: "[N]", mutated: true}
      old: {dtype: int8, shape: "[N]", mutated: true, write_only: true}
  workloads: [{label: a, N: 10}]
  roofline: {flops: "N"}
"""


def test_what_a_call_writes_by_inputs_alone_and_what_it_binds_at_construction_is_recounted(tmp_path):
    (tmp_path / "effects.yaml").write_text(OPTIONAL)
    found = binder.signatures([str(tmp_path / "effects.yaml")])
    entry, (plain, whole) = found["IntoFwdOp"]
    assert binder.recount_case(entry, plain) == Recount(read=10 * 2, written=20 * 4)
    assert binder.recount_case(entry, whole) == Recount(read=10 * 2 + 10 * 4 + 3 * 8, written=20 * 4)
    entry, (cleared,) = found["ClearFwdOp"]
    assert binder.recount_case(entry, cleared) == Recount(read=10 * 4 + 10 * 8, written=10 * 8 + 10 * 1)


def test_hand_written_cases_see_the_values_that_a_measured_run_has():
    name = "MoePermuteNopadFwdOp"
    inputs = priced_calls.case_inputs(OPS[name], OPS[name].CASES[0])
    assert inputs["topk_ids"].device == torch.device("cpu") and inputs["hidden_states"].device == torch.device("meta")
