"""No implementation is measured by settings, hooks or threads that another one left."""

import gc
import importlib
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tileops.perf.clock.activities import ClockError
from tileops.perf.clock.measurement import Budget
from tileops.perf.harness import catalogue, settings
from tileops.perf.harness import worker as bench_worker
from tileops.proto import benchmark_pb2
from tileops.tests.harness import runs, toys


@pytest.fixture(autouse=True)
def _as_before():
    before = settings.read()
    yield
    settings.restore(before)
    assert settings.describe(before, settings.read()) == ""


def _options(compiler, name):
    """Sets an option of PyTorch's compiler, as an import of a library may."""
    setattr(importlib.import_module(f"torch.{compiler}.config"), name, True)


class _Hook:
    """One that says to be whatever it is compared with."""

    def __call__(self, *args):
        return None

    def __eq__(self, other):
        return True

    __hash__ = object.__hash__


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda: torch.set_num_threads(torch.get_num_threads() + 1), "the number of threads was left at"),
        (lambda: torch.set_default_dtype(torch.float64), "the default dtype was left at torch.float64"),
        (lambda: torch.set_default_device("meta"), "the default device was left at meta, and was cpu"),
        (lambda: torch.set_float32_matmul_precision("medium"), "matmul was left at"),
        (lambda: setattr(torch.backends.cuda.matmul, "allow_tf32", True), "matmul was left at tf32"),
        (lambda: setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32"), "matmul was left at tf32"),
        (lambda: setattr(torch.backends, "fp32_precision", "tf32"), "generic's all was left at tf32"),
        (lambda: setattr(torch.backends.cudnn, "allow_tf32", False), "cuda's conv was left at none, and was tf32"),
        (lambda: setattr(torch.backends.cudnn, "benchmark", True), "torch.backends.cudnn.benchmark was left at True"),
        (lambda: torch.backends.cuda.enable_flash_sdp(False), "by flash kernels was left at False"),
        (lambda: torch.use_deterministic_algorithms(True), "the deterministic mode was left at 2"),
        (lambda: torch.set_grad_enabled(False), "grad mode was left at False"),
        (lambda: torch.autocast("cpu").__enter__(), "autocast of cpu was left at True"),
        (lambda: TorchFunctionMode().__enter__(), "the depth of torch function modes was left at 1"),
        (lambda: TorchDispatchMode().__enter__(), "the depth of torch dispatch modes was left at 1"),
        (lambda: setattr(torch.backends.mkldnn, "enabled", False), "torch.backends.mkldnn.enabled was left at False"),
        (
            lambda: _options("_inductor", "max_autotune"),
            "options of torch._inductor was left at max_autotune=True, and",
        ),
        (lambda: _options("_dynamo", "suppress_errors"), "options of torch._dynamo was left at suppress_errors=True"),
        (lambda: torch._C._set_sdp_priority_order([2, 1, 0]), "the order in which attention looks for a kernel was"),
        (
            lambda: torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(True),
            "of attention in 16 bits was left at True",
        ),
        (lambda: os.chdir("/"), "the working directory was left at /, and was"),
        (lambda: sys.setprofile(_Hook()), "the profile hook was left at _Hook, and was NoneType"),
        (lambda: sys.settrace(_Hook()), "the trace hook was left at _Hook, and was NoneType"),
        (lambda: threading.setprofile(print), "the profile hook of new threads was left at print"),
        (lambda: threading.settrace(print), "the trace hook of new threads was left at print"),
        (lambda: gc.callbacks.append(_Hook()), "the hooks of garbage collection was left at"),
        (lambda: signal.setitimer(signal.ITIMER_REAL, 900), "the timer of real time was left at running, and was stop"),
        (lambda: signal.setitimer(signal.ITIMER_PROF, 900), "the timer of profiling was left at running"),
        (gc.disable, "garbage collection was left at False, and was True"),
        (lambda: gc.set_threshold(9), "the thresholds of garbage collection was left at"),
        (lambda: sys.setswitchinterval(1.0), "the interval at which threads switch was left at 1.0, and was 0.005"),
    ],
)
def test_a_setting_that_is_left_behind_is_told_and_put_back(change, named):
    before = settings.read()
    change()
    said = settings.describe(before, settings.read())
    assert named in said and said.endswith("inside the call, and reset it before the call returns")
    assert settings.restore(before)
    assert settings.describe(before, settings.read()) == ""


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda: os.environ.update(NVIDIA_TF32_OVERRIDE="1"), "Triton and CUDA was left at NVIDIA_TF32_OVERRIDE=1, "),
        (lambda: torch.set_flush_denormal(True), "flushing of denormal numbers to zero was left at True"),
        (lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}), "the CPUs to run on was left at"),
    ],
)
def test_what_other_threads_may_have_taken_over_is_put_back_and_not_trusted(change, named):
    before = settings.read()
    change()
    said = settings.describe(before, settings.read())
    if not said and "CPUs" in named:
        pytest.skip("this machine has one CPU")
    assert named in said
    assert not settings.restore(before)
    assert settings.describe(before, settings.read()) == ""


@pytest.mark.parametrize(
    "change",
    [
        lambda: sys.setprofile(_Hook()),
        lambda: sys.settrace(_Hook()),
        lambda: gc.callbacks.append(print),
        lambda: signal.setitimer(signal.ITIMER_VIRTUAL, 900),
    ],
)
def test_a_hook_is_found_after_each_call_that_is_timed(change):
    before = settings.read()
    torch.set_grad_enabled(False)
    settings.check_hooks(before)
    change()
    with pytest.raises(ClockError, match="was left at"):
        settings.check_hooks(before)


@pytest.mark.skipif(not hasattr(sys, "monitoring"), reason="Python has it from 3.12 on")
def test_a_tool_that_monitors_is_told_and_put_back():
    before = settings.read()
    sys.monitoring.use_tool_id(4, "mine")
    assert "tool 4 of sys.monitoring was left at mine" in settings.describe(before, settings.read())
    assert settings.restore(before) and sys.monitoring.get_tool(4) is None


def test_python_in_place_of_an_operator_is_told_after_each_call():
    before = settings.read()
    importlib.import_module("torch._dynamo")  # which may register kernels of its own
    settings.check(before)
    library = torch.library.Library("aten", "IMPL")
    library.impl("silu", torch.relu, "Meta")
    settings.check(before)
    library.impl("silu", torch.relu, "CPU")
    with pytest.raises(
        ClockError, match=r"operators was left at aten::silu on CPU \(settings_test.py:\d+\), and was none"
    ):
        settings.check_hooks(before)
    assert not settings.restore(before)
    library._destroy()
    settings.check(before)


def test_a_thread_that_computes_on_is_named_and_one_that_waits_is_not():
    before, over = settings.alive(), threading.Event()

    def spin():
        while not over.is_set():
            pass

    waiting = threading.Thread(target=over.wait, name="waits")
    spinning = threading.Thread(target=spin, name="spins")
    try:
        waiting.start()
        assert settings.busy(before) == []
        spinning.start()
        assert settings.busy(before) == ["spins"] and settings.busy(settings.alive()) == []
        with pytest.raises(ClockError, match=r"left behind are still computing \(spins\)"):
            settings.check_threads(before)
    finally:
        over.set()
        spinning.join()
        waiting.join()
    settings.check_threads(before)


def test_a_process_that_computes_on_is_named_and_one_that_waits_is_not():
    before = settings.alive()
    with subprocess.Popen(["sleep", "60"]) as waiting:
        settings.check_threads(before)
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as spinning:
            try:
                with pytest.raises(ClockError, match=rf"left behind are still computing \(process {spinning.pid}\)"):
                    settings.check_threads(before)
                assert settings.busy(settings.alive()) == []
            finally:
                spinning.kill()
                waiting.kill()


def test_names_of_files_and_what_the_compiler_sets_itself_are_no_settings(monkeypatch):
    before = settings.read()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/somewhere")
    monkeypatch.setenv("EDITOR", "ed")
    importlib.import_module("torch._inductor.config").compile_threads = 3
    settings.check(before)
    torch.compile(torch.nn.functional.gelu, backend="aot_eager")(torch.ones(3))
    settings.check(before)


def test_threads_that_never_begin_or_end_while_they_are_watched_are_no_trouble(monkeypatch):
    before = settings.alive()
    ending = threading.Thread(target=time.sleep, args=(0.005,))
    ending.start()
    monkeypatch.setattr(threading, "enumerate", lambda: [ending, threading.Thread()])
    assert settings.busy(before) == []
    assert not ending.is_alive()


def test_a_mode_that_cannot_be_left_again_is_told():
    before = settings.read()
    with torch.inference_mode():
        assert not settings.restore(before)


def _answer(*implementations):
    """What one process makes of implementations of the cheats, one after the other."""
    sources = catalogue.Sources(generated_dir=str(toys.GENERATED), plugins=(toys.plugin("cheats"),))
    worker = bench_worker._Worker(sources, Budget(warmup_s=0.0, measure_s=0.0))
    case_id = toys.case(toys.load("cheats")["ScaleFwdOp"], "small").case_id
    return [
        worker.answer(bench_worker.RunRow(op="ScaleFwdOp", case_id=case_id, implementation=name, device="cpu"))
        for name in implementations
    ]


def test_a_process_in_which_a_thread_computes_on_is_replaced():
    (left,) = _answer("leaves_a_thread_that_spins")
    for thread in threading.enumerate():
        if thread.name == "spins":
            thread.over.set()
            thread.join()
    assert left.is_broken
    assert "still computing (spins)" in benchmark_pb2.BenchmarkRecord.FromString(left.payload).message


@pytest.mark.parametrize("name", ["leaves_settings", "leaves_a_mode", "computes_by_a_hook"])
def test_the_next_implementation_finds_the_settings_that_all_find(name):
    before = settings.read()
    left, honest = _answer(name, "torch")
    assert benchmark_pb2.BenchmarkRecord.FromString(left.payload).status == benchmark_pb2.STATUS_ERROR
    assert benchmark_pb2.BenchmarkRecord.FromString(honest.payload).status == benchmark_pb2.STATUS_OK
    assert left.is_broken and not honest.is_broken and settings.read() == before


def test_a_plugin_that_leaves_a_setting_when_it_is_imported_is_refused(tmp_path):
    (tmp_path / "fast.py").write_text("import torch\ntorch.set_float32_matmul_precision('high')\n")
    process = runs.start(tmp_path, runs.TOY, "--list", "--plugin=fast.py")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "fast.py: on import, " in err and "the float32 matmul precision was left at high" in err


def test_a_plugin_that_puts_code_in_place_of_an_operator_when_it_is_imported_is_refused(tmp_path):
    (tmp_path / "silu.py").write_text(
        "import torch\nLIBRARY = torch.library.Library('aten', 'IMPL')\nLIBRARY.impl('silu', torch.relu, 'CPU')\n"
    )
    process = runs.start(tmp_path, runs.TOY, "--list", "--plugin=silu.py")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "silu.py: on import, the Python code in place of PyTorch's operators was left at aten::silu on CPU" in err


def test_a_plugin_whose_import_starts_a_thread_that_computes_is_refused(tmp_path):
    (tmp_path / "spins.py").write_text(
        "import threading\n\ndef spin():\n    while True:\n        pass\n\n"
        "threading.Thread(target=spin, daemon=True, name='spins').start()\n"
    )
    process = runs.start(tmp_path, runs.TOY, "--list", "--plugin=spins.py")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2 and "spins.py: what its import started is still computing (spins)" in err


def test_a_copy_of_the_process_does_not_hide_that_the_process_died(tmp_path):
    (tmp_path / "forks.py").write_text(
        "import os, time\nfrom tileops.ops import catalogue\n\ndef dies(op, call, x):\n"
        "    if os.fork() == 0:\n        time.sleep(30)\n        os._exit(0)\n    os._exit(3)\n\n"
        f"catalogue.load({str(toys.GENERATED)!r})['ScaleFwdOp'].register('dies', dies)\n"
    )
    flags = ("--device=cpu", "--label=small", "--implementation=dies", "--row_timeout_s=25", "--out=run.binpb")
    process = runs.start(tmp_path, runs.TOY, "--plugin=forks.py", "--op=ScaleFwdOp", *flags)
    _, err = process.communicate(timeout=150)
    assert process.returncode == 1, err
    (found,) = runs.outcomes(tmp_path / "run.binpb").values()
    assert found.status == runs.ERROR and "the process" in found.message, found.message
