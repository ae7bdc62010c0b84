"""One implementation on one row: checked, timed, and timed calls checked again."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping
from typing import Any

import torch

from tileops.ops import workloads
from tileops.ops.cases import WorkloadCase
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

# Sets of values that a timed call's inputs are chosen from. A count.
_VARIANTS = 2**48
# A measurement that gives reasons to doubt it is repeated this often in all before its row is given up. A count.
_ATTEMPTS = 3
# Enough of a row's calls in rotation to tell whether they are slower.
_ROTATION_BUDGET = Budget(warmup_s=0.01, measure_s=0.1, max_samples=100)
# Throttling that a row's own heat does not explain; a power cap is what heavy rows run into by themselves.
_TROUBLE = frozenset({"hw_slowdown", "hw_thermal_slowdown", "sw_thermal_slowdown", "hw_power_brake_slowdown"})


class UnstableError(RuntimeError):
    """A row's times cannot be trusted, even after repeats; `measurement` is the last one."""

    def __init__(self, message: str, measurement: Measurement) -> None:
        """`message` says what speaks against the times."""
        super().__init__(message)
        self.measurement = measurement


class Row:
    """A case on a device: its inputs and what the reference makes of them, shared by its implementations."""

    # No instance of what measures takes a method of another's: a word's change, for code that finds it in a frame.
    __slots__ = ("_guard", "_kept", "_settings", "_threads", "_verified_calls", "case", "device", "inputs", "op_class")

    def __init__(
        self, op_class: type[Op], case: WorkloadCase, device: torch.device, guard: fingerprint.Guard | None = None
    ) -> None:
        """Build the inputs. `guard` was made before anything of the op's ran; None makes one now."""
        self.op_class, self.case, self.device = op_class, case, device
        self._guard = guard or fingerprint.Guard([op_class])
        self._settings, self._threads = bench_settings.read(), bench_settings.alive()
        self.inputs = RowInputs(op_class, case, device)
        self._kept: Kept | None = None
        self._verified_calls = 0

    @property
    def reference(self) -> str:
        """Name of the implementation that the others are compared with."""
        return self.op_class.implementation_names()[0]

    def expected(self) -> Expected:
        """Returns what variant 0 of the inputs must give, as it was kept.

        Raises:
          NotFiniteError: the op is defined for values of neither sign.
          KeptError: it was changed since.
        """
        return self._keep_expected().get()

    def _keep_expected(self) -> Kept:
        """Runs the reference, once; returns what it gives, kept."""
        if self._kept is None:
            expected = self._of_either_sign()
            self._kept = Kept(expected)
            self._verified_calls = correctness.calls_to_verify(expected, self.case)
        return self._kept

    def _of_either_sign(self) -> Expected:
        """Runs on values of either sign; on absolute values if far fewer results are then NaN: the others leave its"
        " domain."""
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
        """Check and time one implementation.

        Returns:
          Its record, whatever the outcome; None where the implementation does not serve the row's call.

        Raises:
          Exception: what the implementation raised.
        """
        with workloads.calls_on(self.device, self.inputs.tensors):
            record = self._run(implementation, budget)
        try:
            if self._kept is not None:
                self._kept.check()
        except KeptError as error:  # while it is known who ran
            record = record or records.new_record(self.op_class, self.case, implementation)
            self._blame(record, implementation, error)
        return record

    def _blame(self, record: benchmark_pb2.BenchmarkRecord, implementation: str, error: KeptError) -> None:
        """Make an error of a record after whose implementation the kept result is not what it was."""
        record.ClearField("timing")
        records.set_status(
            record,
            benchmark_pb2.STATUS_ERROR,
            f"the kept result of the reference was overwritten while {implementation!r} ran: {error}",
        )

    def _run(self, implementation: str, budget: Budget | None) -> benchmark_pb2.BenchmarkRecord | None:
        record = records.new_record(self.op_class, self.case, implementation)
        self._settings, self._threads = bench_settings.read(), bench_settings.alive()
        op = workloads.construct(self.op_class, self.case, target=implementation, device=self.device)
        self.inputs.fill(0)
        call = op.check(**self.inputs.lend())
        try:
            op.select(call)  # asks this implementation's `when` alone: another's may raise
        except OpNotAvailableError:
            return None
        except (Exception, SystemExit) as error:
            message = f"when of {implementation!r} raised {errors.describe(error)}"
            records.set_status(record, benchmark_pb2.STATUS_ERROR, message)
            return record
        try:
            written = self._check(op, implementation, record)
            found = self._time(op, implementation, budget, record, written)
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
            record.status = benchmark_pb2.STATUS_OK
        return record

    def _check(self, op: Op, implementation: str, record: benchmark_pb2.BenchmarkRecord) -> tuple[str, ...]:
        """The first call: compared with the reference on the row's own inputs; prices the row.

        Returns:
          Names of the inputs that it wrote.
        """
        self._keep_expected()
        self.inputs.fill(0)
        pristine = self.inputs.clone()
        correctness.poison(op.check(**self.inputs.lent), self.device)
        returned = op(**self.inputs.lent)
        try:
            returned = border.taken(op, returned)
            # Before anything waits: a result must be complete for whoever goes on working on the same stream.
            snapshot = border.copies(returned)
            border.check_lent(self.inputs.lent)
        finally:  # a row has its price whatever came of the call
            records.set_price(record, op)
        self._check_surroundings(op)
        written = correctness.check_unwritten(self.op_class, self.inputs.tensors, pristine)
        if implementation == self.reference:
            record.correctness.reason = "this is the reference"
            return written
        expected = self.expected()
        error = correctness.check(op, op.last_call, self.inputs.tensors, returned, expected)
        try:
            correctness.check(op, op.last_call, self.inputs.tensors, snapshot, expected)
        except WrongResultError as wrong:
            raise WrongResultError(f"when the call returned, though not later: {wrong}") from wrong
        record.correctness.checked = True
        record.correctness.max_relative_error = error
        return written

    def _check_surroundings(self, op: Op) -> None:
        """Raises ClockError where calls of `op` left something behind that others are measured by."""
        self._guard.check(op)
        bench_settings.check(self._settings)
        bench_settings.check_threads(self._threads)

    def _time(
        self,
        op: Op,
        implementation: str,
        budget: Budget | None,
        record: benchmark_pb2.BenchmarkRecord,
        written: tuple[str, ...],
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
                **bench_rotation.flush_of_row(op, record, written),
            )
            self._check_surroundings(op)
            for kept in timed.kept:
                error = self._verify(op, kept)
                record.correctness.max_relative_error = max(record.correctness.max_relative_error, error)
            if not written:  # what a call writes in place would have to be put back, and that is traffic of its own
                found = self._slower_in_rotation(op, record, found)
            doubts = _doubts(found)
            if not doubts:
                return found
        raise UnstableError("; ".join(doubts), found)

    def _slower_in_rotation(self, op: Op, record: benchmark_pb2.BenchmarkRecord, found: Measurement) -> Measurement:
        """`found`, or the measurement in rotation where that is slower: a call can profit from what a flush leaves."""
        if found.source is not TimingSource.CUPTI:
            return found
        touched = bench_rotation.touched_bytes(op, record, written=())
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
                f"in rotation the call runs {', '.join(rotated.activity_names)}, and after a flush"
                f" {', '.join(found.activity_names)}"
            )
        if record.implementation != self.reference:
            self._verify_rotated(op, rotation)
        rotation_ns = rotated.device_busy_ns
        if rotation_ns <= found.device_busy_ns:
            return dataclasses.replace(found, rotation_ns=rotation_ns)
        return dataclasses.replace(rotated, input_sets=rotation.sets, rotation_ns=rotation_ns)

    def _verify_rotated(self, op: Op, rotation: bench_rotation.Rotation) -> None:
        """Compare some results of the rotation with the reference: all sets hold the values of the first check."""
        expected = self.expected()
        for inputs, returned in rotation.some(correctness.FEWEST_VERIFIED):
            try:
                correctness.check(op, op.last_call, inputs, border.taken(op, returned), expected)
            except WrongResultError as wrong:
                raise WrongResultError(f"in rotation, at another address: {wrong}") from wrong

    def _verify(self, op: Op, kept: _KeptCall) -> float:
        """Compare a timed call with the reference on the inputs that it had."""
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
      variant: the values that its inputs had.
      call: its checked call.
      returned: its result itself, held while later calls ran: they must not have written to it. A copy of an output
        that is an input, which later calls do write.
      snapshot: a copy of the result, made as soon as the window had closed: it must have been complete by then.
      mutated: copies of the inputs that the op writes, as the call left them.
    """

    variant: int
    call: Any
    returned: Any
    snapshot: Any
    mutated: Inputs


class _TimedCalls:
    """The calls of one measurement: new values before each, some of them kept, chosen at random."""

    __slots__ = ("_choose", "_inputs", "_inspected", "_keep", "_op", "_settings", "kept")

    def __init__(self, op: Op, inputs: RowInputs, keep: int, settings: Mapping[str, Any]) -> None:
        self.kept: list[_KeptCall] = []
        self._settings = settings
        self._op, self._inputs, self._keep = op, inputs, keep
        self._inspected = 0
        # An op can seed or read the common generator; it can foresee neither which calls are kept nor their values.
        self._choose = random.SystemRandom()

    def prepare(self) -> None:
        """New values, in the same storage. Variant 0 was the first check's."""
        self._inputs.fill(self._choose.randrange(1, _VARIANTS))

    def call(self) -> Any:
        """What is timed."""
        return self._op(**self._inputs.lent)

    def inspect(self, returned: Any) -> None:
        """Keep the call with the chance that gives every call the same one in the end (reservoir sampling)."""
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
        given = returned if isinstance(returned, tuple) else (returned,)
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
