"""A minimal entry for each R code: it yields exactly that code, once, on the line that is marked `# <-`.

The roofline document, sections 4.1 (required fields, mode exclusivity, field types) and 4.4.3 (names).
"""

from __future__ import annotations

import re

import pytest

from tileops.codegen.func_paths import check_func
from tileops.manifest.diagnostics import CODES, Diagnostics
from tileops.tests.codegen.small_entries import OP, analysed

HEAD = """\
DemoFwdOp:{missing}
  family: demo
  status: implemented
  signature:
    forall: {{M: Dim, N: Dim}}
    params:
      flag: {{type: bool, default: false}}
    inputs:
      x: {{dtype: float16, shape: "[M, N]"}}
      w: {{dtype: float16, shape: "[N]", optional: true}}
    outputs:
      y: {{dtype: float16, shape: "[M, N]"}}
  workloads:
    - {{label: bare, M: 3, N: 5}}
    - {{label: with, M: 3, N: 5, some: [w]}}
"""

# code, words of the message, the roofline block ("" where the entry has none)
DEFECTS = [
    ("R001", "is missing; write flops (and bytes), or func", ""),
    ("R001", "needs flops, or func", "  roofline: {}  # <-"),
    ("R001", "needs flops, or func", "  roofline:  # <-\n    bytes: bytes(x)"),
    ("R001", "func excludes flops and bytes", "  roofline:  # <-\n    flops: M\n    func: acme.prices.frexp"),
    ("R001", "func excludes flops and bytes", "  roofline:  # <-\n    func: acme.prices.frexp\n    bytes: bytes(x)"),
    (
        "R001",
        "unknown field 'traffic'; known are flops, bytes, func",
        "  roofline:\n    flops: M\n    traffic: N  # <-",
    ),
    ("R001", "unknown field 'flop'", "  roofline:\n    flop: M  # <-"),
    ("R002", "must be non-empty text", '  roofline:\n    flops: ""  # <-'),
    ("R002", "must be non-empty text", '  roofline:\n    flops: "  "  # <-'),
    ("R002", "must be non-empty text", "  roofline:\n    flops: 7  # <-"),
    ("R002", "must be non-empty text", "  roofline:\n    flops: null  # <-"),
    ("R002", "must be non-empty text", "  roofline:\n    flops: M\n    bytes: [M, N]  # <-"),
    ("R002", "must be non-empty text", "  roofline:\n    flops: M\n    bytes: {M: N}  # <-"),
    ("R002", "must be non-empty text", "  roofline:\n    func: true  # <-"),
    ("R010", "", "  roofline:\n    flops: M ** 2  # <-"),
    ("R010", "", "  roofline:\n    flops: M / 2  # <-"),
    ("R010", "", "  roofline:\n    flops: M +  # <-"),
    ("R010", "", '  roofline:\n    flops: "lambda: M"  # <-'),
    ("R010", "", "  roofline:\n    flops: (M := 3)  # <-"),
    (
        "R010",
        "runs over range(M) at each step of range(N)",
        '  roofline:\n    flops: "max(sum(log2_floor(i + j + 1) for j in range(M)) for i in range(N))"  # <-',
    ),
    (
        "R010",
        "makes repeat(2, M) at each step of range(N)",
        '  roofline:\n    flops: "sum(i for i in range(N) if sum(repeat(2, M)) > i)"  # <-',
    ),
    (
        "R010",
        "runs over range(33) at each step of range(N)",
        '  roofline:\n    flops: "sum(log2_floor(i + max(i for j in range(33)) + 1) for i in range(N))"  # <-',
    ),
    (
        "R010",
        "range may be used only as the sequence of a comprehension",
        "  roofline:\n    flops: prod(range(M))  # <-",
    ),
    ("R010", "bytes takes one name", "  roofline:\n    flops: M\n    bytes: bytes(M + 1)  # <-"),
    ("R010", "write the shape's indices", "  roofline:\n    flops: len(x.shape)  # <-"),
    ("R010", "write present(t) or not present(t)", "  roofline:\n    flops: M if w is None else N  # <-"),
    ("R010", "", "  roofline:\n    flops: \"f'{M}'\"  # <-"),
    ("R010", "", "  roofline:\n    flops: max(*(M, N))  # <-"),
    ("R010", "", "  roofline:\n    flops: __import__('os').system('true')  # <-"),
    ("R011", "unknown function 'x.element_size'", "  roofline:\n    flops: M\n    bytes: x.element_size() * M  # <-"),
    ("R011", "unknown name 'Q'; allowed are ", "  roofline:\n    flops: Q * N  # <-"),
    (
        "R011",
        "'x' is a tensor; a tensor may be read only inside present(...) and bytes(...)",
        "  roofline:\n    flops: x * 2  # <-",
    ),
    ("R011", "unknown function 'power'; allowed are ", "  roofline:\n    flops: power(N, 2)  # <-"),
    ("R011", "is no tensor; the tensors are x, w, y", "  roofline:\n    flops: bytes(M)  # <-"),
    ("R011", "hides a name of the entry; choose another name", "  roofline:\n    flops: sum(M for M in (1, N))  # <-"),
    ("R012", "must be an integer, and is Bool", "  roofline:\n    flops: flag  # <-"),
    ("R012", "must be an integer", "  roofline:\n    flops: (M, N)  # <-"),
    ("R012", "must be an integer", "  roofline:\n    flops: \"'many'\"  # <-"),
    ("R012", "", "  roofline:\n    flops: M + flag  # <-"),
    ("R012", "", "  roofline:\n    flops: M // 0  # <-"),
    ("R012", "", "  roofline:\n    flops: prod(M)  # <-"),
    (
        "R013",
        "bytes(w) is read without a guard; write `... if present(w) else 0`",
        "  roofline:\n    flops: M\n    bytes: bytes(x) + bytes(w)  # <-",
    ),
    ("R013", "bytes(w)", "  roofline:\n    flops: 0 if present(w) else bytes(w)  # <-"),
    ("R020", "'price' is no module path; write package.module.name", "  roofline:\n    func: price  # <-"),
    ("R020", "is no module path", "  roofline:\n    func: tileops.perf.formulas.price(call)  # <-"),
    ("R020", "is no module path", "  roofline:\n    func: tileops..price  # <-"),
    ("R021", "has no function 'no_such'", "  roofline:\n    func: tileops.perf.formulas.no_such  # <-"),
    ("R021", "cannot be imported: ModuleNotFoundError", "  roofline:\n    func: no_such_package.price  # <-"),
]


def found_in(block: str, status: str = "implemented"):
    """What the validator says of the entry with this block, and the marked line."""
    text = HEAD.format(missing="" if block else "  # <-").replace("implemented", status) + block + "\n"
    text = re.sub(
        r'^(    (?:flops|bytes): )([^"\[{\d\n]+?)(  # <-)$',
        lambda m: m[1] + _quoted(m[2]) + m[3],
        text,
        flags=re.MULTILINE,
    )
    entries, defects = analysed(text)
    later = Diagnostics()
    for checked, analysis in entries.values():
        check_func(checked.entry, analysis, later)
    line = next(number for number, content in enumerate(text.splitlines(), 1) if "# <-" in content)
    return [*defects, *later], line, entries[OP][1]


def _quoted(formula: str) -> str:
    """A formula as YAML text, whatever characters it has; a null stays one."""
    return formula if formula == "null" else '"' + formula.strip('"') + '"'


@pytest.mark.requirement("3.3")
@pytest.mark.parametrize(("code", "words", "block"), DEFECTS, ids=[f"{row[0]}-{at}" for at, row in enumerate(DEFECTS)])
def test_a_minimal_entry_yields_exactly_its_code_at_the_right_line(code, words, block):
    found, line, analysis = found_in(block)
    assert [(one.code, one.line) for one in found] == [(code, line)], [str(one) for one in found]
    assert found[0].op == OP and words in found[0].message, found[0].message
    assert analysis.emittable is (code == "R021")  # whether a path resolves is no question of the entry


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise SystemExit(3)", "cannot be imported: SystemExit: 3"),
        ("import torch.nn as nn\ndef price(call):\n    return 1, 1", "imports torch (line 1)"),
        ("def price(call):\n    from torch import ones\n    return 1, 1", "imports torch (line 2)"),
        ("async def price(call):\n    return 1, 1", "is a coroutine or a generator"),
        ("def price(call):\n    yield 1, 1", "is a coroutine or a generator"),
    ],
)
def test_a_module_that_ends_the_program_or_holds_no_formula_is_R021(tmp_path, monkeypatch, source, words):
    name = f"formulas_{abs(hash(source))}"
    (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    found, _, _ = found_in(f"  roofline:\n    func: {name}.price  # <-")
    assert [one.code for one in found] == ["R021"] and words in found[0].message


def test_what_a_formula_module_prints_stays_out_of_the_data(tmp_path, monkeypatch, capsys):
    (tmp_path / "printing_formulas.py").write_text("print('hello')\ndef price(call):\n    return 1, 1")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert found_in("  roofline:\n    func: printing_formulas.price  # <-")[0] == []
    assert capsys.readouterr() == ("", "hello\n")


def test_every_roofline_code_has_a_minimal_entry():
    assert {row[0] for row in DEFECTS} == {code for code in CODES if code.startswith("R")}


@pytest.mark.requirement("4.4.a")
@pytest.mark.parametrize(("code", "words", "block"), [row for row in DEFECTS if row[0] != "R021"], ids=str)
def test_4_4_a_spec_only_entry_is_analysed_alike(code, words, block):
    found, line, _ = found_in(block, status="spec-only")
    assert [(one.code, one.line) for one in found] == [(code, line)]


@pytest.mark.parametrize("block", [row[2] for row in DEFECTS if row[0] == "R021"])
def test_4_1_whether_a_func_path_resolves_is_checked_for_implemented_entries_alone(block):
    assert found_in(block, status="spec-only")[0] == []
