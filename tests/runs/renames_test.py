"""Names of earlier versions: what the map may say, what it makes of records, and each command that reads through it."""

import json
import os
import subprocess
import sys

import pytest

from tileops.perf.report import runs
from tileops.perf.runs import reader as runfile
from tileops.perf.runs import renames
from tileops.perf.runs import writer as run_writer
from tileops.proto import benchmark_pb2
from tileops.tests.report import builders

NAMES = renames.load()
# The builders' op under its old name, which no file but the map spells.
(OLD,) = (old for old, known in NAMES.ops.items() if known.name == "SiLUFwdOp")
(FAMILY,) = (old for old, new in NAMES.families.items() if new == "norm")
RECORDED = runs.run_paths([])
SAID = "of an earlier version, read as today's (perf/runs/renames.toml)"

MAP = """
[families]
old_family = "family"

[ops.OldFwdOp]
name = "NewFwdOp"
sets = {approximate = "tanh"}
tensors = {x = "input"}
indices = {B = "M", T = "U", U = "T"}
params = {dtype = "out_dtype"}
labels = {small = "tiny"}
cases."small-float64" = {case_id = "least-float64", label = "least"}

[ops.SameFwdOp]
labels = {small = "tiny", small-tanh = "tiny-tanh"}
"""


@pytest.fixture
def names(tmp_path):
    return read(tmp_path, MAP)


def read(tmp_path, text):
    path = tmp_path / "map.toml"
    path.write_text(text)
    return renames.read(path)


def record(**fields):
    return builders.record(**{"op": "OldFwdOp", "case_id": "small-float16", "label": "small"} | fields)


# ---- what the map makes of a record


def test_every_name_of_a_record_is_renamed_and_no_value(names):
    was = record(
        family="old_family",
        bindings={"B": "[2048]", "N": "4", "dtype": "float16"},
        dtypes={"x": "float16", "T": "int8", "U": "bool"},
    )
    found = benchmark_pb2.BenchmarkRecord()
    found.CopyFrom(was)
    assert names.rename(found)
    assert (found.op, found.family, found.case_id, found.label) == ("NewFwdOp", "family", "tiny-float16", "tiny")
    assert dict(found.bindings) == {"M": "[2048]", "N": "4", "out_dtype": "float16", "approximate": "tanh"}
    assert dict(found.dtypes) == {"input": "float16", "U": "int8", "T": "bool"}
    assert (found.timing, found.flops, found.implementation) == (was.timing, was.flops, was.implementation)


def test_the_second_application_changes_nothing(names):
    for found in (record(), record(op="SameFwdOp"), record(case_id="small-float64"), record(family="old_family")):
        assert names.rename(found)
        again = benchmark_pb2.BenchmarkRecord()
        again.CopyFrom(found)
        assert not names.rename(again) and again == found


def test_what_the_map_does_not_name_stays(names):
    for fields in ({"op": "OtherFwdOp"}, {"op": "SameFwdOp", "case_id": "x-float16", "label": "x"}):
        found = record(**fields)
        assert not names.rename(found) and found == record(**fields)


@pytest.mark.parametrize(
    "op, case_id, row",
    [
        ("OldFwdOp", "small-float64", ("NewFwdOp", "least-float64")),
        ("OldFwdOp", "small-float16", ("NewFwdOp", "tiny-float16")),
        ("OldFwdOp", "smaller-float16", ("NewFwdOp", "smaller-float16")),
        ("SameFwdOp", "small-tanh-float16", ("SameFwdOp", "tiny-tanh-float16")),
        ("SameFwdOp", "small", ("SameFwdOp", "tiny")),
        ("OtherFwdOp", "small", ("OtherFwdOp", "small")),
    ],
)
def test_a_row_is_found_by_its_case_id_alone(names, op, case_id, row):
    assert names.row(op, case_id) == row


def test_a_label_with_a_dtype_follows_the_case_that_moved(names):
    assert names.label("OldFwdOp", "small", "float64") == ("NewFwdOp", "least")
    assert names.label("OldFwdOp", "small", "float16") == ("NewFwdOp", "tiny")
    assert names.label("OtherFwdOp", "small", "float16") == ("OtherFwdOp", "small")


# ---- what the map may say


@pytest.mark.parametrize(
    "text, said",
    [
        ("ops.AFwdOp.names = 'B'", "ops.AFwdOp has 'names'"),
        ("operations = 1", "the file has 'operations'"),
        ("ops.AFwdOp.name = 1", "ops.AFwdOp is no table of names"),
        ("ops.AFwdOp.labels = {a = ''}", "ops.AFwdOp.labels is no table of names"),
        ("ops.AFwdOp = 'B'", "ops.AFwdOp is no table"),
        ("ops.AFwdOp.name = 'B'\nops.B.name = 'C'", "ops: 'B' is an old name and a new one"),
        ("families = {a = 'b', b = 'c'}", "families: 'b' is an old name and a new one"),
        ("ops.AFwdOp.labels = {a = 'b', b = 'a'}", "ops.AFwdOp.labels: '.' is an old name and a new one"),
        ("ops.AFwdOp.tensors = {x = 'x'}", "ops.AFwdOp.tensors: 'x' is an old name and a new one"),
        ("ops.AFwdOp.cases.a = {case_id = 'b-1', label = 'c'}", "ops.AFwdOp.cases.a is not {case_id, label}"),
        ("ops.AFwdOp.cases.a = {case_id = 'b-1'}", "ops.AFwdOp.cases.a is not {case_id, label}"),
        (
            "ops.AFwdOp.cases.a = {case_id = 'b', label = 'b'}\nops.AFwdOp.cases.b = {case_id = 'c', label = 'c'}",
            "ops.AFwdOp.cases: 'b' is an old name and a new one",
        ),
        (
            "ops.AFwdOp.name = 'C'\nops.AFwdOp.cases.a = {case_id = 'b', label = 'b'}\n"
            "ops.BFwdOp.name = 'C'\nops.BFwdOp.cases.x = {case_id = 'b', label = 'b'}",
            "AFwdOp a and BFwdOp x both become C b",
        ),
        ("ops.", "map.toml: "),
    ],
)
def test_a_map_that_means_nothing_or_changes_names_twice_is_refused(tmp_path, text, said):
    with pytest.raises(renames.RenamesError, match=said):
        read(tmp_path, text)


# ---- run files


def run(tmp_path, command, *flags):
    """(status, stdout, stderr) of a command whose user stands in `tmp_path`."""
    environment = dict(os.environ, BUILD_WORKING_DIRECTORY=str(tmp_path), PYTHONPATH=os.pathsep.join(sys.path))
    done = subprocess.run(
        [sys.executable, "-m", f"tileops.perf.{command}", *flags],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def written(path):
    """(op, family, case id) of the records of a file, as they are in it."""
    return [(found.op, found.family, found.case_id) for found in runfile.RunReader(path, as_written=True).records()]


def write_mixed(tmp_path):
    return builders.write_run(
        tmp_path / "run.binpb",
        builders.record(op=OLD),
        builders.record(case_id="b"),
        builders.record(op="MyFwdOp", family=FAMILY),
        builders.record(op="YourFwdOp"),
    )


def test_a_reader_gives_todays_names_and_counts_the_others(tmp_path):
    reader = runfile.read_run(write_mixed(tmp_path))
    assert [found.op for found in reader.records()] == ["SiLUFwdOp", "SiLUFwdOp", "MyFwdOp", "YourFwdOp"]
    assert list(map(str, reader.problems)) == [f"2 records with names {SAID}"] and reader.renamed == 2
    assert [found.op for found in reader.records()][0] == "SiLUFwdOp" and reader.renamed == 2
    assert written(reader.path)[0][0] == OLD


@pytest.mark.parametrize("path", RECORDED, ids=[path.name for path in RECORDED])
def test_recorded_runs_have_todays_names(path):
    reader = runfile.read_run(path)
    assert list(reader.records()) and reader.renamed == 0


def test_records_converts_what_the_map_names_keeps_the_rest_and_counts_both(tmp_path):
    write_mixed(tmp_path)
    status, _, err = run(tmp_path, "records", "--in=run.binpb", "--rename", "--out=new.binpb")
    assert status == 0 and "2 records renamed; 2 records kept: the map has no entry for them" in err
    assert written(tmp_path / "new.binpb") == [
        ("SiLUFwdOp", "elementwise", "a-float16"),
        ("SiLUFwdOp", "elementwise", "b"),
        ("MyFwdOp", "norm", "a-float16"),
        ("YourFwdOp", "elementwise", "a-float16"),
    ]
    assert run(tmp_path, "records", "--in=new.binpb", "--rename", "--out=again.binpb")[0] == 0
    assert (tmp_path / "again.binpb").read_bytes() == (tmp_path / "new.binpb").read_bytes()


def test_without_rename_a_converted_file_has_the_names_of_its_source(tmp_path):
    path = write_mixed(tmp_path)
    status, out, err = run(tmp_path, "records", "--in=run.binpb", "--out=new.jsonl")
    assert (status, out) == (0, "") and err == f"records: wrote {tmp_path}/new.jsonl\n"
    assert written(tmp_path / "new.jsonl") == written(path)


def test_junit_is_renamed_too(tmp_path):
    (tmp_path / "a.xml").write_text(
        f'<testsuite><testcase name="t[a]"><properties><property name="op" value="{OLD}"/>'
        "</properties></testcase></testsuite>"
    )
    status, out, _ = run(tmp_path, "records", "--in=a.xml", "--rename", "--device_name=NVIDIA H200")
    assert status == 0 and json.loads(out.splitlines()[1])["record"]["op"] == "SiLUFwdOp"


def test_two_rows_that_would_be_one_are_refused(tmp_path):
    builders.write_run(tmp_path / "run.binpb", builders.record(op=OLD), builders.record())
    status, _, err = run(tmp_path, "records", "--in=run.binpb", "--rename", "--out=new.binpb")
    assert status == 2 and not (tmp_path / "new.binpb").exists()
    said = f"{OLD} a-float16 torch and SiLUFwdOp a-float16 torch are one row under today's names, SiLUFwdOp a-float16"
    assert said in err
    status, _, err = run(tmp_path, "roofline", "--run=run.binpb")
    assert status == 2 and "SiLUFwdOp a-float16 torch was measured twice" in err


def test_so_are_shards_that_name_a_row_differently(tmp_path):
    builders.write_run(tmp_path / "a.binpb", builders.record(op=OLD))
    builders.write_run(tmp_path / "b.binpb", builders.record())
    status, _, err = run(tmp_path, "records", "--in=a.binpb", "--in=b.binpb", "--rename", "--out=new.binpb")
    assert status == 2 and "are one row under today's names" in err


def test_an_old_error_before_a_new_success_is_no_collision(tmp_path):
    failed = builders.record(op=OLD, ns=None, status=benchmark_pb2.STATUS_ERROR)
    builders.write_run(tmp_path / "run.binpb", failed, builders.record())
    assert run(tmp_path, "records", "--in=run.binpb", "--rename", "--out=new.binpb")[0] == 0
    assert [name for name, _, _ in written(tmp_path / "new.binpb")] == ["SiLUFwdOp"] * 2


def test_the_names_of_another_manifest_are_its_own(tmp_path):
    header = builders.header()
    header.plugins.add(name="--spec_dir=ops")
    with run_writer.RunWriter(tmp_path / "run.binpb", header) as writer:
        writer.write(builders.record(op=OLD))
        writer.close()
    reader = runfile.read_run(tmp_path / "run.binpb")
    assert [found.op for found in reader.records()] == [OLD] and reader.problems == []
    status, _, err = run(tmp_path, "records", "--in=run.binpb", "--rename", "--out=new.binpb")
    assert status == 2 and "--spec_dir" in err


@pytest.mark.parametrize("form", ["table", "json"])
def test_compare_joins_old_names_with_new_ones_and_says_so(tmp_path, form):
    builders.write_run(tmp_path / "base.binpb", builders.record(op=OLD), builders.record(op="MyFwdOp", family=FAMILY))
    builders.write_run(tmp_path / "new.binpb", builders.record(), builders.record(op="MyFwdOp", family="norm"))
    status, out, err = run(tmp_path, "compare", "--base=base.binpb", "--new=new.binpb", f"--format={form}")
    assert status == 0 and f"base.binpb: 2 records with names {SAID}" in (out if form == "table" else err)
    if form == "table":
        assert "2 rows, 2 same" in out


def test_roofline_reads_old_names_and_says_so(tmp_path):
    builders.write_run(tmp_path / "run.binpb", builders.record(op=OLD))
    builders.profile(tmp_path)
    flags = ("--run=run.binpb", "--profile=test_gpu.textproto")
    status, out, _ = run(tmp_path, "roofline", *flags, "--op=SiLUFwdOp")
    assert status == 0 and "SiLUFwdOp" in out and OLD not in out
    assert f"run.binpb: 1 record with names {SAID}" in out
    assert f"run.binpb: 1 record with names {SAID}" in run(tmp_path, "roofline", *flags, "--format=json")[2]


def test_a_case_id_that_is_another_call_today_is_renamed_in_earlier_records_alone(tmp_path):
    known = renames.load().ops["BatchNormFwdOp"]
    (old,) = known.earlier
    (before,) = [index for index, new in known.indices.items() if new == "B"]
    fields = {"op": "BatchNormFwdOp", "family": "norm", "case_id": old, "label": "large-spatial"}
    earlier, today = (builders.record(**fields, bindings={index: "4"}) for index in (before, "B"))
    assert renames.load().rename(earlier) and earlier.case_id == known.earlier[old][0] != old
    assert not renames.load().rename(today) and today.case_id == old
    assert not renames.load().rename(earlier)  # a second time changes nothing
