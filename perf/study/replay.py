"""Compares the clock with another: device-busy time of a call, and the time of its replays in a CUDA graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import torch

from tileops.ops import workloads
from tileops.ops.cases import WorkloadCase
from tileops.ops.op import Op
from tileops.perf.clock.measure import measure
from tileops.perf.clock.measurement import Budget, Flush
from tileops.perf.harness import errors, records

Case = tuple[type[Op], WorkloadCase]

# Calls per graph, so that gaps between replays are a small part of the time. A count.
_CALLS_IN_GRAPH = 10
_REPLAYS = 10
_WARMUP_CALLS = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reading:
    """Times of one row by both clocks.

    Attributes:
      op, case_id, implementation: the row.
      cupti_us, cupti_cold_us: device-busy time without and with a flush. Microseconds.
      replay_us: median time per call in replays of a graph, without a flush. Microseconds.
      ratio: cupti_us / replay_us.
      note: why a time is missing; "" if none is.
    """

    op: str
    case_id: str
    implementation: str
    cupti_us: float | None = None
    cupti_cold_us: float | None = None
    replay_us: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Returns cupti_us / replay_us; None if one is missing."""
        return self.cupti_us / self.replay_us if self.cupti_us and self.replay_us else None


def compute_heavy(cases: Sequence[Case], count: int) -> list[Case]:
    """Returns the rows with the most FLOPs per byte, the most first. At most half of them are of one op."""
    priced = []
    for at, (op_class, case) in enumerate(cases):
        price = records.price_case(op_class, case)
        if price.bytes:
            priced.append((-price.flops / price.bytes, at, op_class, case))
    chosen: list[Case] = []
    for _, _, op_class, case in sorted(priced, key=lambda row: row[:2]):
        if sum(op_class is other for other, _ in chosen) < (count + 1) // 2:
            chosen.append((op_class, case))
    return chosen[:count]


def readings(
    cases: Sequence[Case], implementation: str, device: torch.device, budget: Budget | None = None
) -> Iterator[Reading]:
    """Times each row by both clocks. If a call cannot be captured or served, the reading's note says so."""
    for op_class, case in cases:
        row = Reading(op=op_class.ENTRY, case_id=case.case_id, implementation=implementation)
        try:
            with torch.cuda.device(device):
                yield _reading(row, op_class, case, device, budget)
        except Exception as error:  # user code may raise anything, and not every call can be captured
            torch.cuda.synchronize(device)
            yield dataclasses.replace(row, note=" ".join(errors.describe(error).split())[:200])


def _reading(
    row: Reading, op_class: type[Op], case: WorkloadCase, device: torch.device, budget: Budget | None
) -> Reading:
    op = workloads.construct(op_class, case, target=row.implementation, device=device)
    inputs = workloads.build_inputs(op_class, case, device)

    def call() -> object:
        return op(**inputs)

    warm = measure(call, device=device, budget=budget, flush=Flush.NONE)
    cold = measure(call, device=device, budget=budget)
    return dataclasses.replace(
        row,
        cupti_us=warm.device_busy_ns / 1e3,
        cupti_cold_us=cold.device_busy_ns / 1e3,
        replay_us=_replay_us(call),
        note="" if warm.source.name == "CUPTI" else f"timed by {warm.source.name}",
    )


def _replay_us(call: Callable[[], object]) -> float:
    """Returns the median time per call in replays of a graph. Microseconds."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(_WARMUP_CALLS):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(_CALLS_IN_GRAPH):
            call()
    graph.replay()
    times = []
    before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for _ in range(_REPLAYS):
        torch.cuda.synchronize()
        before.record()
        graph.replay()
        after.record()
        torch.cuda.synchronize()
        times.append(before.elapsed_time(after) * 1e3 / _CALLS_IN_GRAPH)
    return sorted(times)[len(times) // 2]
