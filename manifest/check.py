"""All checks of an entry that need only the manifest; codegen and the validator share them."""

from __future__ import annotations

import dataclasses

from tileops.manifest.checks.signature import SignatureCheck
from tileops.manifest.diagnostics import Diagnostics
from tileops.manifest.language import effort
from tileops.manifest.language.invariants import expect
from tileops.manifest.model import Entry
from tileops.manifest.plans.plan import Plan
from tileops.manifest.rows import rows
from tileops.manifest.rows.cases import Case


@dataclasses.dataclass(frozen=True)
class Checked:
    """An entry with its presence conditions replaced, and the results of its checks.

    Attributes:
      plan: the inference plan; None if the signature has a defect.
      cases: the calls that its rows describe.
      callable: whether signature and rows are free of defects.
      unreached: checks that a missing fact kept from being made, each naming it.
    """

    entry: Entry
    plan: Plan | None
    cases: tuple[Case, ...]
    callable: bool
    unreached: tuple[str, ...] = ()


def check_entry(entry: Entry, diagnostics: Diagnostics) -> Checked:
    """Checks one entry. `diagnostics` takes every defect. Checks that need a defective part are not made."""
    with effort.bounded():
        try:
            return _check(entry, diagnostics)
        except effort.ExhaustedError as error:
            entry.report(diagnostics, "signature", "M004", str(error))
            return Checked(entry, None, (), False, (f"inference plans and workload rows: the signature {error}",))


def _check(entry: Entry, diagnostics: Diagnostics) -> Checked:
    before = len(diagnostics)
    signature = SignatureCheck(entry, diagnostics)
    sound = signature.run()
    entry = signature.resolved
    if not sound:
        broken = ", ".join(entry.signature_gaps) or "the signature"
        return Checked(entry, None, (), False, (f"inference plans and workload rows: {broken} has defects",))
    cases = rows.instantiate(entry, expect(signature.plan, Plan), diagnostics)
    unreached: tuple[str, ...] = ()
    if "status" in entry.malformed:
        unreached = ("coverage of optional tensors: status has defects",)
    elif len(diagnostics) == before and not entry.row_gaps:
        rows.check_coverage(entry, cases, diagnostics)
    else:
        unreached = ("coverage of optional tensors: some rows have defects",)
    fine = len(diagnostics) == before and not entry.malformed
    return Checked(entry, signature.plan, tuple(cases), fine, unreached)
