"""The torch that was installed is the locked version, built for this machine."""

import pathlib
import re
import shutil

import torch


def locked_version() -> str:
    text = pathlib.Path("bazel/pip/lock.bzl").read_text()
    return re.search(r'"torch": struct\(\s*version = "([^"]+)"', text).group(1)


def test_version():
    assert torch.__version__.partition("+")[0] == locked_version()


def test_a_machine_with_a_driver_has_a_build_with_cuda():
    driver = pathlib.Path("/proc/driver/nvidia").exists() or shutil.which("nvidia-smi")
    assert torch.version.cuda is not None or not driver


def test_numpy_serves_torch():
    assert torch.arange(3).numpy().tolist() == [0, 1, 2]
