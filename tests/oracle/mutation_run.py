"""How many wrong formulas the oracles notice.

    python -m tileops.tests.oracle.mutation_run            every mutant of every op
    python -m tileops.tests.oracle.mutation_run --op='GEMM*'

Prints each mutant that no oracle noticed and the score by op. A mutant that gives no wrong number anywhere and raises
somewhere is counted apart: its author would notice the error. Exits with 1 if an unnoticed change is not a known
equivalent.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import math
from collections.abc import Iterator

from absl import app, flags

from tileops.ops.op import Op
from tileops.tests.oracle import equivalents, mutated_prices, priced_calls
from tileops.tests.oracle.expected import Expectation, entries, expectations
from tileops.tests.oracle.mutants import Mutant
from tileops.tests.oracle.mutated_prices import Methods


@dataclasses.dataclass(frozen=True)
class Outcome:
    """One mutant and how an oracle noticed.

    Attributes:
      op, mutant: which.
      by_number: some call is priced otherwise than an oracle says.
      by_exception: no call is, and some call cannot be priced.
      equivalent: of one that none noticed, why none can; "" where nobody has said.
    """

    op: str
    mutant: Mutant
    by_number: bool
    by_exception: bool
    equivalent: str = ""

    @property
    def noticed(self) -> bool:
        """Either way."""
        return self.by_number or self.by_exception


def outcomes(name: str, op_class: type[Op], at_most: int | None = None) -> Iterator[Outcome]:
    """Mutants of an op's price, tried on every call that the oracles know.

    Args:
      name, op_class: the op.
      at_most: try so many changes of the source, spread evenly over it, and every wrong element size; None tries all.

    Raises:
      ValueError: the oracles know no call of the op, or do not agree with its price as it stands.
    """
    known = expectations(name, op_class)
    unmutated = mutated_prices.as_they_stand(op_class)
    if not known or any(_disagrees(one, unmutated) for one in known):
        raise ValueError(
            f"{name}: the oracles know no call of it, or its price is wrong without a change; mend that first"
        )
    signature = entries()[name][0].signature
    everyone = list(mutated_prices.of_the_source(op_class))
    sample = everyone[:: 1 if at_most is None else math.ceil(len(everyone) / at_most)]
    for mutant, source, methods in (*sample, *mutated_prices.wrong_element_sizes(op_class)):
        by_number, raised = _noticed(known, methods)
        noticed = by_number or raised
        why = "" if noticed else equivalents.reason(name, signature, source, mutant)
        yield Outcome(name, mutant, by_number, raised and not by_number, why)


def _noticed(known: list[Expectation], methods: Methods) -> tuple[bool, bool]:
    """Whether some call gives a wrong number, and whether some call raises."""
    raised = False
    for one in known:
        try:
            if _disagrees(one, methods):
                return True, raised
        except Exception:  # a wrong formula may raise anything
            raised = True
    return False, raised


def _disagrees(known: Expectation, methods: Methods) -> bool:
    if methods.price is not None:
        if methods.price(known.op) != (known.flops, known.nbytes):
            return True
    if methods.read is not None and methods.read(known.op) != known.read:
        return True
    return methods.terms is not None and methods.terms(known.op) != known.terms


def stale(found: list[Outcome]) -> list[tuple[str, str, str]]:
    """Listed reasons of equivalence, of the ops in `found`, that stand for no survivor or for more than one."""
    survivors = [(one.op, one.mutant.function, one.mutant.becomes) for one in found if not one.noticed]
    ops = {one.op for one in found}
    return [key for key in equivalents.LISTED if key[0] in ops and survivors.count(key) != 1]


_OP = flags.DEFINE_string("op", "*", "Ops whose formulas are changed, a glob.")


def main(argv: list[str]) -> int:
    if len(argv) > 1:
        raise app.UsageError(f"unexpected argument {argv[1]!r}")
    if not fnmatch.filter(priced_calls.implemented(), _OP.value):
        raise app.UsageError(f"--op={_OP.value} fits no implemented op")
    found = [
        outcome
        for name, op_class in priced_calls.implemented().items()
        if fnmatch.fnmatchcase(name, _OP.value)
        for outcome in outcomes(name, op_class)
    ]
    for one in found:
        if not one.noticed:
            where = f"{one.op}: {one.mutant.function}, line {one.mutant.place}"
            print(f"{where}: {one.mutant.change}: {one.equivalent or 'NOT NOTICED: ' + one.mutant.becomes}")
    for name in dict.fromkeys(outcome.op for outcome in found):
        print(f"{name}: {_score([outcome for outcome in found if outcome.op == name])}")
    for op, function, becomes in stale(found):
        print(f"{op}: {function}: {becomes}: is said to be equivalent, and is noticed, no mutant, or several")
    print(f"all: {_score(found)}")
    return 1 if stale(found) or not all(one.noticed or one.equivalent for one in found) else 0


def _score(found: list[Outcome]) -> str:
    numbers, exceptions = (sum(getattr(one, how) for one in found) for how in ("by_number", "by_exception"))
    equivalent = sum(bool(one.equivalent) for one in found)
    rest = len(found) - numbers - exceptions - equivalent
    return (
        f"{len(found)} wrong formulas: {numbers} give a wrong number, {exceptions} only raise, {equivalent} are equivalent,"
        f" {rest} not noticed"
    )


if __name__ == "__main__":
    app.run(main)
