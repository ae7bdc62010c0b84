"""One minimal entry for each defect code of the manifest: a single fault yields exactly its code, at its line."""

from __future__ import annotations

import pytest
import yaml

from tileops.manifest.diagnostics import CODES, Diagnostics
from tileops.manifest.reading import loader, source
from tileops.tests.manifest.entries import OP, VALID, check, codes, variant

# field changed, its new value (none: removed), the code expected
SINGLE_FAULTS = [
    ("status", None, "M010"),
    ("signature.inputs.x.dtype", None, "M010"),
    ("stauts", "implemented", "M011"),
    ("signature.inputs.x.colour", "red", "M011"),
    ("status", "done", "M012"),
    ("ref_api", "torch mul()", "M012"),
    ("signature.params.flip.default", 1, "M012"),
    ("signature.params.dim.default", "first", "M012"),
    ("signature.inputs.scale.optional", 1, "M012"),
    ("signature.inputs.ids.device", "gpu", "M012"),
    ("signature.outputs.y.buffer", "y", "M012"),
    ("signature.params.dim.dtype", "float16", "M012"),
    ("composition", {"kind": "mixed", "stages": [{"name": "a", "op": "B"}]}, "M012"),
    ("composition", {"kind": "composite", "stages": []}, "M010"),
    ("signature.shape_rules", "valid_axes(dim, 1)", "M012"),
    ("signature.forall.class", "Dim", "M013"),
    ("signature.forall.out", "Dim", "M013"),
    ("signature.forall.label", "Dim", "M013"),
    ("signature.params.some", {"type": "int", "default": 1}, "M013"),
    ("signature.params.target", {"type": "int", "default": 1}, "M013"),
    ("signature.let.float16", "N + 1", "M013"),
    ("signature.let.bool", "N + 1", "M013"),
    ("signature.let.\u212a", "N + 1", "M013"),
    ("workloads.0.label", "two words", "M013"),
    ("signature.let.N", "3", "M014"),
    ("composition", {"kind": "composite", "stages": [{"name": "a", "op": "B"}, {"name": "a", "op": "C"}]}, "M014"),
    ("signature.let.L", "N ** 2", "M020"),
    ("signature.let.L", "N / 2", "M020"),
    ("signature.let.L", "\uff2e + 1", "M020"),
    ("signature.let.L", "__import__('os').system('true')", "M020"),
    ("signature.let.L", "lambda: 1", "M020"),
    ("signature.shape_rules.0", "scale is None", "M020"),
    ("signature.inputs.ids.values", "3", "M020"),
    ("signature.let.L", "Q + 1", "M021"),
    ("signature.let.L", "power(N, 2)", "M021"),
    ("signature.shape_rules.0", "x == 1", "M021"),
    ("signature.shape_rules.0", "bytes(x) > 1", "M021"),
    ("signature.let.L", "N + flip", "M022"),
    ("signature.shape_rules.0", "N + 1", "M022"),
    ("signature.shape_rules.0", "T == 'int32'", "M022"),
    ("signature.shape_rules.0", "T in ('float16', 'int32')", "M022"),
    ("signature.shape_rules.0", "N == 3.5", "M022"),
    ("signature.shape_rules.0", "present(x)", "M027"),
    ("signature.shape_rules.0", "all(x > 0 for x in B)", "M021"),
    ("signature.shape_rules.0", "all(_len > 0 for _len in B)", "M021"),
    ("signature.shape_rules.0", "all(inf > 0 for inf in B)", "M021"),
    ("signature.shape_rules.0", "T not in ('float16', 'float32')", "M027"),
    ("signature.inputs.x.dtype", "N", "M022"),
    ("signature.inputs.state.mutated", "N", "M022"),
    ("signature.inputs.ids.values", "topk_ids(4, 2)", "M022"),
    ("signature.forall.B", "Tensor", "M023"),
    ("signature.params.flip.type", "int |", "M023"),
    ("signature.params.dim.type", "integer | None", "M023"),
    ("signature.params.dim.type", "int | int | None", "M023"),
    ("signature.params.dim.type", "list[torch.Generator] | None", "M023"),
    ("signature.params.generator", {"type": "torch.Generator", "kw_only": True}, "M012"),
    ("signature.params.weight", {"type": "torch.Tensor | None", "default": None}, "M012"),
    ("signature.params.pair", {"type": "tuple[int, str]", "default": ["a", 1]}, "M012"),
    ("signature.params.generator", {"type": "torch.Generator | None", "default": 5}, "M012"),
    ("signature.forall.T", "DType[float16 | half]", "M024"),
    ("signature.shape_rules.0", "dim.value == 1", "M025"),
    ("signature.outputs.y.dtype", "dtype", "M025"),
    ("signature.shape_rules.0", "N == prod(B)", "M026"),
    ("signature.shape_rules.0", "False", "M027"),
    ("signature.shape_rules.0", "flip or not flip", "M027"),
    ("signature.shape_rules", ["N > 1", "N > 1"], "M027"),
    ("signature.shape_rules", ["flip", "not flip"], "M027"),
    ("signature.let.L", "N // (0 if flip else 1)", "M028"),
    ("signature.let.L", "ceil_div(N, 0 if flip else 2)", "M028"),
    ("signature.inputs.x.shape", "[*B, 2 * N + (log2_floor(0) if flip else 0)]", "M022"),
    ("signature.outputs.y.dtype", "promote_types(coalesce_dtype(dtype, T), float8_e5m2 if flip else T)", "M028"),
    ("signature.inputs.state.shape", "Triple[flip, N, 3]", "M030"),
    ("signature.inputs.state.shape", "Pair[flip, N]", "M030"),
    ("signature.inputs.state.shape", "[N, 3]", "M030"),
    ("signature.inputs.state.shape", "[Pair[flip, N, 3]]", "M020"),
    ("signature.types.Pair.match", ["swap", "swap"], "M030"),
    ("signature.types.Pair.match", ["present(scale)"], "M030"),
    ("signature.types.Pair.cases", {}, "M010"),
    ("signature.types.Pair.cases", {False: "[P, Q]"}, "M031"),
    ("signature.forall.Z", "Dim", "M040"),
    ("signature.let.L", "L + 1", "M041"),
    ("signature.inputs.x.write_only", True, "M050"),
    (
        "signature.inputs.state",
        {"dtype": "float32", "shape": "Pair[flip, N, 3]", "mutated": False, "write_only": True},
        "M050",
    ),
    ("signature.inputs.state.mutated", "flip and not flip", "M050"),
    ("signature.inputs.state.mutated", "True", "M050"),
    ("signature.inputs.state.mutated", "False", "M050"),
    ("signature.outputs.y.alias", "z", "M050"),
    ("signature.outputs.y.alias", "x", "M050"),
    ("signature.outputs.y.alias", "state", "M050"),
    ("signature.inputs.x.requires", ["in_range(0, 3)"], "M051"),
    ("signature.inputs.ids.dtype", "T", "M051"),
    ("signature.inputs.scale.optional", "N > 3", "M052"),
    ("signature.inputs.scale.optional", "True", "M052"),
    ("signature.outputs.y.nullable", "flip and not flip", "M052"),
    ("signature.inputs.state.mutated", "N > 3", "M052"),
    ("signature.outputs.y.nullable", "N > 3", "M052"),
    ("signature.inputs.scale.optional", "present(scale)", "M041"),
    ("signature.forall.unread", "Seq[Int]", "M040"),
    ("signature.outputs.y.shape", "[*dim.value]", "M025"),
    ("signature.dtype_combos", [], "M010"),
    ("signature.dtype_combos", [{}], "M053"),
    ("signature.dtype_combos", [{"T": "float16"}, {"T": "float32"}, {"T": "float16"}], "M053"),
    ("signature.dtype_combos", [{"N": "float16"}], "M053"),
    ("signature.dtype_combos", [{"T": "int8"}], "M053"),
    ("workloads.0.N", None, "M060"),
    ("workloads.0.N", -1, "M060"),
    ("workloads.0.L", 4, "M060"),
    ("workloads.0.dim", 7, "M060"),
    ("workloads.1.some", ["x"], "M060"),
    ("workloads.0.dtype_cases", [{"T": "int8"}], "M060"),
    ("workloads.0.dtype_cases", [{}], "M060"),
    ("workloads.0.dtype_cases", [{"T": "float16"}, {"T": "float16"}], "M061"),
    ("workloads.1.some", [], "M063"),
    ("signature.inputs.ids.requires", ["in_range(0, 8 if flip else 2)"], "M064"),
    (
        "signature.inputs.ids",
        {"dtype": "int8", "shape": "[4]", "values": "as_tensor(repeat(128 if flip else 0, 4))"},
        "M065",
    ),
    ("composition", {"kind": "composite", "stages": [{"name": "a", "op": "B", "kernel": "c"}]}, "M070"),
    ("composition", {"kind": "composite", "stages": [{"name": "a"}]}, "M070"),
    ("roofline", None, "R001"),
    ("roofline", {"flops": "1", "func": "a.b"}, "R001"),
    ("roofline", {"bytes": "1"}, "R001"),
    ("roofline.traffic", "1", "R001"),
    ("roofline.flops", "", "R002"),
    ("roofline.flops", 7, "R002"),
    ("roofline.flops", "N ** 2", "R010"),
    ("roofline.flops", "f'{N}'", "R010"),
    ("roofline.flops", "N * M", "R011"),
    ("roofline.flops", "x * 2", "R011"),
    ("roofline.flops", "flip", "R012"),
    ("roofline.bytes", "bytes(x) + bytes(scale)", "R013"),
    ("roofline", {"func": "not a path"}, "R020"),
    ("roofline", {"func": "os.system"}, "R020"),
    ("roofline", {"func": "acme.class.price"}, "R020"),
    ("roofline", {"func": "acme.formulas._price"}, "R020"),
    ("roofline", {"func": "acme.__formulas.price"}, "R020"),
    ("roofline", {"func": "_thread.price"}, "R020"),
    ("roofline", {"func": "acme._formulas.class.price"}, "R020"),
    ("roofline", {"func": "tileops.ops.checks.price"}, "R020"),
    ("roofline", {"func": "acme.\u0440rices.f"}, "R020"),
]


def test_the_valid_entry_is_clean():
    assert check(VALID)[2] == []


@pytest.mark.parametrize(("path", "value", "code"), SINGLE_FAULTS, ids=[f"{c}-{p}" for p, _, c in SINGLE_FAULTS])
def test_a_single_fault_yields_exactly_its_code(path, value, code):
    entry = variant(path) if value is None else variant(path, value)
    assert codes(entry) == [code]


_STATE = {"dtype": "float32", "shape": "[N]"}


@pytest.mark.parametrize(
    "effects",
    [
        {
            "inputs": {"state": {**_STATE, "mutated": True}},
            "outputs": {"y": {**_STATE, "alias": "state", "buffer": "out"}},
        },
        {
            "inputs": {"state": {**_STATE, "mutated": True}},
            "outputs": {"y": {**_STATE, "alias": "state"}, "z": {**_STATE, "alias": "state"}},
        },
        {"inputs": {"state": {**_STATE, "mutated": False}}, "outputs": {"y": {**_STATE, "alias": "state"}}},
        {"inputs": {"state": {**_STATE, "mutated": "False"}}, "outputs": {"y": {**_STATE, "alias": "state"}}},
    ],
    ids=["alias-and-buffer", "alias-twice", "alias-of-the-unwritten", "alias-of-the-never-written"],
)
def test_an_output_is_one_input_that_is_written_and_nothing_else(effects):
    entry = {
        "family": "demo",
        "status": "spec-only",
        "signature": {"forall": {"N": "Dim"}, **effects},
        "workloads": [{"label": "a", "N": 5}],
        "roofline": {"flops": "N"},
    }
    assert codes(entry) == ["M050"]


@pytest.mark.parametrize("kind", ["float", "Number", "str"])
@pytest.mark.parametrize("place", ["shape", "dtype", "let"])
def test_what_takes_no_part_in_types_decides_none(kind, place):
    entry = variant("signature.params.p", {"type": kind, "default": "a" if kind == "str" else 1.5})
    test = "p == 'a'" if kind == "str" else "p > 1"
    entry["signature"]["shape_rules"].append(test)
    entry["roofline"]["flops"] = f"N if {test} else 2 * N"
    assert codes(entry) == []
    path, value = {
        "shape": ("outputs", f"[*B, N if {test} else 1]"),
        "dtype": ("outputs", f"float16 if {test} else T"),
        "let": ("let", f"N + 1 if {test} else 2"),
    }[place]
    if place == "let":
        entry["signature"]["let"]["L"] = value
    else:
        entry["signature"][path]["y"][place] = value
        entry["signature"]["let"].clear()
        entry["signature"]["outputs"]["y"].setdefault("shape", "[N]")
        if place == "dtype":
            entry["signature"]["outputs"]["y"]["shape"] = "[N]"
            entry["signature"]["params"].pop("dtype")
    assert codes(entry) == ["M022"]


def test_a_bad_op_name_is_M013():
    assert codes(VALID, "scale_op") == ["M013"]


def test_a_diagnostic_names_file_line_op_and_field():
    text = yaml.safe_dump({OP: variant("signature.let.L", "Q + 1")}, sort_keys=False)
    line = next(number for number, content in enumerate(text.splitlines(), 1) if "Q + 1" in content)
    (found,) = check(variant("signature.let.L", "Q + 1"))[2]
    assert str(found).startswith(f"demo.yaml:{line}: {OP}: signature.let.L: unknown name 'Q'; allowed are ")
    assert str(found).endswith("[M021]")


def test_defects_accumulate_in_file_order():
    entry = variant("status", "done")
    entry["signature"]["let"]["L"] = "Q"
    entry["roofline"]["flops"] = "N ** 2"
    found = check(entry)[2]
    assert [one.code for one in found] == ["M012", "M021", "R010"]
    assert [one.line for one in found] == sorted(one.line for one in found)


def test_a_malformed_signature_leaves_the_formula_unreached_and_says_why():
    _, analysis, found = check(variant("signature.params.flip.type", "int |"))
    assert [one.code for one in found] == ["M023"]
    assert not analysis.emittable
    assert "signature.params.flip.type" in analysis.unreached[0]


def test_points_are_bounded():
    entry = variant()
    flags = {f"p{number}": {"type": "bool", "default": False} for number in range(40)}
    entry["signature"]["params"].update(flags)
    entry["signature"]["outputs"]["y"]["shape"] = f"[1 if {' and '.join(flags)} else 2]"
    assert "M042" in codes(entry)


def _load(tmp_path, **files):
    for name, text in files.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    return loader.load(loader.spec_files(str(tmp_path)))


def test_an_op_in_two_files_is_M015(tmp_path):
    text = yaml.safe_dump({OP: VALID}, sort_keys=False)
    found = list(_load(tmp_path, demo=text, demo_more=text).diagnostics)
    assert [one.code for one in found] == ["M015"]


def test_a_family_in_another_file_is_M016(tmp_path):
    found = list(_load(tmp_path, other=yaml.safe_dump({OP: VALID}, sort_keys=False)).diagnostics)
    assert [one.code for one in found] == ["M016"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"a: [1, 2", "M001"),
        (b"", "M001"),
        (b"\xff\xfe\x00", "M001"),
        (b"a: !!python/object:os.system x", "M005"),
        (b"a: 1\na: 2", "M002"),
        (b"a: &a [*a]", "M003"),
        (b"a: " + b"[" * 100 + b"]" * 100, "M003"),
    ],
)
def test_bytes_that_are_no_plain_yaml_give_diagnostics(text, code):
    diagnostics = Diagnostics()
    source.parse(text, "x.yaml", diagnostics)
    assert [one.code for one in diagnostics] == ([] if code is None else [code])


def test_a_billion_laughs_are_refused():
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    diagnostics = Diagnostics()
    source.parse("\n".join(levels).encode(), "x.yaml", diagnostics)
    assert [one.code for one in diagnostics] == ["M003"]


def test_every_code_but_the_unreachable_ones_has_a_minimal_entry():
    tested = {code for *_, code in SINGLE_FAULTS} | {"M001", "M002", "M003", "M005", "M015", "M016", "M042"}
    # M062 guards the validator itself (a row's own tensors always infer back); R021 imports and is tested in codegen.
    assert set(CODES) - tested == {"M004", "M062", "R021"}


def test_an_expression_in_match_is_refused_with_where_to_write_it():
    found = check(variant("signature.types.Pair.match", ["present(scale)"]))[2]
    assert [one.code for one in found] == ["M030"]
    assert "`match` takes names, so write an expression as an argument of the family" in found[0].message
