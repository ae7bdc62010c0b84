"""The datasheets' figures, entered a second time: a table of all cards beside one file a card.

The rules of the architecture tell a wrong figure only where it is far off. A figure
of the next card, a bandwidth in GiB or one digit of a typing error are told by
`datasheets.tsv`, which holds what the documents print: TFLOPS (dense), GB/s,
multiprocessors. A card that is not in it is held against the rules alone.
"""

import csv
import functools
import pathlib

from tileops.proto import gpu_profile_pb2

_TABLE = pathlib.Path(__file__).absolute().with_name("datasheets.tsv")
# Both are the same printed number.
_AGREE_WITHIN = 1e-6


@functools.cache
def table() -> dict[str, dict[str, float]]:
    """Returns each card's figures by column, in FLOPs, operations or bytes per second."""
    with _TABLE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return {
        row["gpu"]: {column: float(text) * _scale(column) for column, text in row.items() if column != "gpu" and text}
        for row in rows
    }


def differences(profile: gpu_profile_pb2.GpuProfile) -> list[str]:
    """Returns where a profile says other than the table, in words; none for an unknown card.

    Units that the table has no column for (derived ones) are not compared.
    """
    printed = table().get(profile.gpu)
    if printed is None:
        return []
    found = {unit.key: unit.theoretical_flops_per_s for unit in profile.unit}
    found["hbm"] = profile.hbm.theoretical_bytes_per_s
    if profile.multiprocessors:
        found["multiprocessors"] = profile.multiprocessors
    columns = {column for row in table().values() for column in row} - {"clock_mhz"}
    faults = []
    for column in sorted(columns):
        here, there = found.get(column), printed.get(column)
        if (here is None) != (there is None) or (here and abs(here / there - 1) > _AGREE_WITHIN):
            faults.append(f"{column} is {_written(here)}, and {_written(there)} in datasheets.tsv")
    return faults


def _scale(column: str) -> float:
    return {"hbm": 1e9, "multiprocessors": 1, "clock_mhz": 1}.get(column, 1e12)


def _written(value: float | None) -> str:
    return "not there" if value is None else f"{value:g}"
