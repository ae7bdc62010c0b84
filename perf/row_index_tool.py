"""Writes row_index_data.py: every op of the project with its implementations, rows and prices. The build runs it."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from absl import flags

from tileops.perf.harness import catalogue, records
from tileops.tools.cli import command

_OUT = flags.DEFINE_string("out", None, "File to write.", required=True)


def main(argv: Sequence[str]) -> int:
    """Writes the module; returns the exit status."""
    del argv
    lines = ['"""The project\'s ops: name, family, implementations, rows. Generated: do not edit."""', "", "OPS = ("]
    for op_class in catalogue.load(catalogue.Sources()).values():
        prices = records.price_cases((op_class, case) for case in op_class.CASES)
        names = op_class.ENTRY, op_class.FAMILY, tuple(op_class.implementation_names()), tuple(op_class.BRANCHES)
        lines.append(f"    ({', '.join(map(repr, names))}, (")
        for case, price in zip(op_class.CASES, prices, strict=True):
            sizes = price.flops, price.bytes, case.input_bytes
            lines.append(f"        {(case.case_id, case.label, *sizes, tuple(case.branches))!r},")
        lines.append("    )),")
    pathlib.Path(_OUT.value).write_text("\n".join([*lines, ")", ""]))
    return command.EXIT_OK


if __name__ == "__main__":
    command.run(main)
