"""Whether the result of an implementation is right, compared with the reference, which runs in higher precision.

An example: a bfloat16 RMSNorm, whose reference runs in float32. The rules look at the result in this order:

1. Infinities and NaN are where the reference has them (rules.py). Everything below is over the finite elements.
2. ||out - ref|| / ||ref|| is at most 0.016. Rounding alone costs 0.002, so this finds a wrong formula.
3. No element is off by more than 8 * 0.016 of its own size plus the root mean square. This finds one wrong element among
   millions, which rule 2 averages away.
4. Few elements (1 in 1000, or 2) are off by more than 0.016 of their own size plus 3.5 times the noise. The noise is
   what honest rounding costs at that element (noise.py). This finds a wrong column of small numbers.
5. The errors cancel on average (rules.py). This finds results that are all 1% too large.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from tileops.ops.cases import WorkloadCase
from tileops.ops.op import Op
from tileops.perf.harness import noise as bench_noise
from tileops.perf.harness import rules
from tileops.perf.harness.expected import Expected, Jumps, Wanted, WrongResultError, outputs_by_name, share_storage
from tileops.perf.harness.inputs import Inputs

# Rule 2: the largest relative error that passes, by dtype of the output. Rounding the result alone costs 2e-3 in
# bfloat16 and 3e-4 in float16, and products of rounded operands cost a few times as much. float32 products may have tf32
# operands (3e-4). Dtypes without an entry (integers, bool) must be equal.
TOLERANCE = {
    "float64": 1e-9,
    "float32": 1e-3,
    "float16": 4e-3,
    "bfloat16": 1.6e-2,
    "float8_e4m3fn": 1e-1,
    "float8_e5m2": 2e-1,
}
# The same in steps of the dtype, if float32 or float64 work is done in the dtype itself: activations chain functions
# that are good to 2 or 3 steps each; a norm or a sum of thousands of terms is off by more.
TOLERANCE_STEPS = {"elementwise": 16.0, "reduction": 128.0}
# Rule 3: times the tolerance.
_ELEMENT_FACTOR = 8.0
# Rule 4: times the noise.
_NOISE_FACTOR = 3.5
# The same if float32 or float64 work is done in the dtype itself. In the tail of a GELU, 1 + erf(x) is nothing but the
# rounding of the sum, 10 times the error of its neighbours.
_WIDE_NOISE_FACTOR = 16.0
# An element may also be off by this many steps of its neighbours' size: near 0, 2 sigmoid(2 x) - 1 is off by one or two
# such steps, sin.approx by three.
_NEIGHBOUR_STEPS = 4.0
# Rule 4: elements that may be off by more; the larger of a share and a count.
_WRONG_SHARE = 1 / 1000
_FEW_WRONG = 2
_POISON_BYTE = 0xFF  # a NaN in every float type, -1 in signed integers


def check(op: Op, call: Any, inputs: Inputs, returned: Any, expected: Expected) -> float:
    """Compares the result of a call, and the inputs it wrote, with the expected values.

    Args:
      op: the op that made the call.
      call: its checked call.
      inputs: the tensors that the call was given, as the call left them.
      returned: the call's result, as `border.taken` returns it.
      expected: the expected values for the same inputs.

    Returns:
      The largest relative error of a tensor; 0 if all are equal.

    Raises:
      WrongResultError: a tensor is wrong, or shares storage which it does not share in the reference.
    """
    outputs = outputs_by_name(op, returned)
    _check_storage(outputs, inputs, expected.alias_pairs)
    specified = dict(zip(outputs, op.specified_outputs(call, tuple(outputs.values())), strict=True))
    worst = 0.0
    for name, reference in expected.outputs.items():
        worst = max(worst, _check_tensor(f"output {name!r}", specified[name], reference))
    for name, reference in expected.mutated.items():
        worst = max(worst, _check_tensor(f"mutated input {name!r}", inputs[name], reference))
    return worst


def check_unwritten(op_class: type[Op], inputs: Inputs, pristine: Inputs) -> tuple[str, ...]:
    """Returns the names of the inputs that a call changed.

    Args:
      op_class: the op.
      inputs: as the call left them.
      pristine: as it found them.

    Raises:
      WrongResultError: an input changed, and the op does not declare to write it.
    """
    changed = tuple(
        name
        for name, tensor in inputs.items()
        if tensor is not None and not torch.equal(_bits(tensor), _bits(pristine[name]))
    )
    for name in changed:
        if name not in op_class.MUTATED_NAMES:
            raise WrongResultError(
                f"input {name!r} was written, but the op does not declare to write it: work on a copy"
            )
    return changed


def poison(call: Any, device: torch.device) -> None:
    """Fills free memory of the size of each output with NaN patterns, and frees it again.

    The allocator gives the same blocks to the next call. An element that the call never writes then holds NaN instead
    of the right result of an earlier call.
    """
    blocks = [
        torch.full((record.bytes,), _POISON_BYTE, dtype=torch.uint8, device=device) for record in call.outputs.values()
    ]
    del blocks


# ---- one tensor


def _check_tensor(what: str, found: torch.Tensor | None, wanted: Wanted | None) -> float:
    if found is None or wanted is None:
        if found is wanted:
            return 0.0
        raise WrongResultError(f"{what} is {_presence(found)}, and the reference's is {_presence(wanted)}")
    reference = wanted.tensor
    if found.shape != reference.shape:
        raise WrongResultError(
            f"{what} has the specified shape {list(found.shape)}, and the reference's is {list(reference.shape)}"
        )
    if found.numel() == 0:
        return 0.0
    if str(found.dtype).removeprefix("torch.") not in TOLERANCE:
        return _check_whole(what, found, reference, wanted.allowed)
    tolerance = tolerance_of(found.dtype, wanted)
    found, reference = rules.settled(what, found, reference, tolerance)
    if reference is not wanted.tensor:
        wanted = dataclasses.replace(wanted, tensor=reference)
    if wanted.jumps is not None:
        found = _with_jumps(found, reference, wanted.jumps, tolerance)
    error, worst = relative_error(found, reference)
    if not error <= tolerance:
        raise WrongResultError(f"{what} has a relative error of {error:.3g}; at most {tolerance:.3g} passes")
    if not worst <= _ELEMENT_FACTOR * tolerance:
        raise WrongResultError(
            f"{what} has an element off by {worst:.3g} of its own size plus the root mean square; at most"
            f" {_ELEMENT_FACTOR * tolerance:.3g} passes"
        )
    wrong = wrong_elements(found, wanted, tolerance) if error else 0
    if wrong > max(_FEW_WRONG, _WRONG_SHARE * found.numel()):
        raise WrongResultError(
            f"{what} is wrong in {wrong} of {found.numel()} elements: each is off by more than {tolerance:.3g} of its own"
            f" size plus {_noise_factor(found.dtype, wanted):g} times what rounding costs there"
        )
    rules.check_bias(what, found, wanted)
    return error


def tolerance_of(dtype: torch.dtype, wanted: Wanted) -> float:
    """Returns the relative error that passes for a floating-point result of this dtype and the op's arithmetic."""
    tolerance = TOLERANCE[str(dtype).removeprefix("torch.")]
    if _is_own_work(dtype, wanted):
        tolerance = TOLERANCE_STEPS[wanted.arithmetic] * torch.finfo(dtype).eps
    return max(tolerance, wanted.allowed)


def _is_own_work(dtype: torch.dtype, wanted: Wanted) -> bool:
    """Returns whether a result in `dtype` is computed in that dtype, and not in a wider one or on tensor cores."""
    return dtype in (torch.float32, torch.float64) and wanted.arithmetic in TOLERANCE_STEPS


def _noise_factor(dtype: torch.dtype, wanted: Wanted) -> float:
    return _WIDE_NOISE_FACTOR if _is_own_work(dtype, wanted) else _NOISE_FACTOR


def _check_whole(what: str, found: torch.Tensor, reference: torch.Tensor, allowed: float) -> float:
    """Compares integers or bools. They must be equal, or differ by at most what the op's definition allows."""
    if allowed and not (found.dtype == torch.bool or found.is_floating_point() or found.is_complex()):
        differing = int((found.long() - reference.long()).abs_().gt(allowed).sum())
        by = f" by more than {allowed:g}"
    else:
        differing, by = int((found != reference).sum()), ""
    if differing:
        raise WrongResultError(f"{what} differs from the reference{by} in {differing} of {found.numel()} elements")
    return 0.0


def _with_jumps(found: torch.Tensor, reference: torch.Tensor, jumps: Jumps, tolerance: float) -> torch.Tensor:
    """Returns `found` with the reference's value at each jump where `found` has the other right value."""
    given = found.detach().reshape(-1)[jumps.positions].to(jumps.values.dtype)
    is_right = (given - jumps.values).abs() <= tolerance * jumps.values.abs()
    where = jumps.positions[is_right]
    if not where.numel():
        return found
    settled = found.detach().clone().reshape(-1)
    settled[where] = reference.detach().reshape(-1)[where].to(settled.dtype)
    return settled.view(found.shape)


def _presence(found: object | None) -> str:
    return "absent" if found is None else "present"


def relative_error(found: torch.Tensor, reference: torch.Tensor) -> tuple[float, float]:
    """Returns (||found - reference|| / ||reference||, largest |found - reference| / (|reference| + rms(reference))).

    Both are infinite if `found` holds a NaN or an infinity, and 0 if both tensors are all zero.
    """
    square_difference = square_reference = 0.0
    for given, wanted in _chunks(found, reference):
        if not bool(torch.isfinite(given).all()):
            return math.inf, math.inf
        square_difference += float((given - wanted).square().sum())
        square_reference += float(wanted.square().sum())
    if square_difference == 0.0:
        return 0.0, 0.0
    if square_reference == 0.0:
        return math.inf, math.inf
    rms = math.sqrt(square_reference / found.numel())
    worst = max(
        float(((given - wanted).abs() / (wanted.abs() + rms)).max()) for given, wanted in _chunks(found, reference)
    )
    return math.sqrt(square_difference / square_reference), worst


def wrong_elements(found: torch.Tensor, wanted: Wanted, tolerance: float) -> int:
    """Returns how many elements are off by more than `tolerance` of their own size plus what honest rounding costs there.

    If the noise was not measured, `tolerance` of the size of an element's neighbours stands in for it. Work in float32
    or float64 itself may always be off by a few steps of the neighbours' size.
    """
    reference, noise = wanted.tensor.detach().reshape(-1), wanted.noise
    share = tolerance if noise is None else 0.0
    if _is_own_work(found.dtype, wanted):
        share = max(share, _NEIGHBOUR_STEPS * torch.finfo(found.dtype).eps)
    neighbours = bench_noise.of_size(reference, share) if share else None
    given, wrong, dtype = found.detach().reshape(-1), 0, bench_noise.working_dtype(reference)
    least = bench_noise.smallest(found.dtype)
    for part in bench_noise.chunks(given.numel()):
        true = reference[part].to(dtype)
        error, size = given[part].to(dtype).sub(true).abs_(), true.abs()
        allowed = torch.zeros_like(size)
        if neighbours is not None:
            allowed.add_(bench_noise.spread(neighbours, part, size.numel()))
        if noise is not None:
            allowed.add_(noise.of(part, size), alpha=_noise_factor(found.dtype, wanted))
        wrong += int((error > allowed.add_(size.mul_(tolerance)).add_(least)).sum())
    return wrong


def _chunks(found: torch.Tensor, reference: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    given, wanted = found.detach().reshape(-1), reference.detach().reshape(-1)
    for part in bench_noise.chunks(given.numel()):
        yield given[part].to(torch.float64), wanted[part].to(torch.float64)


def _check_storage(
    outputs: Mapping[str, torch.Tensor | None], inputs: Inputs, alias_pairs: frozenset[tuple[str, str]]
) -> None:
    names: Sequence[str] = list(outputs)
    for at, name in enumerate(names):
        tensor = outputs[name]
        for given_name, given in inputs.items():
            if (name, given_name) not in alias_pairs and share_storage(tensor, given):
                raise WrongResultError(f"output {name!r} shares the storage of input {given_name!r}: return a copy")
        for other in names[:at]:
            if share_storage(tensor, outputs[other]):
                raise WrongResultError(f"outputs {other!r} and {name!r} share one storage: return a copy of one")


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(torch.uint8) if tensor.dim() else tensor.reshape(1).view(torch.uint8)


# ---- how many of a row's timed calls are verified

# An example: an op that returns one truth value. Half of all wrong results are right by chance, so 2 calls would pass a
# wrong implementation in one of four runs. 64 calls of one element each leave no chance.

# Calls that are verified on every row. A count.
FEWEST_VERIFIED = 2
# Elements of the smallest output that are compared over all calls, and so the most calls. A count.
_VERIFIED_ELEMENTS = 64
# Inputs that are made again, and that the reference runs on, for calls beyond the fewest. Bytes.
_INPUT_BYTES = 16 * 2**20


def calls_to_verify(expected: Expected, case: WorkloadCase) -> int:
    """Returns how many timed calls of a row to verify, at least `FEWEST_VERIFIED`. A count.

    Args:
      expected: the expected values of the row. Its smallest tensor decides, since each output may be wrong by itself.
      case: the row. Large inputs keep the number down, since the inputs of each verified call are made again.
    """
    wanted = (one for one in (*expected.outputs.values(), *expected.mutated.values()) if one is not None)
    smallest = min((elements for one in wanted if (elements := one.tensor.numel())), default=_VERIFIED_ELEMENTS)
    affordable = _INPUT_BYTES // max(1, case.input_bytes)
    return max(FEWEST_VERIFIED, min(-(-_VERIFIED_ELEMENTS // smallest), affordable))
