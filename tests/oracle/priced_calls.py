"""Completed calls on `meta`, which runs no kernel: of a workload case, or of parameters and tensors given."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from tileops.ops import catalogue
from tileops.ops.cases import WorkloadCase
from tileops.ops.op import Op
from tileops.ops.workloads import build_inputs, calls_on, construct
from tileops.tests.oracle.small_call import SmallCall


def implemented() -> dict[str, type[Op]]:
    """Every op of the project with a hand-written class, by entry name."""
    return {name: op for name, op in catalogue.load().items() if op.implementation_names()}


def case_inputs(op_class: type[Op], case: WorkloadCase) -> dict[str, torch.Tensor | None]:
    """The inputs of a case on `meta`, metadata tensors on the CPU with the values that a measured run gives them."""
    return build_inputs(op_class, case, "meta")


def call_case(op_class: type[Op], case: WorkloadCase, inputs: Mapping[str, torch.Tensor | None] | None = None) -> Op:
    """The op after a completed call of a workload case, with the case's inputs or with other ones of their shapes."""
    op = construct(op_class, case, device="meta")
    inputs = case_inputs(op_class, case) if inputs is None else inputs
    with calls_on("meta", inputs):
        op(**inputs)
    return op


def call_small(op_class: type[Op], small: SmallCall) -> Op:
    """The op after a completed call on `meta`; metadata tensors stay on the CPU, where they have their values."""
    op = op_class(**small.params)
    given = dict(zip(op_class.INPUT_NAMES, small.inputs, strict=True))
    inputs = {
        name: one if one is None or name in op_class.METADATA_NAMES else one.to("meta") for name, one in given.items()
    }
    with calls_on("meta", inputs):
        op(**inputs)
    return op
