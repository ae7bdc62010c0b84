"""The plan of a run: all or quick rows, the shard, and rows that this machine cannot run in time.

The module also finds implementations that the user asked for, by name or with a plug-in, and that serve no selected
row. An example: a plug-in registers "mine" with `when=lambda call: call.params["dim"] == 0`, and every selected row has
dim -1. The run measures the other implementations and leaves no record of "mine". So the run and `--list` say so, and
quote the `when`.
"""

from __future__ import annotations

import dataclasses
import inspect
import pathlib
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from tileops.ops import workloads
from tileops.ops.cases import WorkloadCase
from tileops.ops.errors import OpNotAvailableError
from tileops.ops.implementations import Implementation, When
from tileops.ops.op import Op
from tileops.perf.harness import devices, records
from tileops.perf.harness import rows as bench_rows
from tileops.perf.harness.records import Key
from tileops.proto import benchmark_pb2
from tileops.tools.cli import command

Record = benchmark_pb2.BenchmarkRecord

_CPU_ROW_SECONDS = 5.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choice:
    """What the flags ask for.

    Attributes:
      implementations: names of implementations; "all" for all.
      rows: "all" or "quick"; None for the device's default.
      shard: which part of the rows.
      max_row_s: --max_row_seconds; None for the device's default. Seconds.
      row_timeout_s: --row_timeout_s. Seconds.
    """

    implementations: Sequence[str]
    rows: str | None
    shard: bench_rows.Shard
    max_row_s: float | None
    row_timeout_s: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Unit:
    """One implementation on one row.

    Attributes:
      op_class, case: the row.
      implementation: "" if the op has none.
      price: the row's record with its price, made on `meta`.
      skip: why the unit does not run; None if it runs.
      is_named: whether the user named this implementation. If so, rows that it does not serve get a record.
    """

    op_class: type[Op]
    case: WorkloadCase
    implementation: str
    price: Record
    skip: str | None = None
    is_named: bool = False

    @property
    def key(self) -> Key:
        """Returns the key of its record within a run."""
        return self.op_class.ENTRY, self.case.case_id, self.implementation


def part(
    cases: list[bench_rows.Case], choice: Choice, prices: Mapping[int, Record] | None = None
) -> list[bench_rows.Case]:
    """Returns the cases of the choice's shard. `prices` has a price per `id(case)`; None prices the cases here."""
    if choice.shard.count == 1:
        return cases
    prices = prices or _prices(cases)
    costs = [
        bench_rows.cost_s(prices[id(case)], len(bench_rows.implementations(op_class, choice.implementations)))
        for op_class, case in cases
    ]
    return bench_rows.part(cases, costs, choice.shard)


def _prices(cases: list[bench_rows.Case]) -> dict[int, Record]:
    """Returns a price per `id(case)`."""
    return {id(case): price for (_, case), price in zip(cases, records.price_cases(cases), strict=True)}


def rows(
    cases: list[bench_rows.Case], choice: Choice, device_kind: str, prices: Mapping[int, Record] | None = None
) -> list[bench_rows.Case]:
    """Returns the cases of a run with this choice on a device of this kind; `prices` as for `part`.

    The quick rows on a CPU are the cheapest that a named implementation serves. A GPU is not asked: `when` may touch
    it, and this process must not.
    """
    if (choice.rows or ("quick" if device_kind == "cpu" else "all")) == "all":
        return part(cases, choice, prices)
    machine = devices.this_machine()
    is_named = _is_named(choice.implementations)

    def cost_s(row: bench_rows.Case) -> float:
        return devices.estimate_s(row[1], row[0].ARITHMETIC, machine)

    def serves(row: bench_rows.Case) -> bool:
        return not set(choice.implementations).isdisjoint(serving(*row, "cpu"))

    if is_named and device_kind == "cpu":
        chosen = bench_rows.quick(cases, cost_s, serves)
    else:
        chosen = bench_rows.quick(cases, cost_s)
    if choice.rows is None and len(chosen) < len(cases):
        command.say(f"on the CPU the cheapest row of each op runs, {len(chosen)} of {len(cases)}; --rows=all runs all")
    return part(chosen, choice, prices)


def _is_named(implementations: Sequence[str]) -> bool:
    """Returns whether --implementation names implementations, and not all of them."""
    return bool(implementations) and bench_rows.ALL not in implementations


def units(cases: list[bench_rows.Case], choice: Choice, environment: benchmark_pb2.Environment) -> list[Unit]:
    """Returns the units of a run, with their prices, and the reason if this machine cannot run them.

    Quick rows are chosen before the shards are made, so that the shards together have one row per op.
    """
    prices = _prices(cases)
    limit = _limit(choice, environment)
    is_named = bench_rows.ALL not in choice.implementations
    planned = []
    for op_class, case in rows(cases, choice, environment.device_kind, prices):
        skip = limit(op_class, case)
        names = bench_rows.implementations(op_class, choice.implementations)
        if not op_class.implementation_names():
            names, skip = ("",), "no implementation: bring one with --plugin"
        elif skip and not is_named:  # an implementation that does not serve the row is not skipped
            served_by = serving(op_class, case, environment.device_kind)
            names = tuple(name for name in names if name in served_by)
        planned += [
            Unit(
                op_class=op_class, case=case, implementation=name, price=prices[id(case)], skip=skip, is_named=is_named
            )
            for name in names
        ]
    return planned


def served(units: Sequence[Unit]) -> list[Unit]:
    """Returns the units for the CPU that leave a record.

    A resumed run may lack only units that do not serve their rows. This saves one process per op to find that out. It is
    not done for a GPU: `when` may touch it, and this process must not.
    """
    names: dict[int, tuple[str, ...]] = {}
    for unit in units:
        if id(unit.case) not in names:
            names[id(unit.case)] = serving(unit.op_class, unit.case, "cpu")
    return [
        unit for unit in units if unit.is_named or unit.skip is not None or unit.implementation in names[id(unit.case)]
    ]


def serving(op_class: type[Op], case: WorkloadCase, device: str) -> tuple[str, ...]:
    """Returns the names of the implementations that serve a case on `device`, without allocating data there.

    An implementation whose `when` raises counts as serving, so that its row reports the error.
    """
    call = workloads.construct(op_class, case).check(**workloads.build_inputs(op_class, case, "meta"))
    call.device = device
    names = []
    for name in op_class.implementation_names():
        try:
            workloads.construct(op_class, case, target=name).select(call)
        except OpNotAvailableError:
            continue
        except command.UserInterrupt:
            raise
        except (Exception, SystemExit, KeyboardInterrupt):  # an author's code may raise anything
            pass
        names.append(name)
    return tuple(names)


def _limit(choice: Choice, environment: benchmark_pb2.Environment) -> Callable[[type[Op], WorkloadCase], str | None]:
    """Returns a function of a row: why the device cannot run it in time, as its tensors' sizes say; None if it may run.

    A GPU has no limit unless the user gives one. Neither has a GPU of which no profile states the bandwidth.
    """
    if environment.device_kind == "cpu":
        machine = devices.this_machine()
        seconds = _CPU_ROW_SECONDS if choice.max_row_s is None else choice.max_row_s
        return lambda op_class, case: devices.too_much(case, op_class.ARITHMETIC, machine, seconds)
    limit_s, bytes_per_s = choice.max_row_s or 0.0, devices.bandwidth(environment.device_name)
    if not limit_s or bytes_per_s is None:
        return lambda op_class, case: None
    return lambda op_class, case: devices.too_long(case, bytes_per_s, limit_s)


# ---- implementations that the user asked for and that serve no row


# Op and implementation.
Name = tuple[str, str]
# A message quotes this much of a `when`. Characters.
_LONGEST_QUOTE = 200


def asked(
    classes: Iterable[type[Op]], wanted: Sequence[str], brought: Mapping[Name, str]
) -> dict[Name, Implementation]:
    """Returns the implementations of these ops that the user asked for, by name or with a plug-in.

    Args:
      classes: ops that have selected rows.
      wanted: names of implementations; "all" for all.
      brought: the plug-in by op and name of each implementation that a plug-in registered.
    """
    is_named = _is_named(wanted)
    return {
        (op_class.ENTRY, each.name): each
        for op_class in classes
        for each in op_class.implementations()
        if (each.name in wanted if is_named else (op_class.ENTRY, each.name) in brought)
    }


def unserved(
    wanted: Mapping[Name, Implementation],
    served: Collection[Name],
    rows: Mapping[str, int],
    brought: Mapping[Name, str],
) -> list[str]:
    """Returns a line for each implementation that the user asked for and that serves no row.

    Args:
      wanted: the result of `asked`.
      served: op and name of each implementation that serves a row.
      rows: the number of selected rows per op.
      brought: as for `asked`.
    """
    lines = []
    for key, implementation in wanted.items():
        if key in served or implementation.when is None:
            continue
        op, name = key
        count = rows.get(op, 0)
        which = "the one selected row" if count == 1 else f"any of the {count} selected rows"
        plugin = f" of --plugin={brought[key]}" if key in brought else ""
        lines.append(f"{op}: {name}{plugin} does not serve {which}: {_refusal(implementation.when)}")
    return lines


def of_other_ops(brought: Mapping[Name, str], ops: Collection[str]) -> list[str]:
    """Returns a line for each plug-in whose implementations all belong to ops without a selected row.

    Args:
      brought: as for `asked`.
      ops: ops that have selected rows.
    """
    ops_of: dict[str, list[str]] = {}
    for (op, _), plugin in brought.items():
        ops_of.setdefault(plugin, []).append(op)
    idle = {plugin: sorted(set(its)) for plugin, its in ops_of.items() if not set(its) & set(ops)}
    return [
        f"--plugin={plugin}: the ops that it implements have no selected row ({', '.join(its[:3])}"
        f"{', ...' if len(its) > 3 else ''})"
        for plugin, its in idle.items()
    ]


def named(brought: Mapping[Name, str], wanted: Sequence[str]) -> dict[Name, str]:
    """Returns `brought` without the implementations that --implementation leaves out; arguments as for `asked`."""
    is_named = _is_named(wanted)
    return {key: plugin for key, plugin in brought.items() if not is_named or key[1] in wanted}


def idle_plugins(served: Collection[Name], brought: Mapping[Name, str]) -> list[str]:
    """Returns the plug-ins of which no implementation serves a row."""
    busy = {brought[key] for key in served if key in brought}
    return [plugin for plugin in dict.fromkeys(brought.values()) if plugin not in busy]


def _refusal(when: When) -> str:
    """Returns why a `when` refuses every row: its place, and its docstring or code."""
    try:
        function = inspect.unwrap(when)
    except ValueError:  # it wraps itself
        function = when
    code, name = getattr(function, "__code__", None), getattr(function, "__name__", None)
    name = name if isinstance(name, str) else type(function).__name__
    if not isinstance(code, types.CodeType):
        return f"its when, {name}, is false"
    place = f"{pathlib.Path(code.co_filename).name}:{code.co_firstlineno}"
    said = _first_line(function.__doc__) or _source(code)
    shown = "its when" if name == "<lambda>" else f"its when, {name}"
    return f"{shown} ({place}), is false" + (f": {said}" if said else "")


def _first_line(doc: object) -> str:
    return doc.strip().partition("\n")[0] if isinstance(doc, str) else ""


def _source(code: types.CodeType) -> str:
    """Returns the code of a function on one line, cut if long; "" if it is in no file, or its file is gone."""
    if not pathlib.Path(code.co_filename).is_file():  # made by exec: inspect would quote lines of its module
        return ""
    try:
        lines, _ = inspect.getsourcelines(code)
    except (OSError, TypeError):
        return ""
    text = " ".join(" ".join(line.split()) for line in lines)
    return text if len(text) <= _LONGEST_QUOTE else text[: _LONGEST_QUOTE - 3] + "..."
