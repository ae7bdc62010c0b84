"""Follows a composite's reference on shapes alone, and remembers how each tensor could be made for real.

Tensors of the trace are on meta. Each has an origin: what would make its values. Nothing is made until something needs
the values, which are those of the metadata tensors that sub-ops bind; then what they depend on runs for real, and
nothing else: routing does, the matrix products that it routes to do not.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map

from tileops.ops.checked_call import CheckedCall, NoValues, TensorRecord
from tileops.ops.dtypes import BY_NAME, NAMES
from tileops.ops.errors import OpNotAvailableError


class Origin:
    """What would make a tensor's values."""

    def evaluate(self, run: Run) -> torch.Tensor:
        """Make them. Raises OpNotAvailableError where they are not to be had."""
        raise NotImplementedError


class _Held(Origin):
    """A tensor that is at hand."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor

    def evaluate(self, run: Run) -> torch.Tensor:
        """The tensor."""
        return self._tensor.detach().to(run.device)


class _Overwritten(Origin):
    """A tensor that shares its storage with one that was written."""

    def __init__(self, by: str) -> None:
        self._by = by

    def evaluate(self, run: Run) -> torch.Tensor:
        """Raises OpNotAvailableError: how the write shows through this tensor is not followed."""
        raise OpNotAvailableError(
            f"{self._by} wrote to a view of the tensor that they come from, which is not followed"
        )


# Replaces the data, once per run. A result that is the same in all runs does not depend on the data.
_STAND_INS: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
    *[lambda numbers: numbers] * 5,
    lambda numbers: numbers * 1e4,
    torch.zeros_like,
    lambda numbers: torch.full_like(numbers, math.nan),
)


class Run:
    """One making of real tensors. Data whose values are not at hand is stood in for.

    Attributes:
      device: where tensors are made.
      stand_ins: names of the inputs that were stood in for.
    """

    def __init__(self, device: str, number: int) -> None:
        """`number` tells the stand-ins of two runs apart."""
        self.device = torch.device(device)
        self.stand_ins: set[str] = set()
        self._stream, self._stand_in = torch.Generator().manual_seed(number), _STAND_INS[number]
        self._made: dict[Any, Any] = {}

    def once(self, key: Any, make: Callable[[Run], Any]) -> Any:
        """What `make` gives, made when first asked for."""
        if key not in self._made:
            self._made[key] = make(self)
        return self._made[key]

    def real(self, origin: Any) -> Any:
        """The tensor of an origin; anything else as it is."""
        return self.once(origin, origin.evaluate) if isinstance(origin, Origin) else origin

    def stand_in(self, op: str, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """Other numbers for the input `name`. Raises OpNotAvailableError where they could not mean anything."""
        if not dtype.is_floating_point:
            raise OpNotAvailableError(
                f"{op}: they depend on {name!r}, whose values are not at hand (on meta, freed, or written since the"
                " call); declare `values` for it, so that calls keep it"
            )
        self.stand_ins.add(name)
        return self._stand_in(torch.randn(shape, generator=self._stream)).to(dtype).to(self.device)


class ShapeTrace(TorchDispatchMode):
    """While it is entered, PyTorch's operators on meta tensors are noted as the origin of what they return."""

    def __init__(self, device: str) -> None:
        """`device`: where what has to be real is made."""
        super().__init__()
        self._runs = tuple(Run(device, number) for number in range(len(_STAND_INS)))
        self._streams, self._is_random = _streams(self._runs[0].device), False
        self._origins: dict[int, tuple[torch.Tensor, Origin]] = {}  # the tensor is kept, so that its id stays its own
        self._views: dict[int, list[torch.Tensor]] = {}
        self._shadows: dict[int, torch.Tensor] = {}  # of construction-time tensors, which their origins keep
        self._deferred: list[tuple[CheckedCall, dict[str, Any]]] = []

    def shadow(self, record: TensorRecord, origin: Origin) -> torch.Tensor:
        """A tensor on meta of the record's shape and dtype."""
        made = torch.empty(record.shape, dtype=BY_NAME[record.dtype], device="meta")
        self.remake(made, origin, "")
        return made

    def constants(self, held: Mapping[str, torch.Tensor | None]) -> dict[str, torch.Tensor | None]:
        """Shadows of an op's construction-time tensors, the same ones each time."""
        return {name: None if tensor is None else self._shadow_of(tensor) for name, tensor in held.items()}

    def _shadow_of(self, tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in self._shadows:
            record = TensorRecord(tuple(tensor.shape), NAMES[tensor.dtype])
            self._shadows[id(tensor)] = self.shadow(record, _Held(tensor))
        return self._shadows[id(tensor)]

    def remake(self, tensor: torch.Tensor | None, origin: Origin, by: str) -> None:
        """Say that `by` made, or wrote, a tensor.

        Raises:
          OpNotAvailableError: it is no tensor of the trace, so that it really would have to be written.
        """
        if tensor is None:
            return
        if tensor.device.type != "meta":
            raise OpNotAvailableError(f"{by} writes a tensor on {tensor.device}, which shapes alone do not follow")
        views = self._views.setdefault(tensor.untyped_storage()._cdata, [])
        for view in views:
            self._origins[id(view)] = view, _Overwritten(by)
        if id(tensor) not in self._origins:
            views.append(tensor)
        self._origins[id(tensor)] = tensor, origin

    def origins(self, tree: Any) -> Any:
        """The tree with each tensor of the trace replaced by its origin as of now."""
        return tree_map(lambda leaf: self._origins[id(leaf)][1] if id(leaf) in self._origins else leaf, tree)

    def defer(self, call: CheckedCall) -> None:
        """Note that a sub-op made a checked call, whose metadata `settle` finds."""
        self._deferred.append((call, self.origins(dict(call.metadata))))

    def drop(self, calls: Sequence[CheckedCall]) -> None:
        """Let go of deferred calls, and of those in their stages, which nobody asks."""
        dropped = set(map(id, _with_stages(calls)))
        self._deferred = [(call, metadata) for call, metadata in self._deferred if id(call) not in dropped]

    @contextlib.contextmanager
    def keeping_streams(self) -> Iterator[None]:
        """Inside, PyTorch's own random numbers are drawn as if in vain: afterwards they go on where they were."""
        device = self._runs[0].device
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            yield
            self._is_random = self._draws()

    def _draws(self) -> bool:
        """Whether random numbers were drawn, now or before."""
        return self._is_random or not all(map(torch.equal, self._streams, _streams(self._runs[0].device)))

    def settle(self) -> None:
        """Make the metadata of the deferred calls for real; what is not to be had says why when it is asked for."""
        for call, metadata in self._deferred:
            call.set_metadata({name: self._settled(origin) for name, origin in metadata.items()})
            call.note_versions()
            call.seal()

    def _settled(self, origin: Any) -> Any:
        try:
            return self.value(origin)
        except Exception as error:  # a stage that runs for real is anybody's code
            shown = str(error) if isinstance(error, OpNotAvailableError) else f"{type(error).__name__}: {error}"
            return NoValues(f"the stage that makes them could not be run for real: {shown}")

    def value(self, origin: Any) -> torch.Tensor:
        """The tensor of an origin.

        Raises:
          OpNotAvailableError: it depends on data that is not at hand, or on random numbers.
        """
        first, *others = self._runs
        made = first.real(origin)
        if self._draws():
            raise OpNotAvailableError(
                "they depend on random numbers that were drawn on the way, and the call drew others"
            )
        if first.stand_ins and not all(torch.equal(made, other.real(origin)) for other in others):
            raise OpNotAvailableError(
                f"they depend on the data of {', '.join(sorted(first.stand_ins))}, which is not at hand (on meta, freed,"
                " or written since the call); price the call while its inputs are as it found them"
            )
        return made

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if not any(tensor.device.type == "meta" for tensor in tensors) and not _is_meta(kwargs.get("device")):
            return func(*args, **kwargs)
        node = _Node(func, *self.origins((args, kwargs)))
        if func is torch.ops.aten._local_scalar_dense.default:
            return func(self.value(self.origins(args[0])))
        try:
            result = func(*args, **kwargs)
        except (NotImplementedError, RuntimeError):  # its result's shape depends on values
            flat, form = tree_flatten(self._runs[0].once(node, node.results)[0])
            checked = [self.value(_Result(node, at)) for at in range(len(flat))]
            result = form.unflatten([torch.empty_like(tensor, device="meta") for tensor in checked])
        written = {id(args[at]) for at in node.writes}
        for at in node.writes:
            self.remake(args[at], _Written(node, at), str(func))
        for at, tensor in enumerate(tree_leaves(result)):
            if isinstance(tensor, torch.Tensor) and id(tensor) not in written:
                self._add(tensor, _Result(node, at))
        return result

    def _add(self, tensor: torch.Tensor, origin: Origin) -> None:
        """A new tensor, perhaps a view of others, which it does not change."""
        if id(tensor) not in self._origins:
            self._views.setdefault(tensor.untyped_storage()._cdata, []).append(tensor)
            self._origins[id(tensor)] = tensor, origin


class _Node:
    """One operator call: its arguments as origins."""

    def __init__(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._func, self._args, self._kwargs = func, args, kwargs
        self.writes = [
            at
            for at, argument in enumerate(func._schema.arguments[: len(args)])
            if argument.alias_info is not None and argument.alias_info.is_write
        ]

    def results(self, run: Run) -> tuple[Any, dict[int, torch.Tensor]]:
        """What the operator returns, and the arguments that it writes, by position."""
        args = list(tree_map(run.real, self._args))
        for at in self.writes:
            args[at] = args[at].clone()
        kwargs = {name: run.device if _is_meta(value) else run.real(value) for name, value in self._kwargs.items()}
        return self._func(*args, **kwargs), {at: args[at] for at in self.writes}


class _Result(Origin):
    """One of the tensors that an operator returns."""

    def __init__(self, node: _Node, at: int) -> None:
        self._node, self._at = node, at

    def evaluate(self, run: Run) -> torch.Tensor:
        """The tensor, of the operator's one call in this run."""
        return tree_leaves(run.once(self._node, self._node.results)[0])[self._at]


class _Written(Origin):
    """An argument that an operator writes."""

    def __init__(self, node: _Node, at: int) -> None:
        self._node, self._at = node, at

    def evaluate(self, run: Run) -> torch.Tensor:
        """The argument, written."""
        return run.once(self._node, self._node.results)[1][self._at]


def _with_stages(calls: Sequence[CheckedCall]) -> Iterator[CheckedCall]:
    for call in calls:
        yield call
        for inner in call.stages.values():
            yield from _with_stages(inner)


def _streams(device: torch.device) -> list[torch.Tensor]:
    """Where PyTorch's own random numbers are."""
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])]


def _is_meta(value: Any) -> bool:
    return isinstance(value, torch.device) and value.type == "meta"
