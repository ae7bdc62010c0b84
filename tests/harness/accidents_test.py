"""Accidents of an op, of its process, of the run itself, of the disk: each costs the row in flight at most."""

import os
import pathlib
import resource
import shutil
import signal
import subprocess
import time

import pytest

from tileops.perf.runs import reader as runfile
from tileops.tests.harness.runs import ERROR, OK, TIMEOUT, outcomes, plugin, processes_below, whole


def test_accidents_cost_their_row(tmp_path, bench):
    status, _, err = bench(
        "--device=cpu", "--rows=all", "--label=small", "--row_timeout_s=8", "--out=run.jsonl", plugin("trouble")
    )
    assert status == 1
    found = {key[1]: record for key, record in outcomes(tmp_path / "run.jsonl").items()}
    expected = {
        "torch": (OK, ""),
        "crashes": (ERROR, "the process was killed by SIGSEGV"),
        "exits": (ERROR, "the process exited with status 3"),
        "leaves": (ERROR, "SystemExit: no more"),
        "is_killed": (ERROR, "killed by SIGKILL"),
        "hangs": (TIMEOUT, "no answer within 8 s"),
        "wants_memory": (ERROR, "out of memory"),
        "raises": (ERROR, "ValueError: a line and another (trouble.py:50, in _raises)"),
        "wrong_shape": (ERROR, "the signature declares float32[32, 64]"),
        "survivor": (OK, ""),
    }
    assert {name: record.status for name, record in found.items()} == {key: value[0] for key, value in expected.items()}
    for name, (_, message) in expected.items():
        assert message in found[name].message
        assert found[name].flops == 2048, name
        assert found[name].HasField("timing") == (found[name].status == OK)
    assert whole(tmp_path / "run.jsonl") and "timeout: ScaleFwdOp small-float32 hangs" in err


def test_ctrl_c_leaves_a_file_that_resume_continues(tmp_path, start, bench):
    flags = ("--device=cpu", "--rows=all", "--label=small", "--implementation=torch,hangs,survivor")
    process = start(*flags, "--row_timeout_s=200", plugin("trouble"))
    path = tmp_path / "tileops-run.binpb"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and _rows_of(path) != 1:
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the whole group gets it
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "--resume continues it" in err
    assert list(outcomes(path)) == [("small-float32", "torch")]
    first = outcomes(path)["small-float32", "torch"].timing.device_busy_ns
    assert not whole(path)

    with open(path, "ab") as file:
        file.write(b"\xff\x01\x12")  # and a torn entry behind it, as a machine that went down leaves
    status, _, _ = bench(*flags, "--resume", "--row_timeout_s=3", plugin("trouble"))
    assert status == 1
    found = outcomes(path)
    assert [record.status for record in found.values()] == [OK, TIMEOUT, OK]
    assert found["small-float32", "torch"].timing.device_busy_ns == first
    assert whole(path)


def _imports_torch(pid):
    return "libtorch" in pathlib.Path(f"/proc/{pid}/maps").read_text()


def _has_a_server(pid):
    return bool(_servers_and_rows(pid))


def _has_a_row(pid):
    return len(_servers_and_rows(pid)) > 1


def _servers_and_rows(pid):
    """Ids of the server that rows are forked from, which comes first, and of the processes of rows."""
    return [child for child, line in processes_below(pid).items() if "forkserver" in line]


@pytest.mark.parametrize(
    "reached", [_imports_torch, pytest.param(_has_a_server, marks=pytest.mark.nightly), _has_a_row]
)
def test_ctrl_c_before_the_first_row_is_one_line_and_130(start, reached):
    process = start("--device=cpu", "--label=small", plugin("implementations"))
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None and not reached(process.pid):
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    lines = [line for line in err.splitlines() if "measuring on" not in line]
    assert len(lines) == 1 and "interrupted" in lines[0], err


def _wait_for(process, holds):
    """Wait until something holds while a command runs."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError(f"never came to it: {process.communicate()[1] if process.poll() is not None else 'timeout'}")


def _rows_of(path):
    """How many rows a file holds, which is there before its header is."""
    return len(outcomes(path)) if path.exists() and path.stat().st_size else 0


HANGING = ("--device=cpu", "--rows=all", "--label=small", "--implementation=torch,hangs,survivor")


def test_a_killed_run_leaves_its_whole_rows_and_no_process_and_is_continued(tmp_path, start, bench):
    process = start(*HANGING, "--row_timeout_s=200", plugin("moody"))
    path = tmp_path / "tileops-run.binpb"
    _wait_for(process, lambda: _rows_of(path) == 1 and len(_servers_and_rows(process.pid)) > 1)
    below = list(processes_below(process.pid))
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and any(map(_is_alive, below)):
        time.sleep(0.1)
    assert not [pid for pid in below if _is_alive(pid)]
    reader = runfile.read_run(path)
    assert [record.implementation for record in reader.records()] == ["torch"]
    assert [problem.message for problem in reader.problems] == ["no footer: the run was interrupted after 1 record"]
    first = outcomes(path)
    (tmp_path / "cured").touch()
    status, _, err = bench(*HANGING, "--resume", plugin("moody"))
    assert status == 0, err
    assert outcomes(path)["small-float32", "torch"] == first["small-float32", "torch"]
    assert [record.status for record in outcomes(path).values()] == [OK, OK, OK] and whole(path)


def _is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("victim", [0, -1], ids=["the server", "the row's process"])
def test_a_killed_child_costs_its_row_and_the_run_goes_on(tmp_path, start, bench, victim):
    process = start(*HANGING, "--row_timeout_s=200", plugin("moody"))
    path = tmp_path / "tileops-run.binpb"
    _wait_for(process, lambda: _rows_of(path) == 1 and len(_servers_and_rows(process.pid)) > 1)
    os.kill(_servers_and_rows(process.pid)[victim], signal.SIGKILL)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1, err
    found = [(record.implementation, record.status) for record in outcomes(path).values()]
    assert found == [("torch", OK), ("hangs", ERROR), ("survivor", OK)]
    assert "killed by SIGKILL" in outcomes(path)["small-float32", "hangs"].message or victim == 0
    assert whole(path) and "Traceback" not in err
    (tmp_path / "cured").touch()
    status, _, err = bench(*HANGING, "--resume", plugin("moody"))
    assert status == 0 and "retrying 1 that failed" in err
    assert [record.status for record in outcomes(path).values()] == [OK, OK, OK]


def _check_full(path, status, out, err):
    """A run that had no room for all its rows says so in one line, and what it holds is whole."""
    assert (status, out) == (2, "")
    lines = [line for line in err.splitlines() if "measuring on" not in line]
    assert len(lines) == 1 and "cannot write" in lines[0] and "the run can be continued" in lines[0], err
    kept = list(runfile.read_run(path).records())
    reader = runfile.read_run(path)
    list(reader)
    assert [problem.message.partition(":")[0] for problem in reader.problems] == ["no footer"]
    return kept


FULL = ("--device=cpu", "--rows=all", "--op=Scale*", "--label=small,middle", "--implementation=torch,honest")


def test_a_file_that_may_not_grow_ends_the_run_with_whole_rows_and_is_continued(tmp_path, bench):
    path, rows = tmp_path / "tileops-run.binpb", (*FULL, "--nosamples", plugin("implementations"))
    bench(*rows)
    room = path.stat().st_size - 2 * max(record.ByteSize() for record in outcomes(path).values())
    path.unlink()
    kept = _check_full(
        path,
        *bench(*rows, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))),
    )
    assert 1 <= len(kept) < 4 and path.stat().st_size <= room
    status, _, err = bench(*rows, "--resume")
    assert status == 0, err
    assert list(runfile.read_run(path).records())[: len(kept)] == kept
    assert len(outcomes(path)) == 4 and whole(path)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of four pages, three of which are taken."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(folder)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this process may mount no file system")
    (folder / "other").write_bytes(bytes(12288))
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.nightly  # a file that may not grow is the same to the bench
def test_a_full_disk_ends_the_run_with_whole_rows_and_is_continued(small_disk, bench):
    rows = (*FULL, plugin("implementations"), f"--out={small_disk}/run.binpb")
    kept = _check_full(small_disk / "run.binpb", *bench(*rows))
    (small_disk / "other").unlink()
    status, _, err = bench(*rows, "--resume")
    assert status == 0, err
    assert list(runfile.read_run(small_disk / "run.binpb").records())[: len(kept)] == kept
    assert len(outcomes(small_disk / "run.binpb")) == 4 > len(kept) and whole(small_disk / "run.binpb")


def test_a_damaged_byte_in_a_run_costs_its_row_which_resume_measures_again(tmp_path, bench):
    flags = (*FULL, plugin("implementations"))
    path = tmp_path / "tileops-run.binpb"
    assert bench(*flags)[0] == 0
    before = list(runfile.read_run(path).records())
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)
    left = list(runfile.read_run(path).records())
    assert len(left) == 3 and all(record in before for record in left)
    status, _, err = bench(*flags, "--resume")
    assert status == 0 and "4 records: 4 ok" in err
    assert (
        f"bench: {path}: at byte " in err and f"bench: {path} has lost 1 record; these rows are measured again" in err
    )
    reader = runfile.read_run(path)
    assert len(list(reader.records())) == 4 and reader.footer is not None
    assert ["damaged" in problem.message for problem in reader.problems] == [True]
