"""Counters from ncu's CSV: which numbers count, in which units and locales, and what is refused."""

import pytest

from tileops.audit import counters, quantities
from tileops.tests.audit.ncu_output import INSIDE, PROLOGUE, details, raw

ONE = [("void copy_kernel<float, 4>(float*, float const*)", "268455424", "241410816")]
THREE = [("a", "1000000", "10"), ("b", "200000", "20"), ("c", "30000", "30")]


@pytest.mark.parametrize("page", [raw, details])
def test_reads_and_writes_of_all_kernels_of_the_call_are_summed(page):
    found = counters.parse(PROLOGUE + page(THREE))
    assert (found.read_bytes, found.write_bytes, found.kernels, found.outside) == (1230000, 60, ("a", "b", "c"), 0)


def test_a_kernels_name_may_hold_commas_and_quotes():
    name = 'void k<int, "x">(int, int)'
    assert counters.parse(raw([(name, "64", "0")])).kernels == (name,)


def test_kernels_outside_the_calls_range_do_not_count():
    found = counters.parse(raw(THREE, ranges=["", INSIDE, "<default domain>:other:none:none:none:none"]))
    assert (found.read_bytes, found.kernels, found.outside) == (200000, ("b",), 2)


def test_without_ranges_every_profiled_kernel_is_the_calls():
    assert counters.parse(raw(THREE, ranges=["", "", ""])).read_bytes == 1230000


def test_a_replayed_kernel_counts_once_however_many_passes_print_it():
    assert counters.parse(details(ONE, passes=3)).read_bytes == 268455424


def test_passes_that_disagree_are_refused():
    text = details(ONE) + details([(ONE[0][0], "268455456", "0")]).partition("\n")[2]
    with pytest.raises(counters.CounterError, match=r"line 4: kernel 0 has .*268455456 byte here and 268455424 byte on line 2"):
        counters.parse(text)


def test_the_same_id_in_two_processes_is_two_kernels():
    second = raw(ONE, process="5").split("\n", 2)[2]
    assert counters.parse(raw(ONE) + second).read_bytes == 2 * 268455424


@pytest.mark.parametrize(
    ("number", "unit", "expected"),
    [
        ("268455424", "byte", 268455424),
        ("268.46", "Mbyte", 268460000),
        ("268,455.42", "Kbyte", 268455420),
        ("0.27", "Gbyte", 270000000),
        ("100", "MB", 100000000),
        ("1.5", "KB", 1500),
        ("256", "MiB", 268435456),
        ("0", "byte", 0),
    ],
)
@pytest.mark.parametrize("page", [raw, details])
def test_every_unit_that_counts_bytes_is_understood(page, number, unit, expected):
    assert counters.parse(page([("k", number, "0")], unit=unit)).read_bytes == expected


@pytest.mark.parametrize(
    ("number", "unit", "expected"),
    [
        ("268,455,424", "byte", 268455424),  # English
        ("268.455.424", "byte", 268455424),  # German
        ("268.455.424,00", "byte", 268455424),
        ("268\u202f455\u202f424", "byte", 268455424),  # French
        ("268'455'424", "byte", 268455424),  # Swiss
        ("455,424", "byte", 455424),
        ("455.424", "byte", 455424),
        ("268,46", "Mbyte", 268460000),
        ("1.268,46", "Mbyte", 1268460000),
        ("1,268.46", "Mbyte", 1268460000),
    ],
)
def test_separators_of_any_locale_are_understood(number, unit, expected):
    assert counters.parse(raw([("k", number, "0")], unit=unit)).read_bytes == expected


def test_an_ambiguous_number_is_read_as_the_files_other_numbers_are():
    german = raw([("k", "1,234", "12,5")], unit="Mbyte")
    english = raw([("k", "1,234", "12.5")], unit="Mbyte")
    assert counters.parse(german).read_bytes == 1234000
    assert counters.parse(english).read_bytes == 1234000000


@pytest.mark.parametrize("cut", [1, 2, 10, 40, 120])
@pytest.mark.parametrize("page", [raw, details])
def test_a_file_cut_within_a_line_is_refused(page, cut):
    text = page(THREE).rstrip("\n")
    with pytest.raises(counters.CounterError, match="cut off"):
        counters.parse(text[:-cut])


def test_a_file_cut_between_a_kernels_metrics_is_refused():
    lines = details(THREE).splitlines()
    with pytest.raises(counters.CounterError, match="kernel c has no dram__bytes_write.sum"):
        counters.parse("\n".join(lines[:-1]))


def test_lines_of_the_vendor_and_of_the_program_are_passed_over():
    head, rest = details(ONE).split("\n", 1)
    text = f"loading weights, please wait\n{PROLOGUE}{head}\n==PROF== 3 passes\nstep 1, loss 2\n{rest}==PROF== Report\n"
    assert counters.parse(text).read_bytes == 268455424


def test_a_file_saved_without_quotes_is_read_all_the_same():
    assert counters.parse(raw([("k", "64", "0")]).replace('"', "").replace("(256, 1, 1)", "x").replace("(1024, 1, 1)", "y")).read_bytes == 64


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no CSV header"),
        ("==PROF== Connected\n", "no CSV header"),
        ("==ERROR== ERR_NVGPUCTRPERM - no permission\n", "ERR_NVGPUCTRPERM - no permission"),
        ("==WARNING== No kernels were profiled.\n", "No kernels were profiled"),
        (raw([]), "no kernel was profiled"),
        (raw([("k", "n/a", "0")]), "'n/a' is no number"),
        (raw([("k", "-5", "0")]), "'-5' is no number"),
        (raw([("k", "nan", "0")]), "'nan' is no number"),
        (raw([("k", "", "0")]), "'' is no number"),
        (raw([("k", "1", "0")], unit="sector"), "unit 'sector' is none of bytes"),
        (raw(ONE) + raw(ONE), "a second header"),
        (raw(ONE).replace("dram__bytes_read.sum", "lts__t_bytes.sum"), "has no dram__bytes_read.sum"),
    ],
)
def test_what_is_no_measurement_is_refused_with_the_reason(text, said):
    with pytest.raises(counters.CounterError, match=said):
        counters.parse(text)


def test_a_number_with_two_decimal_marks_is_refused():
    with pytest.raises(quantities.NumberError):
        quantities.parse_bytes("1.5.25", "Mbyte", ".")
