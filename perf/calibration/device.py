"""Measures trials on a GPU with the bench's own clock and flush."""

import time
from collections.abc import Callable
from typing import Any

import torch

from tileops.perf.calibration import kernels, matrix, model, plan
from tileops.perf.clock import activities
from tileops.perf.clock import measure as clock
from tileops.perf.clock.measurement import Budget, Flush, TimingSource

# The memory's rate does not depend on what the device did before, so windows are short.
_MEMORY_BUDGET = Budget(warmup_s=0.02, measure_s=0.05, min_samples=10, max_samples=60)
# At its power limit a device lowers its clocks within a fraction of a second. A ceiling must hold for the shortest rows of
# the bench. So these windows are short, and each begins after a rest, as a row begins after its inputs were made.
_COMPUTE_BUDGET = Budget(warmup_s=0.02, measure_s=0.06, min_samples=10, max_samples=60)
_REST_S = 0.3
# Windows of a cross-check, of which the best counts, and their length. A count; seconds.
_EVENT_WINDOWS = 5
_EVENT_WINDOW_S = 0.06
# The rate that lasts for seconds is recorded too.
_SUSTAINED_BUDGET = Budget(warmup_s=1.0, measure_s=0.5, min_samples=50, max_samples=500)


def describe(device: torch.device) -> plan.Device:
    """Returns what a plan needs to know of a CUDA device."""
    properties = torch.cuda.get_device_properties(device)
    free_bytes, _ = torch.cuda.mem_get_info(device)
    return plan.Device(
        name=properties.name,
        multiprocessors=properties.multi_processor_count,
        threads_per_multiprocessor=properties.max_threads_per_multi_processor,
        l2_bytes=properties.L2_cache_size,
        free_bytes=free_bytes,
    )


class Meter:
    """Measures one trial after another; the arrays of bandwidth trials are kept."""

    def __init__(self, device: torch.device, facts: plan.Device):
        """Allocates nothing yet."""
        self._device = device
        self._facts = facts
        self._bandwidth: kernels.Bandwidth | None = None

    def reserve(self, array_bytes: int) -> None:
        """Allocates the arrays that bandwidth trials of up to this size use."""
        self._bandwidth = kernels.Bandwidth(
            kernels.Arrays(array_bytes, self._device),
            self._facts.multiprocessors,
            self._facts.threads_per_multiprocessor,
        )

    def release(self) -> None:
        """Frees the arrays of bandwidth trials."""
        self._bandwidth = None
        torch.cuda.empty_cache()

    def __call__(self, trial: model.Trial) -> model.Reading:
        """Measures one trial.

        Raises:
          TrialError: The trial cannot be measured here.
          CalibrationError: No trial can: there is no priced clock, or a kernel is wrong.
        """
        seconds, samples = self.time(trial)
        return model.Reading(trial=trial, rate_per_s=trial.work / seconds, samples=samples)

    def time(self, trial: model.Trial) -> tuple[float, int]:
        """Returns the median time of the trial's calls (seconds) and their count.

        Raises:
          As for a call of the meter.
        """
        if not isinstance(trial, model.BandwidthTrial):
            return self._time_compute(trial, _COMPUTE_BUDGET, _REST_S)
        bandwidth = self._reserved()
        # A call leaves part of what it writes in the cache and writes back lines that were there. After a dirty flush
        # both amounts are equal, so the traffic is right. A pure read would only pay for lines of others.
        flush = Flush.CLEAN if trial.mix == "READ" else Flush.DIRTY
        return self._timed(bandwidth.call(trial), trial, _MEMORY_BUDGET, flush)

    def sustained(self, trial: model.Trial) -> float:
        """Returns the rate of a unit's trial after it has run for a second.

        Raises:
          As for a call of the meter.
        """
        seconds, _ = self._time_compute(trial, _SUSTAINED_BUDGET, 0.0)
        return trial.work / seconds

    def cross_check(self, trial: model.Trial) -> float:
        """Returns a trial's rate by CUDA events around calls back to back.

        This is another clock than the bench's, without a flush: if both agree, the rate does not depend on how it is
        measured. Arrays far larger than the cache are cold without a flush.

        Raises:
          TrialError: The trial cannot be computed here.
        """
        if isinstance(trial, model.BandwidthTrial):
            return self._best_window(trial, self._reserved().call(trial), 0.0)
        assert isinstance(trial, model.MatrixTrial), "arithmetic trials have no cross-check"
        with matrix.tf32_allowed():
            call = matrix.matrix_call(trial, self._device)
            return self._best_window(trial, call, _REST_S)

    def _best_window(self, trial: model.Trial, call: Callable[[], Any], rest_s: float) -> float:
        seconds = self._events_s(call, 3) / 3
        calls = max(1, round(_EVENT_WINDOW_S / seconds))
        best_s = float("inf")
        for _ in range(_EVENT_WINDOWS):
            time.sleep(rest_s)
            best_s = min(best_s, self._events_s(call, calls) / calls)
        return trial.work / best_s

    def _events_s(self, call: Callable[[], Any], calls: int) -> float:
        """Returns the time between events around `calls` calls. Seconds."""
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize(self._device)
        before.record()
        for _ in range(calls):
            call()
        after.record()
        torch.cuda.synchronize(self._device)
        return before.elapsed_time(after) / 1e3

    def _reserved(self) -> kernels.Bandwidth:
        if self._bandwidth is None:
            raise model.CalibrationError("no arrays are reserved for bandwidth trials")
        return self._bandwidth

    def _time_compute(self, trial: model.Trial, budget: Budget, rest_s: float) -> tuple[float, int]:
        if isinstance(trial, model.ArithmeticTrial):
            # No rest: the power is far below the limit.
            call = kernels.arithmetic_call(trial, self._device)
            return self._timed(call, trial, budget, Flush.DIRTY)
        assert isinstance(trial, model.MatrixTrial)
        with matrix.tf32_allowed():
            call = matrix.matrix_call(trial, self._device)
            time.sleep(rest_s)
            return self._timed(call, trial, budget, Flush.DIRTY)

    def _timed(self, call: Callable[[], Any], trial: model.Trial, budget: Budget, flush: Flush) -> tuple[float, int]:
        try:
            found = clock.measure(call, device=self._device, budget=budget, flush=flush)
        except activities.ClockError as error:
            raise model.TrialError(str(error)) from error
        if found.source is not TimingSource.CUPTI:
            raise model.CalibrationError(
                "the profiler reports no device activity here (CUPTI), and no other clock may set a ceiling"
            )
        if found.device_busy_ns <= 0:
            raise model.CalibrationError(f"{trial}: the clock gave no time at all")
        return found.device_busy_ns / 1e9, found.samples
