"""Whether what measures, compares and prices is still what it was before code ran that nobody vouches for.

A fingerprint notes functions, classes and constants, recursively, and looks them up again later. A function is itself,
its `__code__`, its defaults and what it closes over. A class is its methods, and no new method may hide an inherited
one. A constant (a name in capitals, a tuple, a frozen dataclass) is its contents. Anything else is state, which may
change: a container of another name, a list, an attribute that was added. An implementation of an op is itself and its
code alone, since it may keep what it likes in its defaults and cells.

The clock binds what it calls when it is imported, so that most replacements change nothing for it. A replacement is an
error all the same: code that replaces a clock means to, and what else it changed is not known. In the end Python lets
code do anything in its own process, to the bench's instances by way of frames, say. A fingerprint finds what was done
to functions, classes and constants.
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

# What wraps functions, and where it keeps them.
_WRAPPERS = {
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    types.MethodType: ("__func__",),
    property: ("fget", "fset"),
    functools.cached_property: ("func",),
    type(functools.cache(len)): ("__wrapped__",),
}
# What Python itself gives modules and classes, and changes when it likes.
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
# What PyTorch replaces itself, when its compiler is first imported and when that first compiles. Names of ours that are
# spelled so are methods of other classes.
_REBOUND = frozenset({"torch.manual_seed", "torch.jit.trace"})
_NOTHING = object()


class Fingerprint:
    """What modules and ops were when this was made. Making it takes some ten milliseconds, `changed` one or two."""

    def __init__(
        self,
        modules: Iterable[types.ModuleType],
        classes: Iterable[type[Op]] = (),
        with_implementations: bool = True,
        names: Iterable[str] = (),
    ) -> None:
        """Note all that is there.

        Args:
          modules: their functions, classes and constants, and other people's functions by the names that these look up.
            Of an op's class only that it is the same.
          classes: ops.
          with_implementations: whether theirs must stay, too.
          names: further names of other people's functions.
        """
        self._values: list[
            tuple[str, Mapping[str, Any] | _Attributes, Any, Any]
        ] = []  # what is called so, where, its key, the value
        self._functions: list[tuple[str, types.FunctionType, tuple[Any, ...]]] = []
        self._cells: list[tuple[str, types.CellType, Any]] = []
        # What is called so, the names in it, and which others may not come to it; None for any.
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
        """Names of what is gone, is not what it was, or was added where it changes something, sorted."""
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
        """`changed`, with code, globals and builtins of its own: what is done to this module's does not reach it."""
        place = {**globals(), "__builtins__": dict(vars(builtins))}
        return types.MethodType(types.FunctionType(type(self).changed.__code__, place), self)

    def _module(self, module: types.ModuleType) -> dict[str, Any]:
        """Note a module; returns the modules and classes of others that it has names for."""
        foreign: dict[str, Any] = {}
        # A builtin's name hides it. Others change nothing: torch.compile adds names of its own for what it compiles.
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
        """Other people's functions by the names that our code looks up, wherever these lead."""
        queue = [(name, value) for name, value in foreign.items() if name not in own]
        for path, holder in queue:  # which grows
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
        elif dataclasses.is_dataclass(value) and value.__dataclass_params__.frozen:  # type: ignore[union-attr]  # which typeshed leaves out
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
    """Those of an object, looked up as in a mapping: where it has slots, it has no other."""

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


# Whose modules a measurement rests on. What plugins and generated files bring is looked at as the op's class.
_OURS = ("tileops.perf.", "tileops.ops.", "tileops.manifest.", "tileops.tools.")
# Looked up when modules are imported, and never again: replacing one changes no time, and says enough.
_CLOCKS = ("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "time", "time_ns", "synchronize", "Event")
# Names that a message gives. A count.
_TOLD = 6


class Guard:
    """Notes what a measurement rests on when it is made, and tells what has changed since."""

    def __init__(self, classes: Iterable[type[Op]], with_implementations: bool = True) -> None:
        """Of the project's modules that are loaded, and of `classes`, with the functions that implement them or not."""
        ours = [
            module
            for name, module in sys.modules.items()
            if name.startswith(_OURS) and isinstance(module, types.ModuleType) and getattr(module, "__file__", None)
        ]
        self.changed = Fingerprint(ours, classes, with_implementations, _CLOCKS).sealed()

    def check(self, op: Op) -> None:
        """Raises ClockError where something that a measurement of `op` rests on was replaced."""
        hidden = [f"{op.ENTRY}.{name}" for name in vars(op) if callable(getattr(type(op), name, None))]
        if names := [*self.changed(), *hidden]:
            raise ClockError(describe(names))


def describe(names: Sequence[str]) -> str:
    """What was replaced, in words."""
    told = ", ".join(names[:_TOLD]) + (f" and {len(names) - _TOLD} more" if len(names) > _TOLD else "")
    return f"{told} was replaced by something else, so nothing that is measured here can be trusted"
