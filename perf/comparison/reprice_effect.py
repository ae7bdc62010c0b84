"""How changed prices change measured rows: which efficiencies moved, by how much, which rows became impossible."""

import collections
import dataclasses
import math
from collections.abc import Iterable, Sequence

from tileops.perf.report import text
from tileops.perf.roof import pricing, profiles
from tileops.proto import benchmark_pb2, roofline_pb2
from tileops.tools.cli import words

# How many rows of an op a line names.
_MOST_NAMED = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Effect:
    """A row whose readings changed.

    Attributes:
      before: Its row at the recorded price.
      after: Its row at the price of today.
    """

    before: roofline_pb2.Row
    after: roofline_pb2.Row

    @property
    def factor(self) -> float | None:
        """Efficiency of today over the recorded one; None unless there are both."""
        if not self.before.efficiency or not self.after.efficiency:
            return None
        return self.after.efficiency / self.before.efficiency

    @property
    def is_lost(self) -> bool:
        """Returns whether the row had a reading, and today's price leaves it without one."""
        return self.before.HasField("efficiency") and not self.after.HasField("efficiency")

    @property
    def is_impossible(self) -> bool:
        """Returns whether today's price is what makes the row impossible."""
        impossible = roofline_pb2.VERDICT_FORMULA_ERROR
        return self.after.verdict == impossible != self.before.verdict


def effects(
    recorded: Iterable[benchmark_pb2.BenchmarkRecord],
    repriced: Iterable[benchmark_pb2.BenchmarkRecord],
    profile: profiles.Profile | None,
) -> list[Effect]:
    """Returns the rows whose readings differ at today's prices.

    Args:
      recorded: Records at the prices that they were recorded with.
      repriced: The same records at today's prices; a record that is not among
        `recorded` raises KeyError.
      profile: The profile of the measured device; without it no row has an
        efficiency.
    """
    before = {_key(record): record for record in recorded}
    found = []
    for record in repriced:
        old = pricing.price(before[_key(record)], profile)
        new = pricing.price(record, profile)
        readings = ("verdict", "blank_reason", "efficiency", "bound")
        if any(getattr(old, name) != getattr(new, name) for name in readings):
            found.append(Effect(before=old, after=new))
    return found


def describe(found: Sequence[Effect]) -> list[str]:
    """Returns a line per op whose rows changed, and a line per row that became impossible."""
    by_op = collections.defaultdict(list)
    for effect in found:
        by_op[effect.after.op].append(effect)
    lines = []
    for op, each in sorted(by_op.items()):
        lines.append(f"{op}: {_moved(each)}")
        lines += [
            f"{text.row_name(effect.after)}: impossible at today's price: {text.breach(breach)}"
            for effect in each
            if effect.is_impossible
            for breach in effect.after.breaches
        ]
    return lines


def _moved(found: Sequence[Effect]) -> str:
    """Returns how the rows of one op changed: by a factor, or from one verdict to another."""
    parts = []
    measured = [(effect.factor, effect) for effect in found if effect.factor is not None]
    if measured:
        factors = [factor for factor, _ in measured]
        _, most = max(measured, key=lambda each: abs(math.log(each[0])))
        span = f"{min(factors):.3g}"
        if max(factors) > min(factors) * 1.001:
            span += f" to {max(factors):.3g}"
        parts.append(
            f"{words.counted(len(measured), 'row')} changed: efficiency {span} times the"
            f" recorded one, for example {most.after.case_id} {most.after.implementation}:"
            f" {most.before.efficiency:.1%} -> {most.after.efficiency:.1%}"
        )
    turned = collections.defaultdict(list)
    for effect in found:
        if effect.factor is None:
            turned[f"{text.verdict(effect.before)} -> {text.verdict(effect.after)}"].append(effect.after)
    for change, rows in turned.items():
        names = ", ".join(f"{row.case_id} {row.implementation}" for row in rows[:_MOST_NAMED])
        more = f" and {len(rows) - _MOST_NAMED} more" if len(rows) > _MOST_NAMED else ""
        parts.append(f"{words.counted(len(rows), 'row')} changed ({change}): {names}{more}")
    return "; ".join(parts)


def _key(record: benchmark_pb2.BenchmarkRecord) -> tuple[str, str, str]:
    return record.op, record.case_id, record.implementation
