"""The benchmark layer computes no FLOPs and no bytes: a formula in `perf/` outside `formulas/` fails."""

import pathlib

import pytest

from tileops.tests.layering import formula_lint

PERF = pathlib.Path(__file__).absolute().parents[2] / "perf"
SOURCES = sorted(path for path in PERF.rglob("*.py") if path.parent.name != "formulas")


def test_the_sources_are_here():
    names = {path.name for path in SOURCES}
    assert {"bench.py", "devices.py", "measure.py", "calibrate.py", "compare.py", "roofline.py"} <= names
    assert len(SOURCES) > 60


def test_no_source_computes_a_price():
    assert formula_lint.findings(SOURCES) == []


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
    assert len(formula_lint.findings(sorted((PERF / "formulas").glob("*.py")))) >= 4
