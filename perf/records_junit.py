"""JUnit XML of benchmark jobs, read as a run.

A test case with a property `op` is a benchmark; each `<tag>_device_busy_ms` of it
is a measurement of the implementation `<tag>`, with `<tag>_flops`, `<tag>_bytes`
and `<tag>_timing` (the clock) beside it. The case is what stands in the brackets
of the test's name. What such a file does not say (the roof key, more often than
not) stays empty: //perf:reprice fills in the prices of today.
"""

import io
import math
import pathlib
from collections.abc import Iterator
from xml.etree import ElementTree

from google.protobuf import timestamp_pb2

from tileops.perf import run_writer
from tileops.perf import runfile
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
# Properties of a suite that say what it was measured with.
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
      header: What the first suite says of itself.
      footer: Its counts, once the records were read to the end.
      problems: What was wrong, complete once the records were read to the end.
    """

    def __init__(self, path: pathlib.Path):
        """Reads as far as the first test case.

        Raises:
          runfile.RunFileError: It cannot be read, or is no XML.
        """
        self.path = path
        self.header = benchmark_pb2.RunHeader()
        self.footer: benchmark_pb2.RunFooter | None = None
        self.problems: list[runfile.Problem] = []
        self._piped = None
        if not path.is_file():
            self._piped = self._open().read()
        for event, each in self._events():
            if event == "start" and each.tag == "testsuite":
                self._take_suite(each)
            elif each.tag == "testcase":
                break
            elif event == "end" and each.tag == "property":
                self._take_property(each)

    def records(self) -> Iterator[benchmark_pb2.BenchmarkRecord]:
        """Yields a record for each measurement; for a test without any, its outcome.

        Raises:
          runfile.RunFileError: The file ends in the midst of its XML.
        """
        self.problems = []
        counts = benchmark_pb2.RunFooter()
        others = 0
        for event, each in self._events():
            if event != "end" or each.tag != "testcase":
                continue
            found = list(_records(each))
            others += not found
            for record in found:
                run_writer.count_record(counts, record)
                yield record
            each.clear()
        if others:
            left_out = (
                "1 test case has no property 'op' and is left out"
                if others == 1
                else f"{others} test cases have no property 'op' and are left out"
            )
            self.problems.append(runfile.Problem(None, left_out))
        self.footer = counts

    def _open(self):
        try:
            if self._piped is not None:
                return io.BytesIO(self._piped)
            return open(self.path, "rb")
        except OSError as error:
            raise runfile.RunFileError(
                f"cannot read {self.path}: {error.strerror}"
            ) from error

    def _events(self) -> Iterator[tuple[str, ElementTree.Element]]:
        with self._open() as file:
            try:
                yield from ElementTree.iterparse(file, ("start", "end"))
            except ElementTree.ParseError as error:
                line, column = error.position
                raise runfile.RunFileError(
                    f"{self.path}:{line}:{column + 1}: not JUnit XML: {error}"
                ) from error

    def _take_suite(self, suite: ElementTree.Element) -> None:
        if self.header.HasField("started_at") or not suite.get("timestamp"):
            return
        stamp = suite.get("timestamp")
        # JUnit's own form names no zone; RFC 3339 wants one.
        has_zone = stamp.endswith("Z") or "+" in stamp[10:] or "-" in stamp[10:]
        started = timestamp_pb2.Timestamp()
        try:
            started.FromJsonString(stamp if has_zone else stamp + "Z")
        except ValueError:
            return  # A time that cannot be read is one that is not known.
        self.header.started_at.CopyFrom(started)

    def _take_property(self, each: ElementTree.Element) -> None:
        name = each.get("name", "")
        if name in _ENVIRONMENT:
            setattr(self.header.environment, name, each.get("value", ""))


def _records(test: ElementTree.Element) -> Iterator[benchmark_pb2.BenchmarkRecord]:
    properties = {
        each.get("name", ""): each.get("value", "") for each in test.iter("property")
    }
    if not properties.get("op"):
        return
    status, message = _outcome(test)
    tags = [
        name.removesuffix(_BUSY_SUFFIX)
        for name in properties
        if name.endswith(_BUSY_SUFFIX)
    ]
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


def _outcome(test: ElementTree.Element) -> tuple[int, str]:
    for each in test:
        if each.tag in _OUTCOMES:
            words = (each.get("message") or each.text or each.tag).split()
            return _OUTCOMES[each.tag], " ".join(words)
    return benchmark_pb2.STATUS_OK, ""


def _case(name: str) -> str:
    """Returns "a-float16" of "test_silu[a-float16]"; a name without brackets whole."""
    _, bracket, parameters = name.partition("[")
    return parameters.removesuffix("]") if bracket else name


def _fill_timing(
    timing: benchmark_pb2.Timing, properties: dict[str, str], tag: str
) -> None:
    timing.device_busy_ns = _nanoseconds(properties, tag + _BUSY_SUFFIX)
    for end in ("p10", "p90"):
        name = f"{tag}_device_busy_{end}_ms"
        if name in properties:
            setattr(timing, f"device_busy_{end}_ns", _nanoseconds(properties, name))
    clock = properties.get(f"{tag}_timing", "")
    if clock.lower() not in _CLOCKS:
        raise ValueError(
            f"{tag}_timing is {clock!r}; clocks are {', '.join(sorted(_CLOCKS))}"
        )
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
