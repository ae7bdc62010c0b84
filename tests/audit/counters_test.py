"""Counters from ncu's CSV: which numbers count, and what is refused."""

import pytest

from tileops.audit import counters
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
    with pytest.raises(
        counters.CounterError, match=r"line 4: kernel 0 has .*268455456 byte here and 268455424 byte on line 2"
    ):
        counters.parse(text)


def test_the_same_id_in_two_processes_is_two_kernels():
    second = raw(ONE, process="5").split("\n", 2)[2]
    assert counters.parse(raw(ONE) + second).read_bytes == 2 * 268455424


@pytest.mark.parametrize(
    "number",
    [
        "268455424",
        "268,455,424",  # English
        "268.455.424",  # German
        "268\u202f455\u202f424",  # French
        "268'455'424",  # Swiss
    ],
)
@pytest.mark.parametrize("page", [raw, details])
def test_groups_of_any_locale_are_read(page, number):
    assert counters.parse(page([("k", number, "0")])).read_bytes == 268455424


@pytest.mark.parametrize("number", ["455,424", "455.424"])
def test_a_lone_sign_before_three_digits_separates_groups_since_bytes_have_no_fraction(number):
    assert counters.parse(raw([("k", number, "0")])).read_bytes == 455424


@pytest.mark.parametrize("unit", ["Kbyte", "Mbyte", "GB", "MiB", "sector", ""])
@pytest.mark.parametrize("page", [raw, details])
def test_another_unit_than_bytes_is_refused_and_the_error_says_how_to_get_bytes(page, unit):
    said = f"line [23]: dram__bytes_read.sum of kernel k: the unit is '{unit}'.*run ncu with --print-units base"
    with pytest.raises(counters.CounterError, match=said):
        counters.parse(page([("k", "268", "0")], unit=unit))


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


@pytest.mark.parametrize("page", [raw, details])
def test_a_file_without_writes_is_judged_by_its_reads(page):
    whole = page(THREE)
    if page is raw:
        cells = [line.rpartition(",")[0] for line in whole.splitlines()]
        text = "\n".join(cells) + "\n"
    else:
        text = "".join(line for line in whole.splitlines(keepends=True) if "dram__bytes_write.sum" not in line)
    assert "dram__bytes_write" in whole and "dram__bytes_write" not in text
    found = counters.parse(text)
    assert (found.read_bytes, found.write_bytes, found.kernels) == (1230000, None, ("a", "b", "c"))


def test_a_file_without_reads_is_refused():
    text = "".join(line for line in details(THREE).splitlines(keepends=True) if "dram__bytes_read.sum" not in line)
    with pytest.raises(counters.CounterError, match="kernel a has no dram__bytes_read.sum"):
        counters.parse(text)


def test_lines_of_the_vendor_and_of_the_program_are_passed_over():
    head, rest = details(ONE).split("\n", 1)
    text = f"loading weights, please wait\n{PROLOGUE}{head}\n==PROF== 3 passes\nstep 1, loss 2\n{rest}==PROF== Report\n"
    assert counters.parse(text).read_bytes == 268455424


def test_a_file_saved_without_quotes_is_read_all_the_same():
    assert (
        counters.parse(
            raw([("k", "64", "0")]).replace('"', "").replace("(256, 1, 1)", "x").replace("(1024, 1, 1)", "y")
        ).read_bytes
        == 64
    )


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
        (raw(ONE) + raw(ONE), "a second header"),
        (raw(ONE).replace("dram__bytes_read.sum", "lts__t_bytes.sum"), "has no dram__bytes_read.sum"),
    ],
)
def test_what_is_no_measurement_is_refused_with_the_reason(text, said):
    with pytest.raises(counters.CounterError, match=said):
        counters.parse(text)


@pytest.mark.parametrize(
    "text",
    ["1.5.25", "1,23,456", "1.234,567", "0,369", "3,69098752", "369098752.5", "268.455.424,00", "1 23", "3.69e8"],
)
def test_what_is_no_whole_number_in_groups_of_three_is_refused(text):
    with pytest.raises(counters.CounterError, match="is no number of bytes"):
        counters.parse(raw([("k", text, "0")]))


def test_kernels_outside_the_call_need_no_numbers():
    kernels = [("call", "1234", "0"), ("broken", "n/a", "0")]
    assert counters.parse(raw(kernels, ranges=[INSIDE, ""])).read_bytes == 1234


def test_a_byte_order_mark_is_no_part_of_the_header():
    assert counters.parse("\ufeff" + raw(ONE)).read_bytes == 268455424


def test_ranges_of_which_none_is_the_calls_are_refused():
    ranges = ["<default domain>:step-1:none", "<default domain>:warmup:none"]
    with pytest.raises(counters.CounterError, match="no kernel is in 'tileops-audit-call'.*step-1.*warmup"):
        counters.parse(raw(THREE[:2], ranges=ranges))


@pytest.mark.parametrize("name", ["xtileops-audit-call", "tileops-audit-call-2", "tileops-audit-calls"])
def test_a_range_whose_name_only_holds_the_calls_is_another(name):
    with pytest.raises(counters.CounterError, match="the call's kernels are unknown"):
        counters.parse(raw(ONE, ranges=[f"<default domain>:{name}:none"]))


def test_the_range_is_found_as_ncu_quotes_it_and_inside_others():
    quoted = '615  "<default domain>:outer:none:none"  "<default domain>:tileops-audit-call:none:none:none"'
    assert counters.parse(raw(THREE[:2], ranges=[quoted, ""])).kernels == ("a",)


@pytest.mark.parametrize(
    ("names", "repeats"), [("k", 1), ("kk", 2), ("abab", 2), ("aba", 1), ("aab", 1), ("aaa", 3), ("abcabc", 2)]
)
def test_launches_that_follow_one_another_again_are_counted(names, repeats):
    assert counters.parse(raw([(name, "8", "0") for name in names])).repeats == repeats


def test_a_launch_of_another_grid_is_another():
    text = raw([("k", "8", "0"), ("k", "4", "0")])
    head, last = text.rstrip("\n").rsplit("\n", 1)
    assert counters.parse(f"{head}\n{last.replace('(1024, 1, 1)', '(1, 1, 1)')}\n").repeats == 1


def test_a_run_that_ncu_calls_failed_is_refused_however_whole_its_rows_are():
    with pytest.raises(counters.CounterError, match="^LaunchFailed: kernel b$"):
        counters.parse(f"==ERROR== LaunchFailed: kernel b\n{raw(THREE)}")


def test_kernels_that_ncu_profiled_and_the_file_lacks_are_missed():
    said = "".join(f'==PROF== Profiling "{name}" - {at}: 0%....100% - 2 passes\n' for at, name in enumerate("abc"))
    assert counters.parse(said + raw(THREE)).read_bytes == 1230000
    with pytest.raises(counters.CounterError, match="profiled 3 kernels, and ID 2 is not here"):
        counters.parse(said + raw(THREE[:2]))


def test_an_unquoted_file_that_ends_within_its_last_number_is_refused():
    text = raw([("k", "5", "369098752")]).replace('"', "").replace("(256, 1, 1)", "x").replace("(1024, 1, 1)", "y")
    assert counters.parse(text).write_bytes == 369098752
    with pytest.raises(counters.CounterError, match="line 3: the file is cut off"):
        counters.parse(text[:-5])


def test_two_columns_of_one_name_are_refused():
    text = raw([("k", "64", "7")]).replace(counters.WRITE_METRIC, counters.READ_METRIC)
    with pytest.raises(counters.CounterError, match=r"line 1: two columns are named dram__bytes_read.sum"):
        counters.parse(text)


def test_one_id_of_two_kernels_is_refused():
    text = raw([("k", "64", "0")])
    with pytest.raises(counters.CounterError, match=r"line 4: ID 0 is other .* here and k .* on line 3"):
        counters.parse(text + text.splitlines(keepends=True)[-1].replace('"k"', '"other"'))
