"""Records of a run file: the identity and price of a row, its time, and the state of the device.

Prices need no GPU: the op is called on `meta` and says what the call costs.
"""

from __future__ import annotations

import linecache
import math
import numbers
import re
import traceback
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tileops.ops import checks, workloads
from tileops.ops.cases import WorkloadCase
from tileops.ops.errors import OpCallError, OpNotAvailableError
from tileops.ops.op import Op
from tileops.ops.roofs import ROOF_KEYS
from tileops.perf.clock.measurement import DeviceReading, Measurement
from tileops.perf.clock.samples import summarize
from tileops.perf.harness import catalogue, errors
from tileops.proto import benchmark_pb2

# Limit of a record's message, which is one line: a compiler's error may have hundreds.
_MESSAGE_LENGTH = 600
_PRICING = frozenset({"eval_roofline", "eval_roofline_read_bytes", "roofline_data_terms", "roof_key"})
# Data terms are int64 in a run file. checks.price has the limit of a price.
_TERM_LIMIT = 2**63

# Fields that a Measurement and a run file's Timing have in common.
_TIMES = (
    *("device_busy_ns", "device_busy_p10_ns", "device_busy_p90_ns", "excluded_copy_ns", "wall_ns", "samples"),
    *("activities", "warmup_calls"),
)

# The comment of generated code that names the formula of the lines below it.
_FORMULA = re.compile(r"\s*# (\S+\.yaml:\d+: \w+)\s*$")


# Op, case and implementation: what identifies a record within a run.
Key = tuple[str, str, str]
# The message of a record whose implementation the user named and that does not serve the row.
DOES_NOT_SERVE = "does not serve this row"
# Outcomes of a defect or an accident.
FAILED = frozenset({benchmark_pb2.STATUS_ERROR, benchmark_pb2.STATUS_TIMEOUT})


class FormulaError(Exception):
    """An op's formula cannot price a call; the message names op, formula and the exception."""


def new_record(op_class: type[Op], case: WorkloadCase, implementation: str) -> benchmark_pb2.BenchmarkRecord:
    """Returns a record that has only the identity of its row."""
    bindings = {**case.params, **case.indices}
    return benchmark_pb2.BenchmarkRecord(
        op=op_class.ENTRY,
        family=op_class.FAMILY,
        case_id=case.case_id,
        label=case.label,
        bindings={name: _text(value) for name, value in bindings.items()},
        dtypes=dict(case.dtypes),
        implementation=implementation,
    )


def _refuse_other_prices(op: Op) -> None:
    """Raises FormulaError if code replaced a pricing method: an implementation could set its own price."""
    stated = next(vars(base)["eval_roofline"] for base in type(op).__mro__ if vars(base).get("_generated"))
    if type(op).eval_roofline is not stated or _PRICING & vars(op).keys():
        raise FormulaError(
            f"{op.ENTRY}: {', '.join(sorted(_PRICING & vars(op).keys())) or 'eval_roofline'} was replaced; only the"
            " manifest entry and the methods of its class price an op"
        )


def set_price(record: benchmark_pb2.BenchmarkRecord, op: Op) -> None:
    """Sets flops, bytes, roof, read half and data terms of the op's last completed call.

    Raises:
      FormulaError: a formula raises for this call, or a price or data term is no number that a run file can hold.
    """
    _refuse_other_prices(op)
    try:
        flops, nbytes = checks.price_pair(op.ENTRY, "eval_roofline()", op.eval_roofline())
    except OpCallError as error:  # its message names op and formula
        raise FormulaError(str(error)) from error
    except Exception as error:
        where = _formula(error)
        message = f"{op.ENTRY}: the flops/bytes formula{where} raised {errors.describe(error)}"
        raise FormulaError(message) from error
    record.flops, record.bytes = flops, nbytes
    record.is_lower_bound = op.last_call._is_lower_bound
    record.roof_key = op.roof_key() if catalogue.is_hand_written(type(op)) else ""
    record.ClearField("read_bytes")
    try:
        read_bytes = checks.price(op.ENTRY, "eval_roofline_read_bytes()", op.eval_roofline_read_bytes())
        record.read_bytes = read_bytes
    except OpNotAvailableError:
        pass  # the op declares no read half
    except OpCallError as error:
        raise FormulaError(str(error)) from error
    record.data_terms.clear()
    record.data_terms.update(_data_terms(op))


def _data_terms(op: Op) -> dict[str, int]:
    """Returns the op's data terms. Raises FormulaError if they are no dict of names to int64 counts."""
    terms = op.roofline_data_terms()
    if not isinstance(terms, dict):
        raise FormulaError(f"{op.ENTRY}: roofline_data_terms() gave {terms!r}; return a dict of names to ints")
    for name, count in terms.items():
        is_count = isinstance(count, numbers.Integral) and not isinstance(count, bool)
        if not isinstance(name, str) or not is_count or not -_TERM_LIMIT <= count < _TERM_LIMIT:
            raise FormulaError(
                f"{op.ENTRY}: roofline_data_terms() gave {count!r} for {name!r}; return names with ints of 64 bits"
            )
    return {name: int(count) for name, count in terms.items()}


def copy_price(source: benchmark_pb2.BenchmarkRecord, target: benchmark_pb2.BenchmarkRecord) -> None:
    """Copies the price of `source`, a record of the same case, to `target`."""
    target.flops, target.bytes, target.roof_key = source.flops, source.bytes, source.roof_key
    if source.HasField("read_bytes"):
        target.read_bytes = source.read_bytes
    target.data_terms.update(source.data_terms)
    target.is_lower_bound = source.is_lower_bound


def set_status(record: benchmark_pb2.BenchmarkRecord, status: benchmark_pb2.Status, message: str) -> None:
    """Sets the outcome and its message, as one line."""
    record.status = status
    line = " ".join(message.split())
    record.message = line if len(line) <= _MESSAGE_LENGTH else line[: _MESSAGE_LENGTH - 3] + "..."


def set_measurement(record: benchmark_pb2.BenchmarkRecord, found: Measurement) -> None:
    """Copies a measurement into the record's timing and device state."""
    timing = record.timing
    timing.source = benchmark_pb2.TimingSource.Value(found.source.value)
    for name in _TIMES:
        setattr(timing, name, getattr(found, name))
    timing.sample_ns.extend(found.sample_ns)
    if found.start is not None and found.end is not None:
        _set_reading(record.device_state.start, found.start)
        _set_reading(record.device_state.end, found.end)
        cache = record.device_state.cache_preparation
        cache.flush = benchmark_pb2.CacheFlush.Value(found.flush.value)
        cache.flush_bytes, cache.input_sets = found.flush_bytes, found.input_sets
        if found.written_share is not None:
            cache.written_share = found.written_share
        if found.rotation_ns is not None:
            cache.rotation_busy_ns = found.rotation_ns


def refuse_impossible_time(record: benchmark_pb2.BenchmarkRecord) -> None:
    """Makes the record an error if its median is not that of its samples. Runs in the parent, without code of an op."""
    timing = record.timing
    if not timing.sample_ns:
        return
    median = summarize(timing.sample_ns).median
    if not math.isclose(timing.device_busy_ns, median, rel_tol=1e-9, abs_tol=1e-9):
        said = f"{timing.device_busy_ns:g} ns"
        message = f"not timed: the record says a median of {said}, but its samples have {median:g} ns"
        record.ClearField("timing")
        set_status(record, benchmark_pb2.STATUS_ERROR, message)


def _formula(error: BaseException) -> str:
    """Returns " (file:line: name)" of the formula that raised, from a comment of the generated code; "" if there is none."""
    found = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        if code.co_name == "eval_roofline":
            for number in range(line, code.co_firstlineno, -1):
                if comment := _FORMULA.match(linecache.getline(code.co_filename, number)):
                    found = f" ({comment[1]})"
                    break
    return found


def _set_reading(target: benchmark_pb2.DeviceReading, found: DeviceReading) -> None:
    for name in ("sm_clock_mhz", "memory_clock_mhz", "temperature_c", "power_w", "other_processes"):
        value = getattr(found, name)
        if value is not None:
            setattr(target, name, value)
    target.power_state = found.power_state
    target.throttle_reasons.extend(found.throttle_reasons)


def _text(value: Any) -> str:
    """Returns a value as a manifest writes it: sequences in brackets."""
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_text(item) for item in value) + "]"
    return str(value)


def refuse_unknown_roof(record: benchmark_pb2.BenchmarkRecord) -> None:
    """Makes the record an error if its roof key is unknown. An empty key stays: the op declares no roof."""
    if record.roof_key in ("", *ROOF_KEYS):
        return
    message = f"{record.op}: roof_key() gave {record.roof_key!r}, which is no roof; there are: {', '.join(ROOF_KEYS)}"
    record.roof_key = ""
    record.ClearField("timing")
    if record.status == benchmark_pb2.STATUS_OK:  # a failed record has its reason already
        set_status(record, benchmark_pb2.STATUS_ERROR, message)


# ---- prices of rows without a GPU


Case = tuple[type[Op], WorkloadCase]


def all_cases(classes: Mapping[str, type[Op]]) -> list[Case]:
    """Returns every case of every op, in the catalogue's order."""
    return [(op_class, case) for op_class in classes.values() for case in op_class.CASES]


def price_cases(cases: Iterable[Case] | None = None) -> Iterator[benchmark_pb2.BenchmarkRecord]:
    """Yields a record per case with its price, without implementation and time. Allocates no tensor of data.

    Args:
      cases: what to price; None for every row of the project.

    Yields:
      Records with STATUS_OK, or STATUS_ERROR and a message if the case cannot be priced.
    """
    if cases is None:
        cases = all_cases(catalogue.load(catalogue.Sources()))
    for op_class, case in cases:
        yield price_case(op_class, case)


def price_case(op_class: type[Op], case: WorkloadCase) -> benchmark_pb2.BenchmarkRecord:
    """Returns the record of one case, as `price_cases` yields it."""
    record = new_record(op_class, case, implementation="")
    try:
        op = workloads.construct(op_class, case, device="meta")
        inputs = workloads.build_inputs(op_class, case, "meta")
        with workloads.calls_on("meta", inputs):
            op(**inputs)
        set_price(record, op)
        record.status = benchmark_pb2.STATUS_OK
        refuse_unknown_roof(record)
    except Exception as error:  # formulas and generators are user code; a failure costs one row
        set_status(record, benchmark_pb2.STATUS_ERROR, errors.describe(error))
    return record
