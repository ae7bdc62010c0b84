"""Formulas of another package: found by --root, run in an interpreter of their own, told apart when they fail."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch

from tileops.codegen.func_paths import check_func
from tileops.manifest.diagnostics import Diagnostics
from tileops.manifest.foreign import interpreter, roots
from tileops.ops.errors import OpCallError, OpFormulaError, OpNotAvailableError
from tileops.perf.harness import records
from tileops.proto import benchmark_pb2
from tileops.tests.codegen.emitted import build
from tileops.tests.codegen.small_entries import OP, analysed, demo, meta, module, text_of

SEEN = """
import os
NAMES = []
def price(call):
    return 2 * call.indices["M"], call.bytes("x") + call.bytes("y")
def facts(call):
    with open(os.environ["SEEN"], "w") as out:
        print(dict(call.indices), {name: tuple(one) for name, one in call.tensors.items()}, file=out)
        print(call.present("x"), call.present("w"), call.present("nothing"), call.stages, file=out)
    return 1, 2
"""


@pytest.fixture(autouse=True)
def no_roots_left():
    yield
    roots.use({})


def package(folder: pathlib.Path, source: str, name: str = "acme") -> str:
    """A package with the private module `_costs.windows` of this source; returns its --root."""
    made = folder / name / "_costs"
    made.mkdir(parents=True)
    (folder / name / "__init__.py").write_text("")
    (made / "windows.py").write_text(source)
    return f"{name}={folder}"


def rooted(folder: pathlib.Path, source: str, name: str = "acme") -> None:
    roots.use(roots.parse([package(folder, source, name)]))


def entry(function: str = "price", name: str = "acme", **changed):
    return demo({"func": f"{name}._costs.windows.{function}"}, **changed)


def said(text: str) -> str:
    """What the validator says of the one entry's func."""
    entries, defects = analysed(text)
    assert defects == []
    found = Diagnostics()
    for checked, analysis in entries.values():
        check_func(checked.entry, analysis, found)
    assert {one.code for one in found} <= {"R021"}
    return "\n".join(one.message for one in found)


def priced(function: str = "price", **changed):
    op = getattr(module(text_of(entry(function, **changed))), OP)()
    op(meta(3, 5))
    return op.eval_roofline()


@pytest.mark.parametrize("name", ["acme", "tileops"])
def test_a_formula_is_found_in_its_root_whatever_its_package_is_called(tmp_path, name):
    rooted(tmp_path, SEEN, name)
    text = text_of(entry(name=name))
    assert said(text) == ""
    op = getattr(module(text), OP)()
    op(meta(3, 5))
    assert op.eval_roofline() == (6, 60)


def test_a_private_module_has_a_name_that_classes_may_use(tmp_path):
    package(tmp_path, "")
    (tmp_path / "acme" / "_costs" / "__init__.py").write_text(SEEN)
    (tmp_path / "acme" / "_.py").write_text(SEEN)
    roots.use(roots.parse([f"acme={tmp_path}"]))
    for path in ("acme._costs.price", "acme._.price"):
        op = getattr(module(text_of(demo({"func": path}))), OP)()
        op(meta(3, 5))
        assert op.eval_roofline() == (6, 60)


def test_without_a_root_the_message_names_the_flag(tmp_path):
    assert "--root=acme=DIR" in said(text_of(entry()))
    with pytest.raises(OpFormulaError, match="acme"):
        module(text_of(entry()))


def test_a_formula_sees_six_members(tmp_path, monkeypatch):
    seen = tmp_path / "seen"
    monkeypatch.setenv("SEEN", str(seen))
    rooted(tmp_path, SEEN)
    params = {
        "k": {"type": "int | None", "default": None},
        "sizes": {"type": "list[int]", "default": [1, 2]},
        "out_dtype": {"type": "torch.dtype", "default": "float16"},
        "limit": {"type": "float", "default": float("inf")},
    }
    inputs = {"x": {"dtype": "T", "shape": "[M, N]"}, "w": {"dtype": "T", "shape": "[N]", "optional": True}}
    rows = [
        {"label": "row", "M": 3, "N": 5, "dtype_cases": [{"T": "float16"}]},
        {"label": "w", "M": 3, "N": 5, "some": ["w"], "dtype_cases": [{"T": "float16"}]},
    ]
    made = entry("facts", params=params, inputs=inputs, let={"half": "M // 2"}, rows=rows)
    made["signature"]["outputs"] = {"y": {"dtype": "out_dtype", "shape": "[half]"}}
    op = getattr(module(text_of(made)), OP)()
    op(meta(3, 5))
    assert op.eval_roofline() == (1, 2)
    values = {"k": None, "sizes": (1, 2), "out_dtype": "float16", "limit": float("inf")}
    values |= {"M": 3, "N": 5, "T": "float16", "half": 1}
    tensors = {"x": ((3, 5), "float16"), "y": ((1,), "float16")}
    assert seen.read_text() == f"{values} {tensors}\nTrue False False {{}}\n"


def test_an_algebraic_value_has_its_kind_and_fields(tmp_path):
    source = """
def price(call):
    layout = call.indices["layout"]
    assert (layout.kind, layout.block, layout.order.value, layout.order) == ("Padded", 4, "row", "row")
    return layout.block, 0
"""
    rooted(tmp_path, source)
    types = (
        "Layout: {constructors: {Padded: {class: acme.none.Padded, fields: {block: int, order: \"'row' | 'column'\"}}}}"
    )
    made = entry(params={"layout": {"type": "Layout"}}, rows=[
        {"label": "row", "M": 3, "N": 5, "layout": {"Padded": {"block": 4, "order": "row"}},
         "dtype_cases": [{"T": "float16"}]},
    ])  # fmt: skip
    op_class = build(tmp_path, {OP: made}, types)[OP]
    op = op_class(**op_class.CASES[0].params)
    op(meta(3, 5))
    assert op.eval_roofline() == (4, 0)


def test_contents_of_metadata_come_as_nested_lists_or_not_at_all(tmp_path):
    rooted(tmp_path, "def price(call):\n    return sum(map(sum, call.metadata_values('ids'))), 0\n")
    inputs = {
        "x": {"dtype": "T", "shape": "[M, N]"},
        "ids": {"dtype": "int32", "shape": "[M, 2]", "values": "topk_ids(M, 2, N)"},
    }
    op = getattr(module(text_of(entry(inputs=inputs))), OP)()
    op(meta(3, 5), torch.tensor([[1, 2], [3, 4], [0, 1]], dtype=torch.int32))
    assert op.eval_roofline() == (11, 0)
    op(meta(3, 5), meta(3, 2, dtype=torch.int32))
    with pytest.raises(OpNotAvailableError, match=r"acme\._costs\.windows\.price: .*'ids'.*on meta"):
        op.eval_roofline()
    with pytest.raises(OpCallError, match="KeyError: .*'x'"):
        (tmp_path / "other").mkdir()
        rooted(tmp_path / "other", "def price(call):\n    return call.metadata_values('x')[0], 0\n")
        op = getattr(module(text_of(entry(inputs=inputs))), OP)()
        op(meta(3, 5), meta(3, 2, dtype=torch.int32))
        op.eval_roofline()


def test_the_calls_of_stages_are_calls_and_without_them_the_price_is_a_lower_bound(tmp_path):
    source = """
def price(call):
    if not call.stages:
        return 0, 0
    (sub,) = call.stages["sub"]
    return sub.indices["M"], sub.bytes("x") + len(sub.stages)
"""
    rooted(tmp_path, source)
    composite = entry()
    composite["composition"] = {"kind": "composite", "stages": [{"name": "sub", "op": "SubFwdOp"}]}
    made = module(text_of(composite, demo(), names=(OP, "SubFwdOp")))
    op = getattr(made, OP)()
    op(meta(3, 5))
    assert op.eval_roofline() == (0, 0) and op.last_call._is_lower_bound
    record = benchmark_pb2.BenchmarkRecord()
    records.set_price(record, op)
    assert record.is_lower_bound
    sub = made.SubFwdOp()
    mine = type("Mine", (getattr(made, OP),), {})
    mine.register("reference", lambda op, call, x: sub(x))
    op = mine()
    op(meta(3, 5))
    assert op.eval_roofline() == (3, 30) and not op.last_call._is_lower_bound
    records.set_price(record, op)
    assert not record.is_lower_bound


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("raise ValueError('no such window')", r"raised ValueError: no such window \(windows.py, line 2\)"),
        ("import sys; sys.exit(3)", r"raised SystemExit\(3\), which is sys.exit"),
        ("raise KeyboardInterrupt", "raised KeyboardInterrupt"),
        ("import os; os._exit(3)", "acme._costs.windows.price ended its interpreter, with status 3"),
        ("import os; os.kill(os.getpid(), 9)", "ended its interpreter, with signal 9"),
        ("return 1.0, 2", r"returned \(1.0, 2\), but a formula must return \(flops, bytes\), two ints"),
        ("return True, 2", r"returned \(True, 2\)"),
        ("return [1, 2]", r"returned \[1, 2\]"),
        ("return 1, 2, 3", r"returned \(1, 2, 3\)"),
        ("return None", "returned None"),
        ("return -1, 2", "flops of .* gave -1, but a price must be a finite non-negative integer"),
        ("return 1, 2 ** 63", "a price must be at most"),
        ("return 1, 10 ** 9999", "more than 128 bits"),
        ("return call.indices['K'], 1", "KeyError: 'K'"),
    ],
)
def test_a_formula_that_fails_names_entry_and_function_and_costs_its_own_price_alone(tmp_path, body, words):
    rooted(tmp_path, f"def price(call):\n    {body}\ndef right(call):\n    return 1, 2\n")
    with pytest.raises(OpCallError, match=words) as raised:
        priced()
    assert OP in str(raised.value) and "acme._costs.windows.price" in str(raised.value)
    assert priced("right") == (1, 2)


def test_a_formula_that_never_returns_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(interpreter, "PRICE_TIMEOUT_S", 0.3)
    rooted(tmp_path, "import time\ndef price(call):\n    time.sleep(600)\ndef right(call):\n    return 1, 2\n")
    with pytest.raises(OpCallError, match=r"acme\._costs\.windows\.price did not return within 0.3 s"):
        priced()
    assert priced("right") == (1, 2)


def test_what_a_formula_prints_goes_to_stderr(tmp_path, capfd):
    source = (
        "import os\nprint('module')\ndef price(call):\n    print('formula'); os.write(1, b'raw')\n    return 1, 2\n"
    )
    rooted(tmp_path, source)
    assert priced() == (1, 2)
    assert capfd.readouterr() == ("", "module\nformula\nraw")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise SystemExit(3)", "acme._costs.windows cannot be imported: SystemExit(3), which is sys.exit"),
        ("1 / 0", "cannot be imported: ZeroDivisionError: division by zero (windows.py, line 1)"),
        (
            "import os; os._exit(4)",
            "acme._costs.windows cannot be imported: the import ended its interpreter, with status 4",
        ),
        ("import torch\ndef price(call):\n    return 1, 1", "imports torch (line 1)"),
        ("price = 3", "acme._costs.windows.price is no function but a int"),
        ("other = 3", "acme._costs.windows has no function 'price'"),
        ("def price(call, op):\n    return 1, 1", "must take the checked call and nothing else"),
        ("async def price(call):\n    return 1, 1", "is a coroutine or a generator"),
    ],
)
def test_a_module_that_holds_no_formula_is_R021(tmp_path, source, words):
    rooted(tmp_path, source)
    assert words in said(text_of(entry()))
    with pytest.raises(OpFormulaError, match="acme._costs.windows"):
        module(text_of(entry()))
    assert module(text_of(entry(status="spec-only")))  # its price alone is an error


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import torch\ndef price(call):\n    return 1, 1", "acme._costs.windows imports torch"),
        ("def price(call, op):\n    return 1, 1\ndef right(call):\n    return 1, 2", "must take the checked call"),
    ],
)
def test_a_function_that_is_no_formula_prices_no_call_of_its_op(tmp_path, source, words):
    rooted(tmp_path, source)
    if "right" in source:
        assert priced("right") == (1, 2)
    for _ in range(2):
        with pytest.raises(OpCallError, match=f"windows.price cannot be used: .*{words}"):
            priced(status="spec-only")


def test_a_module_that_never_loads_is_R021(tmp_path, monkeypatch):
    monkeypatch.setattr(interpreter, "IMPORT_TIMEOUT_S", 2.0)
    rooted(tmp_path, "import time\ntime.sleep(600)\n")
    for _ in range(2):  # asked once: the other functions of the module wait no second time
        began = time.monotonic()
        assert "acme._costs.windows cannot be imported: the import did not return within 2 s" in said(text_of(entry()))
    assert time.monotonic() - began < 1
    with pytest.raises(OpCallError, match="price cannot be used: acme._costs.windows cannot be imported"):
        priced(status="spec-only")


def test_the_interpreter_is_kept_and_knows_neither_this_project_nor_its_modules(tmp_path):
    source = """
CALLS = []
def price(call):
    import sys
    CALLS.append(call)
    return len(CALLS), sum(name.startswith("tileops") or name == "torch" for name in sys.modules)
"""
    rooted(tmp_path, source)
    assert [priced(), priced()] == [(1, 0), (2, 0)]


def test_ctrl_c_ends_the_interpreter_and_is_heard(tmp_path):
    rooted(tmp_path, "import time\ndef price(call):\n    time.sleep(600)\ndef right(call):\n    return 1, 2\n")
    assert priced("right") == (1, 2)
    child = roots.interpreter_of("acme.x")._process
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        priced()
    assert child.poll() is not None
    assert priced("right") == (1, 2)


def test_the_interpreter_ends_with_its_parent(tmp_path):
    (tmp_path / "acme.py").write_text(
        "import os, time\ndef price(call):\n    print(os.getpid(), flush=True)\n    time.sleep(600)\n"
    )
    call = "{'number': 0, 'has_stages': False, 'indices': {}, 'tensors': {}}"
    text = (
        "from tileops.manifest.foreign import roots\n"
        f"roots.use({{'acme': {str(tmp_path)!r}}})\n"
        f"roots.interpreter_of('acme.price').price('acme.price', {call}, None)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", text], stderr=subprocess.PIPE, text=True, env=environment) as parent:
        child = int(parent.stderr.readline())
        parent.kill()
    for _ in range(100):
        with contextlib.suppress(FileNotFoundError):
            state = pathlib.Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0]
            if state != "Z":
                time.sleep(0.1)
                continue
        return
    pytest.fail(f"process {child} outlived its parent")


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("acme", "write --root=NAME=DIR"),
        ("acme=", "write --root=NAME=DIR"),
        ("a.b={here}", "write --root=NAME=DIR"),
        ("json={here}", "is a module of Python's own"),
        ("other={here}", "there is no folder other and no other.py in"),
        ("acme={here}/nowhere", "there is no folder acme"),
    ],
)
def test_a_wrong_root_is_refused(tmp_path, written, words):
    package(tmp_path, "")
    with pytest.raises(roots.RootError, match=words):
        roots.parse([written.format(here=tmp_path)])


def test_a_package_has_one_root(tmp_path):
    roots.parse([package(tmp_path, "")] * 2)
    (tmp_path / "b").mkdir()
    with pytest.raises(roots.RootError, match="give each package one folder"):
        roots.parse([f"acme={tmp_path}", package(tmp_path / "b", "")])
