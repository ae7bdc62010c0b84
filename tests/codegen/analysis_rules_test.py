"""The roofline document, sections 4.1 and 4.4 up to 4.4.3: what the analysis judges, and how. One test a sentence.

The codes one by one are in analysis_codes_test.py; what emission writes of the verdicts in analysis_methods_test.py.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import sys
import types

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tileops.codegen import pipeline
from tileops.codegen.func_paths import check_func
from tileops.manifest.diagnostics import Diagnostics
from tileops.manifest.language import declarations, expr, primitives
from tileops.manifest.plans import trees
from tileops.ops.errors import OpCallError
from tileops.tests.codegen.small_entries import OP, analysed, called, demo, meta, module, text_of, verdict


def codes(entry) -> list[str]:
    return [one.code for one in verdict(entry)[1]]


def roofline_codes(entry) -> list[str]:
    return [code for code in codes(entry) if code.startswith("R")]


# ---- 4.1 Schema validator / CI


@pytest.mark.requirement("4.1.1")
def test_4_1_inline_has_flops_and_func_has_func():
    assert codes(demo({"bytes": "M"})) == ["R001"] and codes(demo({})) == ["R001"]
    assert codes(demo({"flops": "M"})) == [] and codes(demo({"func": "a.b"})) == []


@pytest.mark.requirement("4.1.2")
@pytest.mark.parametrize(
    "block", [{"flops": "M", "func": "a.b"}, {"bytes": "M", "func": "a.b"}, {"flops": "M", "bytes": "M", "func": "a.b"}]
)
def test_4_1_flops_and_bytes_do_not_coexist_with_func(block):
    assert codes(demo(block)) == ["R001"]


@pytest.mark.requirement("4.1.3")
@pytest.mark.parametrize("name", ["flops", "bytes", "func"])
@pytest.mark.parametrize("value", ["", " ", 0, 7, 1.5, True, None, [], ["M"], {}, {"M": 1}])
def test_4_1_flops_bytes_and_func_are_non_empty_strings(name, value):
    block = {"flops": "M", name: value} if name == "bytes" else {name: value}
    assert codes(demo(block)) == ["R002"]


@pytest.mark.requirement("3.4", "4.1.4", "4.1.7")
def test_4_1_the_validator_renders_what_the_analysis_found(tmp_path):
    """Word for word: every defect that the analysis has, the pipeline's diagnostics have, and nothing of their own."""
    entry = demo({"flops": "Q ** 2", "bytes": "bytes(z)"})
    alone = [(one.field, one.code, one.message) for one in verdict(entry)[1]]
    (tmp_path / "demo.yaml").write_text(text_of(entry))
    rendered = pipeline.analyse_files([str(tmp_path / "demo.yaml")]).diagnostics
    assert [(one.field, one.code, one.message) for one in rendered] == alone
    assert [code for _, code, _ in alone] == ["R010", "R011"]


@pytest.mark.requirement("4.1.5")
def test_4_1_whether_a_func_path_resolves_is_checked_for_implemented_entries(monkeypatch):
    imported = []
    real = importlib.import_module
    monkeypatch.setattr(importlib, "import_module", lambda name, *rest: imported.append(name) or real(name, *rest))
    for status, wanted in (("spec-only", []), ("implemented", ["R021"])):
        found = Diagnostics()
        entries, _ = analysed(text_of(demo({"func": "tileops.perf.formulas.no_such"}, status=status)))
        for checked, analysis in entries.values():
            check_func(checked.entry, analysis, found)
        assert [one.code for one in found] == wanted
        assert ("tileops.perf.formulas" in imported) is (
            status == "implemented"
        )  # a spec-only entry's module is not even imported


@pytest.mark.requirement("4.1.6", "4.1.10", "4.4.3b")
def test_4_1_adding_a_primitive_changes_no_code_of_validator_or_analysis(monkeypatch):
    """One entry in the primitives' table: the analysis knows the name, refusals list it, and emitted code calls it."""
    assert roofline_codes(demo({"flops": "doubled(M)"})) == ["R011"]

    def doubled(value: int) -> int:
        """Twice an integer."""
        return 2 * value

    monkeypatch.setattr(primitives, "doubled", doubled, raising=False)
    declared = dataclasses.replace(declarations.PRIMITIVES["abs"], function=doubled)
    monkeypatch.setitem(declarations.PRIMITIVES, "doubled", declared)
    assert codes(demo({"flops": "doubled(M)"})) == []
    assert called(demo({"flops": "doubled(M)"}), meta(3, 5)).eval_roofline()[0] == 6
    assert "doubled" in verdict(demo({"flops": "tripled(M)"}))[1][0].message


@pytest.mark.requirement("3.5", "4.1.8")
@pytest.mark.parametrize("formula", ["-1", "0.5", "M - 100", "N // (M - 3)", "N // (0 if k else 1)", "M % (N - 5)"])
def test_3_the_validator_executes_no_formula(formula):
    """The check passes what has no value or no price in the row's call; the call says so."""
    entry = demo({"flops": formula}, params={"k": {"type": "bool", "default": True}})
    assert codes(entry) == []
    with pytest.raises(OpCallError, match="flops"):
        called(entry, meta(3, 5)).eval_roofline()


@pytest.mark.requirement("3.11")
@pytest.mark.parametrize("name", ["flops", "bytes", "func", "roofline"])
def test_3_a_workload_row_states_no_price(name):
    row = {"label": "row", "M": 3, "N": 5, "dtype_cases": [{"T": "float16"}]}
    assert codes(demo(rows=[row])) == []
    assert codes(demo(rows=[{**row, name: "M"}])) == ["M060"]


# ---- 4.4 Analysis runs for every entry, from the entry alone


@pytest.mark.requirement("4.4.a")
def test_4_4_analysis_and_emission_run_for_every_entry_whatever_its_status():
    for status in ("implemented", "spec-only"):
        assert codes(demo({"flops": "Q"}, status=status)) == ["R011"]
        made = getattr(module(text_of(demo({"flops": "M"}, status=status))), OP)
        op = made()
        op(meta(3, 5))
        assert (made.STATUS, op.eval_roofline()[0]) == (status, 3)


@pytest.mark.requirement("3.2", "3.3", "4.4.e")
def test_4_4_a_formula_that_violates_a_form_constraint_or_reads_an_unknown_name_cannot_be_emitted():
    for text in ("M ** 2", "Q", "flag", "bytes(q)"):
        assert not verdict(demo({"flops": text}))[0].emittable
    assert verdict(demo({"flops": "M"}))[0].emittable


# What a module of emission may know of the project: what was decided, as data, and how text is written.
_DECIDED = {
    "tileops.codegen.analysis": {"Analysis", "Formula"},
    "tileops.codegen.branches": {"Branches"},
    "tileops.codegen.call_decisions": {"CallDecisions"},
    "tileops.manifest.check": {"Checked"},
    "tileops.manifest.language": {"declarations", "expr", "kinds"},
    "tileops.manifest.language.adt": {"AdtValue"},
    "tileops.manifest.language.dtypes": {"BITS"},
    "tileops.manifest.language.invariants": {"expect"},
    "tileops.manifest.language.sum_terms": {"is_long_sum", "is_range_sum", "sum_loop"},
    "tileops.manifest.plans": {"plan_steps"},
    "tileops.manifest.plans.plan": {"Branch", "Plan"},
    "tileops.manifest.plans.plan_steps": {"SolveLet", "Step"},
    "tileops.manifest.plans.points": {"Discriminant"},
    "tileops.manifest.plans.trees": {"Leaf", "Tree", "leaves", "project"},
    "tileops.manifest.reading.values": {"form_of"},
    "tileops.manifest.rows.cases": {"CaseTensor"},
}


def _imported(tree: ast.Module) -> set[tuple[str, str]]:
    """(module, name) of all that a module takes from the project; "" for the name of a whole module."""
    nodes = [*ast.walk(tree)]
    taken = {(node.module, one.name) for node in nodes if isinstance(node, ast.ImportFrom) for one in node.names}
    taken |= {(one.name, "") for node in nodes if isinstance(node, ast.Import) for one in node.names}
    return {(module, name) for module, name in taken if module.startswith("tileops")}


def _emission() -> dict[str, ast.Module]:
    """Every module of codegen that emission is made of: what it imports, and is no decision."""
    found: dict[str, ast.Module] = {}
    waiting = ["tileops.codegen.emission"]
    while waiting:
        name = waiting.pop()
        if name not in found and name not in _DECIDED:
            found[name] = ast.parse(inspect.getsource(importlib.import_module(name)))
            waiting += [module for module, _ in _imported(found[name]) if module.startswith("tileops.codegen")]
    return found


EMISSION = _emission()


@pytest.mark.requirement("3.9", "4.4.f")
@pytest.mark.parametrize("name", sorted(EMISSION))
def test_4_4_emission_writes_the_method_from_those_decisions_and_decides_nothing(name):
    known = {one for one in _imported(EMISSION[name]) if one[0] not in {*EMISSION, "tileops.manifest.model"}}
    assert not {one for one in known if one[1] not in _DECIDED.get(one[0], ())}
    functions = [node.func for node in ast.walk(EMISSION[name]) if isinstance(node, ast.Call)]
    called = {one.attr if isinstance(one, ast.Attribute) else getattr(one, "id", "") for one in functions}
    assert not called & {"check", "decide", "discriminants", "evaluate", "fold", "points", "steps_at", "substitute"}


def test_4_4_each_emitting_module_is_held_to_that():
    writers = {"check", "class", "construction", "library", "price", "split", "steps"}
    assert EMISSION.keys() == {
        *(f"tileops.codegen.emit_{name}" for name in writers),
        *(f"tileops.codegen.{name}" for name in ("emission", "imports", "python_form", "source_text")),
    }


# ---- 4.4 Total

_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(
        ["flops", "bytes", "func", "M * N", "bytes(x)", "tileops.perf.formulas.f", "M **", "𝐌", "x.shape", "\x00"]
    ),
)
_YAML = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_SCALARS, inner, max_size=4), max_leaves=12
)
_BLOCKS = _YAML | st.dictionaries(st.sampled_from(["flops", "bytes", "func"]), _YAML, max_size=3)
_PIECES = st.lists(
    st.sampled_from(
        (
            "M N T x y w 0 1 2.5 inf None True ( ) [ ] , . : + - * / // % ** == < <= in not and or if else for bytes"
            " present sum max prod len kind value lambda 'a' \" := ~ @ é ２"
        ).split()
    ),
    max_size=14,
).map(" ".join)


@pytest.mark.requirement("4.4.g")
@settings(max_examples=400, deadline=None)
@given(_BLOCKS)
def test_4_4_total_any_yaml_under_roofline_is_judged_and_nothing_is_raised(block):
    entry = demo()
    entry["roofline"] = block
    _judged(yaml.dump({OP: entry}, sort_keys=False))


@pytest.mark.requirement("4.4.g")
@settings(max_examples=400, deadline=None)
@given(_PIECES | st.text(max_size=40), _PIECES)
def test_4_4_total_any_text_as_a_formula_is_judged_and_nothing_is_raised(flops, nbytes):
    _judged(yaml.dump({OP: demo({"flops": flops, "bytes": nbytes})}, sort_keys=False))


def _judged(text: str) -> None:
    """The document is judged, twice alike; an entry can be emitted exactly if its block has no defect."""
    found, defects = analysed(text)
    again = analysed(text)[1]
    assert [str(one) for one in defects] == [str(one) for one in again]
    for _, analysis in found.values():
        assert analysis.emittable or defects
        if not defects:
            module(_emittable_here(text))


def _emittable_here(text: str) -> str:
    """The text; a func is replaced by one that exists, since the module imports it."""
    entry = yaml.safe_load(text)
    if "func" in entry[OP]["roofline"]:
        entry[OP]["roofline"] = {"func": "tileops.perf.formulas.gqa_fwd_roofline"}
    return yaml.safe_dump(entry, sort_keys=False)


@pytest.mark.parametrize("deep", [100, 100_000])
def test_4_4_total_holds_for_formulas_that_are_nested_or_long_beyond_reason(deep):
    for text in ("(" * deep + "M" + ")" * deep, " + ".join(["M"] * deep), "-" * deep + "M", "[" * deep, "M" * deep):
        assert set(roofline_codes(demo({"flops": text}))) <= {"R010", "R011"}


# ---- 4.4 Lossless: absent, malformed and valid are three


@pytest.mark.requirement("4.4.h")
@pytest.mark.parametrize(
    ("block", "wanted"),
    [
        # bytes:        derived from the signature | neither derived nor taken | the entry's own
        ({"flops": "M"}, (True, False, True)),
        ({"flops": "M", "bytes": ""}, (False, False, False)),
        ({"flops": "M", "bytes": "M +"}, (False, False, False)),
        ({"flops": "M", "bytes": "Q"}, (False, False, False)),
        ({"flops": "M", "bytes": "M"}, (False, True, True)),
    ],
)
def test_4_4_lossless_bytes_that_are_malformed_are_neither_absent_nor_valid(block, wanted):
    analysis, _ = verdict(demo(block))
    assert (analysis.traffic is not None, analysis.bytes is not None, analysis.emittable) == wanted


@pytest.mark.requirement("4.4.h")
def test_4_4_lossless_flops_that_are_malformed_are_reported_as_such_and_not_as_missing():
    for value, code, words in ((None, "R002", "non-empty text"), ("M +", "R010", ""), ("Q", "R011", "unknown name")):
        ((found),) = verdict(demo({"flops": value}))[1]
        assert found.code == code and words in found.message
    ((found),) = verdict(demo({"bytes": "M"}))[1]
    assert found.code == "R001" and "needs flops" in found.message


@pytest.mark.requirement("4.4.h")
def test_4_4_lossless_a_block_that_is_no_mapping_is_malformed_and_an_absent_one_missing():
    entry = demo()
    del entry["roofline"]
    analysis, (found,) = verdict(entry)
    assert (found.code, analysis.unreached, analysis.emittable) == ("R001", (), False)
    for value in (None, "M", ["M"], 3):
        entry["roofline"] = value
        analysis, (found,) = verdict(entry)
        assert (found.code, analysis.emittable) == ("M012", False)
        assert analysis.unreached == ("the roofline block is malformed",)


def test_4_4_lossless_a_misspelt_field_is_not_taken_for_a_missing_one():
    ((found),) = verdict(demo({"flop": "M"}))[1]
    assert "unknown field 'flop'" in found.message


# ---- 4.4 Accumulating


@pytest.mark.requirement("4.4.i", "4.4.j")
@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"func": "acme.prices.f", "flops": "M ** 2"}, ["R001", "R010"]),
        ({"func": "acme.prices.f", "bytes": "Q"}, ["R001", "R011"]),
        ({"func": "not a path", "flops": "Q", "bytes": "M ** 2"}, ["R001", "R010", "R011", "R020"]),
        ({"func": 7, "flops": "Q"}, ["R001", "R002", "R011"]),
    ],
)
def test_4_4_accumulating_both_modes_of_a_block_are_judged(block, expected):
    analysis, found = verdict(demo(block))
    assert sorted(one.code for one in found) == expected and not analysis.emittable
    # What a missing fact keeps out of reach is said in this case too.
    analysis, _ = verdict(demo({"func": "acme.prices.f", "flops": "L * M"}, let={"L": "M +"}))
    assert "signature.let.L" in " ".join(analysis.unreached)


@pytest.mark.requirement("3.2", "4.4.i")
def test_4_4_accumulating_every_defect_of_a_block_is_found_in_one_pass():
    entry = demo({"flops": "Q ** 2", "bytes": 7, "traffic": "M"})
    assert sorted(codes(entry)) == ["R001", "R002", "R010"]
    entry = demo({"flops": "Q + R + flag", "bytes": "Z + bytes(w)"})
    messages = " ".join(one.message for one in verdict(entry)[1])
    assert all(f"'{name}'" in messages for name in "QRZ") and "'w'" in messages


def test_4_4_accumulating_one_entrys_defects_do_not_hide_anothers():
    found, defects = analysed(text_of(demo({"flops": "Q"}), demo({"flops": "Z"}), names=("AFwdOp", "BFwdOp")))
    assert [(one.op, one.code) for one in defects] == [("AFwdOp", "R011"), ("BFwdOp", "R011")]


@pytest.mark.requirement("4.4.j")
@pytest.mark.parametrize(
    ("section", "value", "path"),
    [
        ("forall", {"M": "Dim", "N": "Nat", "T": "DType[float16 | float32]"}, "signature.forall.N"),
        ("params", {"k": {"type": "int |"}}, "signature.params.k"),
        ("inputs", {"x": {"dtype": "T", "shape": "[M, N"}}, "signature.inputs.x"),
        ("let", {"L": "M +"}, "signature.let.L"),
    ],
)
def test_4_4_accumulating_a_judgment_that_a_missing_fact_keeps_out_of_reach_is_unreached_naming_the_fact(
    section, value, path
):
    analysis, found = verdict(demo({"flops": "M * unknown"}, **{section: value}))
    assert not any(one.code == "R011" for one in found)
    assert not analysis.emittable and path in " ".join(analysis.unreached)


def test_4_4_accumulating_the_form_of_a_formula_is_judged_though_the_signature_is_malformed():
    _, found = verdict(demo({"flops": "M ** 2"}, let={"L": "M +"}))
    assert "R010" in [one.code for one in found]


def test_4_4_accumulating_an_entry_that_accepts_no_call_leaves_its_price_unreached():
    entry = demo(
        {"flops": "M if flag else N"},
        params={"flag": {"type": "bool", "default": False}},
        shape_rules=["flag and not flag"],
    )
    analysis, _ = verdict(entry)
    assert not analysis.emittable and analysis.unreached


# ---- 4.4.2, 4.4.3


def test_4_4_2_an_inline_body_is_folded_at_each_point():
    entry = demo(
        {"flops": "M * (2 if a else 3) + (N if b else 0)"},
        params={"a": {"type": "bool", "default": False}, "b": {"type": "bool", "default": False}},
    )
    analysis, defects = verdict(entry)
    assert defects == []
    (tree,) = analysis.flops.trees
    found = {tuple(value for _, value in path): expr.to_source(leaf) for path, leaf in trees.paths(tree)}
    assert found == {
        (False, False): "M * 3",
        (False, True): "M * 3 + N",
        (True, False): "M * 2",
        (True, True): "M * 2 + N",
    }


@pytest.mark.parametrize(
    "name",
    [
        "open",
        "eval",
        "getattr",
        "int",
        "float",
        "round",
        "sorted",
        "print",
        "math.sqrt",
        "torch.numel",
        "primitives.prod",
        "M",
        "x",
    ],
)
def test_4_4_3_the_primitive_set_is_the_only_list_of_names_that_a_formula_may_call(name):
    ((found),) = verdict(demo({"flops": f"{name}(M)"}))[1]
    assert found.code == "R011"
    listed = found.message.partition("allowed are ")[2].split(", ")
    assert listed == sorted([*declarations.PRIMITIVES, "bytes", "present"])


@pytest.mark.requirement("4.4.3a")
def test_4_4_3_a_function_and_its_declaration_are_one_item_of_the_primitive_set(monkeypatch):
    """The set is the only list of names that a formula may call: without its item a name does not exist."""
    callable_here = {"present", "bytes", *declarations.PRIMITIVES}
    (found,) = verdict(demo({"flops": "tripled(M)"}))[1]
    assert set(found.message.partition("allowed are ")[2].split(", ")) == callable_here
    assert codes(demo({"flops": "ceil_div(M, 2)"})) == []
    monkeypatch.delitem(declarations.PRIMITIVES, "ceil_div")
    assert codes(demo({"flops": "ceil_div(M, 2)"})) == ["R011"]
    tables = [name for name, value in vars(primitives).items() if isinstance(value, dict) and "broadcast" in value]
    assert tables == []


@pytest.mark.requirement("4.4.3c")
@pytest.mark.parametrize(
    ("formula", "allowed"),
    [
        ("M if present(zz) else N", "x, w, y, k"),
        ("bytes(zz)", "x, w, y"),
        ("zz * M", "M, N, T, k and the functions abs, "),
        ("zz(M)", "abs, all, balanced_sizes, broadcast, bytes, "),
    ],
)
def test_4_4_3_every_refusal_of_a_name_states_the_allowed_names(formula, allowed):
    entry = demo(
        {"flops": formula},
        params={"k": {"type": "int | None", "default": None}},
        inputs={"x": {"dtype": "T", "shape": "[M, N]"}, "w": {"dtype": "T", "shape": "[N]", "optional": True}},
    )
    (found,) = [one for one in verdict(entry)[1] if one.code.startswith("R")]
    assert found.code == "R011" and allowed in found.message


def test_4_4_3_every_primitive_may_be_called_by_name():
    for name in declarations.PRIMITIVES:
        assert "unknown function" not in " ".join(one.message for one in verdict(demo({"flops": f"{name}(M)"}))[1]), (
            name
        )


def test_4_4_3_a_refusal_states_the_allowed_names():
    entry = demo({"flops": "Q"}, params={"k": {"type": "int", "default": 1}}, let={"L": "M + 1"})
    ((found),) = verdict(entry)[1]
    assert found.message.startswith("unknown name 'Q'; allowed are M, N, T, k, L and the functions abs, all, ")
    ((found),) = verdict(demo({"flops": "bytes(q)"}))[1]
    assert "the tensors are x, y" in found.message


@pytest.mark.requirement("4.4.3d")
def test_4_4_3_a_name_resolves_from_one_place_only():
    twice = demo({"flops": "L"}, let={"L": "M"}, params={"L": {"type": "int", "default": 1}})
    assert "M014" in codes(twice)
    assert codes(demo({"flops": "sum(M for M in (1, N))"})) == ["R011"]
    assert codes(demo({"flops": "sum(i for i in (1, N)) + i"})) == ["R011"]


def test_4_4_3_neither_python_nor_a_module_lends_a_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "Q", types.ModuleType("Q"))
    for name in ("__name__", "print", "math", "torch", "self", "call", "Q"):
        assert roofline_codes(demo({"flops": name})) == ["R011"], name
