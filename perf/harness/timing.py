"""Checks one implementation on one row, times it, and checks some of the timed calls.

An example, RMSNorm by "triton" on an H200: the first call's result is compared with the reference. Then the clock times
calls on new values before each, with a flush, and keeps 2 of them, chosen at random. The kept results are compared with
the reference on the same values. At last the clock times calls in rotation (rotation.py), and the slower time counts.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Collection, Mapping
from typing import Any

import torch

from tileops.ops import workloads
from tileops.ops.cases import WorkloadCase
from tileops.ops.checked_call import CheckedCall
from tileops.ops.errors import OpNotAvailableError
from tileops.ops.op import Op
from tileops.perf.clock.activities import ClockError
from tileops.perf.clock.measure import measure
from tileops.perf.clock.measurement import Budget, Flush, Measurement, TimingSource
from tileops.perf.harness import border, correctness, errors, fingerprint, records
from tileops.perf.harness import expected as bench_expected
from tileops.perf.harness import rotation as bench_rotation
from tileops.perf.harness import settings as bench_settings
from tileops.perf.harness.border import Kept, KeptError
from tileops.perf.harness.expected import Expected, NotFiniteError, WrongResultError
from tileops.perf.harness.inputs import Inputs, RowInputs
from tileops.proto import benchmark_pb2

# Number of variants of values for timed calls.
_VARIANTS = 2**48
# Attempts at a measurement that gives reasons to doubt it. A count.
_ATTEMPTS = 3
# Enough calls in rotation to tell whether they are slower.
_ROTATION_BUDGET = Budget(warmup_s=0.01, measure_s=0.1, max_samples=100)
# Throttling that has other causes than the row's own work. Heavy rows reach a power cap by themselves.
_TROUBLE = frozenset({"hw_slowdown", "hw_thermal_slowdown", "sw_thermal_slowdown", "hw_power_brake_slowdown"})


class UnstableError(RuntimeError):
    """A row's times cannot be trusted, even after repeats; `measurement` is the last attempt."""

    def __init__(self, message: str, measurement: Measurement) -> None:
        """`message` says why the times are doubtful."""
        super().__init__(message)
        self.measurement = measurement


class Row:
    """A case on a device: its inputs and the reference's results, shared by its implementations."""

    # Untrusted code that finds this instance in a frame cannot hide a method by an attribute.
    __slots__ = (
        *("_guard", "_kept", "_libraries", "_settings", "_threads", "_verified_calls"),
        *("case", "device", "inputs", "op_class"),
    )

    def __init__(
        self,
        op_class: type[Op],
        case: WorkloadCase,
        device: torch.device,
        guard: fingerprint.Guard | None = None,
        libraries: Collection[str] = (),
    ) -> None:
        """Builds the inputs.

        Args:
          op_class, case: the row.
          device: where it runs.
          guard: made before any code of the op ran; None makes one now.
          libraries: names of the op's implementations that belong to libraries of --baselines.
        """
        self.op_class, self.case, self.device, self._libraries = op_class, case, device, frozenset(libraries)
        self._guard = guard or fingerprint.Guard([op_class])
        self._settings, self._threads = bench_settings.read(), bench_settings.alive()
        self.inputs = RowInputs(op_class, case, device)
        self._kept: Kept | None = None
        self._verified_calls = 0

    @property
    def reference(self) -> str:
        """Name of the reference implementation."""
        return self.op_class.implementation_names()[0]

    def expected(self) -> Expected:
        """Returns the expected results on variant 0 of the inputs, as kept.

        Raises:
          NotFiniteError: the reference is all NaN on values of both signs and on absolute values.
          KeptError: the kept results were changed.
        """
        return self._keep_expected().get()

    def _keep_expected(self) -> Kept:
        """Runs the reference once; returns its kept results."""
        if self._kept is None:
            expected = self._of_either_sign()
            self._kept = Kept(expected)
            self._verified_calls = correctness.calls_to_verify(expected, self.case)
        return self._kept

    def _of_either_sign(self) -> Expected:
        """Runs the reference on values of both signs, or on absolute values if those give at most half as many NaN.

        An example: a logarithm is NaN on the negative half of the values, and on no absolute value.
        """
        try:
            found = self._expect()
        except NotFiniteError:
            self.inputs.is_folded = True
            return self._expect()
        if found.not_numbers:
            self.inputs.is_folded = True
            try:
                folded = self._expect()
            except NotFiniteError:
                folded = found
            if 2 * folded.not_numbers < found.not_numbers:
                return folded
            self.inputs.is_folded = False
            self.inputs.fill(0)
        return found

    def _expect(self) -> Expected:
        self.inputs.fill(0)
        return bench_expected.expect(self.op_class, self.case, self.inputs.tensors)

    def run(self, implementation: str, budget: Budget | None) -> benchmark_pb2.BenchmarkRecord | None:
        """Checks and times one implementation.

        Returns:
          Its record, whatever the outcome; None if the implementation does not serve the row's call.

        Raises:
          Exception: any exception of the implementation.
        """
        with workloads.calls_on(self.device, self.inputs.tensors):
            record = self._run(implementation, budget)
        try:
            if self._kept is not None:
                self._kept.check()
        except KeptError as error:  # now, while it is known which implementation ran
            record = record or records.new_record(self.op_class, self.case, implementation)
            self._blame(record, implementation, error)
        return record

    def _blame(self, record: benchmark_pb2.BenchmarkRecord, implementation: str, error: KeptError) -> None:
        """Makes the record an error: the kept results changed while its implementation ran."""
        record.ClearField("timing")
        records.set_status(
            record,
            benchmark_pb2.STATUS_ERROR,
            f"the kept results of the reference changed while {implementation!r} ran: {error}",
        )

    def _run(self, implementation: str, budget: Budget | None) -> benchmark_pb2.BenchmarkRecord | None:
        record = records.new_record(self.op_class, self.case, implementation)
        self._settings, self._threads = bench_settings.read(), bench_settings.alive()
        op = workloads.construct(self.op_class, self.case, target=implementation, device=self.device)
        self.inputs.fill(0)
        call = op.check(**self.inputs.lend())
        try:
            op.select(call)  # asks only this implementation's `when`: others may raise
        except OpNotAvailableError:
            return None
        except (Exception, SystemExit) as error:
            message = f"when of {implementation!r} raised {errors.describe(error)}"
            records.set_status(record, benchmark_pb2.STATUS_ERROR, message)
            return record
        try:
            moved = self._check(op, implementation, record)
            found = self._time(op, implementation, budget, record, moved)
        except WrongResultError as error:
            record.correctness.checked = True
            record.correctness.reason = str(error)
            records.set_status(record, benchmark_pb2.STATUS_ERROR, f"wrong result: {error}")
        except KeptError as error:
            self._blame(record, implementation, error)
        except ClockError as error:
            records.set_status(record, benchmark_pb2.STATUS_ERROR, f"not timed: {error}")
        except UnstableError as error:
            records.set_measurement(record, error.measurement)
            records.set_status(record, benchmark_pb2.STATUS_ERROR, f"not trusted: {error}")
        else:
            records.set_measurement(record, found)
            if record.status != benchmark_pb2.STATUS_ERROR:  # an op without a price is measured all the same
                record.status = benchmark_pb2.STATUS_OK
        record.is_default = self._is_default(implementation, call)
        return record

    def _is_default(self, implementation: str, call: CheckedCall) -> bool:
        """Returns whether a call that names no implementation takes this one, were no libraries loaded."""
        if implementation in self._libraries:
            return False
        found = self.op_class.implementations()
        later = found[[each.name for each in found].index(implementation) + 1 :]
        try:
            return not any(each.serves(call) for each in later if each.name not in self._libraries)
        except (Exception, SystemExit):  # a `when` that raises ends such a call
            return False

    def _check(self, op: Op, implementation: str, record: benchmark_pb2.BenchmarkRecord) -> bench_rotation.Moved:
        """Makes the first call, compares it with the reference on variant 0, and prices the row.

        Returns:
          What the call reads and writes.
        """
        self._keep_expected()
        self.inputs.fill(0)
        pristine = self.inputs.clone()
        call = op.check(**self.inputs.lent)  # code of the op never gets it
        correctness.poison(call, self.device)
        returned = op(**self.inputs.lent)
        try:
            returned = border.taken(op, returned)
            # Before any synchronization: later work on the same stream must find a complete result.
            snapshot = border.copies(returned)
            border.check_lent(self.inputs.lent)
        finally:  # a row has its price whatever the call did
            self._price(record, op)
        self._check_surroundings(op)
        written = correctness.check_unwritten(self.op_class, self.inputs.tensors, pristine)
        moved = bench_rotation.moved_by(op, call, written)
        if implementation == self.reference:
            record.correctness.reason = "this is the reference"
            return moved
        expected = self.expected()
        error = correctness.check(op, op.last_call, self.inputs.tensors, returned, expected)
        try:
            correctness.check(op, op.last_call, self.inputs.tensors, snapshot, expected)
        except WrongResultError as wrong:
            raise WrongResultError(f"when the call returned, though not later: {wrong}") from wrong
        record.correctness.checked = True
        record.correctness.max_relative_error = error
        return moved

    def _price(self, record: benchmark_pb2.BenchmarkRecord, op: Op) -> None:
        """Prices the record as a whole; or makes it an error, which is measured all the same: times need no price."""
        priced = records.new_record(self.op_class, self.case, record.implementation)
        try:
            records.set_price(priced, op)
        except records.FormulaError as error:
            records.set_status(record, benchmark_pb2.STATUS_ERROR, errors.describe(error))
        else:
            records.copy_price(priced, record)

    def _check_surroundings(self, op: Op) -> None:
        """Raises ClockError if calls of `op` left something that changes the times of others."""
        self._guard.check(op)
        bench_settings.check(self._settings)
        bench_settings.check_threads(self._threads)

    def _time(
        self,
        op: Op,
        implementation: str,
        budget: Budget | None,
        record: benchmark_pb2.BenchmarkRecord,
        moved: bench_rotation.Moved,
    ) -> Measurement:
        keep = 0 if implementation == self.reference else self._verified_calls
        for _ in range(_ATTEMPTS):
            timed = _TimedCalls(op, self.inputs, keep, self._settings)
            found = measure(
                timed.call,
                device=self.device,
                prepare=timed.prepare,
                inspect=timed.inspect,
                budget=budget,
                **bench_rotation.flush_of_row(moved),
            )
            self._check_surroundings(op)
            for kept in timed.kept:
                error = self._verify(op, kept)
                record.correctness.max_relative_error = max(record.correctness.max_relative_error, error)
            if not moved.written:  # inputs written in place would have to be restored, which is traffic too
                found = self._slower_in_rotation(op, record, found, moved.touched)
            doubts = _doubts(found)
            if not doubts:
                return found
        raise UnstableError("; ".join(doubts), found)

    def _slower_in_rotation(
        self, op: Op, record: benchmark_pb2.BenchmarkRecord, found: Measurement, touched: int
    ) -> Measurement:
        """Returns `found`, or the measurement in rotation if that is slower. The call touches `touched` bytes."""
        if found.source is not TimingSource.CUPTI:
            return found
        try:
            rotation = bench_rotation.of_row(op, self.inputs, self.device, touched)
            if rotation is None:
                return found
            rotation.go_round()
            rotated = measure(rotation.call, device=self.device, budget=_ROTATION_BUDGET, flush=Flush.NONE)
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            return found
        except ClockError as error:
            raise ClockError(f"in rotation: {error}") from error
        self._check_surroundings(op)
        if rotated.activity_names != found.activity_names:
            raise ClockError(
                f"the call runs {', '.join(rotated.activity_names)} in rotation, but {', '.join(found.activity_names)}"
                " after a flush: run the same kernels in every call"
            )
        if record.implementation != self.reference:
            self._verify_rotated(op, rotation)
        rotation_ns = rotated.device_busy_ns
        if rotation_ns <= found.device_busy_ns:
            return dataclasses.replace(found, rotation_ns=rotation_ns)
        return dataclasses.replace(rotated, input_sets=rotation.sets, rotation_ns=rotation_ns)

    def _verify_rotated(self, op: Op, rotation: bench_rotation.Rotation) -> None:
        """Compares some results of the rotation with the reference. All sets hold the values of the first check."""
        expected = self.expected()
        for inputs, returned in rotation.some(correctness.FEWEST_VERIFIED):
            try:
                correctness.check(op, op.last_call, inputs, border.taken(op, returned), expected)
            except WrongResultError as wrong:
                raise WrongResultError(f"in rotation, at another address: {wrong}") from wrong

    def _verify(self, op: Op, kept: _KeptCall) -> float:
        """Compares a timed call with the reference on the same inputs."""
        self.inputs.fill(kept.variant)
        expected = bench_expected.expect(self.op_class, self.case, self.inputs.tensors)
        found: Inputs = {**self.inputs.tensors, **kept.mutated}
        try:
            error = correctness.check(op, kept.call, found, kept.snapshot, expected)
            correctness.check(op, kept.call, found, kept.returned, expected)
        except WrongResultError as wrong:
            raise WrongResultError(f"in a timed call, on other values than the first check: {wrong}") from wrong
        return error


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _KeptCall:
    """A timed call to be verified.

    Attributes:
      variant: which values its inputs had.
      call: its checked call.
      returned: its result, held while later calls ran, which must not write to it. An output that is an input is copied,
        since later calls write it.
      snapshot: a copy of the result, made when the timed window closed. The result must be complete by then.
      mutated: copies of the inputs that the op writes, as the call left them.
    """

    variant: int
    call: Any
    returned: Any
    snapshot: Any
    mutated: Inputs


class _TimedCalls:
    """The calls of one measurement, with new values before each. Some calls, chosen at random, are kept."""

    __slots__ = ("_choose", "_inputs", "_inspected", "_keep", "_op", "_settings", "kept")

    def __init__(self, op: Op, inputs: RowInputs, keep: int, settings: Mapping[str, Any]) -> None:
        self.kept: list[_KeptCall] = []
        self._settings = settings
        self._op, self._inputs, self._keep = op, inputs, keep
        self._inspected = 0
        # Not the common generator: an op could seed or read that, and foresee which calls are kept and their values.
        self._choose = random.SystemRandom()

    def prepare(self) -> None:
        """Fills the inputs with new values. The first check had variant 0."""
        self._inputs.fill(self._choose.randrange(1, _VARIANTS))

    def call(self) -> Any:
        """Makes the timed call."""
        return self._op(**self._inputs.lent)

    def inspect(self, returned: Any) -> None:
        """Keeps the call at random, so that all calls have equal chances in the end (reservoir sampling)."""
        bench_settings.check_hooks(self._settings)
        outputs = border.taken(self._op, returned)
        border.check_lent(self._inputs.lent)
        self._inspected += 1
        if len(self.kept) < self._keep:
            self.kept.append(self._copy(returned, outputs))
        elif self._keep and (slot := self._choose.randrange(self._inspected)) < self._keep:
            self.kept[slot] = self._copy(returned, outputs)

    def _copy(self, returned: Any, outputs: tuple[torch.Tensor | None, ...]) -> _KeptCall:
        tensors, snapshot = self._inputs.tensors, border.copies(outputs)
        inputs = set(map(id, self._inputs.lent.values()))
        given = bench_expected.outputs_by_name(self._op, returned).values()
        return _KeptCall(
            variant=self._inputs.variant,
            call=self._op.last_call,
            returned=tuple(
                copy if id(one) in inputs else output
                for one, output, copy in zip(given, outputs, snapshot, strict=True)
            ),
            snapshot=snapshot,
            mutated={
                name: torch.Tensor.clone(tensors[name])
                for name in self._op.MUTATED_NAMES
                if tensors.get(name) is not None
            },
        )


def _doubts(found: Measurement) -> list[str]:
    doubts = list(found.doubts)
    for when, reading in (("before", found.start), ("after", found.end)):
        if reading is not None and reading.other_processes:
            doubts.append(f"{reading.other_processes} other process(es) on the device {when} it")
        if reading is not None and _TROUBLE & set(reading.throttle_reasons):
            doubts.append(f"clocks throttled {when} it ({', '.join(reading.throttle_reasons)})")
    return doubts
