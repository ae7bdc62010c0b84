"""Branches: each case names the groups of discriminant points that it is in, of every formula of its entry."""

from __future__ import annotations

import pytest

from tileops.codegen import pipeline
from tileops.manifest.reading import loader
from tileops.tests.manifest.entries import check, variant
from tileops.tools.cli import paths

CORPUS = pipeline.analyse_files(loader.spec_files(str(paths.data_path("tests", "manifest", "corpus"))))


def taken(entry):
    """Branches in words by the label of a row."""
    checked, analysis, found = check(entry)
    assert [str(diagnostic) for diagnostic in found] == []
    branches = analysis.branches
    return branches.texts, {
        case.label: [branches.texts[position] for position in found]
        for case, found in zip(checked.cases, branches.taken, strict=True)
    }


def test_a_row_is_in_one_branch_of_flops_effects_presence_and_shape():
    texts, rows = taken(variant())
    assert rows["plain"] == [
        "flops: present(scale) = False",
        "bytes: flip = False",
        "bytes: present(scale) = False",
        "bytes(state): flip = False",
    ]
    assert rows["scaled"] == [
        "flops: present(scale) = True",
        "bytes: flip = True",
        "bytes: present(scale) = True",
        "bytes(state): flip = True",
    ]
    assert sorted(texts) == sorted(rows["plain"] + rows["scaled"])


def test_points_that_fold_to_the_same_formula_are_one_branch():
    texts, rows = taken(
        variant("roofline", {"flops": "N if flip else N", "bytes": "4 if flip or present(scale) else 8"})
    )
    assert "flops: every call" in texts
    assert [text for text in texts if text.startswith("bytes")] == [
        "bytes: flip = False, present(scale) = False",
        "bytes: flip = False, present(scale) = True or flip = True",
    ]
    assert rows["scaled"][-1] == "bytes: flip = False, present(scale) = True or flip = True"


def test_a_formula_in_python_may_tell_every_finite_fact_apart():
    texts, rows = taken(variant("roofline", {"func": "tileops.perf.formulas.gqa_fwd_roofline"}))
    assert texts == (
        "func: flip = False",
        "func: flip = True",
        "func: present(dim) = False",
        "func: present(dim) = True",
        "func: present(dtype) = False",
        "func: present(dtype) = True",
        "func: present(scale) = False",
        "func: present(scale) = True",
    )
    assert rows["plain"] == [texts[0], texts[2], texts[4], texts[6]]


def test_a_branch_that_no_row_takes_stays_among_the_branches():
    entry = variant("workloads.1.flip", False)
    texts, rows = taken(entry)
    assert "bytes: flip = True" in texts
    assert all("bytes: flip = True" not in found for found in rows.values())


@pytest.mark.parametrize("op", sorted(CORPUS.entries))
def test_every_case_is_in_exactly_one_branch_of_each_formula(op):
    checked, analysis = CORPUS.entries[op]
    branches = analysis.branches
    formulas = {text.partition(":")[0] for text in branches.texts}
    assert len(branches.taken) == len(checked.cases)
    for found in branches.taken:
        assert len(set(found)) == len(found)
        assert {branches.texts[position].partition(":")[0] for position in found} == formulas
