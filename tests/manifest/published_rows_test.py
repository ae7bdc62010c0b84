"""Each published row of an op that exists here is a case: one id, and tensors of the same names, shapes and dtypes.

published/README.md says where the rows come from.
"""

from __future__ import annotations

import collections
import json

import pytest

from tileops.manifest import check
from tileops.manifest.diagnostics import Diagnostics
from tileops.manifest.reading import loader
from tileops.tools.cli import paths

_SINKS, _WINDOW = "GQADenseFwdOp takes no sinks", "GQADenseFwdOp takes no window and no sinks"
_ROPE, _FP8 = "GQADenseFwdOp takes no RoPE tables", "GQADenseFwdOp takes no fp8 scales"

# Why a published row is no case yet, by op and case id.
LATER = {
    ("GQADenseFwdOp", "llama-8b-softcap-float16"): "GQADenseFwdOp takes no softcap",
    ("GQADenseFwdOp", "prefill-rope-float16"): _ROPE,
    ("GQADenseFwdOp", "prefill-rope-bfloat16"): _ROPE,
    ("GQADenseFwdOp", "prefill-scaled-float8_e4m3fn-float16"): _FP8,
    ("GQADenseFwdOp", "scaled-fp8-sinks-prefill-float8_e4m3fn-float16"): _FP8,
    ("GQADenseFwdOp", "gpt-oss-sinks-prefill-2k-bfloat16"): _SINKS,
    ("GQADenseFwdOp", "gpt-oss-sinks-prefill-4k-bfloat16"): _SINKS,
    ("GQADenseFwdOp", "gpt-oss-sinks-prefill-8k-float16"): _SINKS,
    ("GQADenseFwdOp", "gpt-oss-sinks-prefill-8k-bfloat16"): _SINKS,
    ("GQADenseFwdOp", "gpt-oss-sinks-decode-8k-bfloat16"): _SINKS,
    ("GQADenseFwdOp", "gpt-oss-sinks-window-128-float16"): _WINDOW,
    ("GQADenseFwdOp", "gpt-oss-sinks-window-128-bfloat16"): _WINDOW,
}


def _published():
    rows = collections.defaultdict(dict)
    for line in paths.data_path("tests", "manifest", "published", "workloads.jsonl").read_text().splitlines():
        row = json.loads(line)
        rows[row["op"]][row["case"]] = row
    return rows


PUBLISHED = _published()


@pytest.fixture(scope="module")
def checked():
    manifest = loader.load(loader.spec_files(str(paths.data_path("manifest", "spec"))))
    return {op: check.check_entry(entry, Diagnostics()) for op, entry in manifest.entries.items()}


def _plain(value):
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


@pytest.mark.parametrize("op", PUBLISHED)
def test_every_published_row_is_a_case_with_its_tensors(op, checked):
    cases = {case.case_id: case for case in checked[op].cases}
    params = checked[op].entry.signature.params
    expected, found = {}, {}
    for case_id, row in PUBLISHED[op].items():
        if (op, case_id) in LATER:
            continue
        written = {name: value for name, value in row["row"].items() if name in params}
        expected[case_id] = row["row"]["label"], written, [*row["tensors"].items()]
        if case_id in cases:
            case = cases[case_id]
            tensors = [(one.name, [list(one.shape), one.dtype]) for one in (*case.inputs, *case.outputs)]
            found[case_id] = case.label, {name: _plain(case.values[name]) for name in written}, tensors
    assert found == expected


@pytest.mark.parametrize("op", PUBLISHED)
def test_the_family_of_an_op_is_the_published_one(op, checked):
    assert {row["family"] for row in PUBLISHED[op].values()} == {checked[op].entry.family}


def test_a_row_that_exists_is_no_longer_listed_as_one_for_later(checked):
    assert all(case_id in PUBLISHED[op] for op, case_id in LATER)
    existing = {(op, case.case_id) for op in {op for op, _ in LATER} for case in checked[op].cases}
    assert not existing & LATER.keys()
