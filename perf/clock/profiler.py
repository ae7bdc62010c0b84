"""One profiler session around a batch of calls: torch's events as a `Trace`, and the ranges that own launches.

The profiler records host and device activities: without the host's, launches are unknown, and so is who launched the
device work.
"""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.autograd.profiler import profile, record_function

from tileops.perf.clock.activities import Activity, Kind, Launch, Range, Trace

# Bound before any op's code runs, which might replace it.
_synchronize = torch.cuda.synchronize
# Host events of the CUDA runtime and driver (cudaLaunchKernel, cuLaunchKernelEx, cudaGraphLaunch) or of HIP; host
# operators are named `namespace::operator`. Both number their events, from unrelated counters.
_DRIVER_CALL = re.compile(r"(cuda|cu|hip)[A-Z]\w*")
# Host event that CUPTI reports if it is told to hand over its records.
_FLUSH = "Buffer Flush"


class Session:
    """The ranges of one profiler session and, after it has ended, its trace."""

    def __init__(self) -> None:
        """Records nothing yet; `recording` does."""
        # An op may name ranges too; it cannot guess this session's.
        self._prefix = f"tileops.{secrets.token_hex(8)}."
        self._any_thread: dict[str, bool] = {}
        self._profile: Any = None

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Records host and device activities during the block, and waits for device work at its end."""
        # Not torch.profiler's, which is this with schedules and loads torch.compile: seconds of a new process.
        self._profile = profile(use_device="cuda", use_kineto=True)
        with self._profile:
            yield
            _synchronize()

    def range(self, name: str, any_thread: bool = False) -> Any:
        """Returns a context in which launches belong to `name`: those of all threads, or of this thread only."""
        self._any_thread[name] = any_thread
        return record_function(self._prefix + name)

    def trace(self) -> Trace:
        """Returns what the session recorded."""
        ranges, launches, activities, flushes_ns = [], [], [], []
        for event in self._profile.kineto_results.events():
            name = event.name()
            if event.device_type() == torch.autograd.DeviceType.CPU:
                if event.is_user_annotation():
                    if name.startswith(self._prefix):
                        own = name[len(self._prefix) :]
                        ranges.append(
                            Range(
                                name=own,
                                start_ns=event.start_ns(),
                                end_ns=event.start_ns() + event.duration_ns(),
                                thread=event.device_resource_id(),
                                any_thread=self._any_thread[own],
                            )
                        )
                elif _DRIVER_CALL.fullmatch(name):
                    launches.append(
                        Launch(
                            name=name,
                            correlation=event.correlation_id(),
                            start_ns=event.start_ns(),
                            end_ns=event.start_ns() + event.duration_ns(),
                            thread=event.device_resource_id(),
                        )
                    )
                elif name == _FLUSH:
                    flushes_ns.append(event.start_ns())
            elif not event.is_user_annotation():
                activities.append(
                    Activity(
                        kind=_kind(name),
                        name=name,
                        start_ns=event.start_ns(),
                        end_ns=event.start_ns() + event.duration_ns(),
                        stream=event.device_resource_id(),
                        correlation=event.correlation_id(),
                    )
                )
        return Trace(
            ranges=tuple(ranges), launches=tuple(launches), activities=tuple(activities), flushes_ns=tuple(flushes_ns)
        )


def record(calls: int, step: Callable[[Session, int], None]) -> Trace:
    """Returns the trace of `calls` steps `step(session, index)`, each of which opens its own ranges."""
    session = Session()
    with session.recording():
        for index in range(calls):
            step(session, index)
    return session.trace()


def _kind(name: str) -> Kind:
    """Returns the kind by the profiler's names of copies and fills ("Memcpy DtoD (...)", "Memset (Device)")."""
    if name.startswith("Memcpy "):
        return Kind.MEMCPY
    return Kind.MEMSET if name.startswith("Memset ") else Kind.KERNEL
