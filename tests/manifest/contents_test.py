"""What a metadata tensor's dtype holds of the integers that a generator makes, against PyTorch and NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tileops.manifest.language.dtypes import BITS
from tileops.manifest.rows import contents
from tileops.tests.manifest.entries import check, codes, small, variant

values = st.one_of(
    st.integers(-300, 300),
    st.integers(-(2**62), 2**62),
    st.builds(lambda bits, shift: bits << shift, st.integers(-9, 9), st.integers(0, 58)),
)


def _stored(value: int, dtype: str) -> bool:
    """Whether storing the value and reading it back gives it again."""
    kept = (
        torch.tensor([value], dtype=torch.int64).to(torch.float64).to(getattr(torch, dtype))
        if dtype.startswith("float8")
        else (torch.tensor([value], dtype=torch.int64).to(getattr(torch, dtype)))
    )
    if dtype.startswith("complex"):
        kept = kept.real
    back = kept.to(torch.float64) if kept.is_floating_point() else kept
    return bool(torch.isfinite(back).all()) and int(back.item()) == value


@pytest.mark.parametrize("dtype", [dtype for dtype in BITS if dtype not in ("float8_e8m0fnu", "uint64")])
@given(value=values)
def test_a_value_is_lost_exactly_where_storing_it_changes_it(dtype, value):
    assert (contents.first_lost(np.array([value]), dtype) is None) == _stored(value, dtype)


@given(value=values)
def test_the_exponent_dtype_holds_the_powers_of_two(value):
    assert (contents.first_lost(np.array([value]), "float8_e8m0fnu") is None) == (
        value > 0 and value & (value - 1) == 0
    )


@pytest.mark.parametrize("dtype", list(BITS))
@given(st.lists(values, min_size=1, max_size=5))
def test_what_is_held_by_its_range_loses_nothing(dtype, found):
    if contents.all_held((min(found), max(found)), dtype):
        assert contents.first_lost(np.array(found), dtype) is None


def test_the_first_lost_value_is_told():
    assert contents.first_lost(np.array([[1, 2], [300, 400]]), "int8") == 300
    assert contents.first_lost(np.array([0, 1, 2049, 4098]), "float16") == 2049


@pytest.mark.parametrize(
    ("dtype", "filled"),
    [
        ("int8", "repeat(128, 4)"),
        ("uint8", "repeat(-1, 4)"),
        ("bool", "(0, 1, 2, 0)"),
        ("float16", "repeat(2049, 4)"),
        ("bfloat16", "repeat(257, 4)"),
    ],
)
def test_contents_that_are_no_values_of_the_dtype_are_M065_at_each_row(dtype, filled):
    entry = variant("signature.inputs.ids", {"dtype": dtype, "shape": "[4]", "values": f"as_tensor({filled})"})
    assert codes(entry) == ["M065"] * 2  # one for each row
    entry["signature"]["inputs"]["ids"]["dtype"] = "int64"
    assert codes(entry) == []


def _segments(call: str, shape: str, requires: list[str]) -> dict:
    edges = {"dtype": "int32", "shape": shape, "values": call, "requires": requires}
    return small(
        forall={"N": "Dim", "S": "Dim", "lens": "Seq[Int]"},
        inputs={"x": {"dtype": "float32", "shape": "[N]"}, "edges": edges},
        outputs={"y": {"dtype": "float32", "shape": "[S]"}},
        workloads=[{"label": "row", "N": 5, "lens": [3, 0, 2]}],
    )


@pytest.mark.parametrize(
    ("call", "shape", "code", "note"),
    [
        ("prefix_sum(lens)", "[2 * S + 1]", "M060", "; prefix_sum now begins with 0"),
        ("( exclusive_prefix_sum (lens))", "[S]", "M064", "; exclusive_prefix_sum now lacks the total"),
        ("offsets(lens)", "[2 * S + 1]", "M060", ""),
        ("starts(lens)", "[S]", "M064", ""),
    ],
)
def test_a_defect_of_what_a_renamed_generator_fills_ends_with_its_new_meaning(call, shape, code, note):
    (found,) = check(_segments(call, shape, ["prefix_offsets(N)"]))[2]
    assert found.code == code and (note in found.message if note else "now" not in found.message)


def test_the_two_spellings_make_one_entry():
    published = check(_segments("prefix_sum(lens)", "[S + 1]", []))[0]
    ours = check(_segments("offsets(lens)", "[S + 1]", []))[0]
    assert published.cases == ours.cases and published.cases[0].inputs[1].values == ("offsets", ((3, 0, 2),))


def _branching(**row) -> dict:
    """An entry that draws rows of one size where it rotates, and of another where it does not."""
    return small(
        forall={"N": "Dim", "P": "Dim", "W": "Dim"},
        params={"rope": {"type": "bool", "default": False}},
        inputs={
            "x": {"dtype": "float32", "shape": "[N]"},
            "ids": {
                "dtype": "int32",
                "shape": "[N]",
                "values": "random_ids(N, P if rope else W)",
                "requires": ["in_range(0, P if rope else W)"],
            },
            "table": {"dtype": "float32", "shape": "[P]", "optional": "rope"},
        },
        workloads=[{"label": "row", "N": 4, **row}],
    )


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        ({"W": 9}, []),
        ({"rope": True, "P": 9}, []),
        ({"P": 9}, ["M060"]),
        ({"W": 9, "P": 9}, ["M060"]),
        ({"rope": True, "P": 9, "W": 9}, ["M060"]),
    ],
)
def test_a_row_writes_the_indices_that_generators_and_requirements_read_on_its_branch(row, wanted):
    assert codes(_branching(**row)) == wanted


def test_a_generator_may_read_a_let_that_reads_what_another_generator_solves():
    lists = {"dtype": "int32", "shape": "[S]", "values": "as_tensor(lens)"}
    pages = {"dtype": "int32", "shape": "[S, W]", "values": "paged_block_table(S, W, pool)"}
    entry = small(
        forall={"N": "Dim", "S": "Dim", "W": "Dim", "lens": "Seq[Int]"},
        inputs={"x": {"dtype": "float32", "shape": "[N, W]"}, "sizes": lists, "pages": pages},
        let={"pool": "S * W"},
        workloads=[{"label": "row", "N": 5, "W": 2, "lens": [3, 0, 2]}],
    )
    checked, _, found = check(entry)
    assert found == [] and checked.cases[0].inputs[2].values == ("paged_block_table", (3, 2, 6))


_CACHE = {"dtype": "int32", "shape": "[S]", "values": "as_tensor(cached)", "requires": ["attn.paged_fits(cu, 9)"]}
_CU = {"dtype": "int32", "shape": "[S + 1]", "values": "offsets(lens)"}


def _cached(cache: dict, cu: dict, requires: str = "attn.paged_fits(cu, 9)") -> dict:
    """An entry whose requirement on one metadata tensor reads another."""
    tensors = {"cu": {**_CU, **cu}, "cache": {**_CACHE, "requires": [requires], **cache}}
    tensors = dict(sorted(tensors.items(), key=lambda item: "optional" in item[1]))
    row = {"label": "row", "N": 5, "lens": [3, 2], "cached": [1, 7], "a": True, "b": True, "some": []}
    return small(
        forall={"N": "Dim", "S": "Dim", "lens": "Seq[Int]", "cached": "Seq[Int]"},
        params={"a": {"type": "bool", "default": False}, "b": {"type": "bool", "default": False}},
        inputs={"x": {"dtype": "float32", "shape": "[N, S]"}, **tensors},
        workloads=[row],
    )


@pytest.mark.parametrize(
    ("cache", "cu", "requires", "code"),
    [
        ({}, {}, "attn.paged_fits(cu, 9)", None),
        ({"optional": "a"}, {"optional": "a"}, "attn.paged_fits(cu, 9)", None),
        ({"optional": "a and b"}, {"optional": "a"}, "attn.paged_fits(cu, 9)", None),
        ({"optional": True}, {}, "attn.paged_fits(cu, 9)", None),
        ({}, {"optional": "a"}, "attn.paged_fits(cu if a else (0, 3, 5), 9)", None),
        ({}, {"optional": "a"}, "attn.paged_fits(cu if present(cu) else (0, 3, 5), 9)", None),
        ({"optional": "a"}, {"optional": "a and b"}, "attn.paged_fits(cu, 9)", "M051"),
        ({"optional": True}, {"optional": True}, "attn.paged_fits(cu, 9)", "M051"),
        ({"optional": "b"}, {"optional": "a"}, "attn.paged_fits(cu if b else (0, 3, 5), 9)", "M051"),
        ({}, {"shape": "[N, 2]", "values": "token_indices(lens)"}, "attn.paged_fits(cu, 9)", "M051"),
        ({"shape": "[N, 2]", "values": "token_indices(cached)"}, {}, "max_segment(9)", "M051"),
        ({"shape": "[N, 2]", "values": "token_indices(lens)"}, {}, "in_range(0, 9)", None),
    ],
)
def test_what_a_requirement_reads_is_there_and_has_one_axis(cache, cu, requires, code):
    entry = _cached(cache, cu, requires)
    if code is None and cache.get("optional") is True:
        entry["workloads"][0]["some"] = ["cache"]
    if "token" in str(entry["signature"]["inputs"]):
        del entry["workloads"][0]["N"]
    if "cached" not in str(entry["signature"]["inputs"]):
        del entry["workloads"][0]["cached"], entry["signature"]["forall"]["cached"]
    found = codes(entry)
    assert found == ([] if code is None else [code])


@pytest.mark.parametrize(
    ("wide", "call", "wanted"),
    [
        ("[N, 2]", "random_ids(N, 2, 9)", ["M051"]),
        ("[P]", "random_ids(N, 9)", []),
        ("[P]", "random_ids(N, 2, 9)", ["M051"]),
        ("[*Q]", "random_ids(N, 9)", []),
    ],
)
def test_a_family_has_the_axes_of_the_generator_in_every_case(wide, call, wanted):
    family = {"params": {"is_wide": "Bool", "P": "Dim", "Q": "Shape"}, "match": ["is_wide"]}
    entry = small(
        forall={"N": "Dim", "B": "Shape"},
        params={"wide": {"type": "bool", "default": False}},
        types={"Ids": {**family, "cases": {False: "[P]", True: wide.replace("N", "P")}}},
        inputs={
            "x": {"dtype": "float32", "shape": "[N, *B]"},
            "ids": {"dtype": "int32", "shape": "Ids[wide, N, B]", "values": call},
        },
        workloads=[{"label": "row", "N": 4, "B": [4]}],
    )
    assert codes(entry) == wanted
