"""The command refuses what it cannot use, with one line; on a GPU it writes a profile."""

import os
import subprocess
import sys

import pytest
import torch

from tileops.perf import calibrate
from tileops.perf.roof import profiles
from tileops.tools.cli import errors

_NO_GPU = not torch.cuda.is_available()
_COMMAND = [sys.executable, "-m", "tileops.perf.calibrate"]


@pytest.mark.skipif(not _NO_GPU, reason="this machine has a GPU")
def test_without_a_gpu_it_says_so_in_one_line():
    done = subprocess.run(_COMMAND, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1 and "no CUDA device" in done.stderr


def test_a_misspelt_flag_is_bad_usage():
    done = subprocess.run([*_COMMAND, "--qick"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "qick" in done.stderr


def test_the_base_is_found_by_the_device_or_by_name():
    assert calibrate.find_base("", "NVIDIA H200").gpu == "NVIDIA H200"
    assert calibrate.find_base("nvidia h200", "NVIDIA H200").gpu == "NVIDIA H200"


def test_a_device_without_a_profile_asks_for_one():
    with pytest.raises(errors.UserError, match="'NVIDIA H2'.*--base"):
        calibrate.find_base("", "NVIDIA H2")


def test_the_profile_of_another_card_is_refused():
    with pytest.raises(errors.UserError, match="of 'NVIDIA H200', but this device is 'Other'"):
        calibrate.find_base("NVIDIA H200", "Other")


@pytest.mark.parametrize("base", ["missing.textproto", "No Such GPU"])
def test_a_base_that_is_not_there_is_bad_usage(base):
    with pytest.raises(errors.UserError):
        calibrate.find_base(base, "NVIDIA H200")


def test_out_is_checked_before_measuring(tmp_path, monkeypatch):
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(tmp_path))
    assert calibrate.find_out("", "NVIDIA H200") == tmp_path / "nvidia_h200.textproto"
    assert calibrate.find_out("x.textproto", "") == tmp_path / "x.textproto"
    os.mkfifo(tmp_path / "fifo")
    for wrong in (".", "missing/x.textproto", "/proc/x.textproto", "/dev/full", "/dev/null", "fifo"):
        with pytest.raises(errors.UserError, match="cannot write"):
            calibrate.find_out(wrong, "NVIDIA H200")
    assert os.listdir(tmp_path) == ["fifo"]


def test_a_profile_that_cannot_be_written_after_all_is_not_lost(tmp_path, capsys):
    profile = profiles.find_profile("nvidia_h200").message
    with pytest.raises(errors.UserError, match="cannot write .*; the profile is on stdout"):
        calibrate._write(profile, tmp_path / "gone" / "x.textproto")
    out = tmp_path / "kept.textproto"
    out.write_text(capsys.readouterr().out)
    assert profiles.load_profile(out).message == profile


@pytest.mark.skipif(_NO_GPU, reason="no GPU here: a calibration measures the one that it runs on")
def test_a_quick_calibration_is_a_profile(tmp_path):
    out = tmp_path / "this.textproto"
    try:
        calibrate.find_base("", torch.cuda.get_device_name())
    except errors.UserError as error:
        pytest.skip(f"this GPU: {error}")
    done = subprocess.run([*_COMMAND, "--quick", f"--out={out}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    profile = profiles.load_profile(out)
    assert profile.bandwidth.calibration > 0.5
    assert profile.units["tensor_core.bf16"].calibration > 0.3
    assert 1e-6 < profile.latency_floor_s < 1e-4
