"""Finds whether untrusted code replaced functions, classes or constants that measure, compare and price.

A fingerprint notes functions, classes and constants, recursively, and looks them up again later. An example: a kernel's
module sets `correctness.TOLERANCE["float16"] = 1.0`. The constant's contents changed, so the row is an error.

- A function: the object, its `__code__`, its defaults and its cells.
- A class: its methods. No new method may hide an inherited one.
- A constant (a name in capitals, a tuple, a frozen dataclass): its contents.
- An implementation of an op: the object and its code. It may keep any state in its defaults and cells.
- Everything else (a container of another name, a list, an added attribute) is state and may change.

The clock binds the functions that it calls at import, so most replacements do not affect it. A replacement is an error
all the same: code that replaces a clock does so on purpose, and what else it changed is unknown. Python lets code do
anything in its own process, such as reach the bench's instances by frames. A fingerprint finds only what was done to
functions, classes and constants.
"""

from __future__ import annotations

import builtins
import dataclasses
import functools
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tileops.ops.op import Op
from tileops.perf.clock.activities import ClockError

# Types that wrap functions, and the attributes that hold these.
_WRAPPERS = {
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    types.MethodType: ("__func__",),
    property: ("fget", "fset"),
    functools.cached_property: ("func",),
    type(functools.cache(len)): ("__wrapped__",),
}
# Names that Python itself adds to modules and classes, and may change.
_SKIPPED = frozenset(
    {
        "__dict__",
        "__weakref__",
        "__doc__",
        "__annotations__",
        "__subclasshook__",
        "__builtins__",
        "__cached__",
        "__warningregistry__",
        "__class__",
        "_abc_impl",
    }
)
# Names that PyTorch itself replaces when its compiler is imported or first compiles.
_REBOUND = frozenset({"torch.manual_seed", "torch.jit.trace"})
_NOTHING = object()


class Fingerprint:
    """The state of modules and ops when it was made. Making it takes some ten milliseconds, `changed` one or two."""

    def __init__(
        self,
        modules: Iterable[types.ModuleType],
        classes: Iterable[type[Op]] = (),
        with_implementations: bool = True,
        names: Iterable[str] = (),
    ) -> None:
        """Notes the state.

        Args:
          modules: their functions, classes and constants count, and the functions of other packages which these look up
            by name. Of an op's class in a module, only its identity counts.
          classes: ops.
          with_implementations: whether the ops' implementations count too.
          names: more names of functions of other packages.
        """
        self._values: list[
            tuple[str, Mapping[str, Any] | _Attributes, Any, Any]
        ] = []  # path for messages, mapping, key in it, value
        self._functions: list[tuple[str, types.FunctionType, tuple[Any, ...]]] = []
        self._cells: list[tuple[str, types.CellType, Any]] = []
        # Path for messages, mapping, its keys, and which new keys count; None for all.
        self._sizes: list[tuple[str, Mapping[str, Any], frozenset[str], frozenset[str] | None]] = []
        self._seen: dict[int, Any] = {}
        self._looked_up = set(names)
        foreign: dict[str, Any] = {"builtins": builtins}
        modules = list(modules)
        for module in modules:
            foreign |= self._module(module)
        for op_class in classes:
            self._class(op_class.ENTRY, op_class)
            if with_implementations:
                self._implementations(op_class)
        self._outside(foreign, {module.__name__ for module in modules})

    def changed(self) -> list[str]:
        """Returns the sorted names of what is gone, was changed, or was added so that it hides something."""
        found = {path for path, place, name, value in self._values if place.get(name, _NOTHING) is not value}
        for path, function, parts in self._functions:
            now = function.__code__, function.__defaults__, function.__kwdefaults__
            if not all(one is other for one, other in zip(now, parts, strict=False)):
                found.add(path)
        for path, cell, value in self._cells:
            try:
                is_same = cell.cell_contents is value
            except ValueError:  # nothing was ever assigned
                is_same = value is _NOTHING
            if not is_same:
                found.add(path)
        for path, place, names, counts in self._sizes:
            if place.keys() != names:
                found.update(f"{path}.{name}" for name in place.keys() - names if counts is None or name in counts)
        return sorted(found)

    def sealed(self) -> Callable[[], list[str]]:
        """Returns `changed` with its own code, globals and builtins, which changes of this module do not reach."""
        place = {**globals(), "__builtins__": dict(vars(builtins))}
        return types.MethodType(types.FunctionType(type(self).changed.__code__, place), self)

    def _module(self, module: types.ModuleType) -> dict[str, Any]:
        """Notes a module; returns modules and classes of other packages that its names refer to."""
        foreign: dict[str, Any] = {}
        # A new name that hides a builtin counts. Other new names change nothing: torch.compile adds some.
        hiding = frozenset(vars(builtins)) - _SKIPPED
        self._sizes.append((module.__name__, vars(module), frozenset(vars(module)), hiding))
        for name, value in list(vars(module).items()):
            if name in _SKIPPED:
                continue
            path = f"{module.__name__}.{name}"
            self._values.append((path, vars(module), name, value))
            if isinstance(value, types.ModuleType):
                foreign[value.__name__] = value
            elif isinstance(value, type) and value.__module__ != module.__name__:
                foreign[f"{value.__module__}.{value.__qualname__}"] = value
            elif not (isinstance(value, type) and issubclass(value, Op) and value.ENTRY):
                self._value(path, value, is_constant=name.isupper())
        return foreign

    def _implementations(self, op_class: type[Op]) -> None:
        for name, found in op_class._implementations.items():
            path = f"implementation {name!r} of {op_class.ENTRY}"
            self._values.append((path, op_class._implementations, name, found))
            self._values.append((path, vars(found), "function", found.function))
            if isinstance(found.function, types.FunctionType):
                self._functions.append((path, found.function, (found.function.__code__,)))

    def _outside(self, foreign: Mapping[str, Any], own: set[str]) -> None:
        """Notes functions of other packages by the names that our code looks up, recursively."""
        queue = [(name, value) for name, value in foreign.items() if name not in own]
        for path, holder in queue:  # the loop body extends it
            if id(holder) in self._seen or getattr(holder, "__module__", None) in own:
                continue
            self._seen[id(holder)] = holder
            for base in getattr(holder, "__mro__", (holder,)):
                for name in vars(base).keys() & self._looked_up:
                    value = vars(base)[name]
                    if f"{path}.{name}" in _REBOUND:
                        continue
                    if name not in vars(holder):
                        self._values.append((f"{path}.{name}", vars(holder), name, _NOTHING))
                    if isinstance(value, types.ModuleType):
                        queue.append((value.__name__, value))
                    elif callable(value) or isinstance(value, classmethod | staticmethod):
                        self._values.append((f"{path}.{name}", vars(base), name, value))
                        if isinstance(value, types.FunctionType):
                            self._functions.append((f"{path}.{name}", value, (value.__code__,)))
                        elif isinstance(value, type):
                            queue.append((f"{path}.{name}", value))

    def _value(self, path: str, value: Any, is_constant: bool) -> None:
        if isinstance(value, types.FunctionType):
            self._function(path, value)
        elif isinstance(value, type):
            self._class(path, value)
        elif isinstance(value, tuple):
            for item in value:
                self._value(path, item, is_constant)
        elif is_constant and isinstance(value, dict | types.MappingProxyType):
            self._sizes.append((path, value, frozenset(value), None))
            for key, item in value.items():
                self._values.append((path, value, key, item))
                self._value(path, item, is_constant)
        elif dataclasses.is_dataclass(value) and value.__dataclass_params__.frozen:  # type: ignore[union-attr]  # missing in typeshed
            for field in dataclasses.fields(value):
                item = getattr(value, field.name)
                self._values.append((path, _Attributes(value), field.name, item))
                self._value(path, item, is_constant)
        else:
            for part in _WRAPPERS.get(type(value), ()):
                if isinstance(inner := getattr(value, part), types.FunctionType):
                    self._function(path, inner)

    def _function(self, path: str, function: types.FunctionType) -> None:
        if id(function) in self._seen:
            return
        self._seen[id(function)] = function
        if hasattr(function, "_tileops_implementation"):
            self._functions.append((path, function, (function.__code__,)))
            self._look_up(function.__code__)
            return
        parts = function.__code__, function.__defaults__, function.__kwdefaults__
        self._functions.append((path, function, parts))
        self._look_up(function.__code__)
        for value in function.__defaults__ or ():
            self._value(path, value, is_constant=False)
        if function.__kwdefaults__:
            self._value(path, function.__kwdefaults__, is_constant=True)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if name != "__class__":
                self._cells.append((path, cell, _contents(cell)))
                self._value(path, _contents(cell), is_constant=False)

    def _look_up(self, code: types.CodeType) -> None:
        self._looked_up.update(code.co_names)
        for inner in code.co_consts:
            if isinstance(inner, types.CodeType):
                self._look_up(inner)

    def _class(self, path: str, found: type) -> None:
        if id(found) in self._seen:
            return
        self._seen[id(found)] = found
        own = vars(found)
        for name, value in own.items():
            if name not in _SKIPPED and (_is_method(value) or name.isupper()):
                self._values.append((f"{path}.{name}", own, name, value))
                self._value(f"{path}.{name}", value, is_constant=name.isupper())
        for base in found.__mro__[1:]:
            for name, value in vars(base).items():
                if name not in own and name not in _SKIPPED and (_is_method(value) or name.isupper()):
                    self._values.append((f"{path}.{name}", own, name, _NOTHING))
            if base.__module__.startswith("tileops"):
                self._class(f"{base.__module__}.{base.__qualname__}", base)


class _Attributes:
    """The attributes of an object as a mapping. An object with slots has no __dict__."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def get(self, name: str, default: Any) -> Any:
        return getattr(self._value, name, default)


def _is_method(value: Any) -> bool:
    return callable(value) or isinstance(value, property | classmethod | staticmethod)


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing was ever assigned
        return _NOTHING


# ---- the guard of a measurement


# A measurement relies on these modules. Plug-ins and generated modules count by the op's class.
_OURS = ("tileops.perf.", "tileops.ops.", "tileops.manifest.", "tileops.tools.")
# Our modules bind these at import, so replacing one changes no time. It is an error all the same.
_CLOCKS = ("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "time", "time_ns", "synchronize", "Event")
# Names that a message shows. A count.
_SHOWN = 6


class Guard:
    """Notes what a measurement relies on when it is made, and finds later what changed."""

    def __init__(self, classes: Iterable[type[Op]], with_implementations: bool = True) -> None:
        """Notes the project's loaded modules and `classes`, with or without their implementations."""
        ours = [
            module
            for name, module in sys.modules.items()
            if name.startswith(_OURS) and isinstance(module, types.ModuleType) and getattr(module, "__file__", None)
        ]
        self.changed = Fingerprint(ours, classes, with_implementations, _CLOCKS).sealed()

    def check(self, op: Op) -> None:
        """Raises ClockError if something that a measurement of `op` relies on was replaced."""
        hidden = [f"{op.ENTRY}.{name}" for name in vars(op) if callable(getattr(type(op), name, None))]
        if names := [*self.changed(), *hidden]:
            raise ClockError(describe(names))


def describe(names: Sequence[str]) -> str:
    """Returns a message that names what was replaced."""
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    return f"{shown} was replaced, so no measurement of this process can be trusted"
