"""All checks of a manifest that need nothing but the manifest; what codegen and the validator share."""

from __future__ import annotations

import dataclasses

from tileops.manifest import rows
from tileops.manifest.check_signature import SignatureCheck
from tileops.manifest.diagnostics import Diagnostics
from tileops.manifest.model import Entry
from tileops.manifest.plan import Plan
from tileops.manifest.points import Point


@dataclasses.dataclass(frozen=True)
class Checked:
    """An entry whose signature holds, with what its checks worked out.

    Attributes:
      plans: the inference plan of every type point.
      cases: the calls that its rows describe.
      callable: whether signature and rows are free of defects.
    """

    entry: Entry
    plans: tuple[tuple[Point, Plan], ...]
    cases: tuple[rows.Case, ...]
    callable: bool


def check_entry(entry: Entry, diagnostics: Diagnostics) -> Checked:
    """Check one entry; every defect goes to `diagnostics`, and what depends on a defective part is not reached."""
    before = len(diagnostics)
    signature = SignatureCheck(entry, diagnostics)
    if not signature.run():
        return Checked(entry, (), (), False)
    cases = rows.instantiate(entry, signature.plans, diagnostics)
    if len(diagnostics) == before:
        rows.check_coverage(entry, cases, diagnostics)
    return Checked(entry, tuple(signature.plans), tuple(cases), len(diagnostics) == before and not entry.malformed)
