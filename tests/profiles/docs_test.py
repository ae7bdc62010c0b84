"""docs/profiles.md: its commands take the flags that it gives, its example is a profile, its table is whole."""

import os
import pathlib
import re
import subprocess
import sys

import pytest
from google.protobuf import text_format

from tileops.perf.roof import profiles
from tileops.proto import gpu_profile_pb2
from tileops.tests.profiles import rules

_TEXT = pathlib.Path("docs/profiles.md").read_text(encoding="utf-8")
_COMMANDS = re.findall(r"\./bazelw run //perf:(\w+) -- (.+)", _TEXT) + re.findall(
    r"python3 (\w+)_zip\.zip (--[^`]+)`", _TEXT
)


def test_commands_are_found():
    assert {program for program, _ in _COMMANDS} == {"roofline", "calibrate"}


@pytest.mark.parametrize("program", sorted({program for program, _ in _COMMANDS}))
def test_a_command_takes_the_flags_that_are_given(program):
    done = subprocess.run(
        [sys.executable, "-m", f"tileops.perf.{program}", "--helpfull"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    known = set(re.findall(r"--(?:\[no\])?(\w+)", done.stdout))
    given = {flag for name, flags in _COMMANDS if name == program for flag in re.findall(r"--(\w+)", flags)}
    assert given and given <= known


def test_the_example_is_a_profile_that_keeps_the_rules():
    (example,) = re.findall(r"```\n(gpu: .+?)```", _TEXT, re.DOTALL)
    assert rules.lint(text_format.Parse(example, gpu_profile_pb2.GpuProfile())) == []


def test_every_field_of_a_profile_is_explained():
    table = _TEXT.split("## What each number means")[1].split("## ")[0]
    explained = set(re.findall(r"`(\w+)`", table))
    messages = [gpu_profile_pb2.GpuProfile, gpu_profile_pb2.Hbm, gpu_profile_pb2.AccessMix]
    messages += [gpu_profile_pb2.ComputeUnit, gpu_profile_pb2.Provenance]
    for message in messages:
        assert {field.name for field in message.DESCRIPTOR.fields} <= explained
    for basis in gpu_profile_pb2.FigureBasis.keys()[1:]:
        assert basis in explained


def test_what_is_said_of_the_h200_stands_in_its_profile():
    text = " ".join(_TEXT.split())
    units = {unit.key: unit.calibration_method for unit in profiles.find_profile("nvidia_h200").message.unit}
    best = re.match(r"([\d.]+) TFLOP/s", units["tensor_core.bf16"])[1]
    kept_up = re.search(r"([\d.]+) TFLOP/s when it goes on", units["tensor_core.bf16"])[1]
    assert f"bf16 keeps up {kept_up} of its {best} TFLOP/s" in text
    shares = {key: found[1] for key, method in units.items() if (found := re.search(r"([\d.]+)% of the best", method))}
    assert f"our own kernel: {shares.pop('tensor_core.int8')}%" in text
    low, high = min(shares.values(), key=float), max(shares.values(), key=float)
    assert f"products {low}% to {high}% of the best matrix product" in text


@pytest.mark.parametrize("path", re.findall(r"`((?:perf|tests|profiles)/[\w/.]*)`", _TEXT))
def test_a_named_file_is_there(path):
    assert pathlib.Path(path).exists()
