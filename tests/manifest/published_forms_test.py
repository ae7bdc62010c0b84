"""The second spelling of a form: what it says is what the first one says, and what neither says is a defect."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest
import yaml

from tileops.manifest.diagnostics import Diagnostics
from tileops.manifest.language import expr, kinds
from tileops.manifest.reading import source
from tileops.manifest.reading.parse_types import parse_adts
from tileops.manifest.reading.values import fits
from tileops.tests.manifest.entries import check, codes, parsed, small

F32 = {"x": {"dtype": "float32", "shape": "[N]"}}
Y = {"y": {"dtype": "float32", "shape": "[N]"}}


def said(entry: dict[str, Any], types: str = "") -> list[tuple[str, str, str]]:
    """(field, code, message) of each defect."""
    return [(one.field, one.code, one.message) for one in check(entry, adts=adts(types))[2]]


def adts(text: str) -> dict[str, kinds.Adt]:
    """The algebraic types of the text of a types.yaml."""
    if not text:
        return {}
    diagnostics = Diagnostics()
    found = parse_adts(source.parse(text.encode(), "types.yaml", diagnostics), "types.yaml", diagnostics)
    assert found is not None and not list(diagnostics)
    return found


# ---- a list that a row writes as a call


def windows(**row: Any) -> dict[str, Any]:
    """An op whose tensor `lens` a list of the row fills."""
    return small(
        forall={"N": "Dim", "G": "Dim", "lens": "Seq[Int]"},
        params={"pads": {"type": "list[int]", "default": []}},
        inputs={**F32, "m": {"dtype": "int32", "shape": "[G]", "values": "as_tensor(lens)"}},
        workloads=[{"label": "even", "N": 64, **row}],
    )


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("repeat(96, 3)", [96, 96, 96]),
        ("balanced_sizes(10, 4)", [3, 3, 2, 2]),
        ("repeat(-1, +2)", [-1, -1]),
        (" repeat( 7,\n 1 ) ", [7]),
        ("repeat(5, 0)", []),
    ],
)
def test_a_row_may_write_a_list_as_a_call(text, wanted):
    called, listed = check(windows(lens=text)), check(windows(lens=wanted))
    assert not called[2] and not listed[2]
    assert [dataclasses.replace(case, line=0) for case in called[0].cases] == [
        dataclasses.replace(case, line=0) for case in listed[0].cases
    ]
    assert called[0].cases[0].values["lens"] == tuple(wanted)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("repeat(96, N)", "N is no written integer"),
        ("repeat(96, 1 + 2)", "1 + 2 is no written integer"),
        ("repeat(True, 2)", "True is no written integer"),
        ("repeat(9.0, 2)", "9.0 is no written integer"),
        ("repeat(- -1, 2)", "--1 is no written integer"),
        ("repeat(repeat(1, 2), 3)", "repeat(1, 2) is no written integer"),
        ("repeat(value=96, count=3)", "no optional argument 'value'; write all by position"),
        ("repeat(*x)", "without *"),
        ("repeat(96)", "takes 2 arguments, not 1"),
        ("range(3)", "'range(3)' is no list"),
        ("sum((1, 2))", "is no list"),
        ("as_tensor((1, 2))", "is no list"),
        ("repeat(1, 2)[:1]", "is no list"),
        ("lens", "'lens' is no list; write a list of integers, or one call of balanced_sizes or repeat"),
        ("[96, 96]", "is not in the language"),
        ("repeat(96, 3", "is no expression"),
        ("", "is no expression"),
        ("repeat(96, -1)", "count is -1; it must not be negative"),
        ("balanced_sizes(-1, 2)", "total is -1"),
        ("balanced_sizes(3, 0)", "count is 0; it must be positive"),
        ("repeat(1, 65537)", "a list of more than 65536 items"),
    ],
)
def test_another_text_is_no_list_and_the_reason_is_given(text, words):
    ((field, code, message),) = said(windows(lens=text))
    assert (field, code) == ("workloads[0].lens", "M060") and words in message


def test_a_list_that_is_none_leaves_the_other_faults_of_its_row_to_be_told():
    found = said(windows(lens="repeat(96)", colour=3))
    assert [(field, code) for field, code, _ in found] == [
        ("workloads[0].lens", "M060"),
        ("workloads[0].colour", "M060"),
    ]


@pytest.mark.parametrize(("name", "kind"), [("pads", "list[int]"), ("S", "Shape")])
def test_only_a_value_list_may_be_a_call(name, kind):
    entry = windows(lens=[1], **{name: "repeat(96, 3)"})
    if kind == "Shape":
        entry["signature"]["forall"]["S"] = kind
        entry["signature"]["inputs"]["s"] = {"dtype": "float32", "shape": "[*S]"}
    ((field, code, message),) = said(entry)
    assert (field, code, message) == (f"workloads[0].{name}", "M060", f"'repeat(96, 3)' is no {kind}")


def test_the_lists_that_calls_give_are_bounded_together():
    entry = windows()
    entry["workloads"] = [{"label": f"r{at}", "N": 64, "lens": "repeat(1, 65536)"} for at in range(18)]
    diagnostics = said(entry)
    assert ("workloads[16]", "M003") in [(field, code) for field, code, _ in diagnostics]


# ---- type families by a list of cases

TYPES = """
Layout:
  constructors:
    Nopad: {class: acme.layouts.Nopad}
    Padded: {class: acme.layouts.Padded, fields: {block: int, zeroed: bool}}
    Masked: {class: acme.layouts.Masked, fields: {capacity: int}}
"""
PARAMS = {
    "turned": {"type": "bool", "default": False},
    "mode": {"type": "'1d' | 'row' | 'tile'", "default": "row"},
    "how": {"type": "Layout", "default": {"Nopad": {}}},
    "maybe": {"type": "'a' | 'b' | None", "default": None},
    "flag": {"type": "bool | None", "default": None},
}
KINDS = {"turned": "Bool", "mode": "'1d' | 'row' | 'tile'", "how": "Layout", "maybe": "'a' | 'b' | None"}
KINDS["flag"] = "Bool | None"


def planes(match: Any, cases: Any, params: dict[str, Any] = PARAMS, rules: tuple[str, ...] = ()) -> dict[str, Any]:
    """An op whose output's shape a family chooses."""
    names = [match] if isinstance(match, str) else match
    declared = {name: KINDS[name] for name in names} | {"h": "Dim", "w": "Dim"}
    return small(
        forall={"H": "Dim", "W": "Dim"},
        params={name: params[name] for name in names},
        types={"Plane": {"params": declared, "match": match, "cases": cases}},
        inputs={"x": {"dtype": "float32", "shape": "[H, W]"}},
        outputs={"y": {"dtype": "float32", "shape": f"Plane[{', '.join([*names, 'H', 'W'])}]"}},
        shape_rules=list(rules),
        workloads=[{"label": "row", "H": 2, "W": 3}],
        roofline={"flops": "H * W"},
    )


SAME = {
    "one flag": (
        planes("turned", [{"when": True, "is": "[w, h]"}, {"when": False, "is": "[h, w]"}]),
        planes(["turned"], {True: "[w, h]", False: "[h, w]"}),
    ),
    "words": (
        planes(
            "mode", [{"when": "1d", "is": "[h * w]"}, {"when": "row", "is": "[h, w]"}, {"when": "tile", "is": "[w]"}]
        ),
        planes("mode", {"1d": "[h * w]", "'row'": "[h, w]", "tile": "[w]"}),
    ),
    "several": (
        planes(
            ["turned", "mode"],
            [
                {"when": [True, "1d"], "is": "[1, w]"},
                {"when": [False, "1d"], "is": "[2, w]"},
                {"when": [True, "row"], "is": "[3, w]"},
                {"when": [False, "row"], "is": "[4, w]"},
                {"when": [True, "tile"], "is": "[5, w]"},
                {"when": [False, "tile"], "is": "[6, w]"},
            ],
        ),
        planes(
            ["turned", "mode"],
            {
                "(True, 1d)": "[1, w]",
                "(False, '1d')": "[2, w]",
                "(True, row)": "[3, w]",
                "(False, row)": "[4, w]",
                "(True, tile)": "[5, w]",
                "(False, tile)": "[6, w]",
            },
        ),
    ),
    "constructors": (
        planes(
            "how",
            [
                {"when": {"Nopad": "_"}, "is": "[h, w]"},
                {"when": {"Padded": {"zeroed": True}}, "is": "[h, how.block]"},
                {"when": {"Padded": {"zeroed": False}}, "is": "[w, how.block]"},
                {"when": {"Masked": "_"}, "is": "[how.capacity]"},
            ],
        ),
        planes(
            ["how"],
            {
                "Nopad": "[h, w]",
                "Padded(zeroed=True)": "[h, how.block]",
                "Padded(zeroed=False)": "[w, how.block]",
                "Masked": "[how.capacity]",
            },
        ),
    ),
    "an absent value": (
        planes("maybe", [{"when": None, "is": "[h]"}, {"when": "a", "is": "[w]"}, {"when": "b", "is": "[1]"}]),
        planes(["maybe"], {None: "[h]", "a": "[w]", "b": "[1]"}),
    ),
}


@pytest.mark.parametrize("way", SAME)
def test_a_list_of_cases_is_read_as_the_mapping_is(way):
    listed, mapped = SAME[way]
    assert said(listed, TYPES) == said(mapped, TYPES) == []
    first, second = (parsed(one, adts=adts(TYPES)).signature.families["Plane"] for one in (listed, mapped))
    assert (first.match, first.params) == (second.match, second.params)
    assert [(case.patterns, case.shape) for case in first.cases] == [
        (case.patterns, case.shape) for case in second.cases
    ]


@pytest.mark.parametrize(
    ("match", "cases"),
    [
        ("turned", [{"when": "_", "is": "[h]"}]),
        (["turned", "mode"], [{"when": [True, "_"], "is": "[h]"}, {"when": [False, "_"], "is": "[w]"}]),
        ("maybe", [{"when": "_", "is": "[h]"}]),
        (["flag", "mode"], [{"when": [one, "_"], "is": "[h]"} for one in (True, False, None)]),
        ("how", [{"when": "_", "is": "[h]"}]),
        ("how", [{"when": {one: {}}, "is": "[h]"} for one in ("Nopad", "Padded", "Masked")]),
    ],
)
def test_an_underscore_matches_any_value_and_an_absent_one(match, cases):
    assert said(planes(match, cases), TYPES) == []


@pytest.mark.parametrize(
    ("match", "cases", "code", "words"),
    [
        ("turned", [{"when": True, "is": "[h]"}], "M031", "no case for turned = False"),
        ("turned", [{"when": True, "is": "[h]"}, {"when": "_", "is": "[w]"}], "M031", "2 cases for turned = True"),
        ("maybe", [{"when": "a", "is": "[h]"}, {"when": "b", "is": "[w]"}], "M031", "no case for maybe = None"),
        ("turned", [{"when": "_", "is": "[h]"}, {"when": "_", "is": "[w]"}], "M031", "overlaps a case before it"),
        ("turned", [{"when": [True], "is": "[h]"}, {"when": False, "is": "[w]"}], "M031", "without brackets"),
        (["turned", "mode"], [{"when": True, "is": "[h]"}], "M031", "2 components in brackets, for turned, mode"),
        (["turned", "mode"], [{"when": [True, "row", 1], "is": "[h]"}], "M031", "2 components"),
        ("turned", [{"when": 1, "is": "[h]"}, {"when": "_", "is": "[w]"}], "M031", "1 is neither true nor false"),
        ("turned", [{"when": 1.5, "is": "[h]"}, {"when": "_", "is": "[w]"}], "M031", "a float chooses no case"),
        ("turned", [{"when": None, "is": "[h]"}, {"when": "_", "is": "[w]"}], "M031", "None is neither"),
        ("mode", [{"when": "2d", "is": "[h]"}, {"when": "_", "is": "[w]"}], "M031", "'2d' is not one of"),
        ("mode", [{"when": {"row": "_"}, "is": "[h]"}, {"when": "_", "is": "[w]"}], "M031", "has no constructors"),
        ("how", [{"when": "Nopad", "is": "[h]"}, {"when": "_", "is": "[w]"}], "M031", "write {constructor: _}"),
        ("how", [{"when": {"Slab": "_"}, "is": "[h]"}], "M031", "'Slab' is no constructor of Layout"),
        ("how", [{"when": {"Padded": {"block": 16}}, "is": "[h]"}], "M031", "block=16 is no value of a finite field"),
        ("how", [{"when": {"Padded": {"zeroed": "_"}}, "is": "[h]"}], "M031", "zeroed='_' is no value"),
        ("how", [{"when": {"Padded": {"zeroed": [True]}}, "is": "[h]"}], "M031", "Padded.zeroed for 'how' must be"),
        ("how", [{"when": {"Padded": None}, "is": "[h]"}], "M031", "must be followed by _ or by {field: literal}"),
        ("how", [{"when": {"Nopad": "_", "Masked": "_"}, "is": "[h]"}], "M031", "must be a literal, _"),
        ("turned", [{"when": True, "is": "[h]", "if": 1}, {"when": False, "is": "[w]"}], "M011", "unknown field 'if'"),
        ("turned", [{"when": True}, {"when": False, "is": "[w]"}], "M010", "is required"),
        ("turned", [{"is": "[h]"}, {"when": False, "is": "[w]"}], "M010", "is required"),
        ("turned", [{"when": True, "is": "h"}, {"when": False, "is": "[w]"}], "M020", "'h' is no shape"),
        ("turned", ["[h]", {"when": False, "is": "[w]"}], "M012", "must be a mapping"),
        ("turned", "[h]", "M012", "or a list of {when, is}"),
        ("turned", [], "M010", "at least one case"),
        ("turned", {}, "M010", "at least one case"),
        ("turned", {"_": "[h]"}, "M031", "'_' is neither true nor false"),
    ],
)
def test_a_case_that_is_none_is_told(match, cases, code, words):
    found = said(planes(match, cases), TYPES)
    assert [one[1] for one in found] == [code] and words in found[0][2], found


def test_cases_may_overlap_where_a_rule_accepts_no_call():
    cases = [
        {"when": [True, "_"], "is": "[h]"},
        {"when": ["_", "1d"], "is": "[w]"},
        {"when": [False, "row"], "is": "[1]"},
    ]
    cases.append({"when": [False, "tile"], "is": "[2]"})
    found = said(planes(["turned", "mode"], cases))
    assert [code for _, code, _ in found] == ["M031"] and "2 cases for turned = True, mode = 1d" in found[0][2]
    assert said(planes(["turned", "mode"], cases, rules=("not turned or mode != '1d'",))) == []


@pytest.mark.parametrize("match", [True, "", [], {"turned": 1}])
def test_match_is_a_parameter_or_a_list_of_them(match):
    entry = planes("turned", {True: "[w, h]", False: "[h, w]"})
    entry["signature"]["types"]["Plane"]["match"] = match
    assert {code for _, code, _ in said(entry)} <= {"M010", "M012"} and said(entry)


# ---- optional arguments by name, and unions with words


def padded(top: str, pad: str = "int | tuple[int, int] | 'keep'", **row: Any) -> dict[str, Any]:
    """An op with a `pad` for each of two axes."""
    return small(
        params={"pad": {"type": pad, "default": 0}},
        let={"top": top},
        outputs={"y": {"dtype": "float32", "shape": "[N + max((top, 0))]"}},
        workloads=[{"label": "row", "N": 4, **row}],
    )


def test_the_example_of_a_union_with_a_word():
    entry = padded("0 if pad == 'keep' else per_axis(pad, 0, 2)")
    for pad, top in ((3, 3), ([1, 2], 1), ("keep", 0)):
        entry["workloads"] = [{"label": "row", "N": 4, "pad": pad}]
        checked, _, found = check(entry)
        assert not found and checked.cases[0].values["top"] == top


@pytest.mark.parametrize(
    "top",
    [
        "per_axis(pad, 0, 2) if pad != 'keep' else 0",
        "per_axis(pad, 0, 2) if not pad == 'keep' else 0",
        "per_axis(pad, 0, 2) if 'keep' != pad else 0",
        "0 if pad in ('keep', 0) else per_axis(pad, 0, 2)",
        "per_axis(pad, 0, 2) if pad not in ('keep',) else 0",
        "(0 if pad == 'keep' else 1) if pad == 'keep' or N > 3 else per_axis(pad, 0, 2)",
    ],
)
def test_where_no_word_is_left_the_union_has_none(top):
    assert said(padded(top)) == []


@pytest.mark.parametrize(
    ("pad", "top", "code"),
    [
        ("int | 'keep' | 'same'", "0 if pad == 'keep' else per_axis(pad, 0, 2)", "M022"),
        ("int | 'keep' | 'same'", "0 if pad in ('keep', 'same') else per_axis(pad, 0, 2)", ""),
        ("int | 'keep' | 'same'", "0 if pad == 'keep' else 1 if pad == 'same' else pad", ""),
        ("int | list[int] | 'keep' | None", "0 if pad == 'keep' else per_axis(pad, 0, 2, fallback=1)", ""),
        ("int | list[int] | 'keep' | None", "0 if pad == 'keep' else per_axis(pad, 0, 2)", ""),
        ("int | 'keep' | None", "0 if pad == 'keep' or pad == None else pad + 1", ""),
        ("int | 'keep' | None", "0 if pad == 'keep' else pad.value", "M025"),
        ("int | 'keep'", "per_axis(pad, 0, 2)", "M022"),
        ("int | 'keep'", "per_axis(pad, 0, 2) if pad == 'keep' else 0", "M022"),
        ("int | 'keep'", "0 if pad == 'kept' else 1", "M022"),
        ("int | 'keep'", "(0 if pad == 'same' else 1) if pad == 'keep' else 0", "M022"),
    ],
)
def test_a_word_is_gone_only_where_a_guard_excludes_it(pad, top, code):
    assert [found for _, found, _ in said(padded(top, pad))] == [code] * bool(code)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("per_axis(sizes, 0, 2, fallback=3)", ""),
        ("per_axis(sizes, 0, 2)", ""),
        ("per_axis(sizes, 0, 2, value=3)", "M022"),
        ("per_axis(sizes, 0, 2, 3, fallback=3)", "M022"),
        ("per_axis(sizes, 0, 2, fallback=3, fallback=4)", "M022"),
        ("per_axis(*sizes, fallback=3)", "M020"),
        ("per_axis(sizes, 0, 2, **sizes)", "M020"),
        ("per_axis(sizes, 0, 2, fallback=None)", "M022"),
        ("max((i for i in (1, N) if i > 2), default=0)", ""),
        ("max((), default=N)", ""),
        ("extreme(a=N)", "M021"),
    ],
)
def test_only_what_may_be_left_out_is_written_by_name(text, code):
    entry = padded("0", "list[int | None]")
    entry["signature"]["params"] = {"sizes": {"type": "list[int | None] | None", "default": [1, None]}}
    entry["signature"]["let"]["top"] = text
    entry["workloads"][0]["sizes"] = [1, None]
    assert [found for _, found, _ in said(entry)] == [code] * bool(code)
    if code != "M021":  # a price may read what a let may read
        entry["signature"]["let"]["top"] = "0"
        entry["roofline"] = {"flops": f"max(({text}, 0))"}
        prices = {"M022": "R012", "M020": "R010"}
        assert [found for _, found, _ in said(entry)] == [prices.get(code)] * bool(code)


@pytest.mark.parametrize(
    ("sizes", "top", "refused"),
    [
        ([3, None], "per_axis(sizes, 0, 2)", False),
        ([None, 3], "per_axis(sizes, 0, 2)", True),
        (None, "per_axis(sizes, 0, 2)", True),
    ]
    + [
        ([None, 3], "per_axis(sizes, 0, 2, fallback=5)", False),
        (None, "per_axis(sizes, 1, 2, fallback=(4, 5))", False),
    ],
)
def test_a_none_without_a_fallback_has_no_value(sizes, top, refused):
    entry = padded(top)
    entry["signature"]["params"] = {"sizes": {"type": "list[int | None] | None", "default": [1, 1]}}
    entry["workloads"] = [{"label": "row", "N": 4, "sizes": sizes}]
    found = said(entry)
    assert [code for _, code, _ in found] == ["M060"] * refused
    assert not refused or "no fallback" in found[0][2]


# ---- sequences of one item kind


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("list[int] | tuple[int, ...]", kinds.Seq(kinds.INT)),
        ("list[int] | tuple[int, ...] | None", kinds.Maybe(kinds.Seq(kinds.INT))),
        ("tuple[int, int] | tuple[int, int, int]", kinds.Seq(kinds.INT, lengths=(2, 3))),
        ("list[int] | tuple[int, int]", kinds.Seq(kinds.INT)),
        ("int | list[int] | tuple[int, ...]", kinds.Union((kinds.INT, kinds.Seq(kinds.INT)))),
        ("list[int] | 'keep' | tuple[int]", kinds.Union((kinds.Seq(kinds.INT), kinds.Enum(("keep",))))),
        ("list[bool] | tuple[bool, ...]", kinds.Seq(kinds.BOOL)),
        ("list[int] | list[bool]", kinds.Union((kinds.Seq(kinds.INT), kinds.Seq(kinds.BOOL)))),
        ("list[int | None] | tuple[int | None, int | None]", kinds.Seq(kinds.Maybe(kinds.INT))),
    ],
)
def test_sequences_of_one_item_kind_are_one(text, wanted):
    assert kinds.parameter_kind(text) == wanted


def test_a_length_on_which_all_agree_is_kept():
    assert kinds.parameter_kind("tuple[int, int] | tuple[ int,int ]") == kinds.Seq(kinds.INT, 2)


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        ("tuple[int, int] | tuple[int, int, int]", (1, 2), True),
        ("tuple[int, int] | tuple[int, int, int]", (1, 2, 3), True),
        ("tuple[int, int] | tuple[int, int, int]", (1,), False),
        ("tuple[int, int] | tuple[int, int, int]", (1, 2, 3, 4), False),
        ("list[int] | tuple[int, int]", (1,), True),
        ("list[int] | tuple[int, ...]", (1, True), False),
    ],
)
def test_a_value_has_one_of_the_lengths(kind, value, wanted):
    assert fits(value, kinds.parameter_kind(kind)) is wanted


@pytest.mark.parametrize(
    ("kind", "code"),
    [("list[int] | tuple[int, ...]", ""), ("list[int] | list[bool]", "M022"), ("int | list[int]", "M022")],
)
def test_such_a_sequence_may_be_spliced(kind, code):
    entry = small(
        params={"tail": {"type": kind, "default": [2, 3]}}, outputs={"y": {"dtype": "float32", "shape": "[N, *tail]"}}
    )
    assert [found for _, found, _ in said(entry)] == [code] * bool(code)


# ---- numbers


@pytest.mark.parametrize("value", [True, False, 1, 0.5, -2])
def test_a_number_may_be_a_bool_and_a_float_may_not(value):
    for kind, fine in (("Number", True), ("float", not isinstance(value, bool)), ("Number | None", True)):
        entry = small(
            params={"value": {"type": kind, "default": 0}}, workloads=[{"label": "a", "N": 1, "value": value}]
        )
        assert codes(entry) == ([] if fine else ["M060"])
        entry = small(params={"value": {"type": kind, "default": value}})
        assert codes(entry) == ([] if fine else ["M012"])


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ("category(value) != 'bool'", ""),
        ("category(value) in ('int', 'float')", ""),
        ("category(value) == 'complex'", "M022"),
        ("category(ratio) == 'float'", ""),
        ("category(ratio) == 'bool'", "M022"),
        ("category(count) == 'int'", ""),
        ("category(count) == 'float'", "M022"),
        ("representable(value, T)", ""),
        ("value > 0", ""),
        ("category(note) == 'int'", "M022"),
    ],
)
def test_category_takes_a_number_too(rule, code):
    entry = small(
        forall={"N": "Dim", "T": "DType[uint8 | float32]"},
        params={
            "value": {"type": "Number", "default": 1},
            "ratio": {"type": "float", "default": 1.0},
            "count": {"type": "int", "default": 1},
            "note": {"type": "str", "default": ""},
        },
        inputs={"x": {"dtype": "T", "shape": "[N]"}},
        shape_rules=[rule],
        workloads=[{"label": "row", "N": 2, "dtype_cases": [{"T": "uint8"}]}],
    )
    found = [one for _, one, _ in said(entry)]
    assert found == [code] * bool(code), found


def test_bools_become_floats_as_in_pytorch():
    entry = small(
        forall={"N": "Dim", "T": "DType[bool | float16]"},
        inputs={"x": {"dtype": "T", "shape": "[N]"}},
        outputs={"y": {"dtype": "promote_int_to_float(T)", "shape": "[N]"}},
        workloads=[{"label": "row", "N": 2, "dtype_cases": [{"T": "bool"}, {"T": "float16"}]}],
    )
    checked, _, found = check(entry)
    assert not found and [case.outputs[0].dtype for case in checked.cases] == ["float32", "float16"]


# ---- an Int for a family's Dim, and the expansion of a mix


def experts(first: str, params: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """An op whose output has an axis that an argument of a family gives."""
    cases = [{"when": False, "is": "[h, w]"}, {"when": True, "is": "[w, h + 1]"}]
    return small(
        params={**params, "turned": {"type": "bool", "default": False}},
        types={"Plane": {"params": {"t": "Bool", "h": "Dim", "w": "Dim"}, "match": "t", "cases": cases}},
        outputs={"y": {"dtype": "float32", "shape": f"Plane[turned, {first}, N]"}},
        workloads=[{"label": "row", "N": 4, **row}],
    )


@pytest.mark.parametrize(
    ("first", "count", "codes_"),
    [
        ("count", 3, []),
        ("count", 0, []),
        ("count", -1, ["M060"]),
        ("count - 2", 1, ["M060"]),
        ("count - 2", 2, []),
        ("count * count", -2, []),
    ],
)
def test_an_int_may_stand_for_a_dim_of_a_family_and_must_not_be_negative(first, count, codes_):
    entry = experts(first, {"count": {"type": "int"}}, {"count": count})
    found = said(entry)
    assert [code for _, code, _ in found] == codes_
    assert all("the shape of y would be" in message for *_, message in found)


@pytest.mark.parametrize(("first", "kind"), [("turned", "Bool"), ("(1, 2)", "Seq"), ("note", "Maybe")])
def test_nothing_else_stands_for_a_dim(first, kind):
    entry = experts(first, {"note": {"type": "int | None", "default": None}}, {})
    ((field, code, message),) = [one for one in said(entry) if one[1] == "M022"][:1]
    assert code == "M022" and "argument 'h' of Plane must be Dim" in message and kind in message


@pytest.mark.parametrize(("q", "n"), [(3, 1), (8, 2), (24, 4)])
def test_an_expansion_solves_its_square(q, n):
    entry = small(
        forall={"N": "Dim", "Q": "Dim"},
        inputs={**F32, "h": {"dtype": "float32", "shape": "[Q]"}},
        outputs={"y": {"dtype": "float32", "shape": "[N, n, n]"}},
        let={"n": "mhc.expansion(Q)"},
        workloads=[{"label": "row", "N": 2, "Q": q}],
    )
    checked, _, found = check(entry)
    assert not found and checked.cases[0].outputs[0].shape == (2, n, n)
    entry["workloads"][0]["Q"] = q + 1
    ((_, code, message),) = said(entry)
    assert code == "M060" and "no n > 0 has" in message


def test_a_constant_that_is_no_expansion_is_told_with_the_expression():
    assert codes(small(let={"n": "mhc.expansion(9)"})) == ["M022"]
    assert codes(small(let={"n": "mhc.expansion(N)"}, outputs={"y": {"dtype": "float32", "shape": "[n]"}})) == ["M060"]


def test_a_spelling_is_not_kept_behind_the_parser():
    by_name = parsed(padded("0 if pad == 'keep' else per_axis(pad, 0, 2, fallback=1)"))
    by_position = parsed(padded("0 if pad == 'keep' else per_axis(pad, 0, 2, 1)"))
    assert by_name.signature.lets["top"].expr == by_position.signature.lets["top"].expr
    assert "fallback" not in expr.to_source(by_name.signature.lets["top"].expr)
    listed, mapped = copy.deepcopy(SAME["words"])
    assert yaml.safe_dump(listed) != yaml.safe_dump(mapped)
    assert parsed(listed).signature.families["Plane"].match == ("mode",)
