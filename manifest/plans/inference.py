"""Runs an inference plan on plain shapes and dtypes, to check a workload row against its own tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tileops.manifest.language.evaluate import evaluate
from tileops.manifest.language.primitives import divided
from tileops.manifest.plans import plan_steps


class MismatchError(Exception):
    """The tensors do not fit the signature; the message names the tensor and the term."""


def infer(
    steps: Iterable[plan_steps.Step],
    shapes: Mapping[str, tuple[int, ...]],
    dtypes: Mapping[str, str],
    params: Mapping[str, Any],
    present: Mapping[str, bool],
) -> dict[str, Any]:
    """Returns the indices and lets of a call, solved from its tensors.

    Args:
      steps: what the plan does at the call's discriminant point.
      shapes, dtypes: of the inputs that are passed.
      params: construction parameters.
      present: presence of optional tensors and Maybes.

    Raises:
      MismatchError: an axis or dtype is not what its term gives, or no index makes it so.
    """
    values: dict[str, Any] = dict(params)

    def length(offset: plan_steps.Offset) -> int:
        return offset.axes + sum(len(evaluate(run, values, present)) for run in offset.runs)

    def position(step: plan_steps.SolveAxis | plan_steps.CheckAxis | plan_steps.CheckRun) -> int:
        return len(shapes[step.tensor]) - length(step.at) if step.from_back else length(step.at)

    for step in steps:
        if isinstance(step, plan_steps.SolveLet):
            values[step.name] = evaluate(step.term, values, present)
            continue
        if step.tensor not in shapes:
            continue
        shape = shapes[step.tensor]
        if isinstance(step, plan_steps.Rank):
            least = length(step.least)
            if len(shape) < least or (len(shape) > least and not step.open):
                raise MismatchError(f"{step.tensor} has {len(shape)} axes, declared {step.term}")
        elif isinstance(step, plan_steps.SolveDType):
            values[step.index] = dtypes[step.tensor]
        elif isinstance(step, plan_steps.CheckDType):
            wanted = evaluate(step.term, values, present)
            if wanted != dtypes[step.tensor]:
                raise MismatchError(f"{step.tensor} is {dtypes[step.tensor]}, declared {wanted}")
        elif isinstance(step, plan_steps.SolveAxis):
            found = divided(shape[position(step)], step.factor, evaluate(step.offset, values, present))
            if found is None:
                raise MismatchError(f"no {step.index} gives an axis of {step.tensor} the size {shape[position(step)]}")
            values[step.index] = found
        elif isinstance(step, plan_steps.CheckAxis):
            wanted = evaluate(step.term, values, present)
            if shape[position(step)] != wanted:
                raise MismatchError(
                    f"axis {position(step)} of {step.tensor} is {shape[position(step)]}, its term {wanted}"
                )
        elif isinstance(step, plan_steps.SolveRun):
            values[step.index] = shape[length(step.front) : len(shape) - length(step.back)]
        else:
            wanted = tuple(evaluate(step.term, values, present))
            at = position(step)
            if shape[at : at + len(wanted)] != wanted:
                raise MismatchError(f"axes from {at} of {step.tensor} are {list(shape[at:])}, its term {list(wanted)}")
    return {name: value for name, value in values.items() if name not in params}
