"""Rows as the audit sees them without a GPU: the checked call, the read half that the op declares, data terms."""

from __future__ import annotations

import dataclasses

from tileops.ops import workloads
from tileops.ops.cases import WorkloadCase
from tileops.ops.checked_call import CheckedCall
from tileops.ops.op import Op


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeclaredCall:
    """The call of a row.

    Attributes:
      op_class, case: the row.
      call: its checked call; None if the row cannot be called.
      read_bytes: the read half that the op declares; None if it declares none. Bytes.
      data_terms: counts in the call's data that decided the price.
      error: why there is no call or no price; "" if there is.
    """

    op_class: type[Op]
    case: WorkloadCase
    call: CheckedCall | None = None
    read_bytes: int | None = None
    data_terms: dict[str, int] = dataclasses.field(default_factory=dict)
    error: str = ""


def declared(op_class: type[Op], case: WorkloadCase) -> DeclaredCall:
    """Returns the call of a row, made on `meta`: metadata tensors hold their values, and no data are allocated."""
    call = None
    try:
        op = workloads.construct(op_class, case, device="meta")
        inputs = workloads.build_inputs(op_class, case, "meta")
        with workloads.calls_on("meta", inputs):
            op(**inputs)
        call = op.last_call
        return DeclaredCall(
            op_class=op_class, case=case, call=call, read_bytes=read_half(op), data_terms=op.roofline_data_terms()
        )
    except Exception as error:  # formulas and generators are user code; a failure costs one row
        return DeclaredCall(op_class=op_class, case=case, call=call, error=f"{type(error).__name__}: {error}")


def read_half(op: Op) -> int | None:
    """Returns the read bytes that the op declares for its last call; None if it declares none.

    Raises:
      ValueError: the op declares something other than a count of bytes.
      OpNotAvailableError: the op declares reads, but not for this kind of call.
    """
    if not declares(type(op)):
        return None
    found = op.eval_roofline_read_bytes()
    if isinstance(found, bool) or not isinstance(found, int) or found < 0:
        raise ValueError(f"{op.ENTRY}: eval_roofline_read_bytes() gives {found!r}, not a count of bytes")
    return found


def declares(op_class: type[Op]) -> bool:
    """Returns whether an op has a read half of its own, generated or hand-written."""
    return op_class.eval_roofline_read_bytes is not Op.eval_roofline_read_bytes
