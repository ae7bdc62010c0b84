"""Runs whose header is lost, or says what no calendar has: told, and the rest read."""

import codecs

import pytest

from tileops.perf.runs import framing
from tileops.perf.runs import reader as runfile
from tileops.proto import benchmark_pb2
from tileops.tests.report import builders


def read(path):
    """Returns the reader, the records read, and the problems in words."""
    reader = runfile.read_run(path)
    records = list(reader.records())
    return reader, records, [str(problem) for problem in reader.problems]


def test_a_damaged_header_says_that_the_device_is_not_known_and_how_to_name_it(tmp_path):
    path = builders.write_run(tmp_path / "run.binpb", builders.record(), builders.record(case_id="b"))
    builders.lose_header(path)
    reader, records, problems = read(path)
    assert len(records) == 2 and reader.footer is not None
    assert not reader.header.HasField("environment")
    assert problems[0].startswith("at byte 0: ")
    header = problems[1]
    assert header.startswith("at byte 0: no header") and "--device_name=" in header


@pytest.mark.parametrize("seconds, nanos", [(10**15, 0), (0, -5), (0, 10**9)])
def test_a_start_that_no_calendar_has_is_told_and_read_as_none(tmp_path, seconds, nanos):
    header = builders.header()
    header.started_at.seconds, header.started_at.nanos = seconds, nanos
    footer = benchmark_pb2.RunFooter(records=1)
    footer.finished_at.seconds, footer.finished_at.nanos = seconds, nanos
    path = tmp_path / "run.binpb"
    path.write_bytes(
        b"".join(
            map(
                framing.frame,
                (
                    benchmark_pb2.RunEntry(header=header),
                    benchmark_pb2.RunEntry(record=builders.record()),
                    benchmark_pb2.RunEntry(footer=footer),
                ),
            )
        )
    )
    reader, records, (start, end) = read(path)
    assert len(records) == 1
    assert not reader.header.HasField("started_at") and not reader.footer.HasField("finished_at")
    assert f"started_at is not a time ({seconds} s and {nanos} ns" in start
    assert "finished_at is not a time" in end


@pytest.mark.parametrize("name", ["run.jsonl", "run"])
def test_json_lines_may_begin_with_a_byte_order_mark(tmp_path, name):
    text = builders.write_run(tmp_path / "plain.jsonl", builders.record()).read_bytes()
    path = tmp_path / name
    path.write_bytes(codecs.BOM_UTF8 + text)
    reader, records, problems = read(path)
    assert (len(records), problems) == (1, [])
    assert reader.header.environment.device_name == builders.DEVICE
