"""Other values give other results: what is remembered can be told on every row that has data at all."""

import os

import pytest
import torch

from tileops.ops import catalogue, workloads
from tileops.perf.harness.inputs import RowInputs

OPS = catalogue.load()
# Rows larger than this are alike the smaller ones of the same dtypes: values are drawn by tensor and dtype. Bytes.
_LARGEST = 1 << 25
_ALL_BELOW = 1 << 21 if os.environ.get("TILEOPS_TEST_ALL") == "1" else 0


def _rows(op_class):
    """The smallest row of each assignment of dtypes; in the nightly run all small rows too."""
    seen = set()
    for case in sorted(op_class.CASES, key=lambda case: case.input_bytes + case.output_bytes):
        size, dtypes = case.input_bytes + case.output_bytes, tuple(sorted(case.dtypes.items()))
        if size <= _ALL_BELOW or (size <= _LARGEST and dtypes not in seen):
            seen.add(dtypes)
            yield case


def _results(op_class, case):
    """(inputs, outputs and written inputs) of two variants."""
    inputs = RowInputs(op_class, case, torch.device("cpu"))
    found = []
    with workloads.calls_on("cpu", inputs.tensors):
        for variant in (1, 2):
            inputs.fill(variant)
            before = inputs.clone()
            op = workloads.construct(op_class, case, target=op_class.implementation_names()[0])
            returned = op(**inputs.tensors)
            outputs = returned if isinstance(returned, tuple) else (returned,)
            written = [inputs.tensors[name] for name in op_class.MUTATED_NAMES]
            found.append((before.values(), [one.clone() for one in (*outputs, *written) if one is not None]))
    return found


def _are_equal(one, other):
    pairs = zip(one, other, strict=True)
    return all(a is b is None or torch.equal(_without_nan(a), _without_nan(b)) for a, b in pairs)


def _without_nan(tensor):
    """The tensor with 7.5 for NaN; an 8-bit float is widened, since PyTorch replaces none in it."""
    is_narrow = tensor.is_floating_point() and tensor.element_size() == 1
    return (tensor.float() if is_narrow else tensor).nan_to_num(7.5)


@pytest.mark.parametrize("name", OPS)
def test_other_values_give_another_result_where_there_are_other_values(name):
    for case in _rows(OPS[name]):
        (one, its), (other, others) = _results(OPS[name], case)
        is_told = _are_equal(one, other) or not _are_equal(its, others)
        assert is_told, f"{name} {case.case_id}: whoever remembers a result is never found out"


@pytest.mark.parametrize(
    "name", ["EqFwdOp", "GeFwdOp", "LogicalOrFwdOp", "LogicalNotFwdOp", "IsnanFwdOp", "IsinfFwdOp"]
)
def test_a_result_of_truth_values_has_both_in_plenty(name):
    for case in _rows(OPS[name]):
        (_, outputs), _ = _results(OPS[name], case)
        assert 0.02 < float(outputs[0].float().mean()) < 0.98, case.case_id
