"""A price is copied from `op.eval_roofline()` and set in few places: computing one where it is recorded fails.

Formulas live in the manifest and in `perf/formulas/` (requirement 3). Two rules hold them there: formula_lint finds
arithmetic under a price's name, price_writes finds every place that sets a price.
"""

import ast
import pathlib
import re

import pytest

from tileops.tests.layering import formula_lint, price_writes

# The checkout itself, so that no new module can be forgotten.
ROOT = pathlib.Path("pyproject.toml").resolve().parent
# The formulas themselves, and what the build makes of those in the manifest.
FORMULAS = (ROOT / "perf" / "formulas", ROOT / "ops" / "generated")
PERF, AUDIT, OPS, TOOLS, DOCS = (
    sorted(path for path in (ROOT / folder).rglob("*.py") if not set(FORMULAS) & set(path.parents))
    for folder in ("perf", "audit", "ops", "tools", "docs")
)

# This adds up what counters measured.
COUNTERS = {ROOT / "audit" / "counters.py"}

# The functions that set a price, and where they have it from. None of them computes.
SETS_PRICES = {
    ("perf/harness/records.py", "set_price"): "op.eval_roofline() and op.eval_roofline_read_bytes()",
    ("perf/runs/junit.py", "_records"): "properties of a JUnit file",
    ("audit/calls.py", "declared"): "op.eval_roofline_read_bytes()",
    ("audit/profiled_call.py", "run"): "op.eval_roofline_read_bytes()",
    ("audit/report.py", "row"): "the declared read half",
    ("perf/comparison/reprice_join.py", "join"): "a recorded run's record, whole",
    ("perf/comparison/reprice_join.py", "_reprice"): "another run's record, field by field",
    ("perf/roof/pricing.py", "row_of"): "the record",
    ("ops/row_index.py", ""): "the index that the build wrote",
}
# These set fields by name or parse messages, of other kinds; or hold sizes of tensors.
SETS_OTHER_THINGS = {
    ("audit/counters.py", "bytes"),
    ("audit/counters.py", "parse"),
    ("audit/measure.py", "_note_machine"),
    ("audit/session.py", "_is_audit"),
    ("ops/checked_call.py", "bytes"),
    ("ops/implementations.py", "mark"),
    ("perf/calibration/profile.py", "merge"),
    ("perf/calibration/profile.py", "to_text"),
    ("perf/harness/border.py", "_replaced"),
    ("perf/harness/border.py", "place"),
    ("perf/harness/known_settings.py", "_attribute"),
    ("perf/harness/records.py", "_set_reading"),
    ("perf/harness/records.py", "set_measurement"),
    ("perf/harness/run.py", "_outcome"),
    ("perf/harness/session.py", "_measure"),
    ("perf/report/facts.py", "summary"),
    ("perf/report/store.py", "summarize"),
    ("perf/roof/profiles.py", "assume"),
    ("perf/roof/profiles.py", "load_profile"),
    ("perf/runs/framing.py", ""),
    ("perf/runs/framing.py", "frame"),
    ("perf/runs/json.py", "_read"),
    ("perf/runs/junit.py", "_check_environment"),
    ("perf/runs/junit.py", "_fill_timing"),
    ("perf/runs/writer.py", "count_record"),
}


def test_the_sources_are_here():
    names = {path.name for path in PERF}
    assert {"bench.py", "devices.py", "measure.py", "calibrate.py", "compare.py", "roofline.py"} <= names
    assert len(PERF) > 60 and len(AUDIT) > 10 and len(OPS) > 40


@pytest.mark.requirement("3.7", "4.2.3")
def test_no_source_computes_a_price():
    assert formula_lint.findings(path for path in PERF + AUDIT + TOOLS + DOCS if path not in COUNTERS) == []


@pytest.mark.requirement("3.7", "4.2.3")
def test_prices_are_set_by_the_listed_functions_alone():
    found = price_writes.writes_in(ROOT, PERF + AUDIT + OPS + TOOLS + DOCS)
    listed = SETS_PRICES.keys() | SETS_OTHER_THINGS
    assert [write for write in found if (write.file, write.function) not in listed] == []
    assert listed == {(write.file, write.function) for write in found}, "a function that is listed sets nothing"


def test_a_function_that_sets_a_price_computes_nothing():
    for file, function in SETS_PRICES:
        if function:
            assert price_writes.arithmetic((ROOT / file).read_text(encoding="utf-8"), function) == [], file


def test_what_records_and_reports_imports_no_formula():
    sources = PERF + AUDIT + TOOLS + DOCS
    assert [path for path in sources if price_writes.imports_of_formulas(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    "planted",
    [
        "import tileops.perf.formulas as work",
        "from tileops.perf import formulas",
        "def f():\n    from tileops.perf.formulas.moe import moe_permute_nopad_roofline",
    ],
)
def test_an_import_of_a_formula_is_found(planted):
    assert price_writes.imports_of_formulas(planted)
    assert not price_writes.imports_of_formulas("from tileops.perf import paths")


def test_the_bench_has_its_prices_from_the_op_and_not_from_a_helper():
    tree = ast.parse((ROOT / "perf" / "harness" / "records.py").read_text(encoding="utf-8"))
    (function,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "set_price")
    assignments = sorted(
        (node for node in ast.walk(function) if isinstance(node, ast.Assign)), key=lambda node: node.lineno
    )
    said = [f"{ast.unparse(node.targets[0]).strip('()')} = {ast.unparse(node.value)}" for node in assignments]
    assert [line for line in said if re.search(r"\b(flops|n?bytes|read_bytes)\b", line.partition(" = ")[0])] == [
        "flops, nbytes = checks.price_pair(op.ENTRY, 'eval_roofline()', op.eval_roofline())",
        "record.flops, record.bytes = (flops, nbytes)",
        "read_bytes = checks.price(op.ENTRY, 'eval_roofline_read_bytes()', op.eval_roofline_read_bytes())",
        "record.read_bytes = read_bytes",
    ]


# Ways around the first rule, each in a module of perf/.
EVASIONS = {
    "a local name": "work = 2 * m * n * k\nrecord.flops = work",
    "a helper in another module": "record.flops = helpers.work(m, n, k)",
    "an augmented assignment": "record.flops += m",
    "setattr": "setattr(record, 'flops', work)",
    "setattr by a name": "setattr(record, field, work)",
    "a dictionary that is unpacked": "fields['flo' + 'ps'] = work\nrecord = BenchmarkRecord(**fields)",
    "a protobuf CopyFrom": "record.CopyFrom(BenchmarkRecord(flops=work))",
    "a protobuf parser": "record.MergeFromString(encoded)",
    "a message priced elsewhere": "record.MergeFrom(elsewhere.priced(m, n))",
    "a copy of a message priced elsewhere": "record.CopyFrom(elsewhere.priced(m, n))",
    "a merge that is handed on": "functools.partial(BenchmarkRecord.MergeFrom, record)(priced)",
    "a merge by another name": "fill = record.MergeFrom\nfill(priced)",
    "JSON as an f-string": 'file.write(f\'{{"op": "{op}", "flops": {work}}}\')',
    "JSON by a format": "file.write('{\"read_bytes\": %d}' % moved)",
    "JSON by str.format": "file.write('{{\"bytes\": {}}}'.format(moved))",
    "JSON by addition": 'file.write(\'{"op": "GEMMFwdOp", "flops": \' + str(work) + \'}\')',
    "JSON by its keys": "json.dump({'flops': work}, file)",
    "JSON of a dictionary by words": "json.dumps(dict(bytes=moved))",
    "a message as text": "file.write(f'record {{ flops: {work} }}')",
    "a numpy product": "record.flops = int(np.prod(shape))",
    "a lambda": "price = lambda m, n: 2 * m * n\nrecord.flops = price(m, n)",
    "a generator": "record.bytes = next(size * 2 for size in sizes)",
    "a constant": "record.flops = 1000",
    "a loop": "for record.flops in counts:\n    pass",
    "another object": "source.flops = work\nrecord.flops = source.flops",
    "a tuple": "class Price(NamedTuple):\n    flops: int\n    bytes: int\nprice = Price(2 * m, 4 * n)",
    "a starred target": "record.flops, *rest = counts",
    "object's own setattr": "object.__setattr__(record, 'flops', work)",
    "the fields of an object": "vars(record).update(flops=work)",
    "setattr by another name": "put = setattr\nput(record, 'flops', work)",
    "an import by another name": "from builtins import setattr as put\nput(record, 'flops', work)",
    "setattr handed on": "functools.partial(setattr, record, 'flops')(work)",
    "a message by another name": "Made = benchmark_pb2.BenchmarkRecord\nmade = Made(**fields)",
    "a message imported by another name": "from x import BenchmarkRecord as Made\nmade = Made(**fields)",
    "a partial message": "functools.partial(BenchmarkRecord)(**fields)",
    "a copy with other values": "dataclasses.replace(row, **fields)",
    "a named tuple's copy": "row._replace(**fields)",
    "a text": "from google.protobuf.text_format import Parse\nParse(f'flops: {work}', record)",
    "a program as text": "exec(f'record.flops = {work}')",
    "an attribute of a class": "class Case:\n    flops = work\nrecord.flops = Case.flops",
    "a property": "class Case:\n    @property\n    def flops(self):\n        return self.work",
    "a default": "@dataclasses.dataclass(kw_only=True)\nclass Case:\n    flops: int = dataclasses.field(default_factory=f)",
    "a tuple by a call": "Price = collections.namedtuple('Price', 'flops bytes')\nprice = Price(work, moved)",
    "a dataclass by a call": "Price = dataclasses.make_dataclass('Price', ['flops'])\nprice = Price(work)",
    "a key": "fields.setdefault('flops', work)",
}


@pytest.mark.requirement("3.7", "4.2.3")
@pytest.mark.parametrize("evasion", EVASIONS.values(), ids=EVASIONS)
def test_an_evasion_is_found(evasion):
    assert list(price_writes.writes(evasion))


def test_arithmetic_in_a_function_that_sets_a_price_is_found():
    assert price_writes.arithmetic("def f(record):\n    record.flops = ask() * 2", "f") == [2]
    assert price_writes.arithmetic("def f(record):\n    record.bytes = sum(sizes)", "f") == [2]
    assert price_writes.arithmetic("def f(record):\n    text = 'a' + name", "f") == []


def test_a_copy_of_a_price_is_no_finding():
    assert list(price_writes.writes("target.flops, target.bytes = source.flops, source.bytes")) == []
    assert list(price_writes.writes("Row(flops=record.flops, bytes=record.bytes)")) == []
    assert list(price_writes.writes("Record = benchmark_pb2.BenchmarkRecord")) == []
    assert list(price_writes.writes("header.started_at.CopyFrom(min(started, key=_moment))")) == []
    assert list(price_writes.writes('say(f"reads {count} bytes: too many")')) == []
    assert list(price_writes.writes('say(f"FLOPs and bytes: see {page}; read_bytes is {moved}")')) == []
    assert list(price_writes.writes("@dataclass(kw_only=True)\nclass Call:\n    read_bytes: int | None = None")) == []


PLANTED = [
    "flops = 2 * m * n * k",
    "record.flops = 2 * call.indices['M'] * n",
    "record.flops, record.bytes = op.eval_roofline()[0], x.numel() * x.element_size()",
    "record.bytes = sum(tensor.bytes for tensor in tensors)",
    "record.bytes = math.prod(shape)",
    "nbytes: int = x.numel() * 2",
    "record.bytes += record.read_bytes",
    "Record(op=name, flops=5 * elements)",
    "row = {'op': name, 'bytes_moved': 3 * size}",
    "row['flops'] = 4 * size",
    "setattr(record, 'flops', m * n)",
    "def total_flops(m, n):\n    return 2 * m * n",
    "if (bytes_moved := rows * 4) > 0:\n    pass",
    "self._flops = batch << 1",
]


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_formula_is_found_where_it_stands(tmp_path, planted):
    source = tmp_path / "bench_planted.py"
    source.write_text(f'"""A module of the bench."""\n\n{planted}\n')
    (found, *_) = formula_lint.findings([source])
    assert (found.file, found.line >= 3) == ("bench_planted.py", True)


@pytest.mark.parametrize(
    "honest",
    [
        "record.flops, record.bytes = op.eval_roofline()",
        "target.flops = source.flops",
        "time_s = price.flops / peak + price.bytes / bandwidth",
        "flops_per_s = flops / time_s",
        "needed = 5 * case.input_bytes + 8 * case.output_bytes",
        "say(bytes='about ' + text)",
        "record.bytes = int(properties['bytes'])",
    ],
)
def test_reading_copying_and_using_prices_is_none(honest):
    assert list(formula_lint.formulas(honest)) == []


def test_the_formulas_of_the_project_are_found_by_it():
    found = formula_lint.findings(sorted((ROOT / "perf" / "formulas").glob("*.py")))
    assert {one.file for one in found} >= {"attention.py", "moe.py"}
