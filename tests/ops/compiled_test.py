"""torch.compile implementations: one compilation a kind of call, however many kinds there are."""

import functools

import pytest
import torch

from tileops.ops.families.compiled import Compiled


@pytest.fixture
def graphs(monkeypatch):
    """Graphs that were compiled, by a backend that runs them as they are."""
    found = []

    def backend(graph, inputs):
        found.append(graph)
        return graph.forward

    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend=backend))
    return found


def _scaled(x, factor):
    return x * factor


def test_every_kind_is_compiled_once_past_dynamos_recompilation_limit(graphs):
    compiled = Compiled(_scaled)
    kinds = torch._dynamo.config.recompile_limit + 4
    for _ in range(2):
        for size in range(1, kinds + 1):
            assert torch.equal(compiled(torch.ones(size), 3), torch.full((size,), 3.0))
    assert len(graphs) == kinds


def test_settings_strides_and_dtypes_are_kinds_of_their_own(graphs):
    compiled = Compiled(_scaled)
    x = torch.ones(4, 4)
    for args in ((x, 2), (x, 3), (x[::2], 2), (x[:, ::2], 2), (x.half(), 2), (x, 2)):
        compiled(*args)
    assert len(graphs) == 5
