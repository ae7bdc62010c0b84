"""Small calls of the composites, and their stages as plain values."""

from __future__ import annotations

import torch

from tileops.ops.implementations import implementation
from tileops.tests.runtime.composite_ops import RoutedLayerFwdOp

M, H, I, E = 5, 4, 6, 7


def layer_inputs(shared=False, seed=0):
    """Inputs of LayerFwdOp. Few tokens and many experts, so that some experts get no row."""
    stream = torch.Generator().manual_seed(seed)
    shapes = {"hidden": (M, H), "gate": (H, E), "up": (E, H, I), "down": (E, I, H)}
    if shared:
        shapes["shared"] = H, H
    return {name: torch.randn(shape, generator=stream) for name, shape in shapes.items()}


def routed_inputs(seed=0):
    """Inputs of RoutedLayerFwdOp and BlockFwdOp."""
    stream = torch.Generator().manual_seed(seed)
    shapes = {"hidden": (M, H), "logits": (M, E), "w": (E, H, H)}
    return {name: torch.randn(shape, generator=stream) for name, shape in shapes.items()}


def on_meta(inputs, *kept):
    return {name: tensor if name in kept else tensor.to("meta") for name, tensor in inputs.items()}


def counts(call):
    """How many calls each stage made."""
    return {name: len(calls) for name, calls in call.stages.items()}


def facts(call):
    """A call and its stages as plain values that can be compared."""
    values = {name: call.values(name).tolist() for name in call.metadata}
    inner = {name: [facts(one) for one in calls] for name, calls in call.stages.items()}
    return call.op, dict(call.params), dict(call.indices), dict(call.tensors), values, inner


def variant(function):
    """A RoutedLayerFwdOp class with another implementation."""
    return type("Variant", (RoutedLayerFwdOp,), {"_variant": implementation("variant")(function)})
