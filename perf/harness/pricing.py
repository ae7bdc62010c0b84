"""Prices of workload rows without a GPU: the ops are called on `meta`, and say themselves what the call costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tileops.ops import workloads
from tileops.ops.cases import WorkloadCase
from tileops.ops.op import Op
from tileops.perf.harness import catalogue, errors, records, roofs
from tileops.proto import benchmark_pb2

Case = tuple[type[Op], WorkloadCase]


def all_cases(classes: Mapping[str, type[Op]]) -> list[Case]:
    """Every case of every op, in the catalogue's order."""
    return [(op_class, case) for op_class in classes.values() for case in op_class.CASES]


def price_cases(cases: Iterable[Case] | None = None) -> Iterator[benchmark_pb2.BenchmarkRecord]:
    """A record per case with its price, and with no implementation and no time. No tensor of data is allocated.

    Args:
      cases: what to price; every row of the project by default.

    Yields:
      Records of STATUS_OK, or of STATUS_ERROR with a message where the case cannot be priced.
    """
    if cases is None:
        cases = all_cases(catalogue.load(catalogue.Sources()))
    for op_class, case in cases:
        yield price_case(op_class, case)


def price_case(op_class: type[Op], case: WorkloadCase) -> benchmark_pb2.BenchmarkRecord:
    """The record of one case, as `price_cases` yields it."""
    record = records.new_record(op_class, case, implementation="")
    try:
        op = workloads.construct(op_class, case, device="meta")
        inputs = workloads.build_inputs(op_class, case, "meta")
        with workloads.calls_on("meta", inputs):
            op(**inputs)
        records.set_price(record, op)
        record.status = benchmark_pb2.STATUS_OK
        roofs.refuse_unknown(record)
    except Exception as error:  # formulas and generators are anybody's code; one that fails costs its row
        records.set_status(record, benchmark_pb2.STATUS_ERROR, errors.describe(error))
    return record
