"""Run files: what is written is read, and damage is told and costs nothing else."""

import pytest
from hypothesis import given, settings, strategies

from tileops.perf.runs import framing, scan
from tileops.perf.runs import reader as runfile
from tileops.perf.runs import writer as run_writer
from tileops.proto import benchmark_pb2
from tileops.tests.report import builders

BOTH_FORMATS = pytest.mark.parametrize("suffix", ["binpb", "jsonl"])

TEXTS = strategies.text(max_size=12)
FINITE = strategies.floats(min_value=1e-3, max_value=1e12)
RECORDS = strategies.builds(
    builders.record,
    op=strategies.text("abcAB01", min_size=1, max_size=12),
    case_id=TEXTS,
    message=TEXTS,
    ns=strategies.none() | FINITE,
    flops=strategies.integers(0, 2**64 - 1),
    bytes=strategies.integers(0, 2**64 - 1),
    read_bytes=strategies.none() | strategies.integers(0, 2**64 - 1),
    bindings=strategies.dictionaries(TEXTS, TEXTS, max_size=3),
    data_terms=strategies.dictionaries(TEXTS, strategies.integers(-(2**63), 2**63 - 1), max_size=3),
    status=strategies.sampled_from(list(benchmark_pb2.Status.values())),
)


def records_of(path):
    return list(runfile.read_run(path).records())


def whole_run(path, count=4):
    records = [builders.record(case_id=f"case-{i}") for i in range(count)]
    return builders.write_run(path, *records), records


@BOTH_FORMATS
@settings(max_examples=40, deadline=None)
@given(records=strategies.lists(RECORDS, max_size=5))
def test_round_trip(tmp_path_factory, suffix, records):
    path = tmp_path_factory.mktemp("run") / f"run.{suffix}"
    builders.write_run(path, *records)
    reader = runfile.read_run(path)
    assert list(reader.records()) == records
    assert reader.problems == []
    assert reader.header.environment.device_name == builders.DEVICE
    assert reader.header.schema_version == runfile.SCHEMA_VERSION
    assert reader.footer.records == len(records)
    assert reader.footer.HasField("finished_at")


@BOTH_FORMATS
def test_footer_counts_by_status(tmp_path, suffix):
    statuses = [1, 1, 1, 2, 2, 3, 4]
    records = [builders.record(status=status) for status in statuses]
    reader = runfile.read_run(builders.write_run(tmp_path / f"run.{suffix}", *records))
    footer = list(reader)[-1].footer
    assert (footer.records, footer.ok, footer.skipped) == (7, 3, 2)
    assert (footer.errors, footer.timeouts) == (1, 1)


def test_a_run_without_times_has_none_in_its_footer(tmp_path):
    header = benchmark_pb2.RunHeader()
    first, second = tmp_path / "a.binpb", tmp_path / "b.binpb"
    for path in (first, second):
        with run_writer.RunWriter(path, header) as writer:
            writer.write(builders.record(bindings={"b": "1", "a": "2"}))
    assert first.read_bytes() == second.read_bytes()
    assert not list(runfile.read_run(first))[-1].footer.HasField("finished_at")


def test_entries_are_on_disk_before_the_next_one(tmp_path):
    path = tmp_path / "run.binpb"
    writer = run_writer.RunWriter(path, builders.header())
    assert records_of(path) == []
    writer.write(builders.record())
    assert records_of(path) == [builders.record()]
    writer.close()
    writer.close()
    assert len(list(runfile.read_run(path))) == 3


@BOTH_FORMATS
def test_truncation_at_every_byte(tmp_path, suffix):
    path, records = whole_run(tmp_path / f"run.{suffix}")
    data = path.read_bytes()
    ends = [piece.end for piece in scan.scan(path)]
    for size in range(1, len(data)):
        path.write_bytes(data[:size])
        # A JSON line is whole without its line end.
        slack = 1 if suffix == "jsonl" else 0
        whole = sum(end - slack <= size for end in ends)
        if whole == 0:
            with pytest.raises(runfile.RunFileError, match="not a run file"):
                runfile.read_run(path)
            continue
        reader = runfile.read_run(path)
        assert list(reader.records()) == records[: whole - 1]
        if whole == len(ends):
            continue
        assert reader.footer is None
        assert "no footer" in str(reader.problems[-1])
        torn = size not in (ends[whole - 1], ends[whole - 1] - slack)
        assert len(reader.problems) == 1 + torn
        if torn:
            assert reader.problems[0].offset == ends[whole - 1]


@BOTH_FORMATS
def test_resuming_at_every_byte_gives_a_whole_run(tmp_path, suffix):
    path, records = whole_run(tmp_path / f"run.{suffix}")
    data = path.read_bytes()
    header_end = next(scan.scan(path)).end
    for size in range(header_end, len(data) + 1):
        path.write_bytes(data[:size])
        kept = records_of(path)
        with run_writer.RunWriter(path, builders.header(), append=True) as writer:
            for record in records[len(kept) :]:
                writer.write(record)
        reader = runfile.read_run(path)
        assert list(reader.records()) == records
        assert reader.problems == []
        assert reader.footer.records == len(records)


def damaged(content, position, value):
    """`content` with one byte changed."""
    changed = bytearray(content)
    changed[position] = value
    return bytes(changed)


def changes(content, start=0):
    """(position, value) of damage at every byte: some bits of it, or all."""
    return [
        (position, value)
        for position in range(start, len(content))
        for value in {content[position] ^ mask for mask in (1, 0x10, 0x80, 0xFF)} | {0, 0xFF}
        if value != content[position]
    ]


def test_a_damaged_byte_anywhere_is_told_and_costs_the_entry_it_is_in(tmp_path):
    path, records = whole_run(tmp_path / "run.binpb")
    data = path.read_bytes()
    header_end = next(scan.scan(path)).end
    for position, value in changes(data, header_end):
        path.write_bytes(damaged(data, position, value))
        reader = runfile.read_run(path)
        read = list(reader.records())
        # What is read is what was written, and all but one of it.
        assert [record for record in records if record in read] == read
        assert len(read) >= len(records) - 1
        first = reader.problems[0]
        assert first.offset <= position
        pieces = list(scan.scan(path))
        assert [p.start for p in pieces[1:]] == [p.end for p in pieces[:-1]]
        assert (pieces[0].start, pieces[-1].end) == (0, len(data))
        broken = [piece for piece in pieces if isinstance(piece, framing.Broken)]
        assert broken[0].start == first.offset and broken[0].start <= position < broken[0].end


def test_a_damaged_byte_in_the_header_is_put_right_and_told(tmp_path):
    path, records = whole_run(tmp_path / "run.binpb")
    data = path.read_bytes()
    header = runfile.read_run(path).header
    for position, value in changes(data[: next(scan.scan(path)).end]):
        path.write_bytes(damaged(data, position, value))
        reader = runfile.read_run(path)
        assert reader.header == header
        assert list(reader.records()) == records
        assert [problem.message for problem in reader.problems] == [
            f"byte {position} of the header was damaged, and was corrected by its checksum"
        ]


def test_a_run_with_a_damaged_byte_anywhere_is_completed(tmp_path):
    path, records = whole_run(tmp_path / "run.binpb")
    data = path.read_bytes()
    for position in range(len(data)):
        path.write_bytes(damaged(data, position, data[position] ^ 0x55))
        found = [record.case_id for record in runfile.read_run(path).records()]
        with run_writer.RunWriter(path, builders.header(), append=True) as writer:
            for record in records:
                if record.case_id not in found:
                    writer.write(record)
        reader = runfile.read_run(path)
        assert sorted(reader.records(), key=lambda record: record.case_id) == records
        assert reader.footer.records == len(records)
        assert len(reader.problems) <= 1


def test_damage_in_json_lines_costs_at_most_the_entry_it_is_in(tmp_path):
    path, records = whole_run(tmp_path / "run.jsonl")
    data = path.read_bytes()
    for position in range(len(data)):
        path.write_bytes(damaged(data, position, 0x01))  # which no JSON holds
        reader = runfile.read_run(path)
        read = list(reader.records())
        assert sum(record in read for record in records) >= len(records) - 1
        assert reader.problems


def test_a_header_damaged_beyond_repair_is_told_and_not_continued(tmp_path):
    path, records = whole_run(tmp_path / "run.binpb")
    data = bytearray(path.read_bytes())
    data[20:24] = b"\x00\x00\x00\x00"
    path.write_bytes(data)
    reader = runfile.read_run(path)
    assert list(reader.records()) == records and not reader.has_header
    assert "checksum does not fit" in reader.problems[0].message
    with pytest.raises(runfile.RunFileError, match="so the device of its rows is unknown"):
        run_writer.RunWriter(path, builders.header(), append=True)
    assert path.read_bytes() == data


def test_entries_of_other_writers_need_no_checksum(tmp_path):
    record = benchmark_pb2.RunEntry(record=builders.record())
    header = benchmark_pb2.RunEntry(header=builders.header())
    for checksum in (None, 7):  # 7: a parsed entry that was changed and serialized again
        content = b""
        for entry in (header, record):
            if checksum is not None:
                entry.checksum = checksum
            payload = entry.SerializeToString()
            content += (
                len(payload).to_bytes(1, "little")
                if len(payload) < 128
                else bytes((len(payload) & 0x7F | 0x80, len(payload) >> 7))
            )
            content += payload
        path = tmp_path / "run.binpb"
        path.write_bytes(content)
        reader = runfile.read_run(path)
        assert list(reader.records()) == [builders.record()]
        assert ["no footer" in problem.message for problem in reader.problems] == [True]


@settings(max_examples=200, deadline=None)
@given(garbage=strategies.binary(max_size=60), place=strategies.integers(0, 5))
def test_garbage_between_entries_costs_nothing_else(tmp_path_factory, garbage, place):
    path, records = whole_run(tmp_path_factory.mktemp("run") / "run.binpb")
    data = path.read_bytes()
    ends = [0] + [piece.end for piece in scan.scan(path)]
    cut = ends[place]
    path.write_bytes(data[:cut] + garbage + data[cut:])
    reader = runfile.read_run(path)
    read = list(reader.records())
    assert all(record in read for record in records)
    if garbage:
        assert reader.problems[0].offset >= cut


def test_json_line_that_is_no_entry_is_told_with_its_offset(tmp_path):
    path, records = whole_run(tmp_path / "run.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = b'{"record": {"op": "X", "no_such_field": 1}}\n'
    path.write_bytes(b"".join(lines))
    reader = runfile.read_run(path)
    assert list(reader.records()) == [records[0]] + records[2:]
    assert reader.problems[0].offset == len(lines[0]) + len(lines[1])
    assert "no_such_field" in reader.problems[0].message
    assert "footer counts 4 records, and 3 records could be read" in reader.problems[1].message


def test_json_lines_written_by_hand(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text(
        '{"header": {"environment": {"device_name": "NVIDIA H200"}}}\n\n'
        '{"record": {"op": "SiLUFwdOp", "case_id": "a-float16", "implementation":'
        ' "torch", "status": "STATUS_OK", "roof_key": "cuda_core.fp32", "flops":'
        ' "1000", "bytes": "2000", "timing": {"source": "TIMING_SOURCE_CUPTI",'
        ' "device_busy_ns": 5000.0, "samples": 50}}}\n'
    )
    reader = runfile.read_run(path)
    (record,) = reader.records()
    assert reader.header.environment.device_name == "NVIDIA H200"
    assert (record.flops, record.bytes) == (1000, 2000)
    assert record.timing.source == benchmark_pb2.TIMING_SOURCE_CUPTI
    assert [problem.message.split(":")[0] for problem in reader.problems] == ["no footer"]


def test_a_run_without_header_is_read_and_told(tmp_path):
    path = tmp_path / "run.binpb"
    path.write_bytes(framing.frame(benchmark_pb2.RunEntry(record=builders.record())))
    reader = runfile.read_run(path)
    assert list(reader.records()) == [builders.record()]
    assert "no header" in reader.problems[0].message


def test_a_second_run_in_one_file_is_not_read(tmp_path):
    path, records = whole_run(tmp_path / "run.binpb")
    path.write_bytes(path.read_bytes() * 2)
    reader = runfile.read_run(path)
    assert list(reader.records()) == records
    assert len(reader.problems) == 1


def test_records_behind_a_footer_are_read_and_told(tmp_path):
    path, records = whole_run(tmp_path / "run.binpb")
    pieces = list(scan.scan(path))
    data = path.read_bytes()
    footer = data[pieces[-1].start :]
    path.write_bytes(data[: pieces[2].start] + footer + data[pieces[2].start :])
    reader = runfile.read_run(path)
    assert list(reader.records()) == records
    assert reader.footer.records == len(records)
    assert "a record behind a footer" in str(reader.problems[1])


def test_a_newer_schema_is_told(tmp_path):
    header = builders.header()
    header.schema_version = runfile.SCHEMA_VERSION + 1
    path = tmp_path / "run.binpb"
    path.write_bytes(framing.frame(benchmark_pb2.RunEntry(header=header)))
    reader = runfile.read_run(path)
    assert list(reader.records()) == []
    assert "schema version 2" in reader.problems[0].message


@pytest.mark.parametrize("content", [b"", b"no run file", b"\x00" * 40])
def test_what_is_no_run_file_is_an_error(tmp_path, content):
    path = tmp_path / "run.binpb"
    path.write_bytes(content)
    with pytest.raises(runfile.RunFileError, match="run.binpb: not a run file"):
        runfile.read_run(path)


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(runfile.RunFileError, match="cannot read .*No such file"):
        runfile.read_run(tmp_path / "missing.binpb")


def test_an_unwritable_path_is_an_error(tmp_path):
    with pytest.raises(runfile.RunFileError, match="cannot write .*No such file"):
        run_writer.RunWriter(tmp_path / "missing" / "run.binpb", builders.header())


def test_a_full_disk_is_an_error():
    with pytest.raises(runfile.RunFileError, match="/dev/full.*No space left"):
        run_writer.RunWriter("/dev/full", builders.header())


def test_what_was_written_before_the_disk_filled_up_stays_whole(tmp_path, monkeypatch):
    path = tmp_path / "run.binpb"
    writer = run_writer.RunWriter(path, builders.header())
    writer.write(builders.record(case_id="before"))
    real = writer._file

    class FullDisk:
        """Takes ten bytes, then nothing."""

        def __init__(self):
            self.room = 10

        def write(self, data):
            if not self.room:
                raise OSError(28, "No space left on device")
            written = real.write(data[: self.room])
            self.room -= written
            return written

        def __getattr__(self, name):
            return getattr(real, name)

    monkeypatch.setattr(writer, "_file", FullDisk())
    with pytest.raises(runfile.RunFileError, match="it holds 1 record, and"):
        writer.write(builders.record(case_id="too much"))
    monkeypatch.undo()
    assert [record.case_id for record in records_of(path)] == ["before"]
    writer.write(builders.record(case_id="room again"))
    writer.close()
    assert len(records_of(path)) == 2


def test_an_exception_leaves_an_interrupted_run(tmp_path):
    path = tmp_path / "run.binpb"
    with pytest.raises(KeyboardInterrupt), run_writer.RunWriter(path, builders.header()) as writer:
        writer.write(builders.record())
        raise KeyboardInterrupt
    reader = runfile.read_run(path)
    assert list(reader.records()) == [builders.record()]
    assert reader.footer is None


def test_resuming_refuses_another_environment(tmp_path):
    path, _ = whole_run(tmp_path / "run.binpb")
    before = path.read_bytes()
    with pytest.raises(runfile.RunFileError, match="device_name 'Test GPU'.*'Other'"):
        run_writer.RunWriter(path, builders.header(device="Other"), append=True)
    assert path.read_bytes() == before


def test_resuming_keeps_damage_in_the_midst(tmp_path):
    path, records = whole_run(tmp_path / "run.binpb")
    data = bytearray(path.read_bytes())
    ends = [piece.end for piece in scan.scan(path)]
    data[ends[1] + 2] ^= 0xFF
    path.write_bytes(data[: ends[-2]])
    with run_writer.RunWriter(path, builders.header(), append=True) as writer:
        writer.write(records[1])
    reader = runfile.read_run(path)
    assert [r.case_id for r in reader.records()] == ["case-0", "case-2", "case-3", "case-1"]
    assert [problem.offset for problem in reader.problems] == [ends[1]]


@BOTH_FORMATS
def test_resuming_knows_what_was_lost_until_it_is_there_again(tmp_path, suffix):
    path, records = whole_run(tmp_path / f"run.{suffix}")
    data = path.read_bytes()
    pieces = list(scan.scan(path))
    for piece in pieces[1:3]:
        data = damaged(data, piece.start + 2, 0x01)
    path.write_bytes(data)
    with run_writer.RunWriter(path, builders.header(), append=True) as writer:
        assert writer.damage.records == 2
        assert writer.damage.places[0].offset == pieces[1].start
        for record in records[:2]:
            writer.write(record)
    with run_writer.RunWriter(path, builders.header(), append=True) as writer:
        assert writer.damage is None


@BOTH_FORMATS
def test_resuming_knows_of_damage_where_no_footer_counts(tmp_path, suffix):
    path, _ = whole_run(tmp_path / f"run.{suffix}")
    pieces = list(scan.scan(path))
    data = damaged(path.read_bytes(), pieces[1].start + 2, 0x01)
    path.write_bytes(data[: pieces[-1].start])
    with run_writer.RunWriter(path, builders.header(), append=True) as writer:
        assert writer.damage.records is None
        assert [place.offset for place in writer.damage.places] == [pieces[1].start]


def test_resuming_whole_or_interrupted_runs_finds_no_damage(tmp_path):
    path, _ = whole_run(tmp_path / "run.binpb")
    data = path.read_bytes()
    for size in (len(data), list(scan.scan(path))[-2].end, list(scan.scan(path))[-2].end - 1):
        path.write_bytes(data[:size])
        with run_writer.RunWriter(path, builders.header(), append=True) as writer:
            assert writer.damage is None


def test_resuming_json_lines_keeps_what_stands_behind_a_damaged_line_end(tmp_path):
    path, records = whole_run(tmp_path / "run.jsonl")
    second = list(scan.scan(path))[1]
    path.write_bytes(damaged(path.read_bytes(), second.end - 1, 0x01))
    assert records_of(path) == records[1:]
    with run_writer.RunWriter(path, builders.header(), append=True) as writer:
        assert writer.damage.records == 1
    assert records_of(path) == records[1:]


def test_resuming_what_is_not_there_starts_a_run(tmp_path):
    path = tmp_path / "run.binpb"
    with run_writer.RunWriter(path, builders.header(), append=True) as writer:
        writer.write(builders.record())
    assert records_of(path) == [builders.record()]


@pytest.mark.parametrize("suffix", [".jsonl", ".binpb"])
def test_the_content_tells_where_the_name_does_not(tmp_path, suffix):
    # 200 lengths of the header: one of them is the code of "{".
    for padding in range(200):
        named = tmp_path / f"run{suffix}"
        header = benchmark_pb2.RunHeader(run_id="x" * padding)
        with run_writer.RunWriter(named, header) as writer:
            writer.write(builders.record())
        anonymous = named.rename(tmp_path / "run")
        reader = runfile.read_run(anonymous)
        assert len(list(reader.records())) == 1
        assert not reader.problems


def test_a_file_of_another_name_is_continued_in_its_own_form(tmp_path):
    named = builders.write_run(tmp_path / "run.jsonl", builders.record())
    anonymous = named.rename(tmp_path / "run")
    with run_writer.RunWriter(anonymous, builders.header(), append=True) as writer:
        writer.write(builders.record(case_id="b"))
    reader = runfile.read_run(anonymous)
    assert [record.case_id for record in reader.records()] == ["a-float16", "b"]
    assert not reader.problems
