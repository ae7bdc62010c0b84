"""A valid entry as plain data, and ways to make variants of it and see what is said of them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import yaml

from tileops.codegen.analysis import Analysis, analyse
from tileops.manifest.check import Checked, check_entry
from tileops.manifest.diagnostics import Diagnostic, Diagnostics
from tileops.manifest.language.kinds import Adt
from tileops.manifest.model import Entry
from tileops.manifest.reading import source
from tileops.manifest.reading.parse import parse_entry

OP = "ScaleFwdOp"
VALID: dict[str, Any] = {
    "family": "demo",
    "status": "implemented",
    "ref_api": "torch.mul",
    "signature": {
        "forall": {"B": "Shape", "N": "Dim", "T": "DType[float16 | float32]"},
        "params": {
            "flip": {"type": "bool", "default": False},
            "dim": {"type": "int | list[int] | None", "default": None},
            "dtype": {"type": "float16 | float32 | None", "default": None, "kw_only": True},
        },
        "inputs": {
            "x": {"dtype": "T", "shape": "[*B, 2 * N]"},
            "state": {"dtype": "float32", "shape": "Pair[flip, N, 3]", "mutated": "flip"},
            "ids": {"dtype": "int32", "shape": "[4, 2]", "values": "topk_ids(4, 2, 8)", "requires": ["in_range(0, 8)"]},
            "scale": {"dtype": "T", "shape": "[N]", "optional": True},
        },
        "outputs": {"y": {"dtype": "coalesce_dtype(dtype, T)", "shape": "[*reduced(B, dim, False, 'full'), L]"}},
        "types": {
            "Pair": {
                "params": {"swap": "Bool", "P": "Dim", "Q": "Dim"},
                "match": ["swap"],
                "cases": {False: "[P, Q]", True: "[Q, P]"},
            }
        },
        "let": {"L": "N + 1"},
        "shape_rules": ["valid_axes(dim, len(B))"],
    },
    "workloads": [
        {"label": "plain", "B": [5], "N": 3, "dtype_cases": [{"T": "float16"}, {"T": "float32"}]},
        {"label": "scaled", "B": [], "N": 3, "flip": True, "some": ["scale"], "dtype_cases": [{"T": "float16"}]},
    ],
    "roofline": {"flops": "prod(B) * N * (2 if present(scale) else 1)"},
}

_ABSENT = object()


def variant(path: str = "", value: Any = _ABSENT) -> dict[str, Any]:
    """The valid entry with the field at a dotted path set to `value`, or removed where there is none."""
    entry = copy.deepcopy(VALID)
    if path:
        *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        place = entry
        for part in parents:
            place = place[part]
        if value is _ABSENT:
            del place[last]
        else:
            place[last] = value
    return entry


def small(**parts: Any) -> dict[str, Any]:
    """A small sound entry with sections of its signature, its rows or its roofline replaced."""
    made = {
        "family": "demo",
        "status": "spec-only",
        "signature": {
            "forall": {"N": "Dim"},
            "inputs": {"x": {"dtype": "float32", "shape": "[N]"}},
            "outputs": {"y": {"dtype": "float32", "shape": "[N]"}},
        },
        "workloads": [{"label": "row", "N": 1000}],
        "roofline": {"flops": "N"},
    }
    for name, part in parts.items():
        if name in ("workloads", "roofline"):
            made[name] = part
        else:
            made["signature"][name] = part
    return made


def check(
    entry: Any, op: str = OP, adts: Mapping[str, Adt] = MappingProxyType({})
) -> tuple[Checked, Analysis, list[Diagnostic]]:
    """Check and analyse one entry given as plain data; `adts` are the algebraic types that it may name."""
    return check_text(yaml.safe_dump({op: entry}, sort_keys=False), adts)


def parsed(entry: Any, op: str = OP, adts: Mapping[str, Adt] = MappingProxyType({})) -> Entry:
    """One entry given as plain data, as the parser reads it."""
    return _read(yaml.safe_dump({op: entry}, sort_keys=False), adts, Diagnostics())


def _read(text: str, adts: Mapping[str, Adt], diagnostics: Diagnostics) -> Entry:
    root = source.parse(text.encode(), "demo.yaml", diagnostics)
    (op, node), *_ = root.entries.items()
    return parse_entry(op, node, root.key_lines[op], "demo.yaml", diagnostics, adts)


def check_text(text: str, adts: Mapping[str, Adt] = MappingProxyType({})) -> tuple[Checked, Analysis, list[Diagnostic]]:
    """Check and analyse the first entry of a YAML document."""
    diagnostics = Diagnostics()
    entry = _read(text, adts, diagnostics)
    checked = check_entry(entry, diagnostics)
    analysis = analyse(entry, diagnostics, checked)
    return checked, analysis, list(diagnostics)


def codes(entry: Any, op: str = OP) -> list[str]:
    """The codes said of an entry, in order."""
    return [found.code for found in check(entry, op)[2]]
