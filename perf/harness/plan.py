"""What a run does with the selected rows: quick or all, which part, and what this machine cannot run in time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from tileops.ops.cases import WorkloadCase
from tileops.perf.harness import limits, pricing, run, shards
from tileops.perf.harness import rows as bench_rows
from tileops.proto import benchmark_pb2
from tileops.tools.cli import command

Record = benchmark_pb2.BenchmarkRecord

_CPU_ROW_SECONDS = 5.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choice:
    """What the user asked for, as the flags of these names take it.

    Attributes:
      implementations: names, or "all" among them.
      rows: "all" or "quick"; None for what suits the device.
      shard: which part of the rows.
      max_row_s: --max_row_seconds; None for the device's default. Seconds.
      row_timeout_s: seconds.
    """

    implementations: Sequence[str]
    rows: str | None
    shard: shards.Shard
    max_row_s: float | None
    row_timeout_s: float


def part(
    cases: list[bench_rows.Case], choice: Choice, prices: Mapping[int, Record] | None = None
) -> list[bench_rows.Case]:
    """The cases of the choice's shard; `prices` by the identity of a case, made here where nobody has them."""
    if choice.shard.count == 1:
        return cases
    prices = _prices(cases) if prices is None else prices
    costs = [
        shards.cost_s(prices[id(case)], len(bench_rows.implementations(op_class, choice.implementations)))
        for op_class, case in cases
    ]
    return shards.part(cases, costs, choice.shard)


def _prices(cases: list[bench_rows.Case]) -> dict[int, Record]:
    """Prices by the identity of their cases."""
    return {id(case): price for (_, case), price in zip(cases, pricing.price_cases(cases), strict=True)}


def rows(
    cases: list[bench_rows.Case], choice: Choice, device_kind: str, prices: Mapping[int, Record] | None = None
) -> list[bench_rows.Case]:
    """The cases that a run of this choice on such a device has; `prices` as of `part`."""
    if (choice.rows or ("quick" if device_kind == "cpu" else "all")) == "quick":
        prices, count, machine = _prices(cases) if prices is None else prices, len(cases), limits.this_machine()
        cases = bench_rows.quick(cases, lambda row: limits.estimate_s(prices[id(row[1])], row[1], machine))
        if choice.rows is None and len(cases) < count:
            command.say(f"on the CPU the cheapest row of each op runs, {len(cases)} of {count}; --rows=all runs all")
    return part(cases, choice, prices)


def units(cases: list[bench_rows.Case], choice: Choice, environment: benchmark_pb2.Environment) -> list[run.Unit]:
    """What to run, priced, with the reason where this machine cannot run it.

    The parts of a sharded run make up the whole: what is quick is chosen before the parts are made.
    """
    prices = _prices(cases)
    limit = _limit(choice, environment)
    is_named = bench_rows.ALL not in choice.implementations
    planned = []
    for op_class, case in rows(cases, choice, environment.device_kind, prices):
        price = prices[id(case)]
        skip = limit(price, case)
        names = bench_rows.implementations(op_class, choice.implementations)
        if not op_class.implementation_names():
            names, skip = ("",), "no implementation: bring one with --plugin"
        elif skip and not is_named:  # what would not have run is not skipped
            serving = bench_rows.serving(op_class, case, environment.device_kind)
            names = [name for name in names if name in serving]
        planned += [
            run.Unit(op_class=op_class, case=case, implementation=name, price=price, skip=skip, is_named=is_named)
            for name in names
        ]
    return planned


def served(units: Sequence[run.Unit]) -> list[run.Unit]:
    """Those of units for the CPU that leave a record: a process for each op is too much to find out that none does.

    What a resumed run lacks may be what serves no row there. A GPU is not asked: `when` may touch it, and this process
    must not.
    """
    names: dict[int, tuple[str, ...]] = {}
    for unit in units:
        if id(unit.case) not in names:
            names[id(unit.case)] = bench_rows.serving(unit.op_class, unit.case, "cpu")
    return [
        unit for unit in units if unit.is_named or unit.skip is not None or unit.implementation in names[id(unit.case)]
    ]


def _limit(choice: Choice, environment: benchmark_pb2.Environment) -> Callable[[Record, WorkloadCase], str | None]:
    """Says of a row, by its price, why the device cannot run it in time; None where it can, or nobody knows."""
    given = choice.max_row_s
    if environment.device_kind == "cpu":
        machine = limits.this_machine()
        seconds = _CPU_ROW_SECONDS if given is None else given
        return lambda price, case: limits.too_much(price, case, machine, seconds)
    device = limits.gpu(environment.device_name)
    if device is None:
        return lambda price, case: None
    seconds, flag = (choice.row_timeout_s, "row_timeout_s") if given is None else (given, "max_row_seconds")
    return lambda price, case: limits.too_long(price, case, device, seconds, flag)
