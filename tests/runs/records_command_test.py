"""//perf:records as a user runs it: every form, shards, and what is refused."""

import csv
import io

import pytest
from google.protobuf import text_format

from tileops.perf.runs import reader as runfile
from tileops.perf.runs import writer as run_writer
from tileops.proto import benchmark_pb2
from tileops.tests.report import builders
from tileops.tests.runs.conversion import convert  # noqa: F401  a fixture

EVENTS = benchmark_pb2.TIMING_SOURCE_CUDA_EVENTS
CUPTI = benchmark_pb2.TIMING_SOURCE_CUPTI


def full_record(**fields):
    """A record with something in every kind of field."""
    record = builders.record(
        bindings={"M": "8", "eps": "1e-5"},
        dtypes={"x": "float16"},
        data_terms={"experts": -7},
        read_bytes=0,
        flops=2**64 - 1,
        message='a "quoted", line\u2028',
        **fields,
    )
    record.timing.sample_ns.extend([1.5, 2.5])
    record.correctness.checked = True
    record.correctness.max_relative_error = 1e-3
    record.device_state.end.throttle_reasons.append("sw_power_cap")
    return record


def entries(path):
    return list(runfile.read_run(path))


def test_binary_and_json_hold_the_same(tmp_path, convert):
    builders.write_run(tmp_path / "run.binpb", full_record(), builders.record(ns=None))
    assert convert("--in=run.binpb", "--out=run.jsonl") == (0, "", "")
    assert convert("--in=run.jsonl", "--out=again.binpb") == (0, "", "")
    assert (tmp_path / "again.binpb").read_bytes() == (tmp_path / "run.binpb").read_bytes()
    assert entries(tmp_path / "run.jsonl") == entries(tmp_path / "run.binpb")
    status, out, _ = convert("--in=run.binpb")
    assert (status, out) == (0, (tmp_path / "run.jsonl").read_text())
    status, out, _ = convert("--in=run.jsonl", "--to=run", text=False)
    assert out == (tmp_path / "run.binpb").read_bytes()


def test_from_overrules_the_name(tmp_path, convert):
    builders.write_run(tmp_path / "run.jsonl", builders.record())
    (tmp_path / "run.jsonl").rename(tmp_path / "run.binpb")
    assert convert("--in=run.binpb")[0] == 2
    status, out, _ = convert("--in=run.binpb", "--from=jsonl")
    assert status == 0 and out == (tmp_path / "run.binpb").read_text()


def test_textproto_is_one_message(tmp_path, convert):
    builders.write_run(tmp_path / "run.binpb", full_record(), builders.record())
    status, out, _ = convert("--in=run.binpb", "--to=textproto")
    run = text_format.Parse(out, benchmark_pb2.Run())
    assert status == 0 and list(run.entries) == entries(tmp_path / "run.binpb")


def test_csv_has_a_line_a_record(tmp_path, convert):
    of_library = {"library": "liger", "is_default": False}
    builders.write_run(tmp_path / "run.binpb", full_record(**of_library), builders.record(ns=None))
    assert convert("--in=run.binpb", "--out=run.csv")[0] == 0
    full, bare = csv.DictReader(io.StringIO((tmp_path / "run.csv").read_text()))
    assert full["flops"] == str(2**64 - 1)
    assert (full["source"], full["status"], full["read_bytes"]) == ("cupti", "ok", "0")
    assert full["data_terms"] == '{"experts": -7}'
    assert float(full["device_busy_ns"]) == 100_000
    assert full["message"] == 'a "quoted", line\u2028'
    assert (bare["source"], bare["device_busy_ns"], bare["read_bytes"]) == ("", "", "")
    assert [(row["library"], row["is_default"]) for row in (full, bare)] == [("liger", "false"), ("", "")]


def test_an_interrupted_run_stays_one_and_damage_is_told(tmp_path, convert):
    path = builders.write_run(tmp_path / "run.binpb", builders.record(), builders.record())
    path.write_bytes(path.read_bytes()[:-1])
    status, _, err = convert("--in=run.binpb", "--out=run.jsonl")
    assert status == 0 and "records: run.binpb: at byte" in err and "no footer" in err
    reader = runfile.read_run(tmp_path / "run.jsonl")
    assert len(list(reader.records())) == 2 and reader.footer is None


JUNIT = """<?xml version="1.0"?>
<testsuites><testsuite name="nightly" timestamp="2026-08-22T03:04:05.678">
  <properties><property name="device_name" value="Test GPU"/>
    <property name="torch_version" value="2.11"/></properties>
  <testcase classname="bench" name="test_silu[a-float16]" time="1.5"><properties>
    <property name="op" value="SiLUFwdOp"/>
    <property name="family" value="elementwise"/>
    <property name="tileops_device_busy_ms" value="0.1"/>
    <property name="tileops_flops" value="1000000"/>
    <property name="tileops_bytes" value="4e7"/>
    <property name="tileops_timing" value="cupti"/>
    <property name="torch-compile_device_busy_ms" value="0.25"/>
    <property name="torch-compile_timing" value="CUDA_EVENTS"/>
  </properties></testcase>
  <testcase name="test_gemm[b]"><properties><property name="op" value="GEMMFwdOp"/></properties>
    <failure message="assert  0.3 &lt; 0.1&#10;more">trace</failure></testcase>
  <testcase name="test_gemm[c]"><properties><property name="op" value="GEMMFwdOp"/></properties>
    <skipped>needs two GPUs</skipped></testcase>
  <testcase name="test_of_something_else"/>
  <testcase name="whole_name"><properties><property name="op" value="AddFwdOp"/>
    <property name="x_device_busy_ms" value="fast"/><property name="x_timing" value="cupti"/>
    <property name="y_device_busy_ms" value="1"/><property name="y_timing" value="sundial"/>
    <property name="z_device_busy_ms" value="1"/><property name="z_timing" value="cupti"/>
    <property name="z_flops" value="1.5"/>
  </properties></testcase>
</testsuite></testsuites>
"""


def test_junit_becomes_a_run_that_can_be_priced(tmp_path, convert):
    (tmp_path / "nightly.xml").write_text(JUNIT)
    status, out, err = convert("--in=nightly.xml", "--out=run.binpb")
    assert (status, out) == (0, "")
    assert "records: nightly.xml: left out 1 test case without the property 'op'\n" in err
    reader = runfile.read_run(tmp_path / "run.binpb")
    tileops, compiled, failed, skipped, *bad = reader.records()
    assert reader.header.environment.device_name == "Test GPU"
    assert reader.header.environment.torch_version == "2.11"
    assert reader.header.started_at.ToJsonString() == "2026-08-22T03:04:05.678Z"
    assert (reader.footer.records, reader.footer.errors, reader.footer.skipped) == (7, 4, 1)
    assert not reader.footer.HasField("finished_at")
    assert (tileops.op, tileops.case_id, tileops.family) == ("SiLUFwdOp", "a-float16", "elementwise")
    assert (tileops.implementation, tileops.flops, tileops.bytes) == ("tileops", 10**6, 4 * 10**7)
    assert (tileops.timing.device_busy_ns, tileops.timing.source) == (100_000, CUPTI)
    assert (compiled.implementation, compiled.flops) == ("torch-compile", 0)
    assert (compiled.timing.device_busy_ns, compiled.timing.source) == (250_000, EVENTS)
    assert (failed.status, failed.message) == (benchmark_pb2.STATUS_ERROR, "assert 0.3 < 0.1 more")
    assert (skipped.status, skipped.message) == (benchmark_pb2.STATUS_SKIPPED, "needs two GPUs")
    assert [record.case_id for record in bad] == ["whole_name"] * 3
    assert [record.message.partition(";")[0] for record in bad] == [
        "x_device_busy_ms is 'fast', not a number",
        "y_timing is 'sundial'",
        "z_flops is '1.5', not a count",
    ]
    assert not any(record.HasField("timing") for record in bad)


def test_device_name_completes_what_junit_does_not_say(tmp_path, convert):
    (tmp_path / "nightly.xml").write_text(JUNIT.replace("device_name", "host"))
    assert convert("--in=nightly.xml", "--out=run.binpb", "--device_name=Test GPU")[0] == 0
    reader = runfile.read_run(tmp_path / "run.binpb")
    assert reader.header.environment.device_name == "Test GPU"
    status, _, err = convert("--in=run.binpb", "--device_name=Other")
    assert status == 2 and "'Test GPU'" in err


@pytest.mark.parametrize(
    "flags, told",
    [
        ([], "the input does not name its device: a report leaves every row blank (no_profile); see --device_name"),
        (["--device_name=NVIDIA H200 X"], "no profile has the device 'NVIDIA H200 X'"),
        (["--device_name=NVIDIA H200"], ""),
    ],
)
def test_a_device_that_no_profile_has_is_told(tmp_path, convert, flags, told):
    case = '<testcase name="a"><properties><property name="op" value="AddFwdOp"/></properties></testcase>'
    (tmp_path / "nightly.xml").write_text(f"<testsuite>{case}</testsuite>")
    status, _, err = convert("--in=nightly.xml", "--out=run.binpb", *flags)
    assert status == 0 and (told in err if told else not err)
    if "X" in "".join(flags):
        assert "there are: 'NVIDIA H200', 'NVIDIA H200 NVL'" in err


def test_who_names_the_device_of_a_damaged_run_is_not_told_to(tmp_path, convert):
    path = builders.write_run(tmp_path / "run.binpb", builders.record())
    builders.lose_header(path)
    _, _, err = convert("--in=run.binpb", "--out=1.binpb")
    assert "--device_name=" in err
    status, _, err = convert("--in=run.binpb", "--out=2.binpb", "--device_name=NVIDIA H200")
    assert status == 0 and "no header" in err and "--device_name" not in err


def test_an_ending_that_is_no_forms_is_refused(tmp_path, convert):
    builders.write_run(tmp_path / "run.binpb", builders.record())
    status, out, err = convert("--in=run.binpb", "--out=run.weird")
    assert (status, out) == (2, "") and not (tmp_path / "run.weird").exists()
    assert "--out=run.weird: no form has the ending .weird; use .jsonl, .csv, .textproto, .binpb, or" in err
    assert convert("--in=run.binpb", "--out=run.weird", "--to=csv") == (0, "", "")
    assert convert("--in=run.binpb", "--out=lines") == (0, "", "")


def shard(tmp_path, name, case_id, *, host="a", started_s=1_000, **environment):
    header = builders.header(started_s=started_s)
    header.environment.device_count = 1
    header.environment.hostname_hash = host
    for field, value in environment.items():
        setattr(header.environment, field, value)
    with run_writer.RunWriter(tmp_path / name, header) as writer:
        writer.write(builders.record(case_id=case_id))


def test_shards_of_one_run_are_merged(tmp_path, convert):
    shard(tmp_path, "1.binpb", "x", host="a", started_s=2_000)
    shard(tmp_path, "2.jsonl", "y", host="b", started_s=1_000)
    status, _, err = convert("--in=1.binpb", "--in=2.jsonl", "--out=run.binpb")
    assert (status, err) == (0, "")
    reader = runfile.read_run(tmp_path / "run.binpb")
    assert [record.case_id for record in reader.records()] == ["x", "y"]
    assert reader.header.started_at.seconds == 1_000
    assert reader.header.environment.device_count == 2
    assert reader.header.environment.hostname_hash == ""
    assert reader.footer.records == 2 and not reader.problems


@pytest.mark.parametrize(
    "difference, message",
    [
        ({"torch_version": "2.12"}, "their torch_version is '' and '2.12'"),
        ({"project_revision": "x"}, "project_revision"),
        ({"device_name": "Other"}, "device_name"),
        ({}, "both hold SiLUFwdOp x torch"),
    ],
)
def test_what_are_no_shards_of_one_run_are_refused(tmp_path, convert, difference, message):
    shard(tmp_path, "1.binpb", "x")
    shard(tmp_path, "2.binpb", "x", **difference)
    old = (tmp_path / "1.binpb").read_bytes()  # an earlier conversion of the same run
    (tmp_path / "run.binpb").write_bytes(old)
    status, _, err = convert("--in=1.binpb", "--in=2.binpb", "--out=run.binpb")
    assert status == 2 and message in err and len(err.splitlines()) == 1
    assert (tmp_path / "run.binpb").read_bytes() == old
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize(
    "flags, message",
    [
        ([], "--in is required"),
        (["--in=missing.xml"], "missing.xml: No such file"),
        (["--in=missing"], "missing: No such file"),
        (["--in=torn.xml"], "torn.xml:2:"),
        (["--in=run.binpb", "--out=no/where.csv"], "cannot write"),
        (["--in=run.binpb", "--to=xml"], "--to=xml"),
    ],
)
def test_bad_usage_exits_2_with_one_line(tmp_path, convert, flags, message):
    builders.write_run(tmp_path / "run.binpb", builders.record())
    (tmp_path / "torn.xml").write_text("<testsuite>\n<testcase name='a'")
    status, out, err = convert(*flags)
    assert (status, out) == (2, "")
    (line,) = err.splitlines()
    assert line.startswith("records: ") and message in line


def test_out_may_not_be_what_is_read(tmp_path, convert):
    path = builders.write_run(tmp_path / "run.binpb", builders.record())
    (tmp_path / "link.csv").symlink_to("run.binpb")
    before = path.read_bytes()
    for out in ("run.binpb", "link.csv"):
        status, _, err = convert("--in=run.binpb", f"--out={out}")
        assert status == 2 and f"--out={out} is a file that this command reads" in err
        assert len(err.splitlines()) == 1 and path.read_bytes() == before


def test_a_run_replaces_an_earlier_conversion_and_no_other_run(tmp_path, convert):
    builders.write_run(tmp_path / "run.binpb", builders.record())
    builders.write_run(tmp_path / "other.binpb", builders.record(), started_s=5_000)
    (tmp_path / "notes.jsonl").write_text("mine\n")
    before = (tmp_path / "other.binpb").read_bytes()
    for _ in range(2):
        assert convert("--in=run.binpb", "--out=copy.jsonl")[0] == 0
    more = [builders.record(), builders.record(case_id="more")]
    builders.write_run(tmp_path / "longer.binpb", *more)  # the same run, with a record that would be lost
    builders.write_run(tmp_path / "fork.binpb", builders.record(case_id="more", ns=7_000.0))  # as many, of another time
    for out in ("other.binpb", "notes.jsonl", "longer.binpb", "fork.binpb"):
        status, _, err = convert("--in=run.binpb", f"--out={out}")
        assert status == 2 and f"--out={out} exists, and this command replaces only its own earlier output" in err
    assert (tmp_path / "other.binpb").read_bytes() == before
    status, _, err = convert("--in=run.binpb", "--out=x.binpb", "--to=csv")
    assert status == 2 and "--to=csv contradicts --out=x.binpb" in err


def test_a_run_is_no_shard_of_itself(tmp_path, convert):
    builders.write_run(tmp_path / "run.binpb", builders.record())
    (tmp_path / "link.binpb").symlink_to("run.binpb")
    for other in ("run.binpb", "link.binpb"):
        status, out, err = convert("--in=run.binpb", f"--in={other}")
        assert (status, out) == (2, "") and "are one file" in err


def test_enum_values_of_a_newer_schema_are_numbers_in_csv(tmp_path, convert):
    builders.write_run(tmp_path / "run.binpb", builders.record(status=9, source=8))
    status, out, err = convert("--in=run.binpb", "--to=csv")
    (row,) = csv.DictReader(io.StringIO(out))
    assert (status, err, row["status"], row["source"]) == (0, "", "9", "8")


def test_csv_quotes_every_end_of_a_line(tmp_path, convert):
    builders.write_run(tmp_path / "run.binpb", builders.record(case_id="a\rb", label="c\nd"))
    assert convert("--in=run.binpb", "--out=run.csv")[0] == 0
    with open(tmp_path / "run.csv", newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["case_id"], row["label"]) == ("a\rb", "c\nd")


def test_a_run_with_a_time_that_is_none_converts(tmp_path, convert):
    builders.write_run(tmp_path / "run.binpb", builders.record(), started_s=10**15)
    status, out, err = convert("--in=run.binpb")
    assert status == 0 and out.count("\n") == 3
    assert "started_at is not a time" in err and "finished_at is not a time" in err


# What a nightly job records of a benchmark: the op, and four properties for each implementation.
NIGHTLY = {
    "op": "AddFwdOp",
    "tileops_device_busy_ms": "0.0123",
    "tileops_flops": "4096",
    "tileops_bytes": "33792",
    "tileops_timing": "cupti",
    "torch_compile_device_busy_ms": "1.5e-2",
    "torch_compile_flops": "4096",
    "torch_compile_bytes": "33792",
    "torch_compile_timing": "host_clock",
}


def test_junit_of_nightly_jobs_keeps_every_number_through_every_form(tmp_path, convert):
    properties = "".join(f'<property name="{name}" value="{value}"/>' for name, value in NIGHTLY.items())
    case = f'<testcase name="test_add[little]"><properties>{properties}</properties></testcase>'
    (tmp_path / "nightly.xml").write_text(f"<testsuites><testsuite>{case}</testsuite></testsuites>")
    assert convert("--in=nightly.xml", "--out=1.binpb", "--device_name=NVIDIA H200") == (0, "", "")
    assert convert("--in=1.binpb", "--out=2.jsonl") == (0, "", "")
    assert convert("--in=2.jsonl", "--out=3.binpb") == (0, "", "")
    assert (tmp_path / "3.binpb").read_bytes() == (tmp_path / "1.binpb").read_bytes()
    assert entries(tmp_path / "2.jsonl") == entries(tmp_path / "1.binpb")
    told = {}
    for record in runfile.read_run(tmp_path / "3.binpb").records():
        clock = benchmark_pb2.TimingSource.Name(record.timing.source).removeprefix("TIMING_SOURCE_").lower()
        told |= {
            "op": record.op,
            f"{record.implementation}_device_busy_ms": record.timing.device_busy_ns / 1e6,
            f"{record.implementation}_flops": record.flops,
            f"{record.implementation}_bytes": record.bytes,
            f"{record.implementation}_timing": clock,
        }
    texts = ("op", "tileops_timing", "torch_compile_timing")
    assert told == {name: value if name in texts else float(value) for name, value in NIGHTLY.items()}
