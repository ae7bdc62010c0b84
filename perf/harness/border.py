"""Tensors that come back from code that nobody vouches for: plain ones that hide nothing, by the bench's own aliases.

A tensor takes attributes like any Python object, and one called `clone` or `copy_` hides the method. So the bench lends
and keeps aliases (RowInputs.lend, `taken`), calls no method by way of a tensor that an implementation had in its hands,
and refuses one on which such an attribute is.
"""

from __future__ import annotations

from typing import Any

import torch

from tileops.ops.op import Op
from tileops.perf.harness.expected import WrongResultError, outputs_by_name
from tileops.perf.harness.inputs import Inputs


def taken(op: Op, returned: Any) -> tuple[torch.Tensor | None, ...]:
    """Aliases of what a call returned, in the order of the op's outputs; None for one that the call does not have.

    Raises:
      WrongResultError: an output is no plain tensor, or hides methods by attributes.
    """
    outputs = outputs_by_name(op, returned)
    for name, tensor in outputs.items():
        _check_plain(f"output {name!r}", tensor)
    return tuple(None if tensor is None else torch.Tensor.detach(tensor) for tensor in outputs.values())


def check_lent(lent: Inputs) -> None:
    """Raises WrongResultError where a tensor that a call was given is no plain one by now, or hides its methods."""
    for name, tensor in lent.items():
        _check_plain(f"input {name!r}", tensor)


def copies(tensors: tuple[torch.Tensor | None, ...]) -> tuple[torch.Tensor | None, ...]:
    """Copies in storage of their own."""
    return tuple(None if tensor is None else torch.Tensor.clone(tensor) for tensor in tensors)


def _check_plain(what: str, tensor: torch.Tensor | None) -> None:
    if tensor is None:
        return
    if isinstance(tensor, torch.nn.Parameter):
        raise WrongResultError(
            f"{what} is a Parameter, which belongs to a module and asks for gradients; a plain tensor is wanted: return"
            " its detach()"
        )
    if type(tensor) is not torch.Tensor:
        raise WrongResultError(
            f"{what} is a {type(tensor).__name__}, which may compute its contents later; a plain tensor is wanted"
        )
    # Others hide nothing: PyTorch's compiler leaves some (torch._dynamo.mark_dynamic).
    if hiding := sorted(name for name in vars(tensor) if hasattr(torch.Tensor, name)):
        raise WrongResultError(
            f"{what} carries attributes that hide a tensor's own ({', '.join(hiding)}); a plain tensor is wanted"
        )
