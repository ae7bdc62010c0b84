"""A price is copied from `op.eval_roofline()` and set in few places: computing one in perf/, audit/ or ops/ fails.

Formulas live in the manifest and in `perf/formulas/` (requirement 3). Two rules hold them there: formula_lint finds
arithmetic under a price's name, price_writes finds every place that sets a price.
"""

import pathlib

import pytest

from tileops.tests.layering import formula_lint, price_writes

# The checkout itself, so that no new module can be forgotten.
ROOT = pathlib.Path("pyproject.toml").resolve().parent
PERF, AUDIT, OPS = (
    sorted(path for path in (ROOT / folder).rglob("*.py") if not {"formulas", "generated"} & set(path.parts))
    for folder in ("perf", "audit", "ops")
)

# These add up what counters measured.
COUNTERS = {"counters.py"}

# The functions that set a price, and where they have it from. None of them computes.
SETS_PRICES = {
    ("perf/harness/records.py", "set_price"): "op.eval_roofline() and op.eval_roofline_read_bytes()",
    ("perf/runs/junit.py", "_records"): "properties of a JUnit file",
    ("audit/calls.py", "declared"): "op.eval_roofline_read_bytes()",
    ("audit/profiled_call.py", "run"): "op.eval_roofline_read_bytes()",
    ("audit/report.py", "row"): "the declared read half",
    ("perf/comparison/reprice_join.py", "_reprice"): "another run's record, field by field",
    ("perf/roof/pricing.py", "row_of"): "the record",
    ("ops/row_index.py", ""): "the index that the build wrote",
}
# These set fields by name or parse messages, of other kinds; or hold sizes of tensors.
SETS_OTHER_THINGS = {
    ("audit/counters.py", "parse"),
    ("audit/measure.py", "_note_machine"),
    ("audit/session.py", "_is_audit"),
    ("ops/implementations.py", "mark"),
    ("perf/calibration/profile.py", "merge"),
    ("perf/calibration/profile.py", "to_text"),
    ("perf/harness/border.py", "place"),
    ("perf/harness/records.py", "_set_reading"),
    ("perf/harness/records.py", "set_measurement"),
    ("perf/harness/run.py", "_outcome"),
    ("perf/harness/session.py", "_measure"),
    ("perf/report/facts.py", "summary"),
    ("perf/report/store.py", "summarize"),
    ("perf/roof/profiles.py", "load_profile"),
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
    assert formula_lint.findings(path for path in PERF + AUDIT if path.name not in COUNTERS) == []


@pytest.mark.requirement("3.7", "4.2.3")
def test_prices_are_set_by_the_listed_functions_alone():
    found = price_writes.writes_in(ROOT, PERF + AUDIT + OPS)
    listed = SETS_PRICES.keys() | SETS_OTHER_THINGS
    assert [write for write in found if (write.file, write.function) not in listed] == []
    assert listed == {(write.file, write.function) for write in found}, "a function that is listed sets nothing"


def test_a_function_that_sets_a_price_computes_nothing():
    for file, function in SETS_PRICES:
        if function:
            assert price_writes.arithmetic((ROOT / file).read_text(encoding="utf-8"), function) == [], file


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
    "a numpy product": "record.flops = int(np.prod(shape))",
    "a lambda": "price = lambda m, n: 2 * m * n\nrecord.flops = price(m, n)",
    "a generator": "record.bytes = next(size * 2 for size in sizes)",
    "a constant": "record.flops = 1000",
    "a loop": "for record.flops in counts:\n    pass",
    "another object": "source.flops = work\nrecord.flops = source.flops",
    "a tuple": "class Price(NamedTuple):\n    flops: int\n    bytes: int\nprice = Price(2 * m, 4 * n)",
    "a starred target": "record.flops, *rest = counts",
}


@pytest.mark.requirement("3.7", "4.2.3")
@pytest.mark.parametrize("evasion", EVASIONS.values(), ids=EVASIONS)
def test_an_evasion_is_found(evasion):
    assert list(price_writes.writes(evasion))


def test_arithmetic_in_a_function_that_sets_a_price_is_found():
    assert price_writes.arithmetic("def f(record):\n    record.flops = ask() * 2", "f") == [2]
    assert price_writes.arithmetic("def f(record):\n    text = 'a' + name", "f") == []


def test_a_copy_of_a_price_is_no_finding():
    assert list(price_writes.writes("target.flops, target.bytes = source.flops, source.bytes")) == []
    assert list(price_writes.writes("Row(flops=record.flops, bytes=record.bytes)")) == []


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
    assert len(formula_lint.findings(sorted((ROOT / "perf" / "formulas").glob("*.py")))) >= 4
