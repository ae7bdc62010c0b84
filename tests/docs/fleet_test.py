"""The scripts of docs/fleet.md are what their schedulers take, and run the commands that are meant."""

import os
import re
import stat
import subprocess

import pytest
import yaml
from absl import flags

from tileops.perf import bench
from tileops.tools.cli import paths

DOC = paths.data_path("docs", "fleet.md").read_text(encoding="utf-8")
(BATCH,) = re.findall(r"```sh\n(.*?)```", DOC, re.DOTALL)
(JOB,) = re.findall(r"```yaml\n(.*?)```", DOC, re.DOTALL)


@pytest.fixture
def shell(tmp_path):
    """Runs a script with programs that only say how they were called; returns what they said.

    `/shared` of the script is a folder of the test.
    """
    (tmp_path / "revision").write_text("abc123\n")
    for name in ("python3", "pip"):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\necho {name} revision="$TILEOPS_REVISION" "$@"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)

    def run(script, **environment):
        done = subprocess.run(
            ["sh", "-c", script.replace("/shared", str(tmp_path))],
            capture_output=True,
            text=True,
            env={"PATH": f"{tmp_path}:{os.environ['PATH']}", **environment},
        )
        assert done.returncode == 0 and not done.stderr, done.stderr
        return [line.split() for line in done.stdout.splitlines()]

    return run


def _check_flags(command):
    """Every flag of a command is one of the bench."""
    given = [re.match(r"--(\w+)", word)[1] for word in command if word.startswith("--")]
    known = {flag.name for flag in flags.FLAGS.flags_by_module_dict()[bench.__name__]}
    assert given and set(given) <= known


def test_every_shell_text_is_one():
    blocks = [BATCH, *re.findall(r"^    (\S.*)$", DOC, re.MULTILINE)]
    assert len(blocks) > 6
    for block in blocks:
        for sh in ("sh", "bash"):
            done = subprocess.run([sh, "-n", "-c", block], capture_output=True, text=True)
            assert done.returncode == 0, f"{block}: {done.stderr}"


def test_a_task_of_the_array_measures_its_part_with_the_revision(tmp_path, shell):
    said = shell(BATCH, SLURM_ARRAY_TASK_ID="3")
    out = f"--out={tmp_path}/run/3.binpb"
    assert said == [["python3", "revision=abc123", f"{tmp_path}/bench.zip", "--shard=3/8", out, "--resume"]]
    _check_flags(said[0])
    first, _, last = re.search(r"^#SBATCH --array=(\d+)(-)(\d+)$", BATCH, re.MULTILINE).groups()
    assert (first, last) == ("1", "8")  # as many tasks as parts, counted as they are


def test_a_pod_of_the_job_measures_its_part_with_the_revision(tmp_path, shell):
    job = yaml.safe_load(JOB)
    spec = job["spec"]
    assert (job["kind"], spec["completionMode"]) == ("Job", "Indexed")
    assert spec["completions"] == spec["parallelism"] == 8
    (container,) = spec["template"]["spec"]["containers"]
    assert container["command"] == ["sh", "-c"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts == {volume["name"]: "/shared" for volume in spec["template"]["spec"]["volumes"]}
    (script,) = container["args"]
    install, run = shell(script, JOB_COMPLETION_INDEX="7")
    assert install[:3] == ["pip", "revision=", "install"]
    out = f"--out={tmp_path}/run/7.binpb"
    assert run == ["python3", "revision=abc123", f"{tmp_path}/bench.zip", "--shard=8/8", out]
    _check_flags(run)


@pytest.mark.requirement("4.3.12")
@pytest.mark.parametrize("failing", ["bench", "roofline", "compare", "nothing"])
def test_the_nightly_job_measures_and_reports_and_fails_on_a_formula_error_or_a_regression(tmp_path, failing):
    job = re.search(r"### Measuring every night\n.*?\n\n((?:    .+\n)+)", DOC, re.DOTALL)[1]
    (tmp_path / "2026-11-30.binpb").touch()
    wrapper = tmp_path / "bazelw"
    wrapper.write_text(f'#!/bin/sh\necho "$@"\ncase "$2" in *:{failing}) exit 1;; esac\n')
    wrapper.chmod(0o755)
    script = re.sub("^    ", "", job, flags=re.MULTILINE).replace("/srv/runs", str(tmp_path))
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0 if failing == "nothing" else 1, "")
    bench, roofline, compare = (line.split() for line in done.stdout.splitlines())
    assert [line[1] for line in (bench, roofline, compare)] == ["//perf:bench", "//perf:roofline", "//perf:compare"]
    _check_flags(bench[3:])
    (out,) = [flag.removeprefix("--out=") for flag in bench if flag.startswith("--out=")]
    assert f"--run={out}" in roofline and f"--new={out}" in compare
    assert f"--base={tmp_path}/2026-11-30.binpb" in compare
