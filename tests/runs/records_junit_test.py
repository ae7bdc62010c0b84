"""//perf:records on JUnit files: what a suite says, and which files leave open what a row is of."""

import pytest

from tileops.perf.runs import reader as runfile
from tileops.proto import benchmark_pb2
from tileops.tests.runs.conversion import convert  # noqa: F401  a fixture


def junit_test(name="test_a[x]", classname="bench", more="", **properties):
    """Returns a test case of a JUnit file, with the measurement of one implementation."""
    said = {"op": "AddFwdOp", "t_device_busy_ms": "0.1", "t_timing": "cupti"} | properties
    text = "".join(f'<property name="{key}" value="{value}"/>' for key, value in said.items())
    return f'<testcase classname="{classname}" name="{name}"><properties>{text}{more}</properties></testcase>'


def junit_suite(*tests, name="s", **properties):
    """Returns a suite; its properties say what it was measured with."""
    text = "".join(f'<property name="{key}" value="{value}"/>' for key, value in properties.items())
    return f'<testsuite name="{name}"><properties>{text}</properties>{"".join(tests)}</testsuite>'


H200, H100 = {"device_name": "NVIDIA H200"}, {"device_name": "NVIDIA H100"}
OTHER = junit_test("test_a[y]")
BEHIND = '<properties><property name="device_name" value="NVIDIA H100"/></properties></testsuite>'

AMBIGUOUS = {
    "a property twice in a test": (
        junit_suite(junit_test(more='<property name="t_device_busy_ms" value="0.2"/>')),
        "test bench.test_a[x] of suite 1 (s): the property 't_device_busy_ms' stands there twice, with '0.1' and '0.2'",
    ),
    "an op twice in a test": (
        junit_suite(junit_test(more='<property name="op" value="B"/>')),
        "with 'AddFwdOp' and 'B'; keep",
    ),
    "a property twice in a suite": (
        junit_suite(junit_test(), device_name="A").replace('"A"/>', '"A"/><property name="device_name" value="B"/>'),
        "suite 1 (s): the property 'device_name' stands there twice, with 'A' and 'B'",
    ),
    "two devices": (
        junit_suite(junit_test(), **H200) + junit_suite(OTHER, name="second", **H100),
        "their device_name is 'NVIDIA H200' and 'NVIDIA H100'; convert each suite alone, with --suite=NAME",
    ),
    "two drivers": (
        junit_suite(junit_test(), driver_version="1", **H200) + junit_suite(OTHER, driver_version="2", **H200),
        "test_a[x] of suite 1 (s) and the test bench.test_a[y] of suite 2 (s) are of two runs: their driver_version is '1'",
    ),
    "a suite that does not say": (
        junit_suite(junit_test(), **H200) + junit_suite(OTHER),
        "'NVIDIA H200' and not said; convert each suite alone",
    ),
    "a suite that says it alone": (
        junit_suite(junit_test()) + junit_suite(OTHER, **H200),
        "not said and 'NVIDIA H200'; convert each suite alone",
    ),
    "a test of another device": (
        junit_suite(junit_test(), junit_test("test_a[y]", device_name="NVIDIA H100"), **H200),
        "device_name is 'NVIDIA H200' and 'NVIDIA H100'; put the tests of each into a suite, or a file, of their own",
    ),
    "a device as property and as attribute": (
        junit_suite(junit_test(), **H200).replace("<testsuite ", '<testsuite device_name="NVIDIA H100" '),
        "suite 1 (s): the property 'device_name' stands there twice, with 'NVIDIA H100' and 'NVIDIA H200'",
    ),
    "a device twice in the root": (
        "<properties><property name='device_name' value='A'/><property name='device_name' value='B'/></properties>"
        + junit_suite(junit_test()),
        "the root: the property 'device_name' stands there twice, with 'A' and 'B'",
    ),
    "one id twice": (
        junit_suite(junit_test(), junit_test(t_device_busy_ms="1")),
        "suite 1 (s) has two tests bench.test_a[x]",
    ),
    "one id twice, failing first": (
        junit_suite(junit_test().replace("<properties>", "<failure/><properties>"), junit_test()),
        "has two tests bench.test_a",
    ),
    "one row of two tests": (
        junit_suite(junit_test(), junit_test("test_b[x]")),
        "two tests have the row AddFwdOp x t: the test bench.test_a[x] of suite 1 (s), and the test bench.test_b[x] of suite 1 (s)",
    ),
    "one row of two suites": (
        junit_suite(junit_test()) + junit_suite(junit_test(), name="z"),
        "suite 2 (z); leave one out",
    ),
}


@pytest.mark.parametrize("suites, told", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_junit_that_leaves_open_what_a_row_is_of_is_refused(tmp_path, convert, suites, told):
    (tmp_path / "nightly.xml").write_text(f"<testsuites>{suites}</testsuites>")
    status, out, err = convert("--in=nightly.xml", "--out=run.binpb")
    assert (status, out) == (2, "") and not (tmp_path / "run.binpb").exists()
    assert told in err and "nightly.xml: " in err and len(err.splitlines()) == 1


FOREIGN = {
    "a root in a namespace": (
        f'<testsuites xmlns="http://x/y">{junit_suite(junit_test())}</testsuites>',
        "<testsuites> has the namespace 'http://x/y', and JUnit XML has none: remove xmlns=",
    ),
    "tests in a namespace": (
        "<testsuites>"
        + junit_suite(junit_test())
        .replace("testcase", 'j:testcase xmlns:j="z"', 1)
        .replace("</testcase>", "</j:testcase>")
        + "</testsuites>",
        "<testcase> has the namespace 'z', and JUnit XML has none",
    ),
    "a page": (
        "<html><body><p>404</p></body></html>",
        "not JUnit XML: its root is <html>, and that of JUnit <testsuites> or",
    ),
    "a page of XHTML": ('<html xmlns="http://www.w3.org/1999/xhtml"><body/></html>', "its root is <html>"),
    "other XML": ("<coverage/>", "its root is <coverage>"),
    "a test alone": (junit_test(), "its root is <testcase>"),
}


@pytest.mark.parametrize("text, told", FOREIGN.values(), ids=FOREIGN)
def test_a_file_that_is_no_junit_is_refused(tmp_path, convert, text, told):
    (tmp_path / "nightly.xml").write_text(text)
    status, out, err = convert("--in=nightly.xml", "--out=run.binpb")
    assert (status, out) == (2, "") and told in err and not (tmp_path / "run.binpb").exists()


def test_each_suite_becomes_a_run_of_its_own(tmp_path, convert):
    first = junit_suite(junit_test(), name="one", driver_version="1", **H200)
    second = junit_suite(junit_test(), name="two", **H100)
    (tmp_path / "nightly.xml").write_text(f"<testsuites>{first}{second}</testsuites>")
    for suite, device, driver in (("one", "NVIDIA H200", "1"), ("two", "NVIDIA H100", ""), ("2", "NVIDIA H100", "")):
        assert convert("--in=nightly.xml", f"--out={suite}.binpb", f"--suite={suite}")[0] == 0
        reader = runfile.read_run(tmp_path / f"{suite}.binpb")
        assert (reader.header.environment.device_name, reader.header.environment.driver_version) == (device, driver)
        assert len(list(reader.records())) == 1
    status, _, err = convert("--in=nightly.xml", "--suite=three")
    assert status == 2 and "no suite has the name or number 'three'; there are: one, two" in err
    status, _, err = convert("--in=one.binpb", "--suite=one")
    assert status == 2 and "is no JUnit XML, and only JUnit has suites" in err


@pytest.mark.parametrize("encoding", ["shift_jis", "euc-jp", "gbk", "utf-7", "foo", "rot13", "idna"])
def test_an_encoding_that_cannot_be_read_is_named(tmp_path, convert, encoding):
    (tmp_path / "nightly.xml").write_text(f'<?xml version="1.0" encoding = "{encoding}"?>{junit_suite(junit_test())}')
    status, out, err = convert("--in=nightly.xml", "--out=run.binpb")
    assert (status, out) == (2, "") and f"cannot be read in the encoding '{encoding}'; convert it to UTF-8" in err


TEXT = '<property name="device_name"> NVIDIA H200\n</property>'
SAID = {
    "as text": junit_suite(junit_test()).replace("<properties>", f"<properties>{TEXT}", 1),
    "as an attribute": junit_suite(junit_test()).replace("<testsuite ", '<testsuite device_name="NVIDIA H200" '),
    "by each test and again behind them": junit_suite(junit_test(**H200)).replace(
        "</testsuite>", BEHIND.replace("H100", "H200")
    ),
    "with another in what a test wrote": junit_suite(
        junit_test(**H200).replace("</testcase>", f"<system-out>{TEXT.replace('H200', 'H9')}</system-out></testcase>"),
        f"<system-out>{TEXT.replace('H200', 'H9')}</system-out>",
    ),
}


@pytest.mark.parametrize("suite", SAID.values(), ids=SAID)
def test_a_device_may_be_said(tmp_path, convert, suite):
    (tmp_path / "nightly.xml").write_text(suite)
    assert convert("--in=nightly.xml", "--out=run.binpb")[0] == 0
    reader = runfile.read_run(tmp_path / "run.binpb")
    assert reader.header.environment.device_name == "NVIDIA H200" and len(list(reader.records())) == 1


def test_an_op_may_be_text(tmp_path, convert):
    test = junit_test(more='<property name="family">unary</property>').replace(
        ' value="AddFwdOp"/>', ">AddFwdOp</property>"
    )
    (tmp_path / "nightly.xml").write_text(junit_suite(test))
    assert convert("--in=nightly.xml", "--out=run.binpb")[0] == 0
    (record,) = runfile.read_run(tmp_path / "run.binpb").records()
    assert (record.op, record.family) == ("AddFwdOp", "unary")


def test_a_suite_holds_the_tests_of_the_suites_in_it(tmp_path, convert):
    inner, beside = junit_suite(junit_test(), name="inner"), junit_suite(junit_test("test_a[y]"), name="2")
    (tmp_path / "nightly.xml").write_text(
        f"<testsuites>{junit_suite(inner, name='outer', **H200)}{beside}</testsuites>"
    )
    for suite in ("outer", "1", "inner"):
        assert convert("--in=nightly.xml", f"--out={suite}.binpb", f"--suite={suite}")[0] == 0
        (record,) = runfile.read_run(tmp_path / f"{suite}.binpb").records()
        assert record.case_id == "x"
    status, _, err = convert("--in=nightly.xml", "--suite=2")
    assert status == 2 and "'2' fits suite 2 (inner) and suite 3 (2); use a number or rename one" in err


@pytest.mark.parametrize(
    ("time", "reason"), [("1e308", "too large for a time"), ("0", "more than 0"), ("-1", "more than 0")]
)
def test_a_time_that_is_none_is_an_error_with_its_reason(tmp_path, convert, time, reason):
    (tmp_path / "nightly.xml").write_text(junit_suite(junit_test(t_device_busy_ms=time)))
    assert convert("--in=nightly.xml", "--out=run.binpb")[0] == 0
    (record,) = runfile.read_run(tmp_path / "run.binpb").records()
    assert record.status == benchmark_pb2.STATUS_ERROR and not record.HasField("timing")
    assert f"t_device_busy_ms is '{time}'" in record.message and reason in record.message


def test_what_is_said_twice_alike_or_of_all_suites_is_clear(tmp_path, convert):
    suites = junit_suite(junit_test(more='<property name="op" value="AddFwdOp"/>')) + junit_suite(
        junit_test("test_a[y]", **H200), '<testcase name="other"/><testcase name="other"/>', **H200
    )
    nested = (
        f'<testsuites><properties><property name="device_name" value="NVIDIA H200"/></properties>{suites}</testsuites>'
    )
    (tmp_path / "nightly.xml").write_text(nested)
    status, _, err = convert("--in=nightly.xml", "--out=run.binpb")
    assert (status, err) == (0, "records: nightly.xml: left out 2 test cases without the property 'op'\n")
    reader = runfile.read_run(tmp_path / "run.binpb")
    assert reader.header.environment.device_name == "NVIDIA H200"
    assert [record.case_id for record in reader.records()] == ["x", "y"]


@pytest.mark.parametrize("tests, count", [("", "0 test cases"), ('<testcase name="other"/>', "1 test case")])
def test_junit_without_a_benchmark_is_refused_with_the_property_that_it_lacks(tmp_path, convert, tests, count):
    (tmp_path / "nightly.xml").write_text(junit_suite(tests))
    status, out, err = convert("--in=nightly.xml", "--out=run.binpb", "--device_name=NVIDIA H200")
    assert (status, out) == (2, "") and not (tmp_path / "run.binpb").exists()
    assert f"nightly.xml: none of its {count} has the property 'op', which names a benchmark's op" in err


@pytest.mark.parametrize("name, value", [("t_flops", "many"), ("t_device_busy_ms", "nan"), ("t_bytes", "-1")])
def test_a_value_that_is_no_number_is_told_with_its_file_and_test(tmp_path, convert, name, value):
    (tmp_path / "nightly.xml").write_text(junit_suite(junit_test(**{name: value}), OTHER, **H200))
    status, _, err = convert("--in=nightly.xml", "--out=run.binpb")
    (line,) = err.splitlines()
    assert status == 0
    assert line.startswith(
        f"records: nightly.xml: the test bench.test_a[x] of suite 1 (s): {name} is {value!r}, not a "
    )
    assert [record.status for record in runfile.read_run(tmp_path / "run.binpb").records()] == [
        benchmark_pb2.STATUS_ERROR,
        benchmark_pb2.STATUS_OK,
    ]


@pytest.mark.parametrize("outer", [{}, H200])
def test_a_property_of_a_suite_counts_wherever_it_stands(tmp_path, convert, outer):
    inner = junit_suite(junit_test(), name="inner").replace("</testsuite>", BEHIND)
    (tmp_path / "nightly.xml").write_text(f"<testsuites>{junit_suite(inner, **outer)}</testsuites>")
    assert convert("--in=nightly.xml", "--out=run.binpb")[0] == 0
    assert runfile.read_run(tmp_path / "run.binpb").header.environment.device_name == "NVIDIA H100"
