"""One row: what is profiled of it, the command that does it, and the row that its counters make."""

import contextlib
import pathlib
import sys

import pytest
import torch

from tileops.audit import counters, exceptions, measure, ncu, profiled_call
from tileops.audit.calls import declared
from tileops.perf.harness import catalogue
from tileops.proto import audit_pb2
from tileops.tests.audit.ncu_output import raw
from tileops.tests.harness import toys

SCALE = toys.load("implementations")["ScaleFwdOp"]
SMALL = toys.case(SCALE, "small")
READ = 32 * 64 * 4


@pytest.fixture
def row():
    return declared(SCALE, SMALL)


def judged(row, read, facts=None, table=()):
    return measure.judged(row, raw([("k", str(read), "3")]), facts or {}, table)


@pytest.mark.requirement("4.5.2", "4.5.4")
def test_the_row_has_both_sides_and_the_premises_of_its_verdict(row):
    found = judged(row, READ, {"implementation": "torch"})
    assert (found.op, found.case_id, found.implementation) == ("ScaleFwdOp", "small-float32", "torch")
    assert (found.declared_read_bytes, found.measured_read_bytes, found.measured_write_bytes) == (READ, READ, 3)
    assert (found.verdict, list(found.premises)) == (audit_pb2.VERDICT_PASS, [0, 1])


def test_a_file_without_the_metric_of_writes_is_judged(row):
    lines = raw([("k", str(READ), "3")]).splitlines()
    found = measure.judged(row, "".join(f"{line.rpartition(',')[0]}\n" for line in lines), {}, ())
    assert (found.verdict, found.measured_read_bytes) == (audit_pb2.VERDICT_PASS, READ)
    assert not found.HasField("measured_write_bytes")


@pytest.mark.requirement("4.5.5", "4.5.8", "4.5.15")
def test_inside_an_exception_a_shortfall_is_exempt_and_rests_on_cold_caches_alone(row):
    table = (exceptions.ReadException(op="ScaleFwdOp", when="N < 100", reason="few rows"),)
    found = judged(row, READ // 2, table=table)
    assert (found.verdict, found.exemption_condition) == (audit_pb2.VERDICT_EXEMPT, "N < 100")
    assert list(found.premises) == [0]
    middle = declared(SCALE, toys.case(SCALE, "middle"))
    assert judged(middle, READ // 2, table=table).verdict == audit_pb2.VERDICT_FAIL


def _on_the_cpu(op_class, label, profiled=lambda device: contextlib.nullcontext()):
    """Facts of a row's call, as the process under ncu writes them."""
    return profiled_call.run(op_class, toys.case(op_class, label), "torch", torch.device("cpu"), profiled)


class _Scatter(toys.load("implementations")["ScatterCountFwdOp"], generated=True):
    """The scatter of the toys, whose row has ids (1, 3, 3, 5), with a read half."""

    def eval_roofline_read_bytes(self):
        return 80


@pytest.mark.requirement("4.5.7")
@pytest.mark.parametrize(
    ("op_class", "label", "when"),
    [(_Scatter, "few", "max(ids) == 5"), (SCALE, "small", "N < 100")],
    ids=["by a value", "by a shape"],
)
def test_an_exceptions_when_is_evaluated_against_the_row_measured(op_class, label, when, monkeypatch):
    for condition, verdict in ((when, audit_pb2.VERDICT_EXEMPT), (f"not {when}", audit_pb2.VERDICT_FAIL)):
        table = (exceptions.ReadException(op=op_class.ENTRY, when=condition, reason="planted"),)
        monkeypatch.setattr(exceptions, "EXCEPTIONS", table)
        one, facts = declared(op_class, toys.case(op_class, label)), _on_the_cpu(op_class, label)
        assert facts["conditions"] == {condition: verdict == audit_pb2.VERDICT_EXEMPT}
        assert judged(one, one.read_bytes // 2, facts, table).verdict == verdict


@pytest.mark.requirement("4.5.7")
def test_the_values_are_those_of_the_measured_call_and_not_of_its_twin_on_meta(monkeypatch):
    class Rerouted(_Scatter, generated=True):
        def forward(self, total, ids, x):
            return super().forward(total, ids if total.is_meta else ids + 1, x)

    table = (exceptions.ReadException(op="ScatterCountFwdOp", when="max(ids) == 6", reason="planted"),)
    monkeypatch.setattr(exceptions, "EXCEPTIONS", table)
    one = declared(Rerouted, toys.case(Rerouted, "few"))
    assert exceptions.conditions(table, one.call) == {"max(ids) == 6": False}
    assert judged(one, 40, _on_the_cpu(Rerouted, "few"), table).verdict == audit_pb2.VERDICT_EXEMPT
    assert judged(one, 40, {}, table).verdict == audit_pb2.VERDICT_FAIL


def test_a_shortfall_that_copies_by_the_driver_explain_is_no_measurement(row):
    facts = {"copies": ["Memcpy DtoD (Device -> Device)"]}
    short = judged(row, READ // 2, facts)
    assert short.verdict == audit_pb2.VERDICT_ERROR
    assert "1 copies to the driver (Memcpy DtoD" in short.reason
    assert short.measured_read_bytes == READ // 2 and not short.premises
    assert judged(row, READ, facts).verdict == audit_pb2.VERDICT_PASS


@pytest.mark.requirement("4.5.17")
def test_counters_that_cannot_be_used_are_an_error_with_what_to_do(row):
    found = measure.judged(row, "==ERROR== ERR_NVGPUCTRPERM - no permission\n", {}, ())
    assert found.verdict == audit_pb2.VERDICT_ERROR
    assert "ERR_NVGPUCTRPERM - no permission. To do: " in found.reason
    assert not found.HasField("measured_read_bytes")


def test_two_calls_in_one_file_are_no_measurement_of_one(row):
    twice = raw([("k", str(READ // 2), "3")] * 2)
    found = measure.judged(row, twice, {}, ())
    assert found.verdict == audit_pb2.VERDICT_ERROR
    assert "repeats the same 1 kernel(s) 2 times, and one call is to be profiled" in found.reason
    # A program that counted its calls knows that these kernels are one's.
    assert measure.judged(row, twice, {"calls": 1}, ()).verdict == audit_pb2.VERDICT_PASS


def test_a_shortfall_in_a_file_made_by_hand_may_be_the_files(row):
    hint = "or the file lacks kernels of the call (it has 1)"
    assert judged(row, READ // 2).reason.endswith(hint)
    found = judged(row, READ // 2, {"calls": 1})
    assert found.verdict == audit_pb2.VERDICT_FAIL and hint not in found.reason


def _measured(row, profile, monkeypatch, save_csv=None):
    """The row that a measurement makes of which ncu gives what `profile` returns or raises."""
    monkeypatch.setattr(ncu, "profile", lambda *arguments: profile())
    settings = measure.Settings(
        program=ncu.Program(path="ncu", version="1"),
        sources=catalogue.Sources(),
        device="cuda:0",
        implementation="",
        timeout_s=1.0,
        save_csv=save_csv,
    )
    (made,) = measure.measure([row], (), settings, audit_pb2.AuditReport())
    return made


def test_a_read_half_that_depends_on_more_than_the_checked_call_is_no_measurement(row, monkeypatch):
    facts = {"implementation": "torch", "declared_read_bytes": READ // 2, "calls": 1}
    csv = raw([("k", str(READ), "3")])
    found = _measured(row, lambda: (csv, dict(facts)), monkeypatch)
    assert found.verdict == audit_pb2.VERDICT_ERROR
    assert f"declares {READ // 2} read bytes for the measured call and {READ} for the same call on meta" in found.reason
    facts["declared_read_bytes"] = READ
    found = _measured(row, lambda: (csv, dict(facts)), monkeypatch)
    assert found.verdict == audit_pb2.VERDICT_PASS


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            "import pathlib, sys; pathlib.Path(sys.argv[-1][8:]).write_text('{}'); print('ValueError: late'); sys.exit(3)",
            "ValueError: late",
        ),
        ("pass", "printed nothing and did not run the call: is it Nsight Compute's ncu"),
    ],
    ids=["fails after the call", "is no ncu"],
)
def test_a_profiler_that_fails_or_does_nothing_gives_no_measurement(script, said, tmp_path):
    path = tmp_path / "ncu"
    path.write_text(f"#!{sys.executable}\n{script}\n")
    path.chmod(0o755)
    with pytest.raises(ncu.NcuError, match=said):
        ncu.profile(ncu.Program(path=str(path), version="1"), [], 60)


def test_an_ncu_that_may_not_be_run_is_not_called_missing(tmp_path):
    (tmp_path / "ncu").write_text("text")
    with pytest.raises(ncu.NcuError, match="the file is no executable"):
        ncu.find(str(tmp_path / "ncu"))
    with pytest.raises(ncu.NcuError, match="no such program: install"):
        ncu.find(str(tmp_path / "none"))


def test_a_row_that_has_no_price_is_an_error():
    class Broken(SCALE, generated=True):
        def eval_roofline_read_bytes(self):
            return 1.5

    found = judged(declared(Broken, SMALL), READ)
    assert found.verdict == audit_pb2.VERDICT_ERROR
    assert "not a count of bytes" in found.reason


@pytest.mark.requirement("4.5.11", "4.5.18")
def test_an_op_that_declares_no_read_half_has_no_verdict_but_its_reading():
    few = toys.load("implementations")["ScatterCountFwdOp"]
    found = judged(declared(few, toys.case(few, "few")), 96)
    assert found.verdict == audit_pb2.VERDICT_NO_VERDICT
    assert found.measured_read_bytes == 96 and not found.HasField("declared_read_bytes")
    assert dict(found.data_terms) == {"touched": 3}


def test_one_call_is_profiled_after_others_that_are_not():
    order = []

    class Counted(SCALE):
        def forward(self, x):
            order.append("call")
            return super().forward(x)

    @contextlib.contextmanager
    def profiled(device):
        order.append("start")
        yield
        order.append("stop")

    facts = profiled_call.run(Counted, SMALL, "torch", torch.device("cpu"), profiled)
    start = order.index("start")
    assert order[start : start + 3] == ["start", "call", "stop"] and order.count("start") == 1
    assert order.index("call") < start
    assert (facts["implementation"], facts["declared_read_bytes"]) == ("torch", READ)


def test_a_call_that_writes_its_inputs_finds_them_as_a_first_call_does():
    scatter = toys.load("implementations")["ScatterCountFwdOp"]
    found = []

    class Seen(scatter):
        def forward(self, total, ids, x):
            found.append(total.clone())
            return super().forward(total, ids, x)

    profiled_call.run(
        Seen, toys.case(scatter, "few"), "torch", torch.device("cpu"), lambda device: contextlib.nullcontext()
    )
    assert torch.equal(found[-1], found[0])
    assert not torch.equal(found[1], found[0])


@pytest.mark.requirement("4.5.3")
def test_ncu_replays_kernels_from_cold_caches_and_leaves_the_clocks_alone():
    program = ncu.Program(path="/path/to/ncu", version="1")
    line = ncu.command_line(program, pathlib.Path("log"), ["python3", "-m", "x"])
    flags = dict(zip(line[2:], line[3:], strict=False))
    assert line[0] == "/path/to/ncu" and line[-3:] == ["python3", "-m", "x"]
    assert flags["--cache-control"] == "all"
    assert flags["--clock-control"] == "none"
    assert flags["--replay-mode"] == "kernel"
    assert flags["--profile-from-start"] == "off"
    assert flags["--metrics"] == f"{counters.READ_METRIC},{counters.WRITE_METRIC}"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("ERR_NVGPUCTRPERM - The user does not have permission", "run as root"),
        ("Failed to initialize the profiler: LibraryNotLoaded", "gVisor"),
        ("Profiling failed because a driver resource was unavailable", "another profiler"),
        ("torch.OutOfMemoryError: CUDA out of memory", "does not fit"),
        ("RuntimeError: Found no NVIDIA driver on your system", "--save_csv"),
    ],
)
def test_known_failures_say_what_to_do(words, said):
    found = ncu.explain(f"==ERROR== {words}\n", "", 1)
    assert words in found and said in found


def test_a_failure_quotes_the_end_of_what_the_program_said():
    found = ncu.explain("==ERROR== The application returned an error code (1).\n", "x" * 900 + "\nValueError: no\n", 1)
    assert found.startswith("The application returned an error code (1).; the program's output ends: ")
    assert found.endswith("ValueError: no") and len(found) < 600
