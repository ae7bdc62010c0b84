"""One small call, as the oracles pass it around."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch


@dataclasses.dataclass(frozen=True)
class SmallCall:
    """Parameters and input tensors of one call, in signature order; None for an absent one."""

    params: dict[str, Any]
    inputs: tuple[torch.Tensor | None, ...]
