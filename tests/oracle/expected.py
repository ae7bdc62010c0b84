"""What the oracles say of calls: of every row of an op and of its small calls."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import torch

from tileops.manifest.model import Entry, Signature
from tileops.manifest.reading import loader
from tileops.manifest.rows.cases import Case
from tileops.ops.op import Op
from tileops.ops.outputs import as_tuple
from tileops.ops.workloads import calls_on
from tileops.tests.oracle import binder, priced_calls
from tileops.tests.oracle.bytes_by_hand import BY_HAND
from tileops.tests.oracle.dispatch_count import count_flops
from tileops.tests.oracle.flop_enumerations import ENUMERATIONS
from tileops.tests.oracle.flop_references import REFERENCES
from tileops.tests.oracle.flop_scalar import SCALAR_REFERENCES
from tileops.tests.oracle.recount import Recount
from tileops.tests.oracle.small_call import SmallCall
from tileops.tests.oracle.small_calls import small_calls
from tileops.tools.cli import paths


@dataclasses.dataclass(frozen=True)
class Expectation:
    """A completed call with what the oracles say of it.

    Attributes:
      op: whose last call it is.
      flops, nbytes, read: the price, and of its bytes those that are reads.
      terms: the data terms.
    """

    op: Op
    flops: int
    nbytes: int
    read: int
    terms: Mapping[str, int]


@functools.cache
def entries() -> dict[str, tuple[Entry, tuple[Case, ...]]]:
    """Every implemented entry of the project without its roofline block, with the cases of its rows, by op name."""
    return binder.signatures(loader.spec_files(str(paths.data_path("manifest", "spec"))))


def calls_of(name: str, op_class: type[Op]) -> list[SmallCall]:
    """The small calls of an op.

    Raises:
      ValueError: there are none, so that whatever holds of them would hold of anything.
    """
    if name in ENUMERATIONS:
        calls = list(ENUMERATIONS[name].calls())
    elif name in REFERENCES:
        calls = list(small_calls(op_class))
    else:
        calls = SCALAR_REFERENCES[name].calls()
    if not calls:
        raise ValueError(
            f"{name}: the oracles have no small call of it; add some to small_calls.py or to its enumeration"
        )
    return calls


def row_flops(name: str, params: Mapping[str, Any], inputs: tuple[torch.Tensor | None, ...]) -> int:
    """The FLOPs of a workload row by the oracle of the op's kind; data inputs may be on `meta`."""
    if name in ENUMERATIONS:
        return ENUMERATIONS[name].flops_at_scale(params, inputs)
    if name in REFERENCES:
        with calls_on("meta", dict(enumerate(inputs))):
            return count_flops(REFERENCES[name], params, *inputs)
    return SCALAR_REFERENCES[name].flops_at_scale(params, inputs)


def small_flops(name: str, params: Mapping[str, Any], small: SmallCall) -> int:
    """The FLOPs of a small call by the oracle of the op's kind."""
    if name in ENUMERATIONS:
        return ENUMERATIONS[name].count(params, small.inputs).flops
    if name in REFERENCES:
        return count_flops(REFERENCES[name], params, *small.inputs)
    return SCALAR_REFERENCES[name].run(params, small.inputs)[0]


@functools.cache
def expectations(name: str, op_class: type[Op]) -> list[Expectation]:
    """Calls of an op's rows, and its small calls; made once, since completing and counting them is what takes time."""
    found = []
    entry, cases = entries()[name]
    for workload, case in zip(op_class.CASES, cases, strict=True):
        op = priced_calls.call_case(op_class, workload)
        inputs = priced_calls.case_inputs(op_class, workload)
        params = op.last_call.params
        bound = BY_HAND[name].recount(params, inputs) if name in BY_HAND else binder.recount_case(entry, case)
        found.append(_of(op, row_flops(name, params, tuple(inputs.values())), bound))
    for small in calls_of(name, op_class):
        op = priced_calls.call_small(op_class, small)
        bound = recount_small(name, entry.signature, op, small)
        found.append(_of(op, small_flops(name, op.last_call.params, small), bound))
    return found


def recount_small(name: str, signature: Signature, op: Op, small: SmallCall) -> Recount:
    """The bytes of a completed small call: by its enumeration where that sees what moves, else by the oracle of the
    op's level.

    They differ where a call computes nothing, and so reads nothing of what it binds: no row is such a call.
    """
    counted = ENUMERATIONS[name].count(op.last_call.params, small.inputs).bound if name in ENUMERATIONS else None
    if counted is not None:
        return counted
    inputs = dict(zip(op.INPUT_NAMES, small.inputs, strict=True))
    if name in BY_HAND:
        return BY_HAND[name].recount(op.last_call.params, inputs)
    passed = {tensor: value for tensor, value in inputs.items() if value is not None}
    with calls_on("meta", inputs):
        outputs = op(**{tensor: None if one is None else one.to("meta") for tensor, one in inputs.items()})
    returned = dict(zip(op.OUTPUT_NAMES, as_tuple(outputs, op.OUTPUT_NAMES), strict=True))
    returned = {tensor: value for tensor, value in returned.items() if value is not None}
    present = {"out": False, **{tensor: tensor in passed for tensor in inputs}}
    return binder.recount(signature, op.last_call.params, present, passed | returned)


def _of(op: Op, flops: int, bound: Recount) -> Expectation:
    return Expectation(op, flops, bound.total, bound.read, bound.terms)
