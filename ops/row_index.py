"""The project's rows as --list shows them and --op, --family and --label choose from, without torch.

The build writes them down (row_index_tool.py) from the ops' own classes, whose import takes seconds.
"""

from __future__ import annotations

import dataclasses

from tileops.ops.row_index_data import OPS


@dataclasses.dataclass(frozen=True)
class IndexedCase:
    """A workload row with its price.

    Attributes:
      flops, bytes: of the price; 0 if the row has none. Bytes in bytes.
      input_bytes: size of what the row binds. Bytes.
      branches: the branches of the op's price that the row takes, as positions in the op's BRANCHES.
    """

    case_id: str
    label: str
    flops: int
    bytes: int
    input_bytes: int
    branches: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class IndexedOp:
    """An op by the names that its class has."""

    ENTRY: str
    FAMILY: str
    names: tuple[str, ...]
    BRANCHES: tuple[str, ...]
    CASES: tuple[IndexedCase, ...]

    def implementation_names(self) -> tuple[str, ...]:
        """Returns the names of the op's implementations, the reference first."""
        return self.names


def load() -> dict[str, IndexedOp]:
    """Returns every op of the project by entry name, in the catalogue's order."""
    return {
        name: IndexedOp(name, family, names, branches, tuple(IndexedCase(*case) for case in cases))
        for name, family, names, branches, cases in OPS
    }
