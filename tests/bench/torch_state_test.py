"""No implementation is measured by PyTorch's settings as another one left them."""

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tileops.perf import bench_catalogue, bench_torch_state, bench_worker
from tileops.perf.clock.measurement import Budget
from tileops.proto import benchmark_pb2
from tileops.tests.bench import runs, toys


@pytest.fixture(autouse=True)
def _as_before():
    before = bench_torch_state.read()
    yield
    assert bench_torch_state.restore(before)


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
    ],
)  # fmt: skip
def test_a_setting_that_is_left_behind_is_told_and_put_back(change, named):
    before = bench_torch_state.read()
    change()
    said = bench_torch_state.describe(before, bench_torch_state.read())
    assert named in said and said.endswith("sets it inside its call and resets it before it returns")
    assert bench_torch_state.restore(before)
    assert bench_torch_state.describe(before, bench_torch_state.read()) == ""


def test_a_mode_that_cannot_be_left_again_is_told():
    before = bench_torch_state.read()
    with torch.inference_mode():
        assert not bench_torch_state.restore(before)


def _answer(*implementations):
    """What one process makes of implementations of the cheats, one after the other."""
    sources = bench_catalogue.Sources(generated_dir=str(toys.GENERATED), plugins=(toys.plugin("cheats"),))
    worker = bench_worker._Worker(sources, Budget(warmup_s=0.0, measure_s=0.0))
    case_id = toys.case(toys.load("cheats")["ScaleFwdOp"], "small").case_id
    return [
        worker.answer(bench_worker.RunRow(op="ScaleFwdOp", case_id=case_id, implementation=name, device="cpu"))
        for name in implementations
    ]


@pytest.mark.parametrize("name", ["leaves_settings", "leaves_a_mode"])
def test_the_next_implementation_finds_the_settings_that_all_find(name):
    before = bench_torch_state.read()
    left, honest = _answer(name, "torch")
    assert benchmark_pb2.BenchmarkRecord.FromString(left.payload).status == benchmark_pb2.STATUS_ERROR
    assert benchmark_pb2.BenchmarkRecord.FromString(honest.payload).status == benchmark_pb2.STATUS_OK
    assert not left.is_broken and bench_torch_state.read() == before


def test_a_plugin_that_leaves_a_setting_when_it_is_imported_is_refused(tmp_path):
    (tmp_path / "fast.py").write_text("import torch\ntorch.set_float32_matmul_precision('high')\n")
    process = runs.start(tmp_path, runs.TOY, "--list", "--plugin=fast.py")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "fast.py: on import, " in err and "the float32 matmul precision was left at high" in err
