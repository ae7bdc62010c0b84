"""//ops:conformance: each code is found where it is deserved, alone, and the project's own ops have none."""

from __future__ import annotations

import itertools
import json
import pathlib
import re
import subprocess
import sys
import types

import pytest

from tileops.codegen import pipeline
from tileops.ops.conformance import check
from tileops.ops.conformance.findings import CODES
from tileops.tools.cli import paths

SPEC = paths.data_path("tests", "runtime", "conformance.yaml")
_NUMBERS = itertools.count()

HEAD = """\
import tileops_generated_conformance as generated
import torch

from tileops.ops.implementations import implementation, on_cuda

"""

RIGHT = """
class ScaleFwdOp(generated.ScaleFwdOp):
    @implementation("torch")
    def _torch(self, call, x, weight, out=None):
        y = x * call.params["factor"] * (1 if weight is None else weight)
        return y if out is None else out.copy_(y)

    @implementation("gpu", when=on_cuda)
    def _gpu(self, call, x, weight, out=None):
        raise AssertionError("no GPU here")
"""


@pytest.fixture(scope="session")
def generated_dir(tmp_path_factory):
    """The modules that //codegen:emit writes for conformance.yaml."""
    formulas = types.ModuleType("tileops_conformance_formulas")
    exec(
        "CONSTANT = 3\n"
        "def price(call): return 1, call.bytes_of('x', 'y')\n"
        "def of_the_op_too(call, op): return 1, 1\n"
        "def raises(call): raise ZeroDivisionError('no rows')\n",
        vars(formulas),
    )
    sys.modules[formulas.__name__] = formulas
    analysed = pipeline.analyse_files([str(SPEC)])
    assert [str(found) for found in analysed.diagnostics] == []
    folder = tmp_path_factory.mktemp("generated")
    for family, source in analysed.modules().items():
        (folder / f"{family}.py").write_text(source)
    return str(folder)


@pytest.fixture
def said(generated_dir, tmp_path):
    """A function: the report on one entry when a plugin has these classes."""

    def of(code: str, op: str = "ScaleFwdOp") -> check.Report:
        plugin = tmp_path / f"plugin{next(_NUMBERS)}.py"
        plugin.write_text(HEAD + code)
        return check.check(generated_dir, [str(plugin)], op)

    return of


def simple(op: str, body: str = "", implementation: str = '@implementation("torch")') -> str:
    """A class of one of the entries that take x alone."""
    return f"""
class {op}(generated.{op}):
    {implementation}
    def _torch(self, call, x):
        return x.clone()
{body}
"""


def scale(body: str) -> str:
    """The right ScaleFwdOp with more in its body."""
    return f"{RIGHT}\n{body}\n"


# A composite with the op of each stage.
TWICE = (
    simple("OwnBytesFwdOp")
    + simple("PricedFwdOp")
    + """
class TwiceFwdOp(generated.TwiceFwdOp):
    @implementation("torch")
    def _torch(self, call, x):
        return PricedFwdOp()(OwnBytesFwdOp()(x))

    @implementation("fused")
    def _fused(self, call, x):
        return x.clone()
"""
)

# what the plugin says, of which entry, the code expected, words of the message
WRONG = [
    ("", "ScaleFwdOp", "C002", "no module has a class ScaleFwdOp"),
    ("class ScaleFwdOp: pass", "ScaleFwdOp", "C003", "does not subclass tileops_generated_conformance.ScaleFwdOp"),
    ("class ScaleFwdOp(generated.OwnBytesFwdOp):\n    ENTRY = 'ScaleFwdOp'", "ScaleFwdOp", "C003", "does not subclass"),
    (RIGHT.replace("class ScaleFwdOp", "class Scale"), "ScaleFwdOp", "C004", "name it ScaleFwdOp, at module level"),
    (
        scale("""
    def __init__(self, factor=3, *, rounded=False, target=None):
        super().__init__(factor, rounded=rounded, target=target)
"""),
        "ScaleFwdOp",
        "C005",
        "has the default 3 for 'factor', but the signature declares has the default 2",
    ),
    (
        scale("""
    def __init__(self, factor=2, rounded=False, *, target=None):
        super().__init__(factor, rounded=rounded, target=target)
"""),
        "ScaleFwdOp",
        "C005",
        "takes 'rounded' as positional, but the signature declares it keyword-only",
    ),
    (
        scale("""
    def forward(self, x, weight=None):
        return super().forward(x, weight)
"""),
        "ScaleFwdOp",
        "C006",
        "lacks 'out', which the signature declares",
    ),
    (
        scale("""
    def forward(self, x, weight, *, out=None):
        return super().forward(x, weight, out=out)
"""),
        "ScaleFwdOp",
        "C006",
        "has no default for 'weight', but the signature declares has the default None",
    ),
    (scale("    CASES = generated.ScaleFwdOp.CASES[:1]"), "ScaleFwdOp", "C007", "is decided by the manifest"),
    (
        scale("    def eval_roofline_read_bytes(self):\n        self.last_call\n        return 0"),
        "ScaleFwdOp",
        "C007",
        "decided by the manifest",
    ),
    (
        scale("    @property\n    def last_call(self):\n        return super().last_call"),
        "ScaleFwdOp",
        "C007",
        "decides which call is priced",
    ),
    (RIGHT + "\nScaleFwdOp.eval_roofline = lambda self: (0, 10**9)", "ScaleFwdOp", "C007", "change the entry instead"),
    (simple("TwoArgumentFormulaFwdOp"), "TwoArgumentFormulaFwdOp", "C008", "cannot be called as of_the_op_too(call)"),
    ("class ScaleFwdOp(generated.ScaleFwdOp): pass", "ScaleFwdOp", "C009", "has no implementation: mark one"),
    (simple("PlannedFwdOp"), "PlannedFwdOp", "C010", "is spec-only, but its class has the implementation torch"),
    (
        RIGHT.replace("_torch(self, call, x, weight, out=None)", "_torch(self, call, x, out=None)"),
        "ScaleFwdOp",
        "C011",
        "cannot be called as (op, call, inputs, buffers) with x, weight, y: too many positional arguments",
    ),
    (
        RIGHT.replace("_gpu(self, call, x, weight, out=None)", "_gpu(self, x)"),
        "ScaleFwdOp",
        "C011",
        "cannot be called as (op, call, inputs)",
    ),
    (
        simple("OwnBytesFwdOp", implementation='@implementation("torch", when=lambda call: True)'),
        "OwnBytesFwdOp",
        "C012",
        "comes first, so it is the reference, but has a `when`",
    ),
    (
        simple("OwnBytesFwdOp").replace("x.clone()", "x.double()"),
        "OwnBytesFwdOp",
        "C012",
        "is the reference, and raises OpCallError",
    ),
    (RIGHT.replace("when=on_cuda", "when=lambda: True"), "ScaleFwdOp", "C013", "its `when` raises TypeError"),
    (
        RIGHT.replace("when=on_cuda", "when=lambda call: call.params['colour']"),
        "ScaleFwdOp",
        "C013",
        "raises KeyError: 'colour'",
    ),
    (
        RIGHT.replace("when=on_cuda", "when=lambda call: call.device.startswith('cuda') and call.indices['M'] > 1"),
        "ScaleFwdOp",
        "C013",
        "on cuda:0",
    ),
    (RIGHT.replace("when=on_cuda", "when=lambda call: 'yes'"), "ScaleFwdOp", "C013", "returns 'yes'"),
    (
        scale("    def roof_key(self):\n        self.last_call\n        return 'cuda_core.fp16x2'"),
        "ScaleFwdOp",
        "C014",
        "returns 'cuda_core.fp16x2' on the row plain-float32; keys are",
    ),
    (
        scale("    def roof_key(self):\n        return {'float32': 'cuda_core.fp32'}[self.last_call.dtypes['x']]"),
        "ScaleFwdOp",
        "C014",
        "raises KeyError: 'float64' on the row plain-float64",
    ),
    (
        scale("    def roof_key(self):\n        return 'cuda_core.fp32'"),
        "ScaleFwdOp",
        "C015",
        "returns 'cuda_core.fp32' before a call",
    ),
    (
        scale(
            "    dtype = None\n    def roof_key(self):\n        try:\n"
            "            return 'cuda_core.fp32' if self.last_call else ''\n        except RuntimeError:\n"
            "            raise ValueError('unbound') from None"
        ),
        "ScaleFwdOp",
        "C015",
        "raises ValueError: unbound before a call",
    ),
    (
        simple("PricedFwdOp", "    def roofline_data_terms(self):\n        return {}"),
        "PricedFwdOp",
        "C015",
        "returns {} before a call, when no shape or dtype is bound; read self.last_call first",
    ),
    (
        simple("PricedFwdOp", "    def eval_roofline_read_bytes(self):\n        return 8"),
        "PricedFwdOp",
        "C015",
        "returns 8 before a call",
    ),
    (
        simple("FreeFwdOp"),
        "FreeFwdOp",
        "C016",
        "returns a price of 0 bytes on the row plain, whose tensors hold 32: correct the entry's `bytes` or `func`",
    ),
    (
        simple("RaisingFormulaFwdOp"),
        "RaisingFormulaFwdOp",
        "C016",
        "raises ZeroDivisionError: no rows on the row plain",
    ),
    (
        scale("    def __init__(self, factor=2, *, rounded=False, target=None):\n        raise ValueError('never')"),
        "ScaleFwdOp",
        "C016",
        "cannot be called on meta: ValueError: never",
    ),
    (
        simple("PricedFwdOp", "    def eval_roofline_read_bytes(self):\n        self.last_call\n        return 33"),
        "PricedFwdOp",
        "C017",
        "returns 33 on the row plain; return an int between 0 and the 32 bytes",
    ),
    (
        simple("PricedFwdOp", "    def eval_roofline_read_bytes(self):\n        return self.last_call.bytes"),
        "PricedFwdOp",
        "C017",
        "raises AttributeError",
    ),
    (
        simple(
            "PricedFwdOp", "    def roofline_data_terms(self):\n        self.last_call\n        return {'rows': 4.0}"
        ),
        "PricedFwdOp",
        "C018",
        "returns {'rows': 4.0} on the row plain; return a dict of names to ints",
    ),
    (
        simple(
            "PricedFwdOp", "    def roofline_data_terms(self):\n        self.last_call\n        return {'rows': True}"
        ),
        "PricedFwdOp",
        "C018",
        "returns {'rows': True} on the row plain",
    ),
    (
        TWICE.replace("PricedFwdOp()(OwnBytesFwdOp()(x))", "OwnBytesFwdOp()(x)"),
        "TwiceFwdOp",
        "C019",
        "calls no PricedFwdOp in stage 'second' on the row plain: call it, or make the stage optional",
    ),
    (
        TWICE.replace("PricedFwdOp()(OwnBytesFwdOp()(x))", "TwoArgumentFormulaFwdOp()(x)")
        + simple("TwoArgumentFormulaFwdOp"),
        "TwiceFwdOp",
        "C019",
        "a sub-op TwoArgumentFormulaFwdOp was called, but none of its stages",
    ),
]


@pytest.mark.parametrize(
    ("code", "op", "wanted", "words"), WRONG, ids=[f"{row[2]}-{at}" for at, row in enumerate(WRONG)]
)
def test_a_single_fault_yields_its_code_alone_and_says_what_to_do(said, code, op, wanted, words):
    found = said(code, op).findings
    assert {one.code for one in found} == {wanted}, [str(one) for one in found]
    assert any(words in one.message for one in found), [one.message for one in found]
    assert {one.op for one in found} == {op}


def test_a_right_class_has_no_defect_and_nothing_unreached(said):
    report = said(RIGHT)
    assert (report.findings, report.unreached, report.no_verdict) == ((), (), ())


def test_a_module_that_cannot_be_imported_is_C001_and_names_what_was_not_reached(said):
    report = said("raise KeyError('nothing')")
    assert [one.code for one in report.findings] == ["C001", "C002"]
    assert report.findings[0].place.endswith(f".py:{HEAD.count(chr(10)) + 1}")
    assert "KeyError: 'nothing'" in report.findings[0].message
    assert [what for what in report.unreached if "it cannot be imported" in what]


def test_a_class_with_a_price_of_its_own_is_not_even_importable(said):
    report = said(scale("    def eval_roofline(self):\n        return 0, 0"))
    assert report.findings[0].code == "C001" and "defines eval_roofline()" in report.findings[0].message


def test_a_class_that_a_plugin_only_imports_is_C004(said, tmp_path, monkeypatch):
    (tmp_path / "tileops_conformance_elsewhere.py").write_text(HEAD + RIGHT)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = said("from tileops_conformance_elsewhere import ScaleFwdOp").findings
    assert [one.code for one in found] == ["C004"] and "define it in the importing module" in found[0].message


def test_a_composite_whose_reference_runs_its_stages_conforms_whatever_a_fused_one_does(said):
    report = said(TWICE, "TwiceFwdOp")
    assert [str(one) for one in report.findings] == [] and report.unreached == ()


def test_an_op_without_a_read_half_is_listed_and_no_defect(said):
    report = said(simple("OwnBytesFwdOp"), "OwnBytesFwdOp")
    assert report.findings == () and report.no_verdict == ("OwnBytesFwdOp",)
    assert said(RIGHT).no_verdict == ()


def test_a_spec_only_entry_needs_no_class_and_its_func_is_not_asked_for(said):
    assert said("", "PlannedFwdOp").findings == ()


def test_prices_of_an_op_whose_func_is_no_formula_are_not_reached_and_say_so(said):
    report = said(simple("TwoArgumentFormulaFwdOp"), "TwoArgumentFormulaFwdOp")
    assert report.unreached[0].startswith(
        "TwoArgumentFormulaFwdOp: prices, and whether the reference runs: its func has no formula"
    )


@pytest.mark.parametrize(
    ("name", "words"), [("missing", "has no function 'missing'"), ("CONSTANT", "CONSTANT is no function but a int")]
)
def test_a_class_whose_func_is_missing_cannot_be_created_and_is_C008(generated_dir, tmp_path, name, words):
    spec = SPEC.read_text(encoding="utf-8").replace("_formulas.price}", f"_formulas.{name}}}")
    (tmp_path / "family.yaml").write_text(spec.replace("family: conformance", "family: family"))
    (source,) = pipeline.analyse_files([str(tmp_path / "family.yaml")]).modules().values()
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / f"without_{name}.py").write_text(source)
    report = check.check(str(tmp_path / "made"), [], "")
    assert [one.code for one in report.findings] == ["C008"]
    assert re.fullmatch(r"family\.yaml:\d+", report.findings[0].place) and words in report.findings[0].message
    assert len(report.unreached) == 1 and "it cannot be imported" in report.unreached[0]


def test_a_reference_that_is_too_large_to_run_is_not_reached_and_says_so(said):
    report = said(simple("LargeFwdOp"), "LargeFwdOp")
    assert report.findings == ()
    assert "whether the reference runs: its cheapest row, huge," in report.unreached[0]


def test_defects_accumulate_over_classes_and_within_one(said):
    report = said(
        RIGHT.replace("when=on_cuda", "when=lambda: True")
        + "\n    def roof_key(self):\n        return 'fast'\n"
        + simple("OwnBytesFwdOp", "    def roofline_data_terms(self):\n        self.last_call\n        return 3"),
        "*",
    )
    of_scale = [one.code for one in report.findings if one.op == "ScaleFwdOp"]
    assert of_scale == ["C015", "C013", "C014", "C013", "C014", "C013", "C014"]
    assert [one.code for one in report.findings if one.op == "OwnBytesFwdOp"] == ["C018"]
    order = [one.op for one in report.findings]
    assert order == sorted(order, key=list(report.entries).index)


def test_a_finding_names_file_and_line_of_the_code(said):
    found = said(scale("    def roof_key(self):\n        return 'cuda_core.fp32'")).findings
    line = (HEAD + scale("")).count("\n")
    assert re.fullmatch(rf".*plugin\d+\.py:{line}", found[0].place), found[0].place
    assert said("").findings[0].place == "conformance.yaml:2"


def test_every_code_has_a_minimal_class():
    tested = {row[2] for row in WRONG} | {"C001"}
    assert tested == set(CODES)


def test_every_code_is_documented_under_its_own_words():
    text = paths.data_path("docs", "defect-codes.md").read_text()
    assert dict(re.findall(r"^\| (C\d{3}) \| (.*?) \|", text, re.MULTILINE)) == CODES


def test_the_projects_ops_conform():
    report = check.check()
    assert [str(one) for one in report.findings] == []
    assert report.unreached == ()
    assert len(report.entries) >= 8


def _command(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "tileops.ops.conformance.conformance", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": ":".join(sys.path)})


def test_the_command_exits_0_1_or_2_and_prints_text_or_json(tmp_path):
    spec = pathlib.Path(tmp_path, "conformance.yaml")
    scale_alone = SPEC.read_text().partition("OwnBytesFwdOp:")[0]
    spec.write_text(scale_alone)
    plugin = pathlib.Path(tmp_path, "classes.py")
    plugin.write_text(HEAD + RIGHT)
    done = _command(f"--spec_dir={tmp_path}", f"--plugin={plugin}")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "0 defects in 1 entry"), done.stderr
    plugin.write_text(HEAD + RIGHT.replace("when=on_cuda", "when=lambda call: None"))
    done = _command(f"--spec_dir={tmp_path}", f"--plugin={plugin}", "--format=json")
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert {one["code"] for one in report["findings"]} == {"C013"} and report["entries"] == ["ScaleFwdOp"]
    again = _command(f"--spec_dir={tmp_path}", f"--plugin={plugin}", "--format=json")
    assert again.stdout == done.stdout
    spec.write_text(scale_alone.replace("prod(S)", "prod(Q)"))
    done = _command(f"--spec_dir={tmp_path}")
    assert done.returncode == 2 and "unknown name 'Q'" in done.stderr
    done = _command("--op=Nothing*")
    assert done.returncode == 2 and "--op=Nothing* fits no op; " in done.stderr
    assert done.stderr.startswith("conformance: ")
