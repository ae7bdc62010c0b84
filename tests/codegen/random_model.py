"""An independent model of an entry: what a call binds, whether it is accepted, and what it costs.

It is built beside the entry's text and computes on plain values. It solves a call from its tensors in the order in
which the generator tied each index to an axis, never by the validator's or the emitted code's plan.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from tileops.tests.codegen import random_primitives as primitives
from tileops.tests.codegen.random_params import Param
from tileops.tests.codegen.random_scope import Scope
from tileops.tests.codegen.random_terms import MAX_VALUE, Env, OutOfBoundsError, Term

Shape = tuple[int, ...]


class RefusedError(Exception):
    """The call does not fit the signature; the message says where."""


@dataclasses.dataclass(frozen=True)
class Axis:
    """An axis, or with `run` a run of axes.

    Attributes:
      solves: the index that this axis determines, as (index, factor, offset): size = factor * index + offset.
      turn: when, among the axes of its tensor.
    """

    term: Term
    run: bool = False
    solves: tuple[str, int, Term] | None = None
    turn: int = 0


@dataclasses.dataclass
class Tensor:
    """A tensor of the entry.

    Attributes:
      role: "constant", "input" or "output".
      shape_text, axes: the shape as written, and its axes in a call whose finite facts are known.
      dtype: its dtype's term; `dtype_index` the index that it determines, "" where it is only compared.
      presence: None for always, "own" for a choice of the caller, else the condition.
      generator: of a metadata tensor, (text, contents in a call or None where drawn at random).
      list_index, generated: the value list that fills it, and the index that its size determines; "" for none.
    """

    name: str
    role: str
    shape_text: str
    axes: Callable[[Env], tuple[Axis, ...]]
    dtype: Term
    dtype_index: str = ""
    presence: Any = None
    mutated: Term | None = None
    write_only: bool = False
    alias: str = ""
    buffer: bool = False
    contiguous: bool = False
    on_cpu: bool = False
    kw_only: bool = False
    generator: tuple[str, Callable[[Env], Any]] | None = None
    requires: tuple[str, ...] = ()
    list_index: str = ""
    generated: str = ""


@dataclasses.dataclass
class Row:
    """A workload row: a call, and what its YAML writes."""

    env: Env
    label: str
    yaml: dict[str, Any]
    dtypes: dict[str, str]
    case_id: str


@dataclasses.dataclass
class Model:
    """A whole entry.

    `order` names the inputs and constants in the order in which they determine indices, `conditional` the tensors with
    a condition, each after those of which its condition asks.
    """

    op: str
    params: list[Param] = dataclasses.field(default_factory=list)
    indices: dict[str, str] = dataclasses.field(default_factory=dict)
    dtype_indices: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    tensors: dict[str, Tensor] = dataclasses.field(default_factory=dict)
    order: list[str] = dataclasses.field(default_factory=list)
    conditional: list[str] = dataclasses.field(default_factory=list)
    lets: dict[str, Term] = dataclasses.field(default_factory=dict)
    rules: list[Term] = dataclasses.field(default_factory=list)
    combos: list[dict[str, str]] = dataclasses.field(default_factory=list)
    flops: Term | None = None
    bytes: Term | None = None
    func: str = ""
    sums: bool = False  # types.yaml has its other form
    rows: list[Row] = dataclasses.field(default_factory=list)
    scope: Scope | None = None
    yaml: dict[str, Any] = dataclasses.field(default_factory=dict)

    def of_role(self, *roles: str) -> list[Tensor]:
        """Tensors of the roles, in declared order."""
        return [tensor for tensor in self.tensors.values() if tensor.role in roles]

    # ---- a call from its values

    def complete(self, env: Env) -> None:
        """Work out presence of every tensor and Maybe, every let, and check that the call is one."""
        for param in self.params:
            env["present", param.name] = env[param.name] is not None
        self.presences(env)
        self.finish(env)

    def presences(self, env: Env) -> None:
        """Presence of the tensors that do not choose it themselves; `own` ones are in `env` already."""
        env.setdefault(("present", "out"), False)
        for tensor in self.tensors.values():
            if tensor.presence is None:
                env["present", tensor.name] = True
        for name in self.conditional:
            env["present", name] = self.tensors[name].presence.of(env)

    def finish(self, env: Env) -> None:
        """Lets, dtype combinations, rules, sizes of all tensors. Raises RefusedError where one does not hold."""
        if self.combos:
            names = list(self.combos[0])
            if all(name in env for name in names) and not any(all(env[n] == c[n] for n in names) for c in self.combos):
                raise RefusedError("dtype_combos")
        try:
            for let in self.lets:
                _bounded(env[let])
            for rule in self.rules:
                if not rule.of(env):
                    raise RefusedError(f"rule {rule.text}")
            for tensor in self.tensors.values():
                if env["present", tensor.name]:
                    shape = self.shape(tensor, env)
                    count = primitives.prod(shape)
                    if any(size < 0 for size in shape):
                        raise RefusedError(f"shape of {tensor.name}: {shape}")
                    if count > 20_000 or primitives.prod([max(size, 1) for size in shape]) > 10**12:
                        raise OutOfBoundsError  # PyTorch refuses strides beyond int64, without elements too
                    env["bytes", tensor.name] = count * primitives.element_size(tensor.dtype.of(env))
        except (ArithmeticError, ValueError, IndexError) as error:
            raise RefusedError(f"{type(error).__name__}: {error}") from None

    def shape(self, tensor: Tensor, env: Env) -> Shape:
        """The tensor's shape in a call."""
        sizes: list[int] = []
        for axis in tensor.axes(env):
            sizes.extend(axis.term.of(env)) if axis.run else sizes.append(axis.term.of(env))
        return tuple(sizes)

    # ---- a call from its tensors

    def solve(self, params: Mapping[str, Any], found: Mapping[str, tuple[Shape, str]]) -> Env:
        """The call that these tensors make, by name: its whole environment.

        Raises:
          RefusedError: no call is made of them.
        """
        env = Env(dict(params), self.lets)
        for param in self.params:
            env["present", param.name] = params[param.name] is not None
        bound = self.of_role("constant", "input")
        for tensor in bound:
            if tensor.presence is None and tensor.name not in found:
                raise RefusedError(f"{tensor.name} is missing")
            if tensor.presence == "own":
                env["present", tensor.name] = tensor.name in found
        for tensor in bound:
            if tensor.presence is None and tensor.dtype_index:
                self._solve_dtype(tensor, found, env)
        try:
            self.presences(env)
            for tensor in bound:
                if env["present", tensor.name] != (tensor.name in found):
                    raise RefusedError(f"presence of {tensor.name}")
                if tensor.name in found and tensor.dtype_index:
                    self._solve_dtype(tensor, found, env)
            for name in self.order:
                if name in found:
                    self._solve_axes(self.tensors[name], found[name][0], env)
            for name, (shape, dtype) in found.items():
                tensor = self.tensors[name]
                if self.shape(tensor, env) != shape:
                    raise RefusedError(f"{name} is {shape}, and {tensor.shape_text} is {self.shape(tensor, env)}")
                if tensor.dtype.of(env) != dtype:
                    raise RefusedError(f"{name} is {dtype}, and {tensor.dtype.text} is {tensor.dtype.of(env)}")
        except (ArithmeticError, ValueError, IndexError) as error:
            raise RefusedError(f"{type(error).__name__}: {error}") from None
        self.finish(env)
        return env

    def _solve_dtype(self, tensor: Tensor, found: Mapping[str, tuple[Shape, str]], env: Env) -> None:
        dtype = found[tensor.name][1]
        if dtype not in self.dtype_indices[tensor.dtype_index]:
            raise RefusedError(f"dtype of {tensor.name}")
        env.setdefault(tensor.dtype_index, dtype)

    def _solve_axes(self, tensor: Tensor, shape: Shape, env: Env) -> None:
        """Tie each index that the tensor determines to its axis."""
        axes = tensor.axes(env)
        unknown = [at for at, axis in enumerate(axes) if axis.run and axis.solves]
        lengths = {at: len(axis.term.of(env)) for at, axis in enumerate(axes) if axis.run and at not in unknown}
        fixed = sum(lengths.get(at, 1) for at in range(len(axes)) if at not in unknown)
        if len(shape) < fixed or (len(shape) > fixed and not unknown):
            raise RefusedError(f"rank of {tensor.name}")
        lengths.update({at: len(shape) - fixed for at in unknown})
        places = [sum(lengths.get(before, 1) for before in range(at)) for at in range(len(axes))]
        for at in sorted((at for at, axis in enumerate(axes) if axis.solves), key=lambda at: axes[at].turn):
            index, factor, offset = axes[at].solves
            if axes[at].run:
                env[index] = shape[places[at] : places[at] + lengths[at]]
                continue
            rest = shape[places[at]] - offset.of(env)
            if rest % factor or rest < 0:
                raise RefusedError(f"no {index} makes axis {places[at]} of {tensor.name} {shape[places[at]]}")
            env[index] = rest // factor

    # ---- effects and price

    def written(self, tensor: Tensor, env: Env) -> bool:
        """Whether the call writes this input."""
        return tensor.mutated is not None and tensor.mutated.of(env)

    def aliased(self, output: Tensor, env: Env) -> bool:
        """Whether the output is an input of this call."""
        return bool(output.alias) and env["present", output.alias] and self.written(self.tensors[output.alias], env)

    def traffic(self, env: Env, size: Callable[[str], int]) -> tuple[int, int]:
        """(read, written) bytes by the effect rules, with sizes as `size` gives them."""
        read = written = 0
        for tensor in self.tensors.values():
            if not env["present", tensor.name]:
                continue
            if tensor.role == "output":
                written += 0 if self.aliased(tensor, env) else size(tensor.name)
                continue
            writes = self.written(tensor, env)
            read += 0 if writes and tensor.write_only else size(tensor.name)
            written += size(tensor.name) if writes else 0
        return read if written else 0, written

    def price(self, env: Env) -> tuple[int, int]:
        """(flops, bytes). Raises RefusedError where a formula has no value that is a price."""
        if self.func:
            sizes = [env["bytes", name] for name in self.tensors if env["present", name]]
            return len(sizes), sum(sizes)
        try:
            flops = self.flops.of(env)
            nbytes = self.bytes.of(env) if self.bytes else sum(self.traffic(env, lambda name: env["bytes", name]))
        except (ArithmeticError, ValueError, IndexError) as error:
            raise RefusedError(f"price: {type(error).__name__}: {error}") from None
        if flops < 0 or nbytes < 0:
            raise RefusedError(f"price: {flops}, {nbytes}")
        return _bounded(flops), _bounded(nbytes)


def _bounded(value: Any) -> Any:
    if isinstance(value, int) and abs(value) > MAX_VALUE:
        raise OutOfBoundsError
    return value
