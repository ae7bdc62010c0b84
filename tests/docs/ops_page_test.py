"""The page of ops: every op of the manifest, with what the manifest, the classes and a report say of it."""

import pytest

from tileops.docs import ops_page
from tileops.manifest.reading import loader
from tileops.tools.cli import paths

ENTRIES = loader.load(loader.spec_files(str(paths.data_path("manifest", "spec")))).entries


def _row(op, case, reading, verdict="below", implementation="triton"):
    return {"op": op, "case_id": case, "implementation": implementation, "efficiency": reading, "verdict": verdict}


def _line(page, op):
    (line,) = [line for line in page.splitlines() if line.startswith(f"| `{op}`")]
    return line


REPORT = {
    "profile": {"gpu": "NVIDIA H200"},
    "rows": [
        _row("AddFwdOp", "a-float16", 0.91, "at_ceiling"),
        _row("AddFwdOp", "b-float16", 0.5),
        _row("AddFwdOp", "c-float16", 1.2, "anomaly"),
        _row("AbsFwdOp", "d", None, "latency_bound"),
    ],
}


def test_every_op_has_a_line_with_its_implementations():
    page = ops_page.page(ENTRIES, dict.fromkeys(ENTRIES, ("torch", "triton")), REPORT)
    for op in ENTRIES:
        assert "torch, triton" in _line(page, op)
    assert ENTRIES["GEMMFwdOp"].status in _line(ops_page.page(ENTRIES, {}, REPORT), "GEMMFwdOp")


def test_a_line_shows_signature_and_price_as_the_manifest_writes_them():
    line = _line(ops_page.page(ENTRIES, {}, REPORT), "AddFwdOp")
    assert "(input: T[*A], other: U[*B]; alpha: Number = 1) -> output: M[*S]" in line
    assert "prod(S) + (prod(B) if alpha != 1 and prod(S) > 0 else 0)" in line and "torch.add" in line
    assert "DType[bool \\| uint8" in line  # a bar would end the cell


def test_the_best_row_is_one_that_the_ceiling_judges():
    page = ops_page.page(ENTRIES, {}, REPORT)
    assert "91% (a-float16, triton); 1 of 2 rows at the ceiling" in _line(page, "AddFwdOp")
    assert "only latency-bound rows" in _line(page, "AbsFwdOp")
    assert "not recorded" in _line(page, "NegFwdOp")


def test_the_page_that_the_build_makes_names_every_op():
    try:
        page = paths.data_path("docs", "ops.md").read_text()
    except FileNotFoundError:
        pytest.skip("the page is made by Bazel alone")
    for op in ENTRIES:
        assert _line(page, op)
