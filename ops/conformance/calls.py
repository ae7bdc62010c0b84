"""Checks that need calls: roofs, prices, every `when`, and whether the reference runs.

Every row is called on `meta`, which runs no implementation. The cheapest row also runs the reference on the CPU.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

from tileops.ops import workloads
from tileops.ops.cases import WorkloadCase
from tileops.ops.checked_call import CheckedCall
from tileops.ops.conformance.classes import Subject, place_of
from tileops.ops.conformance.findings import Findings, describe
from tileops.ops.errors import OpNotAvailableError
from tileops.ops.op import Op
from tileops.ops.roofs import ROOF_KEYS

# Limits of the row that runs the reference: any machine that builds this project can run it.
_MOST_BYTES, _MOST_FLOPS = 1 << 28, 2e10
# A `when` is asked before every call, on any device.
_DEVICES = ("cpu", "cuda:0")
# What an op reports about its last call, beside the price itself.
_OF_A_CALL = ("roof_key", "eval_roofline_read_bytes", "roofline_data_terms")


def check_calls(subject: Subject, no_price: str, findings: Findings) -> None:
    """Calls the public class on every row of its entry, and its reference on the cheapest.

    Args:
      subject: an entry with a public class and an implementation.
      no_price: why its calls cannot be priced, which another check reports; "" if they can.
      findings: gets the defects.
    """
    _CallCheck(subject, no_price, findings).run()


class _CallCheck:
    def __init__(self, subject: Subject, no_price: str, findings: Findings) -> None:
        self._subject = subject
        self._no_price = no_price
        assert subject.public is not None  # the caller checked
        self._class = subject.public
        self._findings = findings
        self._read_half: set[bool] = set()

    def run(self) -> None:
        cases = self._class.CASES
        self._before_a_call(cases[0])
        prices = [(price, case) for case in cases if (price := self._row(case)) is not None]
        if False in self._read_half:
            self._findings.no_read_half(self._subject.entry)
        if not prices:
            why = self._no_price or "no row can be priced"
            self._findings.not_reached(f"{self._subject.entry}: prices, and whether the reference runs: {why}")
            return
        (flops, nbytes), case = min(prices, key=lambda priced: sum(priced[0]))
        if flops > _MOST_FLOPS or nbytes > _MOST_BYTES:
            self._findings.not_reached(
                f"{self._subject.entry}: whether the reference runs: its cheapest row, {case.case_id}, takes {flops:.2g} flops"
                f" and {nbytes:.2g} bytes, but this check runs at most {_MOST_FLOPS:.2g} and {_MOST_BYTES:.2g}; add a small row"
            )
            return
        self._reference(case)

    def _add(self, member: str, code: str, message: str) -> None:
        function = getattr(self._class, member, None)
        place = (place_of(function) if function is not None else "") or self._subject.place
        self._findings.add(place, self._subject.entry, member, code, message)

    def _before_a_call(self, case: WorkloadCase) -> None:
        try:
            op = workloads.construct(self._class, case, device="meta")
        except Exception as error:  # the row's own check, `_row`, says what is wrong
            self._findings.not_reached(
                f"{self._subject.entry}: {', '.join(_OF_A_CALL)} before a call: construction raised {describe(error)}"
            )
            return
        for member in _OF_A_CALL:
            try:
                said = getattr(op, member)()
            except OpNotAvailableError:
                continue
            except Exception as error:  # an author's code may raise anything
                self._add(
                    member,
                    "C015",
                    f"raises {describe(error)} before a call; read self.last_call, which says what is missing",
                )
                continue
            self._add(
                member,
                "C015",
                f"returns {said!r} before a call, when no shape or dtype is bound; read self.last_call first",
            )

    def _row(self, case: WorkloadCase) -> tuple[int, int] | None:
        """Calls one row on meta and checks everything about it; returns its price, or None if it has none."""
        try:
            op = workloads.construct(self._class, case, device="meta")
            inputs = workloads.build_inputs(self._class, case, "meta")
            with workloads.calls_on("meta", inputs):
                op(**inputs)
                call = op.check(**inputs)
        except Exception as error:  # the signature's checks, or an author's `__init__` and `forward`
            self._add("forward", "C016", f"the row {case.case_id} cannot be called on meta: {describe(error)}")
            return None
        self._whens(call, case)
        self._roof(op, case)
        if self._no_price:
            return None
        if not self._stages(op, case):
            return None
        self._data_terms(op, case)
        price = self._asked(op.eval_roofline, "eval_roofline", "C016", case)
        if price is not None:
            self._check_bytes(case, price[1])
            self._check_read_half(op, case, price[1])
        return price

    def _asked(self, ask: Callable[[], Any], member: str, code: str, case: WorkloadCase) -> Any:
        """Returns what the op answers; None if it raises, which is a finding."""
        try:
            return ask()
        except Exception as error:  # an author's code may raise anything
            self._add(member, code, f"raises {describe(error)} on the row {case.case_id}")
            return None

    def _roof(self, op: Op, case: WorkloadCase) -> None:
        key = self._asked(op.roof_key, "roof_key", "C014", case)
        if key is not None and key not in ROOF_KEYS:
            self._add("roof_key", "C014", f"returns {key!r} on the row {case.case_id}; keys are {', '.join(ROOF_KEYS)}")

    def _stages(self, op: Op, case: WorkloadCase) -> bool:
        """Returns whether the reference calls the ops of the composition's stages and no others."""
        if not op.STAGES:
            return True
        try:
            stages = op.last_call.stages
        except Exception as error:  # what completes the stages follows an author's code
            self._of_reference("C019", f"the stages of the row {case.case_id} cannot be followed: {describe(error)}")
            return False
        missing = [stage for stage in op.STAGES if stage.op and not stage.optional and not stages[stage.name]]
        for stage in missing:
            message = f"calls no {stage.op} in stage {stage.name!r} on the row {case.case_id}: call it, or make the stage optional"
            self._of_reference("C019", message)
        return not missing

    def _of_reference(self, code: str, message: str) -> None:
        reference = self._class.implementations()[0]
        place = place_of(reference.function) or self._subject.place
        self._findings.add(place, self._subject.entry, f"implementation {reference.name}", code, message)

    def _data_terms(self, op: Op, case: WorkloadCase) -> None:
        terms = self._asked(op.roofline_data_terms, "roofline_data_terms", "C018", case)
        if terms is None:
            return
        if not isinstance(terms, dict) or not all(map(_is_term, terms.items())):
            self._add(
                "roofline_data_terms",
                "C018",
                f"returns {terms!r} on the row {case.case_id}; return a dict of names to ints",
            )

    def _check_bytes(self, case: WorkloadCase, nbytes: int) -> None:
        held = case.input_bytes + case.output_bytes
        if nbytes == 0 and held:
            self._add(
                "eval_roofline",
                "C016",
                f"returns a price of 0 bytes on the row {case.case_id}, whose tensors hold {held}: correct the entry's `bytes` or `func`",
            )

    def _check_read_half(self, op: Op, case: WorkloadCase, nbytes: int) -> None:
        member = "eval_roofline_read_bytes"
        try:
            read = op.eval_roofline_read_bytes()
        except OpNotAvailableError:
            self._read_half.add(False)
            return
        except Exception as error:  # an author's code may raise anything
            self._add(member, "C017", f"raises {describe(error)} on the row {case.case_id}")
            return
        self._read_half.add(True)
        if type(read) is not int or not 0 <= read <= nbytes:
            message = f"returns {read!r} on the row {case.case_id}; return an int between 0 and the {nbytes} bytes of its price"
            self._add(member, "C017", message)

    def _whens(self, call: CheckedCall, case: WorkloadCase) -> None:
        for found in self._class.implementations():
            if found.when is None:
                continue
            for device in _DEVICES:
                call.device = device
                problem = _judges(found.when, call)
                if problem:
                    message = f"its `when` {problem} on the row {case.case_id} on {device}; it must take a checked call and return a bool"
                    place = place_of(found.when) or self._subject.place
                    self._findings.add(place, self._subject.entry, f"implementation {found.name}", "C013", message)
                    break

    def _reference(self, case: WorkloadCase) -> None:
        try:
            op = workloads.construct(self._class, case, target=self._class.implementation_names()[0])
            op(**workloads.build_inputs(self._class, case, "cpu"))
        except Exception as error:  # an author's code may raise anything
            self._of_reference(
                "C012", f"is the reference, and raises {describe(error)} on the row {case.case_id} on the CPU"
            )


def _is_term(item: tuple[Any, Any]) -> bool:
    """Returns whether a data term is a count, NumPy's included, under a name."""
    name, count = item
    return type(name) is str and isinstance(count, numbers.Integral) and not isinstance(count, bool)


def _judges(when: Any, call: CheckedCall) -> str:
    """Returns what is wrong with a `when`; "" if nothing is."""
    try:
        verdict = when(call)
    except Exception as error:  # an author's code may raise anything
        return f"raises {describe(error)}"
    return "" if type(verdict) is bool else f"returns {verdict!r}"
