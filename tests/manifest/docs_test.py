"""The documentation of the language says what the code says."""

from __future__ import annotations

import re

import pytest
import yaml

from tileops.manifest import declarations
from tileops.manifest.diagnostics import CODES
from tileops.perf import paths
from tileops.tests.manifest.entries import codes


def test_every_defect_code_is_documented_under_its_own_words():
    rows = re.findall(r"^\| ([MR]\d{3}) \| (.*?) \|", paths.data_path("docs", "defect-codes.md").read_text(), re.MULTILINE)
    assert dict(rows) == CODES


@pytest.mark.parametrize("name", [*declarations.PRIMITIVES, *declarations.GENERATORS])
def test_every_primitive_and_generator_is_documented(name):
    assert f"`{name}(" in paths.data_path("docs", "manifest.md").read_text()


def test_the_worked_example_of_adding_an_op_is_clean():
    (text,) = re.findall(r"```yaml\n(.*?)```", paths.data_path("docs", "adding-an-op.md").read_text(), re.DOTALL)
    ((op, entry),) = yaml.safe_load(text).items()
    assert codes(entry, op) == []
