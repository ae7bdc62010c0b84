"""The messages import under their project names, and their generated code suits the locked protobuf runtime."""

import importlib
import pathlib
import re

import pytest
from google import protobuf

STEMS = ("audit", "benchmark", "gpu_profile", "roofline")


@pytest.mark.parametrize("stem", STEMS)
def test_import(stem):
    module = importlib.import_module(f"tileops.proto.{stem}_pb2")
    assert module.DESCRIPTOR.name == f"tileops/proto/{stem}.proto"
    assert module.DESCRIPTOR.message_types_by_name


def test_generated_code_is_not_newer_than_the_runtime():
    module = importlib.import_module("tileops.proto.benchmark_pb2")
    text = pathlib.Path(module.__file__).read_text()
    generated = tuple(map(int, re.search(r"Protobuf Python Version: ([\d.]+)", text).group(1).split(".")))
    runtime = tuple(map(int, protobuf.__version__.split(".")))
    # The runtime refuses code of a newer version, and of a major other than its own or the one before.
    assert generated <= runtime
    assert runtime[0] - generated[0] <= 1
