"""What a checked and recorded call costs over the bare function, on this CPU; run by hand, asserts nothing.

    python -m tileops.tests.runtime.overhead_benchmark

The ops of overhead.yaml are emitted in memory; their bare function does one small add and returns tensors that exist
already. Below them stand ops of the project with their references. What a call costs over its bare function is the
checks, the choice of an implementation and the record. Goal: 10 microseconds for three tensors, 25 for twelve.
"""

from __future__ import annotations

import sys
import timeit
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

from tileops.codegen.pipeline import analyse_files
from tileops.ops import catalogue, workloads
from tileops.ops.dtypes import BY_NAME
from tileops.ops.op import Op
from tileops.tools.cli import paths

_GOALS_US = {3: 10, 12: 25}
_CALLS, _BATCHES = 100, 300
_NOT_SERVING = 2  # implementations that are asked first and do not serve, as GPU kernels on a CPU


def emitted() -> list[type[Op]]:
    """The generated classes of overhead.yaml, in its order.

    Raises:
      ValueError: its entries have defects.
    """
    analysed = analyse_files([str(paths.data_path("tests", "runtime", "overhead.yaml"))])
    if len(analysed.diagnostics):
        raise ValueError("\n".join(str(found) for found in analysed.diagnostics))
    (source,) = analysed.modules().values()
    module = types.ModuleType("tileops_overhead_ops")
    exec(compile(source, module.__name__, "exec"), vars(module))  # noqa: S102  # our own emission
    return [getattr(module, name) for name in analysed.entries]


def subjects() -> Iterator[tuple[Op, list[Any]]]:
    """Ops, each with the arguments of a small call."""
    for generated in emitted():
        yield _with_a_bare_function(generated)
    ops, half = catalogue.load(), torch.ones(8, 8).half()
    yield ops["AddFwdOp"](), [half, half[0].clone()]
    yield ops["GEMMFwdOp"](), [half, half.clone()]
    yield ops["RMSNormFwdOp"](normalized_shape=[8]), [half, half[0].clone()]


def _with_a_bare_function(generated: type[Op]) -> tuple[Op, list[Any]]:
    op_class = type(generated.__name__, (generated,), {})
    (case,) = op_class.CASES
    op = op_class(**case.params)
    inputs = list(workloads.build_inputs(op_class, case, "cpu").values())
    call = op.check(*inputs)
    ready = [
        call.aliases[name] if name in call.aliases else torch.empty(record.shape, dtype=BY_NAME[record.dtype])
        for name, record in call.outputs.items()
    ]
    result = ready[0] if len(ready) == 1 else tuple(ready)

    def bare(op, call, first, *others):
        torch.add(first, first)
        return result

    op_class.register("bare", bare)
    for position in range(_NOT_SERVING):
        op_class.register(f"gpu{position}", bare, when=lambda call: call.device.startswith("cuda"))
    return op, inputs


def microseconds(function: Callable[[], object]) -> float:
    """Time of one call: the least mean of many short batches, since other load on the machine can only lengthen one."""
    return min(timeit.repeat(function, number=_CALLS, repeat=_BATCHES)) / _CALLS * 1e6


def main() -> None:
    """Print a line per op."""
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, Python {sys.version.split()[0]}; microseconds a call")
    print(f"{'op':24} {'tensors':>7} {'bare':>6} {'check':>6} {'call':>6} {'over':>6} {'goal':>4} {'call/bare':>9}")
    for op, inputs in subjects():
        op(*inputs)
        record = op.last_call
        function = op.select(record).function
        bare = microseconds(lambda: function(op, record, *inputs))
        check = microseconds(lambda: op.check(*inputs))
        whole = microseconds(lambda: op(*inputs))
        tensors = 1 if op.MUTATED_NAMES == op.INPUT_NAMES else len(record.tensors)
        print(
            f"{op.ENTRY:24} {tensors:7} {bare:6.2f} {check:6.2f} {whole:6.2f} {whole - bare:6.2f}"
            f" {_GOALS_US.get(tensors, ''):>4} {whole / bare:9.1f}"
        )


if __name__ == "__main__":
    main()
