"""The mutants of an op's price as functions that price its calls."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import sys
import textwrap
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unittest import mock

from tileops.ops import checked_call
from tileops.ops.op import Op
from tileops.tests.oracle.mutants import Mutant, Names, mutants


@dataclasses.dataclass(frozen=True)
class Methods:
    """How a mutant answers for the last call of an op; None where it answers as the op does.

    Attributes:
      price: (flops, bytes).
      read: the read half.
      terms: the data terms.
    """

    price: Callable[[Op], tuple[int, int]] | None = None
    read: Callable[[Op], int] | None = None
    terms: Callable[[Op], Mapping[str, int]] | None = None


def as_they_stand(op_class: type[Op]) -> Methods:
    """The op's own methods; no read half where the op declares none."""
    read = op_class.eval_roofline_read_bytes
    return Methods(
        op_class.eval_roofline, None if read is Op.eval_roofline_read_bytes else read, op_class.roofline_data_terms
    )


def of_the_source(op_class: type[Op]) -> Iterator[tuple[Mutant, str, Methods]]:
    """Each mutant of an op's formula with the source that it was made of and what it answers."""
    names = Names(
        (*op_class.CONSTANT_NAMES, *op_class.INPUT_NAMES, *op_class.OUTPUT_NAMES),
        tuple(dict.fromkeys(name for case in op_class.CASES for name in (*case.indices, *case.dtypes))),
        tuple(inspect.signature(op_class.__init__).parameters)[1:],
    )
    if op_class.FUNC:
        yield from _func_mutants(op_class, names)
    else:
        yield from _emitted_mutants(op_class, names)


def formulas_of(op_class: type[Op]) -> types.ModuleType:
    """The module that has the function of an op's `func`: of a package, the one among its modules."""
    package, _, name = op_class.FUNC.rpartition(".")
    return sys.modules[getattr(importlib.import_module(package), name).__module__]


def reached(op_class: type[Op]) -> frozenset[str]:
    """The functions that price an op with a `func`: those that its methods call, and those of their module that these
    call.
    """
    module = formulas_of(op_class)
    functions = {name: value for name, value in vars(module).items() if inspect.isfunction(value)}
    found: set[str] = set()
    methods = [method for method in dataclasses.astuple(as_they_stand(op_class)) if method is not None]
    waiting = [op_class.FUNC.rpartition(".")[2], *(name for method in methods for name in method.__code__.co_names)]
    while waiting:
        name = waiting.pop()
        if name in functions and name not in found:
            found.add(name)
            waiting.extend(functions[name].__code__.co_names)
    return frozenset(found)


def _func_mutants(op_class: type[Op], names: Names) -> Iterator[tuple[Mutant, str, Methods]]:
    package = importlib.import_module(op_class.FUNC.rpartition(".")[0])
    source = inspect.getsource(formulas_of(op_class))
    own = as_they_stand(op_class)
    for mutant in mutants(source, reached(op_class), names):
        changed = types.ModuleType("mutated_formulas")
        exec(compile(mutant.tree, "mutated formulas", "exec"), vars(changed))
        yield mutant, source, Methods(*(_over(method, package, changed) for method in (own.price, own.read, own.terms)))


def _over(method: Callable[..., Any] | None, module: types.ModuleType, changed: types.ModuleType) -> Any:
    """A method that sees `changed` where it saw `module`."""
    if method is None:
        return None
    seen = {name: changed if value is module else value for name, value in method.__globals__.items()}
    return types.FunctionType(method.__code__, seen, method.__name__, method.__defaults__, method.__closure__)


def _emitted_mutants(op_class: type[Op], names: Names) -> Iterator[tuple[Mutant, str, Methods]]:
    """Of the price, and of the read half where that is emitted too; a hand-written one is no formula of the manifest."""
    for role, method in (("price", op_class.eval_roofline), ("read", op_class.eval_roofline_read_bytes)):
        if role == "read" and method.__module__ != op_class.eval_roofline.__module__:
            continue
        source = textwrap.dedent(inspect.getsource(method))
        for mutant in mutants(source, frozenset({method.__name__}), names):
            namespace = dict(vars(sys.modules[method.__module__]))
            exec(compile(mutant.tree, "mutated method", "exec"), namespace)
            yield mutant, source, Methods(**{role: namespace[method.__name__]})


def wrong_element_sizes(op_class: type[Op]) -> Iterator[tuple[Mutant, str, Methods]]:
    """Each dtype of the op's rows twice and half as wide; no source is changed."""
    own = as_they_stand(op_class)
    dtypes = dict.fromkeys(tensor.dtype for case in op_class.CASES for tensor in case.tensors)
    params = (value for case in op_class.CASES for value in case.params.values() if isinstance(value, str))
    dtypes.update(dict.fromkeys(value for value in params if value in checked_call.BITS))  # an op may have no input
    for dtype in dtypes:
        bits = checked_call.BITS[dtype]
        for wrong in (2 * bits, bits // 2):
            change = f"{bits} bits of {dtype} -> {wrong}"
            yield Mutant("BITS", 0, change, change), "", Methods(price=_with_bits(own.price, dtype, wrong))


def _with_bits(method: Callable[[Op], Any], dtype: str, bits: int) -> Callable[[Op], Any]:
    def with_bits(op: Op) -> Any:
        with mock.patch.object(checked_call, "BITS", {**checked_call.BITS, dtype: bits}):
            return method(op)

    return with_bits
