"""Every cheat of the corpus ends as an error with the right reason, and no honest implementation does."""

import pytest
import torch

from tileops.perf.runs import reader
from tileops.proto import benchmark_pb2
from tileops.tests.harness import cheat_corpus, runs
from tileops.tests.harness.runs import plugin

FLAGS = ("--rows=all", "--op=ScaleFwdOp", "--label=small")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: streams and their records")


def judge(folder, *flags):
    """The status and output of the command that judges a run from another machine."""
    process = runs.start(folder, *flags, module="tileops.tests.harness.judge_cheats")
    out, _ = process.communicate(timeout=60)
    return process.returncode, out


def judged(tmp_path, bench, device, name):
    status, _, err = bench(f"--device={device}", *FLAGS, "--nosamples", plugin(name))
    records = list(reader.read_run(tmp_path / "tileops-run.binpb").records())
    assert cheat_corpus.judge(name, records) == [], err
    return status, {record.implementation: record for record in records}


def test_every_cheat_is_an_error_and_prices_its_row_all_the_same(tmp_path, bench):
    status, records = judged(tmp_path, bench, "cpu", "cheats")
    assert status == 1
    assert len(cheat_corpus.CHEATS["cheats"]) >= 12 and len(records) == len(cheat_corpus.CHEATS["cheats"]) + 1
    assert all((record.flops, record.bytes) == (2048, 16384) for record in records.values())
    assert judge(tmp_path, "--run=tileops-run.binpb", "--plugin=cheats") == (0, "")
    status, out = judge(tmp_path, "--run=tileops-run.binpb", "--plugin=controls")
    assert status == 1 and "one_percent is honest: STATUS_ERROR" in out


def test_no_honest_implementation_of_similar_look_is_an_error(tmp_path, bench):
    status, records = judged(tmp_path, bench, "cpu", "controls")
    assert status == 0
    honest = [record for name, record in records.items() if name.startswith("honest_")]
    assert len(honest) >= 12 and all(record.correctness.checked for record in honest)


def test_whoever_changes_what_measures_leaves_nothing_to_those_after_it(tmp_path, bench):
    """Rows and implementations of an op share a process, the one that a cheat would poison for them."""
    status, _, err = bench(
        "--device=cpu",
        "--rows=all",
        "--op=ScaleFwdOp",
        "--label=small,middle",
        "--implementation=replaces_the_statistics,torch",
        plugin("cheats"),
    )
    records = list(reader.read_run(tmp_path / "tileops-run.binpb").records())
    honest = [record for record in records if record.implementation == "torch"]
    assert status == 1 and len(honest) == len(records) / 2 >= 2, err
    for record in honest:
        assert record.status == benchmark_pb2.STATUS_OK
        assert 1.0 < min(record.timing.sample_ns) <= record.timing.device_busy_ns <= max(record.timing.sample_ns)


AFTER = '''
import gc, os
import tileops_generated_toy as generated
import torch
from tileops.ops.implementations import implementation


class ScaleFwdOp(generated.ScaleFwdOp):
    """What comes first spoils its process, and says which it is; `honest` comes after it."""

    def _says(self, name):
        with open(f"{os.path.dirname(__file__)}/{name}.pid", "w") as file:
            file.write(str(os.getpid()))

    @implementation("torch")
    def _torch(self, call, x):
        return x * self.params["factor"]

    @implementation("first")
    def _first(self, call, x):
        self._says("first")
        WHAT

    @implementation("honest")
    def _honest(self, call, x):
        self._says("honest")
        return torch.mul(x, self.params["factor"])
'''
SPOILS = """for found in gc.get_objects():
            if type(found) is torch.Tensor and found is not x and found.dtype == torch.float64:
                found.fill_(3.0)
        """


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (SPOILS + "return torch.zeros_like(x)", "wrong result"),
        pytest.param(SPOILS + "return x[:1]", "OpCallError", marks=pytest.mark.nightly),
        pytest.param(SPOILS + "raise RuntimeError('no')", "RuntimeError: no", marks=pytest.mark.nightly),
        pytest.param(
            SPOILS + "torch.set_num_threads(torch.get_num_threads() + 1); return x * 2.0",
            "number of threads",
            marks=pytest.mark.nightly,
        ),
        ("return x * 2.0", ""),
    ],
)
def test_whatever_its_error_an_implementation_costs_those_after_it_nothing(tmp_path, bench, what, message):
    (tmp_path / "after.py").write_text(AFTER.replace("WHAT", what))
    status, _, err = bench("--device=cpu", *FLAGS, "--implementation=first,honest", f"--plugin={tmp_path}/after.py")
    records = {one.implementation: one for one in reader.read_run(tmp_path / "tileops-run.binpb").records()}
    assert records["honest"].status == benchmark_pb2.STATUS_OK, err
    assert records["honest"].correctness.checked
    assert message in records["first"].message and status == bool(message)
    first, honest = ((tmp_path / f"{name}.pid").read_text() for name in ("first", "honest"))
    assert (first == honest) is (not message)  # an error ends its process


def test_a_plugin_that_changes_what_measures_when_it_is_imported_is_refused(tmp_path, bench):
    source = "from tileops.perf.clock import samples\nsamples.summarize.__code__ = (lambda samples: None).__code__\n"
    (tmp_path / "sly.py").write_text(source)
    status, _, err = bench("--device=cpu", *FLAGS, "--plugin=sly.py")
    assert status == 2
    assert f"--plugin={tmp_path}/sly.py: tileops.perf.clock.samples.summarize was replaced" in err


@needs_gpu
@pytest.mark.parametrize("name", list(cheat_corpus.CHEATS))
def test_on_a_gpu_too(tmp_path, bench, name):
    judged(tmp_path, bench, "cuda", name)


def test_the_judge_tells_what_passed_and_what_did_not():
    record = benchmark_pb2.BenchmarkRecord
    passed = record(op="ScaleFwdOp", implementation="side_stream", status=benchmark_pb2.STATUS_OK)
    other = record(
        op="ScaleFwdOp", implementation="waits_for_nothing", status=benchmark_pb2.STATUS_ERROR, message="out of memory"
    )
    failed = record(op="ScaleFwdOp", implementation="honest_waits", status=benchmark_pb2.STATUS_ERROR, message="no")
    found = cheat_corpus.judge("gpu_cheats", [passed, other, failed])
    assert [line.partition(":")[0] for line in found] == [
        "side_stream",
        "background_thread",
        "other_work_now_and_then",
        "switches_recording_off",
        "leaves_recording_off",
        "waits_for_nothing",
        "honest_waits is honest",
    ]
