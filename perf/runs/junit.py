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
from collections.abc import Iterator
from typing import NamedTuple
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
# Elements around a property of a suite's own: one in <system-out> is text that a test wrote.
_OF_SUITES = frozenset((*_ROOTS, "properties"))
# The encoding that an XML file declares, in its first bytes.
_ENCODING = re.compile(rb"""encoding=["']([^"']*)""")
_HEAD = 200
# Properties of a suite, or of a test, that say what it was measured with.
_ENVIRONMENT = (
    "device_name",
    "driver_version",
    "cuda_version",
    "torch_version",
    "triton_version",
    "python_version",
    "project_revision",
)


class _Suite:
    """A suite that is open while a file is read.

    Attributes:
      name: As the file gives it; "" where it does not.
      number: Its place among the file's suites, from 1; 0 for the root of several.
      said: Its properties, and those of the suites that it is in.
      kept: The first test of the file with records, once there are records of the suite, or of a suite in it.
    """

    def __init__(self, name: str, number: int, said: dict[str, str]):
        self.name, self.number = name, number
        self.said = dict(said)
        self.kept: _Test | None = None
        self._own: dict[str, str] = {}

    def __str__(self) -> str:
        which = f"suite {self.number}" if self.number else "the root"
        return which + (f" ({self.name})" if self.name else "")

    def is_called(self, suite: str) -> bool:
        """Returns whether `suite` is its name or its number; no root of several suites is called anything."""
        return self.number > 0 and suite in (self.name, str(self.number))

    def take(self, name: str, value: str) -> None:
        """Takes a property of the suite's own.

        Raises:
          ValueError: It has the property with another value, or tests that were read without it.
        """
        is_new = name not in self._own
        _set_once(self._own, name, value)
        if is_new and self.kept and self.kept.environment.get(name, value) != value:
            raise ValueError(f"the property {name!r}, {value!r}, follows tests of the suite; put it before them")
        self.said[name] = value


class _Test(NamedTuple):
    """Where a row comes from: a test, its suite, and the properties that say what it was measured with."""

    suite: str
    name: str
    environment: dict[str, str]

    def __str__(self) -> str:
        return f"the test {self.name} of {self.suite}"


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
          suite: Name of the suite to read, or its number from 1; None to read them all.

        Raises:
          runfile.RunFileError: The file cannot be read, is no JUnit XML, or has no
            benchmark or no such suite. Or it is ambiguous: a property has two values,
            tests are of several devices, drivers or the like, or two tests are of one row.
        """
        self.path = path
        self.header = benchmark_pb2.RunHeader()
        self._counts = benchmark_pb2.RunFooter()
        self.footer: benchmark_pb2.RunFooter | None = self._counts
        self.problems: list[reader.Problem] = []
        self._suite = suite
        self._suites: list[_Suite] = []
        self._others = 0
        self._kept: list[benchmark_pb2.BenchmarkRecord] = []
        # The first test with a benchmark, and the test that each row is of.
        self._first: _Test | None = None
        self._owners: dict[tuple[str, ...], _Test] = {}
        self._read()
        if suite is not None and not any(each.is_called(suite) for each in self._suites):
            there = ", ".join(each.name for each in self._suites if each.name) or f"numbers 1 to {len(self._suites)}"
            raise self._refusal(f"no suite is {suite!r}; there are: {there}")

    def records(self) -> Iterator[benchmark_pb2.BenchmarkRecord]:
        """Yields a record for each measurement; for a test without any, its outcome."""
        yield from self._kept

    def _read(self) -> None:
        """Reads the file once, from its root to its end."""
        suites: list[_Suite] = []
        around: list[str] = []
        for event, each in self._events():
            if event == "end":
                around.pop()
            elif not around:
                self._check_root(each.tag)
            _, brace, local = each.tag.partition("}")
            if brace and local in _ELEMENTS:
                raise self._refusal(
                    f"<{local}> is of the namespace {each.tag[1 : -len(local) - 1]!r}; JUnit XML has none"
                )
            if event == "start":
                around.append(each.tag)
                if each.tag in _ROOTS:
                    suites.append(self._begun(each, suites))
            elif each.tag == "testcase":
                known = len(self._kept)
                if self._is_asked_for(suites):
                    self._take_test(each, suites[-1])
                if len(self._kept) > known:
                    for suite in suites:
                        suite.kept = self._first
                each.clear()
            elif each.tag in _ROOTS:
                suites.pop()
                each.clear()
            elif each.tag == "property" and _OF_SUITES.issuperset(around):
                self._give(suites[-1], *_property(each))

    def _check_root(self, tag: str) -> None:
        """Raises RunFileError for a file that is XML and no JUnit."""
        namespace, _, local = tag.rpartition("}")
        if local not in _ROOTS:
            raise self._refusal(f"not JUnit XML: its root is <{local}>, and that of JUnit <testsuites> or <testsuite>")
        if namespace:
            raise self._refusal(
                f"its root <{local}> is of the namespace {namespace[1:]!r}, and JUnit XML has none: take xmlns= out"
            )

    def _begun(self, suite: ElementTree.Element, around: list[_Suite]) -> _Suite:
        """Returns a suite that begins within others."""
        number = len(self._suites) + 1 if suite.tag == "testsuite" else 0
        begun = _Suite(suite.get("name", ""), number, around[-1].said if around else {})
        for name in _ENVIRONMENT:
            if name in suite.attrib:
                self._give(begun, name, suite.attrib[name])
        if number:
            self._suites.append(begun)
            fitting = [each for each in self._suites if self._suite is not None and each.is_called(self._suite)]
            if len(fitting) > 1:
                raise self._refusal(
                    f"{self._suite!r} fits {' and '.join(map(str, fitting))}; use a number or rename one"
                )
            if self._is_asked_for([*around, begun]):
                self._take_time(suite)
        return begun

    def _give(self, suite: _Suite, name: str, value: str) -> None:
        """Gives a suite a property; raises RunFileError if it contradicts what was read before."""
        try:
            suite.take(name, value)
        except ValueError as error:
            raise self._refusal(f"{suite}: {error}") from error

    def _is_asked_for(self, suites: list[_Suite]) -> bool:
        """Returns whether to read what is in these suites, each within the one before it."""
        return self._suite is None or any(each.is_called(self._suite) for each in suites)

    def _take_test(self, test: ElementTree.Element, suite: _Suite) -> None:
        """Keeps the records of a test; raises RunFileError where it is not clear what they are of."""
        name = ".".join(filter(None, (test.get("classname"), test.get("name"))))
        properties: dict[str, str] = {}
        try:
            for each in (*test.findall("property"), *test.findall("properties/property")):
                _set_once(properties, *_property(each))
        except ValueError as error:
            raise self._refusal(f"the test {name} of {suite}: {error}") from error
        if not properties.get("op"):
            self._others += 1
            return
        said = suite.said | properties
        this = _Test(str(suite), name, {field: said.get(field, "") for field in _ENVIRONMENT})
        self._check_environment(this)
        self._check_alone(("test", str(suite), name), this, f"{suite} has two tests {name}")
        for record in _records(test, properties):
            key = (record.op, record.case_id, record.implementation)
            if record.implementation:  # an outcome without a measurement is of no row that another could be taken for
                self._check_alone(("row", *key), this, f"two tests are of {' '.join(filter(None, key))}")
            self._kept.append(record)

    def _check_environment(self, this: _Test) -> None:
        """Raises RunFileError where a test was measured with something else than the first; fills in the header."""
        if self._first is None:
            self._first = this
            for field, value in this.environment.items():
                setattr(self.header.environment, field, value)
            return
        for field, value in this.environment.items():
            if value != (ours := self._first.environment[field]):
                said, ours_said = (repr(name) if name else "not said" for name in (value, ours))
                remedy = (
                    "put the tests of each into a suite, or a file, of their own"
                    if this.suite == self._first.suite
                    else "convert each suite alone, with --suite=NAME or its number"
                )
                raise self._refusal(
                    f"{self._first} and {this} are of two runs: their {field} is {ours_said} and {said}; {remedy}"
                )

    def _check_alone(self, key: tuple[str, ...], this: _Test, what: str) -> None:
        """Raises RunFileError where another test has the key already."""
        owner = self._owners.setdefault(key, this)
        if owner is not this:
            raise self._refusal(
                f"{what}: {owner}, and {this}; leave one out, give one another name, or convert suites alone with --suite"
            )

    def _refusal(self, what: str) -> reader.RunFileError:
        return reader.RunFileError(f"{self.path}: {what}")

    def _events(self) -> Iterator[tuple[str, ElementTree.Element]]:
        try:
            with open(self.path, "rb") as file:
                yield from ElementTree.iterparse(file, ("start", "end"))
        except OSError as error:
            raise reader.RunFileError(f"cannot read {self.path}: {error.strerror}") from error
        except ElementTree.ParseError as error:
            line, column = error.position
            raise reader.RunFileError(f"{self.path}:{line}:{column + 1}: not JUnit XML: {error}") from error
        except (ValueError, LookupError) as error:  # the parser knows the encodings of one byte, UTF-8 and UTF-16
            with open(self.path, "rb") as file:
                declared = _ENCODING.search(file.read(_HEAD))
            encoding = f"the encoding {declared[1].decode(errors='replace')!r}" if declared else "its encoding"
            raise self._refusal(f"cannot be read in {encoding}; convert it to UTF-8") from error

    def _read_suite(self, suite: ElementTree.Element, around: dict[str, str]) -> None:
        """Takes the tests of a suite and of the suites in it; `around` has the properties of those around it."""
        name, number = suite.get("name", ""), 0
        if suite.tag == "testsuite":
            self._suites.append(name)
            number = len(self._suites)
        title = f"suite {number}" + (f" ({name})" if name else "")
        is_asked_for = self._is_asked_for(name, number)
        if is_asked_for and not self.header.HasField("started_at"):
            _take_time(suite.get("timestamp", ""), self.header)
        said = around | self._properties(suite.iterfind("properties/property"), title)
        for each in suite:
            if each.tag == "testcase" and is_asked_for:
                self._take_test(each, title, said)
            elif each.tag in _ROOTS:
                self._read_suite(each, said)

    def _is_asked_for(self, name: str, number: int) -> bool:
        return self._suite is None or self._suite in (name, str(number))

    def _take_test(self, test: ElementTree.Element, suite: str, said: dict[str, str]) -> None:
        """Keeps the records of a test; raises RunFileError if it is not clear what they are of."""
        name = ".".join(filter(None, (test.get("classname"), test.get("name"))))
        title = f"the test {name} of {suite}"
        properties = self._properties(test.iter("property"), title)
        if not properties.get("op"):
            self._others += 1
            return
        said = said | properties
        self._check_environment(title, {field: said.get(field, "") for field in _ENVIRONMENT})
        self._check_alone(("test", suite, name), title, f"{suite} has two tests {name}")
        for record, defect in _records(test, properties):
            key = (record.op, record.case_id, record.implementation)
            if record.implementation:  # an outcome without a measurement is of no row that another could be taken for
                self._check_alone(("row", *key), title, f"two tests are of {' '.join(filter(None, key))}")
            if defect:
                self.problems.append(reader.Problem(None, f"{title}: {defect}; its row is an error without a time"))
            writer.count_record(self._counts, record)
            self._kept.append(record)

    def _properties(self, elements: Iterable[ElementTree.Element], title: str) -> dict[str, str]:
        """Returns properties by name; raises RunFileError if one has two values."""
        found: dict[str, str] = {}
        for each in elements:
            name, value = each.get("name", ""), each.get("value", "")
            if found.setdefault(name, value) != value:
                raise self._refusal(
                    f"{title}: the property {name!r} stands there twice, with {found[name]!r} and {value!r}; keep one"
                )
        return found

    def _check_environment(self, title: str, environment: dict[str, str]) -> None:
        """Raises RunFileError if a test's environment is not that of the first test, which goes into the header."""
        if self._first is None:
            self._first = title, environment
            for field, value in environment.items():
                setattr(self.header.environment, field, value)
        first, ours = self._first
        for field, value in environment.items():
            if value != ours[field]:
                raise self._refusal(
                    f"{first} and {title} are of two runs: their {field} is {ours[field] or 'not said'!r} and"
                    f" {value or 'not said'!r}; convert each suite alone, with --suite=NAME or its number"
                )

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


def _property(element: ElementTree.Element) -> tuple[str, str]:
    """Returns name and value of a <property>; a value may be its text."""
    value = element.get("value")
    return element.get("name", ""), (element.text or "").strip() if value is None else value


def _set_once(properties: dict[str, str], name: str, value: str) -> None:
    """Sets a property. Raises ValueError if it is set to another value already."""
    if properties.setdefault(name, value) != value:
        raise ValueError(f"the property {name!r} stands there twice, with {properties[name]!r} and {value!r}; keep one")


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
