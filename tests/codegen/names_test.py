"""Names of an entry hide nothing of the generated code, whatever they are: such entries are emitted, run and priced."""

from __future__ import annotations

import dataclasses
import enum
import pickle
import re
import sys
import types

import pytest
import torch

from tileops.ops import workloads
from tileops.ops.algebraic import Algebraic
from tileops.ops.errors import OpConstructionError
from tileops.tests.codegen.emitted import build

# What generated code calls or once called, Python's own functions, and what stands for something in its base class.
_NAMES = (
    "len",
    "abs",
    "all",
    "isinstance",
    "locals",
    "super",
    "type",
    "str",
    "int",
    "float",
    "tuple",
    "list",
    "dict",
    "print",
    "object",
    "ValueError",
    "ArithmeticError",
    "IndexError",
    "Exception",
    "Op",
    "TensorCase",
    "WorkloadCase",
    "Generated",
    "CheckedCall",
    "TensorRecord",
    "checks",
    "primitives",
    "math",
    "torch",
    "call",
    "device",
    "inputs",
    "outputs",
    "metadata",
    "buffers",
    "holds",
    "error",
    "flops",
    "nbytes",
    "bytes",
    "read",
    "written",
    "params",
    "constants",
    "forward",
    "check",
    "tileops",
    "builtins",
    "x_shape",
    "x_dtype",
    "y_out",
    "cls",
    "args",
    "kwargs",
    "name",
    "op",
    "prod",
    "present",
    "case_id",
    "indices",
    "CASES",
    "ENTRY",
    "annotations",
)


def _entry():
    """An entry with every sort of name, each read wherever code is generated for it."""
    return {
        "family": "demo",
        "status": "spec-only",
        "signature": {
            "forall": {"A": "Shape", "N": "Dim", "T": "DType[float16 | float32]"},
            "params": {
                "flag": {"type": "bool", "default": False},
                "size": {"type": "int | None", "default": None},
                "dims": {"type": "list[int]", "default": [1, 2]},
                "scale": {"type": "float", "default": float("inf")},
            },
            "inputs": {
                "x": {"dtype": "T", "shape": "[*A, 2 * N]"},
                "ids": {"dtype": "int32", "shape": "[4, 2]", "values": "topk_ids(4, 2, 8)"},
                "w": {"dtype": "T", "shape": "[ceil_div(N, abs(k))]", "optional": True},
            },
            "outputs": {
                "y": {"dtype": "T", "shape": "[*reduced(A, -1, flag, 'full'), N]", "buffer": "out"},
                "z": {"dtype": "T", "shape": "[k]", "buffer": "out"},
            },
            "let": {"k": "N + (size.value if present(size) else len(dims))"},
            "shape_rules": ["all(item > 0 for item in dims)", "scale == inf or scale < 3", "ceil_div(N, len(A)) > 0"],
        },
        "workloads": [
            {"label": "plain", "A": [3, 2], "N": 4, "dtype_cases": [{"T": "float16"}]},
            {
                "label": "all",
                "A": [3],
                "N": 4,
                "size": 2,
                "flag": True,
                "some": ["w"],
                "dtype_cases": [{"T": "float32"}],
            },
        ],
        "roofline": {
            "flops": "prod(A) * N * (2 if flag else 1) + (k if present(w) else 0)"
            " + (size.value if present(size) else 0)"
            " + (2 if scale == inf else 0)"
        },
    }


_PLACES = ("A", "N", "T", "flag", "size", "dims", "scale", "x", "ids", "w", "y", "z", "k", "item")


def _renamed(value, names):
    """Plain data with each identifier replaced by what `names` has for it; calls stay what they are."""
    if isinstance(value, dict):
        return {_renamed(key, names): _renamed(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_renamed(item, names) for item in value]
    if isinstance(value, str):
        return re.sub(r"(?<![\w'.])[A-Za-z]\w*(?![\w'(])", lambda found: names.get(found[0], found[0]), value)
    return value


def _facts(op_class):
    """What the rows of an op bind and cost, names left out."""
    found = []
    for case in op_class.CASES:
        op = workloads.construct(op_class, case, device="meta")
        op(**workloads.build_inputs(op_class, case, "meta"))
        call = op.last_call
        found.append((list(call.params.values()), list(call.indices.values()), list(call.tensors.values())))
        found.append((op.eval_roofline(), op.eval_roofline_read_bytes()))
    return found


def test_a_name_of_an_entry_hides_nothing_of_the_generated_code(tmp_path):
    """Every name in every place once: entry number n puts the names from n on into the places."""
    entries, given = {"PlainFwdOp": _entry()}, {}
    for first in range(len(_NAMES)):
        names = {place: _NAMES[(first + at) % len(_NAMES)] for at, place in enumerate(_PLACES)}
        given[f"N{first}FwdOp"] = names
        entries[f"N{first}FwdOp"] = _renamed(_entry(), names)
    ops = build(tmp_path, entries)
    wanted = _facts(ops["PlainFwdOp"])
    assert wanted[1][0] == (6 * 4 + 2, 2 * (6 * 8 + 3 * 4 + 6) + 4 * 8)
    assert wanted[3][0][0] == 3 * 4 * 2 + 6 + 2 + 2  # a parameter that is there, as a tensor that is
    for op, names in given.items():
        assert _facts(ops[op]) == wanted, names


def test_an_input_may_be_called_target(tmp_path):
    ops = build(tmp_path, {"LossFwdOp": _renamed(_entry(), {"x": "target"})})
    assert _facts(ops["LossFwdOp"])


_TYPES = """
Left:
  constructors:
    Op: {class: alpha.shapes.Op, fields: {size: int}}
    TensorCase: {class: alpha.shapes.TensorCase}
Right:
  constructors:
    Op: {class: beta.shapes.Op, fields: {width: int}}
    checks: {class: beta.shapes.checks}
"""


@pytest.fixture
def shapes(monkeypatch):
    """Two outside modules of the same last name, with classes of the same names."""
    for package, classes in {
        "alpha": (("Op", ["size"]), ("TensorCase", [])),
        "beta": (("Op", ["width"]), ("checks", [])),
    }.items():
        module = types.ModuleType(f"{package}.shapes")
        for name, fields in classes:
            setattr(module, name, dataclasses.make_dataclass(name, fields, frozen=True))
        module.price = lambda call, package=package: (len(package), 0)
        outer = types.ModuleType(package)
        outer.shapes = module
        monkeypatch.setitem(sys.modules, package, outer)
        monkeypatch.setitem(sys.modules, f"{package}.shapes", module)
    return sys.modules["alpha.shapes"], sys.modules["beta.shapes"]


def _algebraic(**changed):
    return {
        "family": "demo",
        "status": "spec-only",
        "signature": {
            "forall": {"N": "Dim"},
            "params": {
                "Op": {"type": "Left", "default": {"Op": {"size": 3}}},
                "checks": {"type": "Right | None", "default": None},
            },
            "inputs": {"x": {"dtype": "float32", "shape": "[N]"}},
            "outputs": {"y": {"dtype": "float32", "shape": "[N + (Op.size if Op.kind == 'Op' else 0)]"}},
            "shape_rules": ["Op.size >= 0 if Op.kind == 'Op' else True"],
        },
        "workloads": [
            {"label": "a", "N": 4, "Op": {"TensorCase": {}}, "checks": {"Op": {"width": 2}}},
            {"label": "b", "N": 4},
        ],
        "roofline": {"flops": "N * (2 if Op.kind == 'Op' else 1)"},
        **changed,
    }


def test_two_algebraic_types_may_share_a_constructors_name_and_a_helpers(tmp_path, shapes):
    alpha, beta = shapes
    first, second = _algebraic(), _algebraic(roofline={"func": "beta.shapes.price"})
    ops = build(
        tmp_path,
        {"OneFwdOp": first, "TwoFwdOp": second, "ThreeFwdOp": _algebraic(roofline={"func": "alpha.shapes.price"})},
        _TYPES,
    )
    one = ops["OneFwdOp"]
    assert one.CASES[0].params == {"Op": Algebraic("TensorCase"), "checks": Algebraic("Op", width=2)}
    assert [prices for _, prices in zip(*[iter(_facts(one))] * 2, strict=True)] == [((4, 32), 16), ((8, 44), 16)]
    assert one().params["Op"] == one(alpha.Op(3), beta.Op(2)).params["Op"] == Algebraic("Op", size=3)
    with pytest.raises(OpConstructionError, match="'Op' is declared Left"):
        one(Op=beta.Op(2))
    for op, wanted in (("TwoFwdOp", 4), ("ThreeFwdOp", 5)):
        x = torch.empty(4, device="meta")
        instance = ops[op]()
        instance(x)
        assert instance.eval_roofline() == (wanted, 0)


def test_a_subclass_of_a_constructor_is_no_value_of_the_sealed_type(tmp_path, shapes):
    ops = build(tmp_path, {"OneFwdOp": _algebraic()}, _TYPES)
    mine = type("Mine", (shapes[0].Op,), {})
    with pytest.raises(OpConstructionError, match="'Op' is declared Left"):
        ops["OneFwdOp"](Op=mine(3))


_BLOCKS = """
Layout:
  constructors:
    Nopad: {class: alpha.shapes.Nopad}
    Padded:
      class: alpha.shapes.Padded
      fields: {block: int, order: "'row' | 'column'", sizes: "list[int]", limit: "int | None"}
      invariant: "block > 0 and 64 % block == 0 and all(size > 0 for size in sizes)
        and (limit.value > block if present(limit) else True)"
"""


@pytest.fixture
def padded(monkeypatch):
    module, outer = types.ModuleType("alpha.shapes"), types.ModuleType("alpha")
    module.Nopad = dataclasses.make_dataclass("Nopad", [], frozen=True)
    module.Padded = dataclasses.make_dataclass(
        "Padded", ["block", "order", "sizes", ("limit", object, None)], frozen=True
    )
    outer.shapes = module
    monkeypatch.setitem(sys.modules, "alpha", outer)
    monkeypatch.setitem(sys.modules, "alpha.shapes", module)
    return module.Padded


def _laid(default):
    entry = _algebraic()
    entry["signature"]["params"] = {"layout": {"type": "Layout | None", "default": default}}
    entry["signature"]["outputs"]["y"]["shape"] = "[N]"
    entry["signature"].pop("shape_rules")
    return {**entry, "workloads": [{"label": "b", "N": 4}], "roofline": {"flops": "N"}}


def test_the_fields_of_an_algebraic_value_are_of_their_types_and_fulfil_the_invariant_at_construction(tmp_path, padded):
    op = build(tmp_path, {"OneFwdOp": _laid(None)}, _BLOCKS)["OneFwdOp"]
    for fine in (padded(16, "row", (1, 2)), padded(1, "column", (), 2)):
        assert op(fine).params["layout"] == Algebraic("Padded", **vars(fine))
    assert op(None).params["layout"] is None
    for wrong in (
        padded("16", "row", []),
        padded(True, "row", []),
        padded(16, "diagonal", []),
        padded(16, "row", 3),
        padded(16, "row", ["a"]),
        padded(16, "row", [], "a"),
        padded(0, "row", []),
        padded(-16, "row", []),
        padded(48, "row", []),
        padded(16, "row", [0]),
        padded(16, "row", [], 16),
    ):
        with pytest.raises(
            OpConstructionError, match="'layout' is declared Layout . None, {Padded: {block: Int, .* where block > 0"
        ):
            op(wrong)


_FOLDS = """
adts:
  Fold:
    sum:
      flat: {python: gamma._t.Flat}
      tiled:
        python: gamma._t._Tile
        fields: {edge: Dim, shift: Int, wide: Bool, side: "'up' | 'down'", order: {type: "'row' | 'column'", python: gamma._t.Order}}
        invariant: "edge > 1"
"""


def _folded():
    entry = _algebraic()
    entry["signature"]["params"] = {"fold": {"type": "Fold | None", "default": {"flat": {}}}}
    entry["signature"]["outputs"]["y"]["shape"] = "[N]"
    entry["signature"].pop("shape_rules")
    tiled = {"edge": 4, "shift": -1, "wide": True, "side": "up", "order": "column"}
    rows = [{"label": "tiled", "N": 4, "fold": {"tiled": tiled}}, {"label": "none", "N": 4, "fold": None}]
    price = "N * (fold.edge if present(fold) and fold.kind == 'tiled' and fold.order == 'column' else 1)"
    return {**entry, "workloads": [*rows, {"label": "flat", "N": 4}], "roofline": {"flops": price}}


def _price(op_class, *args):
    op = op_class(*args)
    op(torch.empty(4, device="meta"))
    return op.eval_roofline()[0]


def test_no_class_is_imported_to_price_and_one_that_is_missing_is_named_when_an_object_is_passed(tmp_path):
    for text, entry, value in ((_FOLDS, _folded(), "flat"), (_BLOCKS, _laid({"Nopad": {}}), "Nopad")):
        (tmp_path / value).mkdir()
        op_class = build(tmp_path / value, {"OneFwdOp": entry}, text)["OneFwdOp"]
        assert [_price(op_class, *case.params.values()) for case in op_class.CASES][-1] == 4
        given = types.SimpleNamespace(kind=value)
        with pytest.raises(
            OpConstructionError, match=r"was passed, and (gamma|alpha)\..* cannot be imported: ModuleNotFound"
        ):
            op_class(given)
        with pytest.raises(OpConstructionError, match="is declared"):
            op_class(value)


def test_a_sum_reads_the_constructor_by_kind_and_words_by_value(tmp_path, monkeypatch):
    module, outer = types.ModuleType("gamma._t"), types.ModuleType("gamma")
    order = enum.Enum("Order", {"ROW": "row", "COLUMN": "column"})
    other = enum.Enum("Other", {"COLUMN": "column"})
    made = [("kind", str, dataclasses.field(default="tiled", kw_only=True))]
    tile = dataclasses.make_dataclass("_Tile", ["edge", "shift", "wide", "side", "order", *made], frozen=True)
    module.Order, module._Tile, module.Flat = order, tile, dataclasses.make_dataclass("Flat", [("kind", str, "flat")])
    monkeypatch.setitem(sys.modules, "gamma", outer)
    monkeypatch.setitem(sys.modules, "gamma._t", module)
    op_class = build(tmp_path, {"OneFwdOp": _folded()}, _FOLDS)["OneFwdOp"]
    assert [_price(op_class, *case.params.values()) for case in op_class.CASES] == [16, 4, 4]
    assert _price(op_class, tile(4, -1, True, "up", order.COLUMN)) == 16
    assert _price(op_class, tile(4, -1, True, "up", order.ROW)) == _price(op_class, module.Flat()) == 4
    row = op_class.CASES[0].params["fold"]
    assert op_class(tile(4, -1, True, "up", order.COLUMN)).params["fold"] == row and row.order == "column"
    assert pickle.loads(pickle.dumps(row)) == row and str(row).startswith("tiled(edge=4, shift=-1, ")
    for wrong in (
        tile(4, -1, True, "up", other.COLUMN),
        tile(1, -1, True, "up", order.ROW),
        tile(-4, -1, True, "up", order.ROW),
        tile(4, True, True, "up", order.ROW),
        tile(4, -1, 1, "up", order.ROW),
        tile(4, -1, True, "left", order.ROW),
        tile(4, -1, True, "up", order.ROW, kind="flat"),
        tile(4, -1, True, "up", order.ROW, kind="other"),
        type("Mine", (tile,), {})(4, -1, True, "up", order.ROW),
    ):
        with pytest.raises(OpConstructionError, match="'fold' is declared Fold"):
            op_class(wrong)
    with pytest.raises(AttributeError, match="cannot change"):
        row.edge = 5


@pytest.mark.parametrize("fields", [{"block": 0}, {"block": 48}, {"limit": 8}, {"order": "diagonal"}, {"sizes": [0]}])
def test_a_literal_that_breaks_the_invariant_is_no_value_of_the_type(tmp_path, fields):
    whole = {"block": 16, "order": "row", "sizes": [], "limit": None}
    with pytest.raises(AssertionError, match=r"is no Layout . None; write \{Padded: .* \[M012\]"):
        build(tmp_path, {"OneFwdOp": _laid({"Padded": {**whole, **fields}})}, _BLOCKS)
