"""How many of a row's timed calls are verified: more where one result is so small that a wrong one is often right.

Of one truth value half of all wrong results are right by chance, and of a handful of calls that are all chance.
"""

from __future__ import annotations

from tileops.ops.cases import WorkloadCase
from tileops.perf.harness.expected import Expected

# Calls that are verified on every row. A count.
FEWEST = 2
# Elements of the smallest result that are compared in all, and so the most calls: of one element each. A count.
_ELEMENTS = 64
# Inputs that are made anew, and that the reference runs on, for calls beyond the fewest. Bytes.
_INPUT_BYTES = 16 * 2**20


def calls(expected: Expected, case: WorkloadCase) -> int:
    """Timed calls to verify on a row, at least `FEWEST`. A count.

    Args:
      expected: what a call of the row gives. The smallest of it decides: each output may be wrong by itself.
      case: the row; inputs that are not small keep the number down, as each call's are made again.
    """
    wanted = (one for one in (*expected.outputs.values(), *expected.mutated.values()) if one is not None)
    smallest = min((elements for one in wanted if (elements := one.tensor.numel())), default=_ELEMENTS)
    affordable = _INPUT_BYTES // max(1, case.input_bytes)
    return max(FEWEST, min(-(-_ELEMENTS // smallest), affordable))
