"""Base of ops in the table of elementwise formulas: their implementations and their roof."""

from __future__ import annotations

import math
from typing import Any

import torch

from tileops.ops.checked_call import CheckedCall
from tileops.ops.dtypes import BY_NAME
from tileops.ops.errors import OpCallError
from tileops.ops.implementations import implementation
from tileops.ops.kernels.elementwise.table import TABLE, Launch, chosen, launch, meeting
from tileops.ops.kernels.support import triton_serves
from tileops.ops.op import Op


def _launch(call: CheckedCall) -> Launch | None:
    """How the kernel computes a call; None where the reference alone serves it."""
    return launch(TABLE[call.op], call.params, _dtypes(call), BY_NAME[call.outputs["output"].dtype], _scalars(call))


def _dtypes(call: CheckedCall) -> dict[str, torch.dtype]:
    return {name: BY_NAME[record.dtype] for name, record in call.inputs.items()}


def _scalars(call: CheckedCall) -> set[str]:
    """Names of the inputs without axes."""
    return {name for name, record in call.inputs.items() if not record.shape}


def _kernel_serves(call: CheckedCall) -> bool:
    """The kernel counts the elements of its result in 32 bits, and computes in float32 or in integers."""
    return triton_serves(call) and math.prod(call.outputs["output"].shape) < 2**31 and _launch(call) is not None


class TableOp(Op):
    """An op whose line in the table says what it computes; a base beside the generated class of its entry."""

    ARITHMETIC = "elementwise"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.SAMPLES = TABLE[cls.ENTRY].samples

    @implementation("torch")
    def _torch(self, call: CheckedCall, *inputs: torch.Tensor | None) -> torch.Tensor:
        """PyTorch's function, its result laid out as the kernel lays it out. Raises OpCallError where integers have no
        quotient.
        """
        try:
            result = TABLE[self.ENTRY].reference(*inputs, **call.params)
        except RuntimeError as error:
            if str(error) != "ZeroDivisionError":
                raise
            raise OpCallError(f"{self.ENTRY}: an integer is divided by 0, for which the op has no value") from None
        return result if call.params.get("inplace") else result.contiguous()

    @implementation("triton", when=_kernel_serves)
    def _triton(self, call: CheckedCall, *inputs: torch.Tensor | None) -> torch.Tensor:
        from tileops.ops.kernels.elementwise import pointwise as kernels  # Triton is imported when first used

        record = call.outputs["output"]
        is_in_place = call.params.get("inplace", False)  # then the one operand is the output
        given = [one for one in inputs if one is not None]
        out = given[0] if is_in_place else torch.empty(record.shape, dtype=BY_NAME[record.dtype], device=call.device)
        how = _launch(call)
        assert how is not None  # `when` asked
        as_number = float if how.compute == torch.float32 else int
        numbers = [as_number(one) for one in TABLE[self.ENTRY].numbers(call.params, out.dtype)]
        operands = TABLE[self.ENTRY].views(given)
        return kernels.apply(how.function, operands, numbers, how.meeting, how.compute, out)

    def roof_key(self) -> str:
        """The core that computes in the type that the operands meet in: fp32 unless that is wider or whole numbers."""
        call, formula, inputs = self.last_call, TABLE[self.ENTRY], _dtypes(self.last_call)
        met = {name: dtype for name, dtype in inputs.items() if name not in formula.masks} or inputs
        common = meeting(met, _scalars(call))
        if common == torch.float64:
            return "cuda_core.fp64"
        is_whole = not common.is_floating_point and chosen(formula.integer, call.params, inputs) != ""
        return "cuda_core.int32" if is_whole else "cuda_core.fp32"
