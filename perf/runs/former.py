"""Rows of recorded runs that are no longer workload rows. Their times stay readable, but describe no row of today."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from tileops.tools.cli import paths

NOTE = "no longer a workload row"


@functools.cache
def load() -> frozenset[tuple[str, str]]:
    """Returns the op and the case id of each such row, under today's names."""
    lines = paths.data_path("perf", "runs", "former_rows.tsv").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    return frozenset((op, case_id) for op, case_id in rows)


def left_out(rows: list[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], int]:
    """Returns the rows of a report that are workload rows today, and how many others there are."""
    kept = [row for row in rows if (row["op"], row["case_id"]) not in load()]
    return kept, len(rows) - len(kept)
