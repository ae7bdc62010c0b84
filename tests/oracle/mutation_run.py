"""How many wrong formulas the oracles notice.

    python -m tileops.tests.oracle.mutation_run            every mutant of every op
    python -m tileops.tests.oracle.mutation_run --op='Gemm*'

Prints each mutant that no oracle noticed and the score by op. Exits 1 where a survivor is not among the known equivalents.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import inspect
import math
import re
import sys
import textwrap
from collections.abc import Callable, Iterator

from absl import app, flags

from tileops.manifest import loader
from tileops.manifest.model import Entry, Signature
from tileops.manifest.rows import Case
from tileops.ops.op import Op
from tileops.perf import formulas, paths
from tileops.tests.oracle import binder, priced_calls
from tileops.tests.oracle.bytes_by_hand import BY_HAND
from tileops.tests.oracle.dispatch_count import count_flops
from tileops.tests.oracle.flop_enumerations import ENUMERATIONS
from tileops.tests.oracle.flop_references import REFERENCES
from tileops.tests.oracle.mutants import Mutant, mutants
from tileops.tests.oracle.small_calls import SmallCall, small_calls

# Mutants that price every call as the formula does, by (op, change): why.
_EQUIVALENT: dict[tuple[str, str], str] = {
    **{(op, "1 -> 2"): "an unsigned integer holds -2 no more than -1" for op in ("AbsFwdOp", "ReluFwdOp")},
    ("GroupedQueryAttentionFwdOp", "3 -> 4"): "heads of no width hold no bytes, read or not",
    ("MoePermuteNopadFwdOp", "1 -> 2"): "any negative number is no local expert",
    ("MoePermuteNopadFwdOp", "0 -> 1"): "the size of an entry where no entry is read",
    **{
        ("MoePermuteNopadFwdOp", change): "experts_hit is a data term and no part of the price"
        for change in ("local -> ids", "local -> is_local", "local -> known", "is_local -> known")
    },
    **{
        ("MoePermuteNopadFwdOp", change): "both hold an int32 a routed pair"
        for change in ("'fwd_idx' -> 'topk_ids'", "'topk_ids' -> 'fwd_idx'")
    },
    **{
        ("MoePermuteNopadFwdOp", f"'expert_map' -> {other!r}"): "an entry of either is an int32"
        for other in ("true_offsets", "true_sizes", "fwd_idx")
    },
    ("MoePermuteNopadFwdOp", "'hidden_states' -> 'perm_h'"): "rows of both are H values of T",
}


@dataclasses.dataclass(frozen=True)
class Expectation:
    """A completed call with what the oracles say of it; None where an oracle says nothing of this call."""

    op: Op
    flops: int | None
    nbytes: int | None


@dataclasses.dataclass(frozen=True)
class Outcome:
    """One mutant and whether an oracle noticed; `equivalent` says why none can."""

    op: str
    mutant: Mutant
    noticed: bool
    equivalent: str = ""


def expectations(name: str, op_class: type[Op]) -> list[Expectation]:
    """Calls of an op's rows, and of its small calls where brute force counts it."""
    found = []
    entry, cases = _signatures()[name]
    for workload, case in zip(op_class.CASES, cases, strict=True):
        op = priced_calls.call_case(op_class, workload)
        inputs = priced_calls.case_inputs(op_class, workload)
        nbytes = BY_HAND[name](dict(op.last_call.params), inputs) if name in BY_HAND else binder.recount_case(entry, case).total
        flops = count_flops(REFERENCES[name], op.last_call.params, *inputs.values()) if name in REFERENCES else None
        found.append(Expectation(op, flops, nbytes))
    if name in ENUMERATIONS:
        for counted in ENUMERATIONS[name](op_class):
            op = priced_calls.call_small(op_class, counted.call)
            nbytes = counted.nbytes if name not in BY_HAND else _small_bytes(name, entry.signature, op, counted.call)
            found.append(Expectation(op, counted.flops, nbytes))
    else:
        for small in small_calls(op_class):
            op = priced_calls.call_small(op_class, small)
            flops = count_flops(REFERENCES[name], op.last_call.params, *small.inputs)
            found.append(Expectation(op, flops, _small_bytes(name, entry.signature, op, small)))
    return found


def _small_bytes(name: str, signature: Signature, op: Op, small: SmallCall) -> int:
    """The bytes of a small call by the oracle of the op's level."""
    inputs = dict(zip(op.INPUT_NAMES, small.inputs, strict=True))
    if name in BY_HAND:
        return BY_HAND[name](dict(op.last_call.params), inputs)
    passed = {tensor: value for tensor, value in inputs.items() if value is not None}
    outputs = op(*(None if one is None else one.to("meta") for one in small.inputs))
    returned = dict(zip(op.OUTPUT_NAMES, outputs if isinstance(outputs, tuple) else (outputs,), strict=True))
    present = {tensor: tensor in passed for tensor in inputs}
    return binder.recount(signature, op.last_call.params, present, passed | returned).total


def outcomes(name: str, op_class: type[Op], at_most: int | None = None) -> Iterator[Outcome]:
    """Mutants of an op's price, tried on every call that the oracles know.

    Args:
      name, op_class: the op.
      at_most: try so many, spread evenly over the source; None tries all.
    """
    known = expectations(name, op_class)
    everyone = list(_priced(op_class))
    for mutant, price in everyone[:: 1 if at_most is None else math.ceil(len(everyone) / at_most)]:
        noticed = not all(_agrees(one, price) for one in known)
        yield Outcome(name, mutant, noticed, "" if noticed else _equivalent(name, mutant))


def _priced(op_class: type[Op]) -> Iterator[tuple[Mutant, Callable[[Op], tuple[int, int]]]]:
    """Each mutant with the function that prices an op's last call by it."""
    tensors = (*op_class.CONSTANT_NAMES, *op_class.INPUT_NAMES, *op_class.OUTPUT_NAMES)
    source = textwrap.dedent(inspect.getsource(op_class.eval_roofline))
    formula = _entry_formula(source)
    if formula is None:
        for mutant in mutants(source, frozenset({"eval_roofline"}), tensors):
            namespace = dict(vars(sys.modules[op_class.eval_roofline.__module__]))
            exec(compile(mutant.tree, "mutated eval_roofline", "exec"), namespace)
            yield mutant, namespace["eval_roofline"]
        return
    for mutant in mutants(inspect.getsource(formulas), _called_from(formula), tensors):
        namespace = {"__name__": "mutated_formulas"}
        exec(compile(mutant.tree, "mutated formulas", "exec"), namespace)
        yield mutant, lambda op, priced=namespace[formula]: priced(op.last_call)


def _equivalent(name: str, mutant: Mutant) -> str:
    """Why a mutant prices every call as the formula does; "" where nobody has said."""
    signature = _signatures()[name][0].signature
    before, _, after = (part.strip("'") for part in mutant.change.partition(" -> "))
    if before in signature.tensors and after in signature.tensors:
        one, other = signature.tensors[before], signature.tensors[after]
        alike = (one.dtype.expr, one.shape.expr, one.optional, one.when) == (
            other.dtype.expr, other.shape.expr, other.optional, other.when,
        )  # fmt: skip
        if alike:
            return f"{before} and {after} are declared alike, so one is as large as the other"
    written = {signature.inputs[one.alias].mutated.text for one in signature.outputs.values() if one.alias}
    if before.removeprefix("if ").removeprefix("not ") in written:
        return "whether an output is an input that is written or a tensor of its own, it is as large"
    return _EQUIVALENT.get((name, mutant.change), "")


def _agrees(known: Expectation, price: Callable[[Op], tuple[int, int]]) -> bool:
    """Whether a price is what the oracles expect; one that raises is noticed whatever it raises."""
    try:
        flops, nbytes = price(known.op)
    except Exception:
        return False
    return known.flops in (None, flops) and known.nbytes in (None, nbytes)


def _entry_formula(source: str) -> str | None:
    """The function of perf/formulas.py that an emitted method calls."""
    found = re.search(r"\b_formulas\.(\w+)\(", source)
    return found[1] if found else None


def _called_from(formula: str) -> frozenset[str]:
    """A function of perf/formulas.py and those of the same file that it calls, directly and through one another."""
    functions = {name: value for name, value in vars(formulas).items() if inspect.isfunction(value)}
    found: set[str] = set()
    waiting = [formula]
    while waiting:
        name = waiting.pop()
        if name in functions and name not in found:
            found.add(name)
            waiting.extend(functions[name].__code__.co_names)
    return frozenset(found)


@functools.cache
def _signatures() -> dict[str, tuple[Entry, tuple[Case, ...]]]:
    """Every implemented entry without its roofline block, read once for all ops."""
    return binder.signatures(loader.spec_files(str(paths.data_path("manifest", "spec"))))


def stale(found: list[Outcome]) -> list[tuple[str, str]]:
    """Reasons of equivalence, of the ops in `found`, that no survivor needs."""
    needed = {(one.op, one.mutant.change) for one in found if not one.noticed}
    ops = {one.op for one in found}
    return [key for key in _EQUIVALENT if key[0] in ops and key not in needed]


_OP = flags.DEFINE_string("op", "*", "Ops whose formulas are changed, a glob.")


def main(argv: list[str]) -> int:
    if len(argv) > 1:
        raise app.UsageError(f"unexpected argument {argv[1]!r}")
    found = [
        outcome
        for name, op_class in priced_calls.implemented().items()
        if fnmatch.fnmatchcase(name, _OP.value)
        for outcome in outcomes(name, op_class)
    ]
    for outcome in found:
        if not outcome.noticed:
            print(f"{outcome.op}: line {outcome.mutant.place}: {outcome.mutant.change}: {outcome.equivalent or 'NOT NOTICED'}")
    for name in dict.fromkeys(outcome.op for outcome in found):
        of_op = [outcome for outcome in found if outcome.op == name]
        print(f"{name}: {sum(outcome.noticed for outcome in of_op)} of {len(of_op)} noticed")
    noticed, equivalent = (sum(bool(getattr(one, what)) for one in found) for what in ("noticed", "equivalent"))
    unexplained = len(found) - noticed - equivalent
    for op, change in stale(found):
        print(f"{op}: {change}: is said to be equivalent, and is noticed or no mutant")
    print(f"{len(found)} wrong formulas: {noticed} noticed, {equivalent} equivalent, {unexplained} not noticed")
    return 1 if unexplained or stale(found) else 0


if __name__ == "__main__":
    app.run(main)
