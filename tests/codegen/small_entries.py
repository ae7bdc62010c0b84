"""Small entries as plain data, and what analysis and emission make of them: verdicts, sources, classes, prices."""

from __future__ import annotations

import types
from typing import Any

import torch
import yaml

from tileops.codegen import pipeline
from tileops.codegen.analysis import Analysis, analyse
from tileops.manifest.check import Checked, check_entry
from tileops.manifest.diagnostics import Diagnostic, Diagnostics
from tileops.manifest.reading import source
from tileops.manifest.reading.parse import parse_entry
from tileops.ops.op import Op

OP = "DemoFwdOp"


def demo(roofline: Any = None, rows: Any = None, status: str = "implemented", **signature: Any) -> dict[str, Any]:
    """y = f(x) over x [M, N] of dtype T, with parts of the signature replaced.

    Args:
      roofline: the block; {"flops": "M * N"} by default.
      rows: the workload rows; one of 3 by 5 by default.
      status: as in the manifest.
      **signature: sections of the signature; a section that is given replaces the whole one.
    """
    return {
        "family": "demo",
        "status": status,
        "signature": {
            "forall": {"M": "Dim", "N": "Dim", "T": "DType[float16 | float32]"},
            "inputs": {"x": {"dtype": "T", "shape": "[M, N]"}},
            "outputs": {"y": {"dtype": "T", "shape": "[M, N]"}},
            **signature,
        },
        "workloads": rows or [{"label": "row", "M": 3, "N": 5, "dtype_cases": [{"T": "float16"}]}],
        "roofline": {"flops": "M * N"} if roofline is None else roofline,
    }


def text_of(*entries: dict[str, Any], names: tuple[str, ...] = (OP,)) -> str:
    """A spec file with the entries, in this order."""
    return yaml.safe_dump(dict(zip(names, entries, strict=True)), sort_keys=False)


def analysed(text: str) -> tuple[dict[str, tuple[Checked, Analysis]], list[Diagnostic]]:
    """Every entry of a spec file's text, checked and analysed, and every defect."""
    diagnostics = Diagnostics()
    root = source.parse(text.encode(), "demo.yaml", diagnostics)
    found = {}
    for op, node in root.entries.items():
        entry = parse_entry(op, node, root.key_lines[op], "demo.yaml", diagnostics)
        checked = check_entry(entry, diagnostics)
        found[op] = checked, analyse(entry, diagnostics, checked)
    return found, list(diagnostics)


def verdict(entry: dict[str, Any]) -> tuple[Analysis, list[Diagnostic]]:
    """The analysis of one entry, and every defect of it."""
    found, defects = analysed(text_of(entry))
    return found[OP][1], defects


def module(text: str) -> types.ModuleType:
    """The generated module of a spec file's text, which must be clean."""
    found, defects = analysed(text)
    assert [str(one) for one in defects] == []
    made = types.ModuleType("tileops_generated_demo")
    exec(compile(pipeline.module_source("demo", list(found.values())), made.__name__, "exec"), vars(made))
    return made


def source_of(entry: dict[str, Any]) -> str:
    """The source of the generated module of one clean entry."""
    found, defects = analysed(text_of(entry))
    assert [str(one) for one in defects] == []
    return pipeline.module_source("demo", list(found.values()))


def op_class(entry: dict[str, Any]) -> type[Op]:
    """The generated class of one clean entry."""
    return getattr(module(text_of(entry)), OP)


def called(entry: dict[str, Any], *inputs: Any, **params: Any) -> Op:
    """The op of a clean entry after a call on meta with these inputs."""
    op = op_class(entry)(**params)
    op(*inputs)
    return op


def meta(*shape: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    """A tensor without storage."""
    return torch.empty(shape, dtype=dtype, device="meta")
