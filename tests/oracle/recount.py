"""What a recount of a call's bytes says."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class Recount:
    """Bytes that a call reads and writes at least.

    Attributes:
      read, written: either way.
      terms: what in the call's data decided them, by the names of the op's `roofline_data_terms`.
    """

    read: int
    written: int
    terms: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def total(self) -> int:
        """Both ways together."""
        return self.read + self.written
