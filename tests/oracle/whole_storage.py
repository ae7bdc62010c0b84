"""The licence of section 1.2: a formula may charge a whole storage that its algorithm reads in part, below 1%.

A formula that uses it names the exact count: beside `perf.formulas.f` is `exact_f`, which returns the exact bytes of a
call. The recount must equal the exact count, and the price may exceed it by less than 1% on every workload row. Without
an exact count the price itself must equal the recount.
"""

from __future__ import annotations

import importlib

from tileops.ops.op import Op
from tileops.tests.oracle.recount import Recount


def exact_bytes(op: Op) -> int | None:
    """The exact count of the last call, None if the op's formula has no exact count beside it."""
    module, _, name = op.FUNC.rpartition(".")
    exact = getattr(importlib.import_module(module), f"exact_{name}", None) if module else None
    return None if exact is None else exact(op.last_call)


def disagreement(op: Op, found: Recount) -> str:
    """Why the bytes of the last call, a workload row, do not agree with their recount; "" if they do."""
    charged, exact = op.eval_roofline()[1], exact_bytes(op)
    if exact is None:
        return "" if charged == found.total else f"{charged} bytes are charged, and the recount is {found.total}"
    if exact != found.total:
        return f"the exact count is {exact} bytes, and the recount is {found.total}"
    if not 0 <= 100 * (charged - exact) < exact:
        return f"{charged} bytes are charged, which must be from {exact} bytes to less than 1% more"
    return ""
