"""JUnit XML of benchmark jobs, read as a run.

A test case with a property `op` is a benchmark; each `<tag>_device_busy_ms` of it
is a measurement of the implementation `<tag>`, with `<tag>_flops`, `<tag>_bytes`
and `<tag>_timing` (the clock) beside it. The case is what stands in the brackets
of the test's name. What such a file does not say (the roof key, more often than
not) stays empty: //perf:reprice fills in the prices of today.

A file that leaves open which value, device or test a row is of is refused: example, a
property `tileops_flops` that stands twice in a test with two values, a suite of an H100 behind
one of an H200, or a suite that names its device behind its tests.
"""

import math
import pathlib
from collections.abc import Iterator
from typing import NamedTuple
from xml.etree import ElementTree

from google.protobuf import timestamp_pb2

from tileops.perf.runs import reader, writer
from tileops.proto import benchmark_pb2

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
      has_records: Whether records were kept of a test in it, or in a suite in it.
    """

    def __init__(self, name: str, number: int, said: dict[str, str]):
        self.name, self.number = name, number
        self.said = dict(said)
        self.has_records = False
        self._own: dict[str, str] = {}

    def __str__(self) -> str:
        return f"suite {self.number}" + (f" ({self.name})" if self.name else "")

    def take(self, name: str, value: str) -> None:
        """Takes a property of the suite's own.

        Raises:
          ValueError: It has the property with another value, or tests that were read without it.
        """
        _set_once(self._own, name, value)
        if self.has_records and name in _ENVIRONMENT and self.said.get(name) != value:
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
      footer: Its counts, once the records were read to the end.
      problems: What was wrong, complete once the records were read to the end.
    """

    def __init__(self, path: pathlib.Path, suite: str | None = None):
        """Reads the file.

        Args:
          path: The file.
          suite: Name of the suite to read, or its number from 1; None to read them all.

        Raises:
          runfile.RunFileError: It cannot be read, is no JUnit XML, or leaves open what
            a row is of: a property with two values, tests of several devices, drivers
            or the like, two tests of one row; or it has no such suite.
        """
        self.path = path
        self.header = benchmark_pb2.RunHeader()
        self.footer: benchmark_pb2.RunFooter | None = None
        self.problems: list[reader.Problem] = []
        self._suite = suite
        self._suites: list[str] = []
        self._others = 0
        self._kept: list[benchmark_pb2.BenchmarkRecord] = []
        # The first test with a benchmark, and the test that each row is of.
        self._first: _Test | None = None
        self._owners: dict[tuple[str, ...], _Test] = {}
        self._read()
        if suite is not None and not any(map(self._is_asked_for, self._suites, range(1, len(self._suites) + 1))):
            there = ", ".join(filter(None, self._suites)) or f"numbers 1 to {len(self._suites)}"
            raise reader.RunFileError(f"{path}: no suite is {suite!r}; there are: {there}")

    def records(self) -> Iterator[benchmark_pb2.BenchmarkRecord]:
        """Yields a record for each measurement; for a test without any, its outcome."""
        self.problems = []
        counts = benchmark_pb2.RunFooter()
        for record in self._kept:
            writer.count_record(counts, record)
            yield record
        if self._others:
            left_out = (
                "1 test case has no property 'op' and is left out"
                if self._others == 1
                else f"{self._others} test cases have no property 'op' and are left out"
            )
            self.problems.append(reader.Problem(None, left_out))
        if not self._kept:
            self.problems.append(reader.Problem(None, "no test case has a property 'op': the run is empty"))
        self.footer = counts

    def _read(self) -> None:
        """Reads the file once, from its root to its end."""
        suites: list[_Suite] = []
        test_depth = 0
        is_root = True
        for event, each in self._events():
            if event == "start" and is_root:
                self._check_root(each.tag)
                is_root = False
            _, brace, local = each.tag.partition("}")
            if brace and local in _ELEMENTS:
                raise self._refusal(
                    f"<{local}> is of the namespace {each.tag[1 : -len(local) - 1]!r}; JUnit XML has none"
                )
            if each.tag == "testcase":
                test_depth += 1 if event == "start" else -1
                if event == "end":
                    known = len(self._kept)
                    if self._is_asked_for(suites[-1].name, suites[-1].number):
                        self._take_test(each, suites[-1])
                    for suite in suites:
                        suite.has_records |= len(self._kept) > known
                    each.clear()
            elif each.tag in _ROOTS and event == "start":
                suites.append(self._begun(each, suites))
            elif each.tag in _ROOTS:
                suites.pop()
                each.clear()
            elif each.tag == "property" and event == "end" and not test_depth:
                try:
                    suites[-1].take(each.get("name", ""), each.get("value", ""))
                except ValueError as error:
                    raise self._refusal(f"{suites[-1]}: {error}") from error

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
        number = 0
        if suite.tag == "testsuite":
            self._suites.append(suite.get("name", ""))
            number = len(self._suites)
            if self._is_asked_for(suite.get("name", ""), number):
                self._take_time(suite)
        return _Suite(suite.get("name", ""), number, around[-1].said if around else {})

    def _is_asked_for(self, name: str, number: int) -> bool:
        return self._suite is None or self._suite in (name, str(number))

    def _take_test(self, test: ElementTree.Element, suite: _Suite) -> None:
        """Keeps the records of a test; raises RunFileError where it is not clear what they are of."""
        name = ".".join(filter(None, (test.get("classname"), test.get("name"))))
        properties: dict[str, str] = {}
        try:
            for each in test.iter("property"):
                _set_once(properties, each.get("name", ""), each.get("value", ""))
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
                raise self._refusal(
                    f"{self._first} and {this} are of two runs: their {field} is {ours or 'not said'!r} and"
                    f" {value or 'not said'!r}; convert each suite alone, with --suite=NAME or its number"
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

    def _take_time(self, suite: ElementTree.Element) -> None:
        stamp = suite.get("timestamp")
        if self.header.HasField("started_at") or not stamp:
            return
        # JUnit's own form names no zone; RFC 3339 wants one.
        has_zone = stamp.endswith("Z") or "+" in stamp[10:] or "-" in stamp[10:]
        started = timestamp_pb2.Timestamp()
        try:
            started.FromJsonString(stamp if has_zone else stamp + "Z")
        except ValueError:
            return  # A time that cannot be read is one that is not known.
        self.header.started_at.CopyFrom(started)


def _set_once(properties: dict[str, str], name: str, value: str) -> None:
    """Sets a property. Raises ValueError if it is set to another value already."""
    if properties.setdefault(name, value) != value:
        raise ValueError(f"the property {name!r} stands there twice, with {properties[name]!r} and {value!r}; keep one")


def _records(test: ElementTree.Element, properties: dict[str, str]) -> Iterator[benchmark_pb2.BenchmarkRecord]:
    """Yields the records of a test with these properties."""
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
        try:
            record.flops = _count(properties, f"{tag}_flops")
            record.bytes = _count(properties, f"{tag}_bytes")
            if tag:
                _fill_timing(record.timing, properties, tag)
        except ValueError as error:
            record.ClearField("timing")
            record.status = benchmark_pb2.STATUS_ERROR
            record.message = str(error)
        yield record


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
    value = _number(properties[name], name)
    if value < 0:
        raise ValueError(f"{name} is {properties[name]!r}, less than nothing")
    return value * _NANOSECONDS_PER_MILLISECOND


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
