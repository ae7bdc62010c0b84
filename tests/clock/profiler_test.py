"""From torch's profiler events to a trace: the events below are what an H200's profiler gave (torch 2.11)."""

import sys
import types

import pytest
import torch

from tileops.perf.clock import profiler
from tileops.perf.clock.activities import Kind, attribute

CPU, CUDA = torch.autograd.DeviceType.CPU, torch.autograd.DeviceType.CUDA


def event(device, name, start, duration, correlation, resource, is_annotation=False):
    values = dict(
        device_type=device,
        name=name,
        start_ns=start,
        duration_ns=duration,
        correlation_id=correlation,
        device_resource_id=resource,
        is_user_annotation=is_annotation,
    )
    return types.SimpleNamespace(**{key: (lambda value=value: value) for key, value in values.items()})


def session(events, ranges):
    made = profiler.Session()
    for name, any_thread in ranges.items():
        made.range(name, any_thread)
    results = types.SimpleNamespace(events=lambda: events(made._prefix))
    made._profile = types.SimpleNamespace(kineto_results=results)
    return made


def test_a_recorded_session():
    def events(prefix):
        return [
            event(CPU, prefix + "a", 6917053370, 159901362, 1, 417, True),
            event(CPU, "Activity Buffer Request", 6917258364, 3450198, 5, 0),
            event(CPU, "aten::fill_", 6920700000, 160000, 13, 417),  # numbered like a launch, and none
            event(CPU, "cudaLaunchKernel", 6920735818, 118032, 13, 417),
            event(CUDA, "void at::native::vectorized_elementwise_kernel<4>", 6920848942, 1824, 13, 7),
            event(CUDA, prefix + "a", 6920848942, 155875453, 1, 7, True),  # the range's shadow on the device
            event(CPU, "cudaMemcpyAsync", 6921058220, 28422, 32, 417),
            event(CUDA, "Memcpy HtoD (Pinned -> Device)", 6921085997, 78879, 32, 7),
            event(CPU, "triton_poi_fused_mul_silu_0", 6921733032, 78486, 18, 417),
            event(CPU, "cuLaunchKernel", 6921777905, 30750, 57, 417),
            event(CUDA, "triton_poi_fused_mul_silu_0", 6921805898, 2080, 57, 7),
            event(CPU, "Buffer Flush", 6921900000, 41502, 21, 417),
            event(CPU, prefix + "b", 7077149552, 3256907, 21, 417, True),
            event(CPU, "someone's own range", 7077150000, 100, 22, 417, True),
            event(CPU, "cudaGraphLaunch", 7077207641, 75888, 1365, 417),
            event(CUDA, "void at::native::vectorized_elementwise_kernel<8>", 7077284073, 1824, 1365, 7),
            event(CUDA, "memcpy128", 7077286025, 1664, 1365, 7),
            event(CUDA, "Memset (Device)", 7077289353, 2048, 1365, 7),
            event(CPU, "cudaLaunchKernel", 7080054777, 56056, 1375, -112875840),
            event(CUDA, "void at::native::vectorized_elementwise_kernel<8>", 7080108895, 1728, 1375, 7),
        ]

    trace = session(events, {"a": False, "b": True}).trace()
    assert trace.flushes_ns == (6921900000,)
    launch = next(found for found in trace.launches if found.correlation == 57)
    assert (launch.name, launch.start_ns, launch.end_ns) == ("cuLaunchKernel", 6921777905, 6921808655)
    owned = attribute(trace)
    assert [found.kind for found in owned["a"]] == [Kind.KERNEL, Kind.MEMCPY, Kind.KERNEL]
    assert owned["a"][2].name == "triton_poi_fused_mul_silu_0"
    assert [found.correlation for found in owned["b"]] == [1365, 1365, 1365, 1375]
    assert {found.kind for found in owned["b"]} == {Kind.KERNEL, Kind.MEMSET}


def test_an_op_cannot_name_a_session_s_ranges():
    assert profiler.Session()._prefix != profiler.Session()._prefix


@pytest.mark.filterwarnings("ignore:CUDA is not available")
def test_a_session_does_not_load_torch_compile(monkeypatch):
    monkeypatch.setattr(profiler, "_synchronize", lambda: None)
    were_loaded = "torch._inductor" in sys.modules
    made = profiler.Session()
    with made.recording(), made.range("a"):
        torch.ones(3)
    assert [found.name for found in made.trace().ranges] == ["a"]
    assert ("torch._inductor" in sys.modules) == were_loaded
