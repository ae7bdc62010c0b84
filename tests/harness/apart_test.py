"""Runs that are kept apart: of another plugin, of another part, and those that would write one file at a time."""

import hashlib
import os
import pathlib
import signal
import time

import pytest

from tileops.perf.runs import reader
from tileops.tests.harness.runs import ERROR, OK, outcomes, plugin, whole

FLAGS = ("--device=cpu", "--rows=all", "--label=small", "--row_timeout_s=100")
MINE = """
import tileops_generated_toy as generated

from tileops.ops.implementations import implementation


class ScaleFwdOp(generated.ScaleFwdOp):
    @implementation("torch")
    def _torch(self, call, x):
        return x * self.params["factor"]


def _mine(op, call, x):
    return x * op.params["factor"]


ScaleFwdOp.register("mine", _mine)
"""


@pytest.fixture
def mine(tmp_path):
    """The path of a plugin that a user wrote and may change, in the folder where they stand."""
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


def _header(path):
    return reader.read_run(path).header


def _refused(found, *words):
    status, out, err = found
    lines = [line for line in err.splitlines() if "measuring on" not in line]
    assert (status, out) == (2, "") and len(lines) == 1, err
    assert all(word in lines[0] for word in words), err


# ---- plugins


def test_the_header_names_the_plugins_and_what_was_in_them(tmp_path, bench, mine):
    status, _, err = bench(*FLAGS, "--plugin=mine.py", "--out=run.jsonl")
    assert status == 0, err
    emitted, told = _header(tmp_path / "run.jsonl").plugins
    assert emitted.name.startswith("--generated_dir=") and list(emitted.sources) == ["toy.py"]
    digest = hashlib.sha256(mine.read_bytes()).hexdigest()
    assert told.name == "mine.py" and dict(told.sources) == {"mine.py": digest}


@pytest.mark.nightly
def test_resume_refuses_another_source_of_a_kernel_beside_a_plugin_s_modules(tmp_path, bench, mine):
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "loads.py").write_text("")
    mine.write_text(f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nimport kernels.loads\n{MINE}")
    sources = [tmp_path / "fast.cuh", tmp_path / "kernels" / "fast.cu"]
    for source in sources:
        source.write_text("// one")
    (tmp_path / "notes.txt").write_text("one")
    flags = (*FLAGS, "--plugin=mine.py", "--out=run.binpb")
    status, _, err = bench(*flags)
    assert status == 0, err
    told = _header(tmp_path / "run.binpb").plugins[1]
    assert {"mine.py", "fast.cuh", "kernels/fast.cu", "kernels/loads.py"} == set(told.sources)
    for source in sources:
        source.write_text("// another")
        _refused(bench(*flags, "--resume"), "mine.py is not the same", source.name)
        source.write_text("// one")
    (tmp_path / "notes.txt").write_text("another")
    assert bench(*flags, "--resume")[0] == 0


def test_resume_refuses_another_content_of_a_plugin_and_takes_the_old_one_back(tmp_path, bench, mine):
    flags = (*FLAGS, "--plugin=mine.py", "--out=run.binpb")
    assert bench(*flags)[0] == 0
    before = (tmp_path / "run.binpb").read_bytes()
    mine.write_text(MINE + "\n# tuned\n")
    _refused(bench(*flags, "--resume"), "mine.py is not the same (its mine.py)", "write to another file")
    (tmp_path / "more.py").write_text(
        "import sys\n"
        "[mine] = [module for name, module in sys.modules.items() if name.startswith('tileops_plugin_mine')]\n"
        "mine.ScaleFwdOp.register('more', lambda op, call, x: x)\n"
    )
    _refused(
        bench(*flags, "--resume", "--plugin=more.py"),
        "--generated_dir name generated, mine.py in one run and generated, mine.py, more.py in the other",
    )
    assert (tmp_path / "run.binpb").read_bytes() == before
    mine.write_text(MINE)
    assert bench(*flags, "--resume")[0] == 0 and whole(tmp_path / "run.binpb")


def test_what_a_plugin_imports_from_its_folder_is_of_it(tmp_path, bench, mine):
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "fast.py").write_text("FACTOR = 1\n")
    (tmp_path / "kernels" / "other.py").write_text("")  # which is not imported
    mine.write_text(f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nimport kernels.fast\n{MINE}")
    flags = (*FLAGS, "--plugin=mine.py", "--out=run.binpb")
    assert bench(*flags)[0] == 0
    assert sorted(_header(tmp_path / "run.binpb").plugins[1].sources) == ["kernels/fast.py", "mine.py"]
    (tmp_path / "kernels" / "fast.py").write_text("FACTOR = 2\n")
    _refused(bench(*flags, "--resume"), "its kernels/fast.py")


def test_a_module_that_is_a_plugin_is_named_with_what_is_loaded_of_its_package(tmp_path, bench):
    (tmp_path / "team" / "ops").mkdir(parents=True)
    (tmp_path / "team" / "__init__.py").write_text("")
    (tmp_path / "team" / "shared.py").write_text("A = 1\n")
    (tmp_path / "team" / "ops" / "mine.py").write_text("from team import shared\n" + MINE)
    assert bench(*FLAGS, "--plugin=team.ops.mine", "--out=run.binpb")[0] == 0
    _, told = _header(tmp_path / "run.binpb").plugins
    assert told.name == "team.ops.mine" and sorted(told.sources) == ["team", "team.ops.mine", "team.shared"]


def test_a_plugin_that_changes_while_the_run_goes_on_ends_it(tmp_path, start, bench, mine):
    # The first row's process is ended by its op, and the next one finds another plugin.
    mine.write_text(
        MINE.replace("    return x * op", "    edit()\n    return x * op")
        + """
def edit():
    import os, pathlib
    with open(pathlib.Path(__file__), "a") as file:
        file.write("and is no Python in the midst of it")
    os._exit(3)


ScaleFwdOp.register("later", lambda op, call, x: x * op.params["factor"])
"""
    )
    before = mine.read_text()
    process = start(*FLAGS, "--plugin=mine.py")
    _, err = process.communicate(timeout=240)
    assert process.returncode == 1, err
    (line,) = [line for line in err.splitlines() if "measuring on" not in line]
    assert f"{mine} changed during the run" in line and "has 2 records: start a new run" in line
    path = tmp_path / "tileops-run.binpb"
    assert [(key[1], record.status) for key, record in outcomes(path).items()] == [("torch", OK), ("mine", ERROR)]
    assert not whole(path)
    mine.write_text(before)
    status, _, err = bench(*FLAGS, "--plugin=mine.py", "--resume", "--implementation=torch,later")
    assert status == 1 and outcomes(path)["small-float32", "later"].status == OK, err


def test_two_plugins_may_not_register_one_name(tmp_path, bench, mine):
    (tmp_path / "other.py").write_text(
        "import sys\n"
        "[mine] = [module for name, module in sys.modules.items() if name.startswith('tileops_plugin_mine')]\n"
        "mine.ScaleFwdOp.register('mine', lambda op, call, x: x)\n"
    )
    found = bench(*FLAGS, "--plugin=mine.py", "--plugin=other.py")
    _refused(found, "other.py: its implementation 'mine' of ScaleFwdOp", f"of {mine}, so a record could be of either")


@pytest.mark.parametrize("name", ["all", "a,b"])
def test_a_name_that_no_flag_could_give_is_refused_with_the_plugin(bench, mine, name):
    mine.write_text(MINE.replace('"mine"', repr(name)))
    _refused(bench("--list", "--plugin=mine.py"), f"--plugin={mine}", repr(name), "cannot name an implementation")


def test_a_plugin_that_is_not_there_is_said_in_words(bench, tmp_path):
    _refused(bench("--list", "--plugin=nowhere.py"), f"--plugin=nowhere.py: there is no file {tmp_path}/nowhere.py")


def test_a_roof_that_is_none_is_an_error(tmp_path, bench, mine):
    method = '\n    def roof_key(self):\n        return "warp_drive"\n'
    mine.write_text(MINE.replace("\n\ndef _mine", f"{method}\n\ndef _mine"))
    for device in ("cpu", "meta"):
        out = "--rows=all" if device == "cpu" else "--out=prices.binpb"
        status, _, err = bench(f"--device={device}", "--label=small", "--plugin=mine.py", out)
        assert status == 1 and "roof_key() gave 'warp_drive', which is no roof; there are: cuda_core.fp32" in err
        path = tmp_path / ("tileops-run.binpb" if device == "cpu" else "prices.binpb")
        for record in outcomes(path).values():
            assert record.status == ERROR and not record.roof_key and not record.HasField("timing")


# ---- parts


def test_a_part_says_which_it_is_and_resume_holds_it_to_that(tmp_path, bench):
    flags = ("--device=meta", "--out=run.binpb")
    assert bench(*flags, "--shard=2/2")[0] == 0
    parts = _header(tmp_path / "run.binpb").parts
    assert (parts.count, list(parts.indices)) == (2, [2])
    _refused(bench(*flags, "--shard=1/2", "--resume"), "it holds part 2 of 2, and this run is part 1 of 2", "--shard")
    _refused(bench(*flags, "--resume"), "this run is no part of a whole")
    assert bench(*flags, "--shard=2/2", "--resume")[0] == 0
    assert bench("--device=meta", "--out=one.binpb")[0] == 0
    assert not _header(tmp_path / "one.binpb").HasField("parts")


def test_a_part_without_a_row_says_so_and_is_written(tmp_path, bench):
    status, _, err = bench("--device=cpu", "--rows=all", "--label=few", "--shard=3/3", plugin("implementations"))
    assert status == 0 and "part 3 of 3 holds no row: there are fewer rows than parts" in err
    assert "report it" not in err
    assert whole(tmp_path / "tileops-run.binpb") and not outcomes(tmp_path / "tileops-run.binpb")


# ---- one writer a file


HANGING = (*FLAGS, "--implementation=torch,hangs,survivor", plugin("moody"))


def _started(start, path):
    """A run that has one record and hangs in the next row."""
    process = start(*HANGING)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if path.exists() and path.stat().st_size and len(outcomes(path)) == 1:
            return process
        time.sleep(0.05)
    raise AssertionError(process.communicate()[1] if process.poll() is not None else "no record in time")


def test_a_second_run_on_one_file_stops_before_it_touches_anything(tmp_path, start, bench):
    path = tmp_path / "tileops-run.binpb"
    first = _started(start, path)
    before = path.read_bytes()
    began = _header(path).started_at.ToJsonString()
    link = tmp_path / "link.binpb"
    link.symlink_to(path)
    for flags in ((), ("--resume",), ("--out=link.binpb",)):
        _refused(bench(*HANGING, *flags), f"is being written by process {first.pid} of this machine", began)
    assert path.read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link.binpb", "tileops-run.binpb"]
    (tmp_path / "cured").touch()
    _, err = first.communicate(timeout=120)
    assert first.returncode == 0, err
    assert len(outcomes(path)) == 3 and whole(path)


def test_a_run_that_was_killed_holds_its_file_no_longer(tmp_path, start, bench):
    path = tmp_path / "tileops-run.binpb"
    first = _started(start, path)
    os.kill(first.pid, signal.SIGKILL)
    first.communicate(timeout=60)
    (tmp_path / "cured").touch()
    status, _, err = bench(*HANGING, "--resume")
    assert status == 0, err
    assert len(outcomes(path)) == 3 and whole(path)
    assert sorted(each.name for each in pathlib.Path(tmp_path).iterdir()) == ["cured", "tileops-run.binpb"]
