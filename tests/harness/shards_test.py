"""Shards: the same parts everywhere, of about equal length, which merged are the run."""

import pytest
from hypothesis import given, strategies

from tileops.perf.harness import rows
from tileops.perf.harness.rows import SelectionError, Shard
from tileops.perf.runs import reader as runfile
from tileops.tests.harness import runs
from tileops.tests.harness.runs import OK, SKIPPED, outcomes, plugin

COSTS = strategies.lists(strategies.floats(0.5, 1e4), max_size=60)


@given(costs=COSTS, count=strategies.integers(1, 9))
def test_parts_make_up_the_whole_in_order_and_are_of_about_equal_length(costs, count):
    items = list(range(len(costs)))
    parts = [rows.part(items, costs, Shard(index=index, count=count)) for index in range(1, count + 1)]
    assert sorted(sum(parts, [])) == items
    assert all(part == sorted(part) for part in parts)
    loads = [sum(costs[item] for item in part) for part in parts]
    assert max(loads) - min(loads) <= max(costs, default=0) * (1 + 1e-9)
    assert parts == [rows.part(items, costs, Shard(index=index, count=count)) for index in range(1, count + 1)]


def test_the_dearest_rows_are_dealt_out_first():
    costs = [1.0, 1.0, 1.0, 1.0, 4.0]
    assert [rows.part(list("abcde"), costs, Shard(index=index, count=2)) for index in (1, 2)] == [
        ["e"],
        ["a", "b", "c", "d"],
    ]


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "-1/2", "1/0"])
def test_a_shard_that_is_none(text):
    with pytest.raises(SelectionError, match="write i/n"):
        rows.parse_shard(text)


@pytest.fixture(autouse=True)
def revision(monkeypatch):
    """The sources have one, as where shards are made: runs that cannot tell theirs are not merged."""
    monkeypatch.setenv("TILEOPS_REVISION", "abc123")


def _at_once(folder, flags_of_each):
    """Run commands as processes at the same time; all must end well."""
    started = [runs.start(folder, *flags) for flags in flags_of_each]
    for process in started:
        _, err = process.communicate(timeout=500)
        assert process.returncode == 0, err


def _merged(folder, count):
    process = runs.start(
        folder,
        *(f"--in={index}.binpb" for index in range(1, count + 1)),
        "--out=merged.binpb",
        module="tileops.perf.records",
    )
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0 and err.startswith("records: wrote ") and len(err.splitlines()) == 1, err
    reader = runfile.read_run(folder / "merged.binpb")
    records = {(found.op, found.case_id, found.implementation): found for found in reader.records()}
    assert reader.footer.records == len(records) and not reader.problems
    return records


def test_four_shards_as_processes_price_what_one_run_prices(tmp_path):
    _at_once(
        tmp_path,
        [["--device=meta", f"--shard={index}/4", f"--out={index}.binpb"] for index in (1, 2, 3, 4)]
        + [["--device=meta", "--out=one.binpb"]],
    )
    one = {
        (found.op, found.case_id, found.implementation): found
        for found in runfile.read_run(tmp_path / "one.binpb").records()
    }
    assert _merged(tmp_path, 4) == one and len(one) > 80
    sizes = [len(list(runfile.read_run(tmp_path / f"{index}.binpb").records())) for index in (1, 2, 3, 4)]
    assert all(sizes)


@pytest.mark.nightly
def test_four_shards_as_processes_measure_what_one_run_measures(tmp_path):
    flags = [runs.TOY, "--device=cpu", "--rows=all", "--row_timeout_s=100", plugin("implementations")]
    _at_once(tmp_path, [[*flags, f"--shard={index}/4", f"--out={index}.binpb"] for index in (1, 2, 3, 4)])
    _at_once(tmp_path, [[*flags, "--out=one.binpb"]])

    def told(found):
        return found.status, found.flops, found.bytes, found.roof_key, dict(found.data_terms), dict(found.bindings)

    merged = {key[1:]: told(record) for key, record in _merged(tmp_path, 4).items()}
    assert merged == {key: told(record) for key, record in outcomes(tmp_path / "one.binpb").items()}
    assert {status for status, *_ in merged.values()} == {OK, SKIPPED}


def test_what_is_quick_is_chosen_before_the_parts_are_made(tmp_path):
    flags = [runs.TOY, "--device=cpu", "--rows=quick", "--implementation=torch,loop", plugin("implementations")]
    _at_once(tmp_path, [[*flags, f"--shard={index}/2", f"--out={index}.binpb"] for index in (1, 2)])
    assert {key[1] for key in _merged(tmp_path, 2)} == {"small-float32", "few-float32"}
