"""What an implementation does to its inputs, against the effect marks of its entry.

Formula and recount read the same marks, so a wrong mark moves both; here the marks are held to what happens in calls:
an input that is not `mutated` in a call is the same afterwards, bit by bit; one that is changes in some call; of one
that is `write_only` the old contents decide nothing, and of a mutated one that is not they decide something in some
call.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

import torch

from tileops.manifest.language.evaluate import evaluate
from tileops.manifest.model import Signature
from tileops.ops.checked_call import CheckedCall
from tileops.ops.errors import OpCallError
from tileops.ops.implementations import Implementation
from tileops.ops.op import Op
from tileops.tests.oracle.small_call import SmallCall


@dataclasses.dataclass
class _Seen:
    """What the calls of one implementation have shown of the inputs that may be written."""

    written: set[str] = dataclasses.field(default_factory=set)
    changed: set[str] = dataclasses.field(default_factory=set)
    read: set[str] = dataclasses.field(default_factory=set)


def defects(signature: Signature, op_class: type[Op], calls: list[SmallCall]) -> list[str]:
    """How implementations that serve the calls on the CPU contradict the effect marks.

    Args:
      signature: of the op's entry.
      op_class: with the implementations.
      calls: on the CPU; a parameter that decides an effect is tried either way.
    """
    found = []
    for implementation in op_class.implementations():
        seen, served = _Seen(), 0
        for small in _either_way(signature, op_class, calls):
            op = op_class(**small.params)
            call = op.check(*small.inputs)
            if implementation.name in op.serving(call):
                served += 1
                found += _of_call(signature, op, call, implementation, small, seen)
        if served:
            found += [f"{implementation.name}: {defect}" for defect in _of_all_calls(signature, seen)]
        elif implementation is op_class.implementations()[0]:
            found.append(f"{implementation.name}: the reference serves no call on the CPU, so that no effect is seen")
    return list(dict.fromkeys(found))


def _either_way(signature: Signature, op_class: type[Op], calls: list[SmallCall]) -> Iterator[SmallCall]:
    """The calls, and with the other value of a bool that an effect reads where no call has it and the op takes it."""
    conditions = [tensor.mutated.text for tensor in signature.inputs.values() if tensor.mutated is not None]
    named = {name for text in conditions for name in re.findall(r"\w+", text)}
    params = [op_class(**small.params).params for small in calls]
    for small, bound in zip(calls, params, strict=True):
        yield small
        for name in sorted(named):
            if isinstance(bound.get(name), bool) and all(one[name] == bound[name] for one in params):
                other = SmallCall({**small.params, name: not bound[name]}, small.inputs)
                try:
                    op_class(**other.params).check(*other.inputs)
                except OpCallError:  # refused: no such call
                    continue
                yield other


def _of_call(
    signature: Signature, op: Op, call: CheckedCall, implementation: Implementation, small: SmallCall, seen: _Seen
) -> list[str]:
    present = {name: one is not None for name, one in zip(op.INPUT_NAMES, small.inputs, strict=True)}
    values = {**call.indices, **op.params}
    before = {name: one for name, one in zip(op.INPUT_NAMES, small.inputs, strict=True) if one is not None}
    marks = {name: signature.inputs[name].mutated for name in before}
    written = {name for name, mark in marks.items() if mark is not None and evaluate(mark.expr, values, present)}
    after, results = _run(op, implementation, before)
    found = [
        f"{implementation.name}: writes {name!r}, which is not mutated in a call with {small.params}"
        for name in before
        if name not in written and not _same(before[name], after[name])
    ]
    seen.written |= written
    for name in written:
        others = {**before, name: _other_contents(before[name])}
        after_others, results_of_others = _run(op, implementation, others)
        for contents, then in ((before, after), (others, after_others)):
            if not _same(contents[name], then[name]):
                seen.changed.add(name)
        if not all(_same(one, other) for one, other in zip(results, results_of_others, strict=True)) or any(
            not _same(after[other], after_others[other]) for other in written
        ):
            seen.read.add(name)
    return found


def _of_all_calls(signature: Signature, seen: _Seen) -> Iterator[str]:
    for name, tensor in signature.inputs.items():
        if tensor.mutated is None:
            continue
        if name not in seen.written:
            yield f"no call writes {name!r}, which is mutated if {tensor.mutated.text!r}; add a small call that does"
        elif name not in seen.changed:
            yield f"{name!r} is mutated, and every call leaves it as it was"
        if tensor.write_only and name in seen.read:
            yield f"{name!r} is write_only, and its old contents decide a result"
        elif not tensor.write_only and name in seen.written - seen.read:
            yield f"{name!r} is mutated and not write_only, and its old contents decide no result of a call that writes it"


def _run(
    op: Op, implementation: Implementation, inputs: dict[str, torch.Tensor]
) -> tuple[dict[str, torch.Tensor], tuple[torch.Tensor, ...]]:
    """The inputs after a call on copies of them, and what it returns that the op specifies."""
    copies = {name: one.clone() for name, one in inputs.items()}
    call = op.check(*(copies.get(name) for name in op.INPUT_NAMES))
    if implementation.name not in op.serving(call):
        raise ValueError(f"{op.ENTRY}: {implementation.name} serves a call and not the same call with other contents")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        results = implementation.function(op, call, *(copies.get(name) for name in op.INPUT_NAMES))
    results = results if isinstance(results, tuple) else (results,)
    return copies, op.specified_outputs(call, results)


def _other_contents(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dtype == torch.bool:
        return ~tensor
    return tensor - 1 if tensor.dtype.is_floating_point or tensor.dtype.is_complex else tensor ^ 1


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors hold the same bits."""
    return torch.equal(*(tensor.contiguous().reshape(-1).view(torch.uint8) for tensor in (one, other)))
