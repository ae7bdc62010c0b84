"""What //codegen:explain prints, whole, for an entry small enough to follow by hand."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from absl import app, flags
from absl.testing import flagsaver

from tileops.codegen import explain
from tileops.codegen.explain import explanation
from tileops.tests.codegen.small_entries import OP, analysed, demo, text_of

ENTRY = demo(
    {"flops": "prod(B) * N * (2 if present(w) else 1)"},
    forall={"B": "Shape", "N": "Dim", "T": "DType[float16 | float32]"},
    params={"inplace": {"type": "bool", "default": False}},
    inputs={
        "x": {"dtype": "T", "shape": "[*B, 2 * N]", "mutated": "inplace"},
        "w": {"dtype": "float32", "shape": "[N, L]", "optional": True},
    },
    outputs={"y": {"dtype": "T", "shape": "[*B, N]"}},
    let={"L": "N + 1"},
    rows=[
        {"label": "bare", "B": [4], "N": 2, "dtype_cases": [{"T": "float16"}]},
        {"label": "with", "B": [], "N": 2, "inplace": True, "some": ["w"], "dtype_cases": [{"T": "float16"}]},
    ],
)

EXPLAINED = """\
DemoFwdOp  (demo.yaml:1)

inference plan:
  T := dtype of x, one of float16, float32
  x has at least 1 axis, for [*B, 2 * N]
  B := the axes of x that no other term takes
  N := axis -1 of x, which is 2 * N
  dtype of w is float32
  w has 2 axes, for [N, L]
  axis 0 of w is N
  L := N + 1
  axis 1 of w is L

price:
  flops if present(w) = False: prod(B) * N
  flops if present(w) = True: prod(B) * N * 2
  bytes, from the signature if inplace = False: reads x, w if present; writes y
  bytes, from the signature if inplace = True: reads x, w if present; writes x, y
"""

PRICE = '''\
    def eval_roofline(self) -> tuple[int, int]:
        """(flops, bytes) of the last completed call: the algorithm's minimum."""
        _call = self.last_call
        inplace = _call.params["inplace"]
        B = _call.indices["B"]
        N = _call.indices["N"]
        # demo.yaml:44: flops
        if not _call.present("w"):
            _flops = _primitives.prod(B) * N
        else:
            _flops = _primitives.prod(B) * N * 2
        # bytes: from the signature; what is read once each, then what is written
        _read = _call.bytes_of("x", "w")
        if not inplace:
            _written = _call.bytes_of("y")
        else:
            _written = _call.bytes_of("x", "y")
        _read = _read if _written else 0  # what writes nothing reads nothing
        return _flops, _read + _written

    def eval_roofline_read_bytes(self) -> int:
        """Bytes of the last call's price that are reads."""
        _call = self.last_call
        inplace = _call.params["inplace"]
        _read = _call.bytes_of("x", "w")
        if not inplace:
            _written = _call.bytes_of("y")
        else:
            _written = _call.bytes_of("x", "y")
        _read = _read if _written else 0  # what writes nothing reads nothing
        return _read

    CASES = (...)  # 2 cases of its workload rows
'''


def explained() -> str:
    found, defects = analysed(text_of(ENTRY))
    assert [str(one) for one in defects] == []
    return "\n".join(explanation(*found[OP]))


def test_the_plan_and_the_price_are_told_in_order():
    assert explained().startswith(EXPLAINED)


def test_the_emitted_price_stands_last_and_is_plain_python():
    text = explained()
    assert text[text.index("    def eval_roofline(self)") :].rstrip() == PRICE.rstrip()


def test_each_part_of_the_checks_says_what_it_is_of():
    body = explained().partition("def check(")[2].partition("def eval_roofline")[0]
    comments = [line.strip() for line in body.splitlines() if line.strip().startswith("#")]
    line = text_of(ENTRY).splitlines().index("      L: N + 1") + 1
    assert comments == [
        "# x: T[*B, 2 * N]",
        "# w: float32[N, L]",
        f"# demo.yaml:{line}: let L",
        "# w: float32[N, L]",
        "# What this call binds, and what it promises to return.",
    ]


def test_a_tensor_that_is_absent_on_a_branch_is_not_said_to_be_charged_there():
    entry = demo(
        {"flops": "M"},
        params={"upd": {"type": "bool", "default": False}},
        inputs={
            "x": {"dtype": "T", "shape": "[M, N]"},
            "st": {"dtype": "T", "shape": "[M, N]", "optional": True, "mutated": "upd and present(st)"},
        },
        rows=[
            {"label": "some", "M": 3, "N": 5, "dtype_cases": [{"T": "float16"}]},
            {"label": "with", "M": 3, "N": 5, "upd": True, "some": ["st"], "dtype_cases": [{"T": "float16"}]},
        ],
    )
    checked, analysis = analysed(text_of(entry))[0][OP]
    lines = [line for line in explanation(checked, analysis) if "from the signature if" in line]
    charged = {line.partition(" if ")[2].partition(": ")[0]: line.partition(": ")[2] for line in lines}
    assert charged["upd = True, present(st) = True"] == "reads x, st; writes st, y"
    assert charged["upd = True, present(st) = False"] == "reads x; writes y"


def test_globs_choose_several_ops_and_an_unknown_one_is_bad_usage(tmp_path, capsys):
    texts = [text_of(ENTRY).replace("DemoFwdOp", name) for name in ("DemoFwdOp", "DemoBwdOp", "OtherFwdOp")]
    broken = texts[1].replace("status: ", "state: ")
    assert broken != texts[1]
    (tmp_path / "demo.yaml").write_text("".join([texts[0], broken, texts[2]]))

    def main(op: str) -> tuple[int, list[str], str]:
        with flagsaver.flagsaver():
            flags.FLAGS(["explain", f"--spec_dir={tmp_path}", f"--op={op}"])
            status = explain.main([])
        told = capsys.readouterr()
        return status, re.findall(r"^(\w+Op)  \(", told.out, re.MULTILINE), told.err

    assert main("*FwdOp") == (0, ["DemoFwdOp", "OtherFwdOp"], "")
    assert main("OtherFwdOp,DemoFwdOp")[:2] == (0, ["DemoFwdOp", "OtherFwdOp"])
    status, explained_ops, said = main("Demo*")
    assert (status, explained_ops) == (1, ["DemoFwdOp"]) and "DemoBwdOp" in said and "[M01" in said
    with pytest.raises(app.UsageError, match="--op=Nope\\* fits no op; there are: DemoBwdOp, DemoFwdOp, OtherFwdOp"):
        main("Other*,Nope*")


def test_without_an_op_one_line_says_that_it_is_required():
    done = subprocess.run(
        [sys.executable, "-m", "tileops.codegen.explain"],
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (2, "explain: --op is required (--help lists the flags)\n")
