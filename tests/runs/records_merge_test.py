"""Shards merged by //perf:records: what they must tell of themselves to be one run, and what is missing."""

import os
import re
import subprocess
import sys

import pytest

from tileops.perf.runs import reader as runfile
from tileops.perf.runs import writer as run_writer
from tileops.tests.report import builders


@pytest.fixture
def merge(tmp_path):
    """Merges files in `tmp_path` into merged.binpb; returns (status, stderr without the line that names the file)."""
    environment = dict(os.environ, BUILD_WORKING_DIRECTORY=str(tmp_path), PYTHONPATH=os.pathsep.join(sys.path))

    def run(*files, flags=()):
        done = subprocess.run(
            [sys.executable, "-m", "tileops.perf.records", *(f"--in={file}" for file in files), "--out=merged.binpb"]
            + list(flags),
            env=environment,
            capture_output=True,
            text=True,
        )
        return done.returncode, re.sub(r"^records: wrote .*\n", "", done.stderr, flags=re.MULTILINE)

    return run


@pytest.fixture
def shard(tmp_path):
    """Writes a run of one row, named by its case; returns the file's name."""

    def write(name, case_id, *, part=None, plugins=(), notes=(), **environment):
        header = builders.header()
        header.environment.hostname_hash = name
        for field, value in environment.items():
            setattr(header.environment, field, value)
        if part is not None:
            header.parts.count = part[1]
            header.parts.indices.append(part[0])
        for plugin, content in plugins:
            header.plugins.add(name=plugin).sources["mine.py"] = content
        header.notes.extend(notes)
        with run_writer.RunWriter(tmp_path / name, header) as writer:
            writer.write(builders.record(case_id=case_id))
        return name

    return write


def _merged(tmp_path):
    reader = runfile.read_run(tmp_path / "merged.binpb")
    return reader.header, [record.case_id for record in reader.records()]


def _refused(tmp_path, found, *words):
    status, err = found
    assert status == 2 and len(err.splitlines()) == 1, err
    assert all(word in err for word in words), err
    assert not (tmp_path / "merged.binpb").exists()


def test_all_parts_in_any_order_are_a_whole(tmp_path, merge, shard):
    files = [shard(f"{at}.binpb", f"row-{at}", part=(at, 3)) for at in (2, 3, 1)]
    assert merge(*files) == (0, "")
    header, cases = _merged(tmp_path)
    assert not header.HasField("parts") and sorted(cases) == ["row-1", "row-2", "row-3"]


def test_a_missing_part_is_named_and_refused(tmp_path, merge, shard):
    files = [shard(f"{at}.binpb", f"row-{at}", part=(at, 5)) for at in (1, 2, 4)]
    _refused(tmp_path, merge(*files), "missing: parts 3, 5 of 5", "--allow_missing_parts")


def test_parts_that_are_known_to_be_no_whole_say_so_and_are_completed_later(tmp_path, merge, shard):
    files = [shard(f"{at}.binpb", f"row-{at}", part=(at, 4)) for at in (1, 2, 3)]
    status, err = merge(*files, flags=["--allow_missing_parts"])
    assert status == 0 and "holds parts 1-3 of 4; missing: part 4 of 4" in err
    header, _ = _merged(tmp_path)
    assert (header.parts.count, list(header.parts.indices)) == (4, [1, 2, 3])
    (tmp_path / "merged.binpb").rename(tmp_path / "some.binpb")
    assert merge("some.binpb", shard("4.binpb", "row-4", part=(4, 4))) == (0, "")
    header, cases = _merged(tmp_path)
    assert not header.HasField("parts") and len(cases) == 4


def test_parts_of_other_wholes_and_one_part_twice_are_refused(tmp_path, merge, shard):
    one, two = shard("1.binpb", "row-1", part=(1, 2)), shard("2.binpb", "row-2", part=(2, 3))
    _refused(tmp_path, merge(one, two), "1.binpb is part 1 of 2", "2.binpb is part 2 of 3")
    again = shard("again.binpb", "row-9", part=(1, 2))
    _refused(tmp_path, merge(one, again), "are both part 1 of 2")


def test_a_file_that_names_no_part_does_not_stand_in_for_one(tmp_path, merge, shard):
    files = [shard("1.binpb", "row-1", part=(1, 2)), shard("old.binpb", "row-2")]
    _refused(tmp_path, merge(*files), "missing: part 2 of 2", "old.binpb does not say which part it is")


def test_files_of_writers_that_named_no_parts_are_merged(tmp_path, merge, shard):
    assert merge(shard("1.binpb", "row-1"), shard("2.binpb", "row-2")) == (0, "")
    header, cases = _merged(tmp_path)
    assert not header.HasField("parts") and cases == ["row-1", "row-2"] and not header.notes


@pytest.mark.parametrize(
    ("sources", "doubt"),
    [
        ({"project_revision": ""}, "sources whose revision is not known"),
        ({"project_dirty": True}, "sources that differed from their revision abc"),
    ],
)
def test_sources_that_need_not_be_the_same_are_refused_unless_the_user_vouches_for_them(
    tmp_path, merge, shard, sources, doubt
):
    files = [shard("1.binpb", "row-1", **sources), shard("2.binpb", "row-2", **sources)]
    _refused(tmp_path, merge(*files), doubt, "TILEOPS_REVISION", "--allow_unknown_revision")
    status, err = merge(*files, flags=["--allow_unknown_revision"])
    assert status == 0 and doubt in err
    header, _ = _merged(tmp_path)
    assert header.notes == [f"merged of 2 runs of {doubt}: that they are the same was not checked"]
    (summary,) = builders.report([tmp_path / "merged.binpb"], None).runs
    assert list(summary.problems) == list(header.notes)  # and so does every report of it


def test_one_file_of_unknown_sources_converts_and_keeps_its_notes(tmp_path, merge, shard):
    assert merge(shard("1.binpb", "row-1", project_revision="", notes=["a doubt"])) == (0, "records: a doubt\n")
    assert _merged(tmp_path)[0].notes == ["a doubt"]


def test_plugins_of_one_name_and_another_content_are_refused(tmp_path, merge, shard):
    one = shard("1.binpb", "row-1", plugins=[("/home/a/mine.py", "old")])
    two = shard("2.binpb", "row-2", plugins=[("kernels/mine.py", "new")])
    _refused(tmp_path, merge(one, two), "mine.py is not the same (its mine.py)", "measure one of them again")
    none = shard("3.binpb", "row-3")
    _refused(tmp_path, merge(one, none), "name mine.py in one run and nothing in the other")
    same = shard("4.binpb", "row-4", plugins=[("mine.py", "old")])
    assert merge(one, same) == (0, "")  # where a file lies is of no account
    assert _merged(tmp_path)[0].plugins[0].sources["mine.py"] == "old"


def test_a_report_says_what_its_runs_lack_together(tmp_path, shard):
    one, two = (tmp_path / shard(f"{at}.binpb", f"row-{at}", part=(at, 3)) for at in (1, 2))
    assert list(builders.report([one], None).runs[0].problems) == ["holds part 1 of 3; missing: parts 2-3 of 3"]
    both = builders.report([one, two], None).runs
    assert [list(run.problems) for run in both] == [
        ["holds part 1 of 3; missing: part 3 of 3"],
        ["holds part 2 of 3; missing: part 3 of 3"],
    ]
    three = tmp_path / shard("3.binpb", "row-3", part=(3, 3))
    assert not any(run.problems for run in builders.report([one, two, three], None).runs)
