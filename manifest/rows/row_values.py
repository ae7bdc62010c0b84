"""The values that a row binds: expressions, contents of metadata tensors, and the tensors."""

from __future__ import annotations

import math
from collections.abc import Sized
from typing import Any

import numpy as np

from tileops.manifest.language import declarations, effort, expr, expr_parser, generators, predicates
from tileops.manifest.language.adt import AdtValue
from tileops.manifest.language.evaluate import UnknownNameError, evaluate
from tileops.manifest.language.extents import Extent
from tileops.manifest.language.invariants import expect
from tileops.manifest.model import Entry, Expression, Tensor
from tileops.manifest.plans.points import Point
from tileops.manifest.plans.shapes import shape_at
from tileops.manifest.reading.value_lists import MAX_LIST
from tileops.manifest.rows import contents
from tileops.manifest.rows.cases import CaseTensor

MAX_RANK = 64  # PyTorch's own
VALUES_A_STEP = 16


class RefusedError(Exception):
    """A row does not fit its entry."""

    def __init__(self, message: str, code: str = "M060", field: str = "") -> None:
        super().__init__(message)
        self.field = field
        self.code = code


def refused(tensor: Tensor, message: str, code: str = "M060") -> RefusedError:
    """Returns a defect of a metadata tensor, which says so if its generator's name has come to mean something else."""
    return RefusedError(message + declarations.new_meaning(expect(tensor.values, Expression).text), code)


class RowValues:
    """The values of a row's names, and what follows from them.

    Attributes:
      known: every parameter, index and let that is known by now, by name.
      present: presence of tensors and Maybes, as far as it is known by now.
    """

    def __init__(self, entry: Entry, case_id: str) -> None:
        self.known: dict[str, Any] = {}
        self.present: dict[str, bool] = {}
        self._entry = entry
        self._case_id = case_id
        self._extents: dict[str, Extent] = {}
        self._made: dict[str, np.ndarray] = {}

    def value(self, what: str, node: expr.Expr) -> Any:
        """Returns the value of an expression. Raises RefusedError, which names `what`, if there is none."""
        try:
            return evaluate(node, self.known, self.present)
        except UnknownNameError as error:
            raise RefusedError(f"{what} needs {error.args[0]!r}, which the row does not write") from None
        except (ValueError, ArithmeticError, IndexError, TypeError, KeyError) as error:
            raise RefusedError(f"{what}: {error}") from None

    def _arguments(self, call: expr.Call, what: str) -> tuple[Any, ...]:
        return tuple(self.value(what, arg) for arg in call.args)

    def extent(self, tensor: Tensor) -> Extent:
        """Returns the extent of the tensor's generator call. Raises RefusedError if the call is invalid."""
        if tensor.name not in self._extents:
            call = _filling(tensor)
            arguments = self._arguments(call, f"the values of {tensor.name}")
            if any(isinstance(argument, Sized) and len(argument) > MAX_LIST for argument in arguments):
                raise RefusedError(f"the values of {tensor.name}: a list of more than {MAX_LIST} items")
            try:
                self._extents[tensor.name] = generators.extent(call.function, arguments)
            except (ValueError, TypeError, ArithmeticError) as error:
                raise refused(tensor, f"the values of {tensor.name}: {error}") from None
        return self._extents[tensor.name]

    def _contents(self, tensor: Tensor) -> np.ndarray:
        """Returns the values that the tensor's generator makes. They cost steps; `extent` is free."""
        if tensor.name not in self._made:
            effort.spend(self.extent(tensor).work // VALUES_A_STEP)
            call = _filling(tensor)
            seed = generators.tensor_seed(
                self._entry.op, self._case_id, tensor.name
            )  # the same seed as in the case's calls
            self._made[tensor.name] = generators.generate(
                call.function, self._arguments(call, f"the values of {tensor.name}"), seed
            )
        return self._made[tensor.name]

    def tensor(self, tensor: Tensor, point: Point) -> CaseTensor:
        """Returns the tensor of the row's call. Raises RefusedError if there can be no such tensor."""
        shape = self.value(f"the shape of {tensor.name}", shape_at(self._entry.signature, tensor, point))
        if len(shape) > MAX_RANK:
            raise RefusedError(
                f"the shape of {tensor.name} would have {len(shape)} axes; a tensor has at most {MAX_RANK}"
            )
        if any(size < 0 for size in shape):
            raise RefusedError(f"the shape of {tensor.name} would be {list(shape)}")
        if math.prod(shape) > expr_parser.MAX_INT // 16:
            raise RefusedError(f"the shape of {tensor.name} would be {list(shape)}, which no memory holds")
        filled = None
        if tensor.values is not None:
            call = _filling(tensor)
            arguments = self._arguments(call, f"the values of {tensor.name}")
            filled = call.function, tuple(_written_out(argument) for argument in arguments)
            given = self.extent(tensor).shape
            if given != shape:
                raise refused(tensor, f"{tensor.values.text} gives {list(given)}, and {tensor.name} is {list(shape)}")
        dtype = self.value(f"the dtype of {tensor.name}", tensor.dtype.expr)
        if tensor.values is not None and not contents.all_held(self.extent(tensor).within, dtype):
            lost = contents.first_lost(self._contents(tensor), dtype)
            if lost is not None:
                raise RefusedError(
                    f"{tensor.values.text} gives {lost}, and {tensor.name} is {dtype}, which has no such value", "M065"
                )
        return CaseTensor(name=tensor.name, dtype=dtype, shape=shape, values=filled)

    def check_requirements(self, bound: tuple[CaseTensor, ...], point: Point) -> None:
        """Raises RefusedError where the contents of a metadata tensor are not as its `requires` says at the point."""
        for found in bound:
            tensor = self._entry.signature.bound[found.name]
            for required in tensor.requires:
                call = expect(point.fold(required.expr), expr.Call)
                self._read_contents(call)
                arguments = self._arguments(call, f"a requirement of {tensor.name}")
                try:
                    holds = predicates.follows(call.function, self.extent(tensor).within, arguments)
                    holds = holds or predicates.holds(call.function, self._contents(tensor), arguments)
                except (ValueError, TypeError, ArithmeticError) as error:
                    raise refused(tensor, f"{required.text} of {tensor.name}: {error}", "M064") from None
                if not holds:
                    raise refused(tensor, f"the contents of {tensor.name} do not satisfy {required.text}", "M064")

    def _read_contents(self, call: expr.Expr) -> None:
        """Binds the contents of the metadata tensors that a requirement names."""
        for name in expr.names(call):
            other = self._entry.signature.bound.get(name)
            if other is not None and other.values is not None:
                self.known[name] = self._contents(other).tolist()


def _written_out(argument: Any) -> Any:
    """Returns an argument as generated code writes it: an algebraic value as a mapping, which needs no class."""
    return {"kind": argument.kind, **dict(argument.fields)} if isinstance(argument, AdtValue) else argument


def _filling(tensor: Tensor) -> expr.Call:
    """Returns the call of the generator that fills a metadata tensor."""
    return expect(expect(tensor.values, Expression).expr, expr.Call)
