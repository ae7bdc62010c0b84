"""JUnit XML of benchmark jobs, read as a run.

A test case with a property `op` is a benchmark. Each of its properties `<tag>_device_busy_ms` is a measurement of the
implementation `<tag>`; `<tag>_flops`, `<tag>_bytes` and `<tag>_timing` (the clock) stand beside it. The case id is the
text in the brackets of the test's name. What the file does not say, often the roof key, stays empty: //perf:reprice
fills in today's prices.

An ambiguous file is refused. Examples: a test has the property `tileops_flops` twice, with two values; a suite of an
H100 follows a suite of an H200.
"""

import contextlib
import math
import pathlib
import re
from collections.abc import Iterable, Iterator
from xml.etree import ElementTree

from google.protobuf import timestamp_pb2

from tileops.perf.runs import reader, writer
from tileops.proto import benchmark_pb2
from tileops.tools.cli import words

_BUSY_SUFFIX = "_device_busy_ms"
_NANOSECONDS_PER_MILLISECOND = 1e6
_UINT64_END = 2**64

# Names that jobs have for the clocks.
_CLOCKS = {
    "cupti": benchmark_pb2.TIMING_SOURCE_CUPTI,
    "cuda_events": benchmark_pb2.TIMING_SOURCE_CUDA_EVENTS,
    "cuda_event": benchmark_pb2.TIMING_SOURCE_CUDA_EVENTS,
    "events": benchmark_pb2.TIMING_SOURCE_CUDA_EVENTS,
    "host_clock": benchmark_pb2.TIMING_SOURCE_HOST_CLOCK,
    "host": benchmark_pb2.TIMING_SOURCE_HOST_CLOCK,
}
_OUTCOMES = {
    "failure": benchmark_pb2.STATUS_ERROR,
    "error": benchmark_pb2.STATUS_ERROR,
    "skipped": benchmark_pb2.STATUS_SKIPPED,
}
_ROOTS = ("testsuites", "testsuite")
# Elements that decide what is read.
_ELEMENTS = frozenset((*_ROOTS, "testcase", "properties", "property"))
# The encoding that an XML file declares in its first bytes.
_ENCODING = re.compile(rb"""encoding\s*=\s*["']([^"']*)""")
_HEAD_BYTES = 200
# Properties of a suite, or of a test, that say what it was measured with. A suite may have them as attributes.
_ENVIRONMENT = (
    "device_name",
    "driver_version",
    "cuda_version",
    "torch_version",
    "triton_version",
    "python_version",
    "project_revision",
)


class JUnitReader:
    """One JUnit file, with what `runfile.RunReader` has.

    Attributes:
      path: The file.
      header: What its tests, or their suites, say of what they were measured with.
      footer: The counts of its records.
      problems: What was left out, and values that are no numbers.
    """

    def __init__(self, path: pathlib.Path, suite: str | None = None):
        """Reads the file.

        Args:
          path: The file.
          suite: Name of the suite to read, or its number from 1; None to read them all. The suites in it are read too.

        Raises:
          runfile.RunFileError: The file cannot be read, is no JUnit XML, or has no
            benchmark or no such suite. Or it is ambiguous: `suite` fits several suites,
            a property has two values, tests are of several devices, drivers or the like,
            or two tests are of one row.
        """
        self.path = path
        self.header = benchmark_pb2.RunHeader()
        self._counts = benchmark_pb2.RunFooter()
        self.footer: benchmark_pb2.RunFooter | None = self._counts
        self.problems: list[reader.Problem] = []
        self._others = 0
        self._kept: list[benchmark_pb2.BenchmarkRecord] = []
        # The first test with a benchmark, with its suite and environment; and which test has a name or a row.
        self._first: tuple[str, str, dict[str, str]] | None = None
        self._owners: dict[tuple[str, ...], str] = {}
        root = self._root()
        self._numbers = {each: number for number, each in enumerate(root.iter("testsuite"), 1)}
        self._asked = root if suite is None else self._find(suite)
        self._read_suite(root, {}, False)
        if not self._kept:
            raise self._refusal(
                f"none of its {words.counted(self._others, 'test case')} has the property 'op', which names a"
                " benchmark's op: there is nothing to convert"
            )
        if self._others:
            left_out = f"left out {words.counted(self._others, 'test case')} without the property 'op'"
            self.problems.append(reader.Problem(None, left_out))

    def records(self) -> Iterator[benchmark_pb2.BenchmarkRecord]:
        """Yields a record for each measurement; for a test without any, its outcome."""
        yield from self._kept

    def _root(self) -> ElementTree.Element:
        """Returns the root of the file; raises RunFileError if it is not one of JUnit XML."""
        try:
            root = ElementTree.parse(self.path).getroot()
        except OSError as error:
            raise reader.RunFileError(f"cannot read {self.path}: {error.strerror}") from error
        except ElementTree.ParseError as error:
            line, column = error.position
            raise reader.RunFileError(f"{self.path}:{line}:{column + 1}: not JUnit XML: {error}") from error
        except (ValueError, LookupError) as error:  # the parser knows UTF-8, UTF-16 and encodings of one byte
            with open(self.path, "rb") as file:
                declared = _ENCODING.search(file.read(_HEAD_BYTES))
            encoding = f"the encoding {declared[1].decode(errors='replace')!r}" if declared else "its encoding"
            raise self._refusal(f"cannot be read in {encoding}; convert it to UTF-8") from error
        local = root.tag.rpartition("}")[2]
        if local not in _ROOTS:
            raise self._refusal(f"not JUnit XML: its root is <{local}>, and that of JUnit <testsuites> or <testsuite>")
        for each in root.iter():
            namespace, _, local = each.tag.rpartition("}")
            if namespace and local in _ELEMENTS:
                raise self._refusal(
                    f"<{local}> has the namespace {namespace[1:]!r}, and JUnit XML has none: remove xmlns="
                )
        return root

    def _find(self, suite: str) -> ElementTree.Element:
        """Returns the suite with this name or number; raises RunFileError if there is no such suite, or several."""
        fitting = [each for each, number in self._numbers.items() if suite in (each.get("name", ""), str(number))]
        if not fitting:
            names = [each.get("name", "") for each in self._numbers]
            there = ", ".join(filter(None, names)) or f"numbers 1 to {len(names)}"
            raise self._refusal(f"no suite has the name or number {suite!r}; there are: {there}")
        if len(fitting) > 1:
            titles = " and ".join(map(self._title, fitting))
            raise self._refusal(f"{suite!r} fits {titles}; use a number or rename one")
        return fitting[0]

    def _title(self, suite: ElementTree.Element) -> str:
        name = suite.get("name", "")
        which = f"suite {self._numbers[suite]}" if suite in self._numbers else "the root"
        return which + (f" ({name})" if name else "")

    def _read_suite(self, suite: ElementTree.Element, around: dict[str, str], is_asked_for: bool) -> None:
        """Takes the tests of a suite and of the suites in it.

        Args:
          suite: The suite.
          around: The properties of the suites around it.
          is_asked_for: Whether a suite around it was asked for.
        """
        title = self._title(suite)
        is_asked_for = is_asked_for or suite is self._asked
        if is_asked_for and not self.header.HasField("started_at"):
            _take_time(suite.get("timestamp", ""), self.header)
        attributes = {field: suite.attrib[field] for field in _ENVIRONMENT if suite.get(field)}
        said = around | self._properties(suite.iterfind("properties/property"), title, attributes)
        for each in suite:
            if each.tag == "testcase" and is_asked_for:
                self._take_test(each, title, said)
            elif each.tag in _ROOTS:
                self._read_suite(each, said, is_asked_for)

    def _take_test(self, test: ElementTree.Element, suite: str, said: dict[str, str]) -> None:
        """Keeps the records of a test; raises RunFileError if it is not clear what they are of."""
        name = ".".join(filter(None, (test.get("classname"), test.get("name"))))
        title = f"the test {name} of {suite}"
        # A property elsewhere, as in <system-out>, is text that the test wrote.
        elements = (*test.iterfind("property"), *test.iterfind("properties/property"))
        properties = self._properties(elements, title, {})
        if not properties.get("op"):
            self._others += 1
            return
        said = said | properties
        self._check_environment(title, suite, {field: said.get(field, "") for field in _ENVIRONMENT})
        self._check_alone(("test", suite, name), title, f"{suite} has two tests {name}")
        for record, defect in _records(test, properties):
            key = (record.op, record.case_id, record.implementation)
            if record.implementation:  # without a measurement there is no row to confuse
                self._check_alone(("row", *key), title, f"two tests have the row {' '.join(filter(None, key))}")
            if defect:
                self.problems.append(reader.Problem(None, f"{title}: {defect}; its row is an error without a time"))
            writer.count_record(self._counts, record)
            self._kept.append(record)

    def _properties(
        self, elements: Iterable[ElementTree.Element], title: str, attributes: dict[str, str]
    ) -> dict[str, str]:
        """Returns properties and attributes by name; raises RunFileError if one has two values."""
        found = dict(attributes)
        for each in elements:
            name, value = each.get("name", ""), each.get("value")
            if value is None:
                value = (each.text or "").strip()
            if found.setdefault(name, value) != value:
                raise self._refusal(
                    f"{title}: the property {name!r} stands there twice, with {found[name]!r} and {value!r}; keep one"
                )
        return found

    def _check_environment(self, title: str, suite: str, environment: dict[str, str]) -> None:
        """Raises RunFileError if a test's environment is not that of the first test, which goes into the header."""
        if self._first is None:
            self._first = title, suite, environment
            for field, value in environment.items():
                setattr(self.header.environment, field, value)
        first, first_suite, ours = self._first
        for field, value in environment.items():
            if value != ours[field]:
                values = " and ".join(repr(each) if each else "not said" for each in (ours[field], value))
                remedy = (
                    "put the tests of each into a suite, or a file, of their own"
                    if suite == first_suite
                    else "convert each suite alone, with --suite=NAME or its number"
                )
                raise self._refusal(f"{first} and {title} are of two runs: their {field} is {values}; {remedy}")

    def _check_alone(self, key: tuple[str, ...], title: str, what: str) -> None:
        """Raises RunFileError if another test has the key already."""
        if key in self._owners:
            raise self._refusal(
                f"{what}: {self._owners[key]}, and {title}; leave one out, give one another name, or convert suites"
                " alone with --suite"
            )
        self._owners[key] = title

    def _refusal(self, what: str) -> reader.RunFileError:
        return reader.RunFileError(f"{self.path}: {what}")


def _take_time(stamp: str, header: benchmark_pb2.RunHeader) -> None:
    """Sets when the run began; a time that cannot be read is one that is not known."""
    # JUnit's own form names no zone; RFC 3339 wants one.
    has_zone = stamp.endswith("Z") or "+" in stamp[10:] or "-" in stamp[10:]
    started = timestamp_pb2.Timestamp()
    with contextlib.suppress(ValueError):
        started.FromJsonString(stamp if has_zone else stamp + "Z")
        header.started_at.CopyFrom(started)


def _records(
    test: ElementTree.Element, properties: dict[str, str]
) -> Iterator[tuple[benchmark_pb2.BenchmarkRecord, str]]:
    """Yields the records of a test with these properties, each with the value in them that is no number ("": none)."""
    status, message = _outcome(test)
    tags = [name.removesuffix(_BUSY_SUFFIX) for name in properties if name.endswith(_BUSY_SUFFIX)]
    for tag in tags or [""]:
        record = benchmark_pb2.BenchmarkRecord(
            op=properties["op"],
            family=properties.get("family", ""),
            case_id=_case(test.get("name", "")),
            label=properties.get("label", ""),
            implementation=tag,
            status=status,
            message=message,
            roof_key=properties.get(f"{tag}_roof_key", properties.get("roof_key", "")),
        )
        defect = ""
        try:
            record.flops = _count(properties, f"{tag}_flops")
            record.bytes = _count(properties, f"{tag}_bytes")
            if tag:
                _fill_timing(record.timing, properties, tag)
        except ValueError as error:
            record.ClearField("timing")
            record.status = benchmark_pb2.STATUS_ERROR
            record.message = defect = str(error)
        yield record, defect


def _outcome(test: ElementTree.Element) -> tuple[benchmark_pb2.Status, str]:
    for each in test:
        if each.tag in _OUTCOMES:
            words = (each.get("message") or each.text or each.tag).split()
            return _OUTCOMES[each.tag], " ".join(words)
    return benchmark_pb2.STATUS_OK, ""


def _case(name: str) -> str:
    """Returns "a-float16" of "test_silu[a-float16]"; a name without brackets whole."""
    _, bracket, parameters = name.partition("[")
    return parameters.removesuffix("]") if bracket else name


def _fill_timing(timing: benchmark_pb2.Timing, properties: dict[str, str], tag: str) -> None:
    timing.device_busy_ns = _nanoseconds(properties, tag + _BUSY_SUFFIX)
    for end in ("p10", "p90"):
        name = f"{tag}_device_busy_{end}_ms"
        if name in properties:
            setattr(timing, f"device_busy_{end}_ns", _nanoseconds(properties, name))
    clock = properties.get(f"{tag}_timing", "")
    if clock.lower() not in _CLOCKS:
        raise ValueError(f"{tag}_timing is {clock!r}; clocks are {', '.join(sorted(_CLOCKS))}")
    timing.source = _CLOCKS[clock.lower()]


def _nanoseconds(properties: dict[str, str], name: str) -> float:
    value = _number(properties[name], name) * _NANOSECONDS_PER_MILLISECOND
    if value <= 0:
        raise ValueError(f"{name} is {properties[name]!r}, and a time is more than 0")
    if not math.isfinite(value):
        raise ValueError(f"{name} is {properties[name]!r}, which is too large for a time")
    return value


def _count(properties: dict[str, str], name: str) -> int:
    text = properties.get(name, "")
    if not text:
        return 0
    value = int(text) if text.isdecimal() else _number(text, name)
    if value != int(value) or not 0 <= value < _UINT64_END:
        raise ValueError(f"{name} is {text!r}, not a count")
    return int(value)


def _number(text: str, name: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{name} is {text!r}, not a number")
    return value
