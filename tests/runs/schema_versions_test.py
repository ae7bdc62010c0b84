"""Run files of every schema version stay readable: one of each is committed.

A new version adds a file here; none is ever rewritten.
"""

import pathlib

import pytest

from tileops.perf.report import text as report_text
from tileops.perf.runs import reader as runfile
from tileops.perf.runs import renames
from tileops.tests.report import builders

DATA = pathlib.Path(__file__).parent / "data"


@pytest.mark.parametrize("version", range(1, runfile.SCHEMA_VERSION + 1))
def test_there_is_a_file_of_each_version_and_it_reads_whole(version):
    reader = runfile.read_run(DATA / f"schema_{version}.binpb")
    records = list(reader.records())
    assert reader.header.schema_version == version
    assert list(map(str, reader.problems)) == [renames.counted(reader.renamed)] * bool(reader.renamed)
    assert reader.footer.records == len(records) == 4


def test_version_1_reads_as_it_did_when_it_was_written(tmp_path):
    run = DATA / "schema_1.binpb"
    full = next(runfile.read_run(run).records())
    assert dict(full.bindings) == {"M": "8", "eps": "1e-5"}
    assert full.HasField("read_bytes") and full.read_bytes == 0
    assert list(full.timing.sample_ns) == [1.5, 2.5]
    assert full.device_state.end.throttle_reasons == ["sw_power_cap"]
    rows = {row.case_id: row for row in builders.report([run], builders.profile(tmp_path)).rows}
    # 40e6 bytes at 8e11 bytes/s against 100 us and a copy of 0.5 us.
    assert rows["a-float16"].efficiency == pytest.approx(50 / 100.5)
    reasons = {case: report_text.enum_name(row, "blank_reason") for case, row in rows.items()}
    assert reasons == {"a-float16": None, "events": "no_cupti", "skipped": "no_time", "timeout": "no_time"}


@pytest.mark.requirement("4.2.5", "5.2.3")
def test_a_changed_profile_changes_the_readings_without_measuring_again(tmp_path):
    run = DATA / "schema_1.binpb"
    text = builders.PROFILE_TEXT.replace("calibration: 0.8", "calibration: 0.7")
    text = text.replace("fraction: 0.8", "fraction: 0.7")
    readings = []
    for each in (builders.PROFILE_TEXT, text):
        rows = builders.report([run], builders.profile(tmp_path, each)).rows
        readings.append(next(row for row in rows if row.case_id == "a-float16"))
    before, after = readings
    assert before.actual_time_s == after.actual_time_s
    assert after.efficiency == pytest.approx(before.efficiency * 8 / 7)


def test_a_newer_version_is_read_as_far_as_it_is_known_and_told(tmp_path):
    path = builders.write_run(tmp_path / "run.jsonl", builders.record())
    newer = runfile.SCHEMA_VERSION + 1
    text = path.read_text().replace('"schema_version": 1', f'"schema_version": {newer}')
    path.write_text(text)
    reader = runfile.read_run(path)
    assert len(list(reader.records())) == 1
    assert f"schema version {newer}" in str(reader.problems[0])
