"""The base class of ops without execution: construction, implementations, and what prices the last call.

What runs, records and traces calls (execution.py, library.py, composite/) knows an op as this class; op.py adds them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import torch

from tileops.ops import stages
from tileops.ops.cases import WorkloadCase
from tileops.ops.checked_call import CheckedCall
from tileops.ops.errors import OpConstructionError, OpNotAvailableError
from tileops.ops.implementations import Implementation, When, marked
from tileops.ops.last_call import LastCall
from tileops.ops.samples import Sample
from tileops.ops.stages import Stage


class BaseOp:
    """A manifest entry as a callable. Generated classes fill in the signature, hand-written subclasses the kernels.

    A generated class defines `__init__` (the parameters), `forward` (the declared signature), `check` (the call's
    checks) and `eval_roofline`. The public class of an entry is a subclass of the same name.

    Attributes:
      ENTRY, FAMILY, STATUS, REF_API: as the manifest says.
      SPEC: where it says so, `file:line`.
      CASES: the entry's workload rows, one case per row and dtype assignment.
      INPUT_NAMES, OUTPUT_NAMES: tensors in signature order.
      MUTATED_NAMES: inputs that some branch writes.
      METADATA_NAMES: inputs and construction-time tensors whose values decide the price or the shape of the work.
      CONSTANT_NAMES: construction-time tensors, which stand among the parameters.
      CPU_NAMES: inputs and construction-time tensors that live on the CPU wherever a call is.
      DEVICE_PARAM: of an entry without tensors, the parameter that says where a call is; "" without such a parameter.
      CONTIGUOUS_NAMES: outputs that must be contiguous.
      BUFFER_NAMES: outputs whose storage the caller may pass as `out`.
      SCHEMA, RETURNED_NAMES: schema of the entry's operator in traced graphs, and the outputs that it returns.
      STAGES: of a composite, its composition.
      FUNC: dotted path of the formula that prices a call; "" where the entry's own expressions do.
      BRANCHES: the groups of calls that the entry's formulas tell apart, in words; a case names those it is in.
      SAMPLES: by input, what the random values of a row come from: an interval (low, high), a range of whole numbers, a
        list of values, or what samples.py has; others are normally distributed. A hand-written class has it where the
        op is not defined everywhere, where normal values, of which no two are equal and none is 0 or NaN, all give the
        same result, and where the result depends on a statistic of the input, which normal values foretell.
      ARITHMETIC: how a result's rounding errors come about, which the bench's tolerance follows: "elementwise" (a fixed
        number of operations for each element), "reduction" (statistics or sums in the dtype or wider) or "product"
        (tensor cores, which round float32 operands to tf32). "" is "product" where `roof_key` names a tensor core, else
        "reduction".
      TOLERANCES: by output, what an implementation may be off by where the op's definition allows more than its
        arithmetic does: a share of the result's size, and of integers a difference.
    """

    __call__: Callable[..., Any]  # `forward`, which __init_subclass__ gives it
    ENTRY: ClassVar[str] = ""
    SPEC: ClassVar[str] = ""
    FAMILY: ClassVar[str] = ""
    STATUS: ClassVar[str] = ""
    REF_API: ClassVar[str] = ""
    CASES: ClassVar[tuple[WorkloadCase, ...]] = ()
    INPUT_NAMES: ClassVar[tuple[str, ...]] = ()
    OUTPUT_NAMES: ClassVar[tuple[str, ...]] = ()
    MUTATED_NAMES: ClassVar[tuple[str, ...]] = ()
    METADATA_NAMES: ClassVar[tuple[str, ...]] = ()
    CONSTANT_NAMES: ClassVar[tuple[str, ...]] = ()
    CPU_NAMES: ClassVar[tuple[str, ...]] = ()
    DEVICE_PARAM: ClassVar[str] = ""
    CONTIGUOUS_NAMES: ClassVar[tuple[str, ...]] = ()
    BUFFER_NAMES: ClassVar[tuple[str, ...]] = ()
    SCHEMA: ClassVar[str] = ""
    RETURNED_NAMES: ClassVar[tuple[str, ...]] = ()
    STAGES: ClassVar[tuple[Stage, ...]] = ()
    FUNC: ClassVar[str] = ""
    BRANCHES: ClassVar[tuple[str, ...]] = ()
    SAMPLES: ClassVar[Mapping[str, Sample]] = {}
    ARITHMETIC: ClassVar[str] = ""
    TOLERANCES: ClassVar[Mapping[str, float]] = {}

    handle: str  # by which operators find an instance (library.py)
    _implementations: ClassVar[dict[str, Implementation]] = {}
    _tensor_names: ClassVar[frozenset[str]] = frozenset()
    _generated: ClassVar[bool] = False  # of the class itself: whether it is an entry's generated one
    _is_compiling = staticmethod(torch.compiler.is_compiling)

    def __init_subclass__(cls, generated: bool = False, **kwargs: Any) -> None:
        """Collect the bases' implementations and those marked here; refuse what hides an entry's price.

        Raises:
          TypeError: a hand-written class, or a base of it, defines `eval_roofline`, which only the manifest may state;
            or its bases belong to several entries and do not say whose it is.
        """
        super().__init_subclass__(**kwargs)
        _refuse_hidden_entry(cls)
        cls._generated = generated
        cls.__call__ = cls.forward  # type: ignore[method-assign]  # not by way of one more function, which every call would pay for
        cls._tensor_names = frozenset(
            (*cls.INPUT_NAMES, *cls.CONSTANT_NAMES, *cls.OUTPUT_NAMES, *(["out"] if cls.BUFFER_NAMES else []))
        )
        owner = next(base for base in cls.__mro__ if "eval_roofline" in vars(base))
        if owner is not BaseOp and not vars(owner).get("_generated", False):
            raise TypeError(
                f"{owner.__module__}.{owner.__qualname__} defines eval_roofline(); the only price of an op is the one that"
                f" its manifest entry states: change the entry's `roofline` block instead"
            )
        cls._implementations = {}
        for base in reversed(cls.__bases__):  # one of the same name that an earlier base has takes its place
            cls._implementations.update(getattr(base, "_implementations", {}))
        for found in marked(vars(cls)):
            cls._implementations[found.name] = found

    def __init__(
        self, params: Mapping[str, Any], target: str | None, constants: Mapping[str, Any] | None = None
    ) -> None:
        """Store checked parameters and construction-time tensors.

        Args:
          params: parameters by name.
          target: the implementation to use; None lets each call choose.
          constants: construction-time tensors by name, None for an absent one.

        Raises:
          OpConstructionError: no implementation has the name `target`.
        """
        if target is not None and target not in self._implementations:
            known = ", ".join(self._implementations) or "none"
            raise OpConstructionError(f"{self.ENTRY}: no implementation is named {target!r}; there are: {known}")
        self.params = params
        self.held_constants = constants or {}
        self.target = target
        self._enter_process()

    def _enter_process(self) -> None:
        """What a new instance has of its own, however it was made."""
        self._last = LastCall()

    def __getstate__(self) -> dict[str, Any]:
        """What a copy takes over: not the calls that this instance completed."""
        return {name: value for name, value in vars(self).items() if name not in ("_last", "handle")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._enter_process()

    def _twin(self) -> Self:
        """The same op for work on the side: its calls are none of this instance's, and whatever serves them may."""
        return self._with(_last=LastCall(), target=None)

    def _with_constants(self, constants: Mapping[str, Any]) -> Self:
        """The same op, its calls still this instance's, with other construction-time tensors."""
        return self._with(held_constants=constants)

    def _with(self, **changes: Any) -> Self:
        other = object.__new__(type(self))
        vars(other).update(vars(self), **changes)
        return other

    @property
    def constants(self) -> Mapping[str, Any]:
        """Construction-time tensors by name, None for an absent one."""
        here = stages.place()
        return self.held_constants if here is None or here.trace is None else here.trace.constants(self.held_constants)

    @classmethod
    def register(cls, name: str, function: Any, when: When | None = None) -> None:
        """Add (or replace) an implementation from outside; it is preferred to those registered before it.

        One of the reference's name takes its place: it is the reference then, and no more preferred than that was. (The
        bench refuses a plugin that takes a name: what it measures would be one thing and its reports would say
        another.)

        Raises:
          TypeError: `function` or `when` cannot be called.
          ValueError: a flag or a record cannot have the name.
        """
        for what, value in (("function", function), *([] if when is None else [("when", when)])):
            if not callable(value):
                raise TypeError(f"{cls.ENTRY}: `{what}` of implementation {name!r} cannot be called: it is {value!r}")
        try:
            made = Implementation(name, function, when)
        except ValueError as error:
            raise ValueError(f"{cls.ENTRY}: {error}") from error
        if name != next(iter(cls._implementations), None):
            cls._implementations.pop(name, None)
        cls._implementations[name] = made

    @classmethod
    def implementations(cls) -> tuple[Implementation, ...]:
        """In order of registration, the reference first."""
        return tuple(cls._implementations.values())

    @classmethod
    def implementation_names(cls) -> tuple[str, ...]:
        """Names in order of registration, the reference first."""
        return tuple(cls._implementations)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the op; generated with the signature that the manifest declares."""
        raise NotImplementedError(f"{type(self).__name__} has no manifest entry")

    def check(self, *args: Any, **kwargs: Any) -> CheckedCall:
        """Check a call without running it and return what it binds; generated. Raises OpCallError."""
        raise NotImplementedError(f"{type(self).__name__} has no manifest entry")

    def serving(self, call: CheckedCall) -> tuple[str, ...]:
        """Names of the implementations that serve `call`, in order of registration."""
        call.name_tensors(self._tensor_names)
        return tuple(name for name, found in self._implementations.items() if found.serves(call))

    def select(self, call: CheckedCall) -> Implementation:
        """The implementation that runs `call`: the target, else the last registered one that serves it.

        Raises:
          OpNotAvailableError: none serves the call.
        """
        if self.target is not None:
            chosen = self._implementations[self.target]
            if chosen.serves(call):
                return chosen
            raise OpNotAvailableError(f"{self.ENTRY}: implementation {self.target!r} does not serve this call")
        for chosen in reversed(self._implementations.values()):
            if chosen.when is None or chosen.when(call):
                return chosen
        raise OpNotAvailableError(
            f"{self.ENTRY}: no implementation serves a call on {call.device};"
            f" there are: {', '.join(self._implementations) or 'none'}"
        )

    @property
    def last_call(self) -> CheckedCall:
        """What the last call of this instance that completed in this context bound (last_call.py).

        A call that fails leaves it as it was, and so does the replay of a CUDA graph, which calls nothing.

        Raises:
          OpNotAvailableError: none has completed.
        """
        call = self._last.get()
        if call is None:
            raise OpNotAvailableError(
                f"{self.ENTRY}: no call has completed yet in this thread or task; only a completed call has a price"
            )
        return call

    @property
    def last_implementation(self) -> str:
        """The name of the implementation that served the last call; "" if none ran (meta).

        Raises:
          OpNotAvailableError: no call has completed.
        """
        return self.last_call._served_by

    def eval_roofline(self) -> tuple[int, int]:
        """(flops, bytes) of the last completed call: the algorithm's minimum; generated from the manifest."""
        raise NotImplementedError(f"{type(self).__name__} has no manifest entry")

    def eval_roofline_read_bytes(self) -> int:
        """Bytes of the last call's price that are reads.

        Generated where the entry leaves `bytes` to the signature; else the op's author states it.

        Raises:
          OpNotAvailableError: nobody declared the read half.
        """
        raise OpNotAvailableError(f"{self.ENTRY}: no read half is declared")

    def roofline_data_terms(self) -> dict[str, int]:
        """Returns what in the last call's data decided its price, by name; empty if shapes alone decide.

        Raises:
          OpNotAvailableError: no call has completed.
        """
        self.last_call  # noqa: B018  # there are terms exactly when there is a price
        return {}

    def roof_key(self) -> str:
        """Key of the GPU-profile unit that prices the FLOPs of the last call: the unit an optimal implementation uses.

        Raises:
          OpNotAvailableError: no call has completed, so the dtype is not bound.
        """
        self.last_call  # noqa: B018  # a roof is valid exactly when a price is
        return "cuda_core.fp32"

    def specified_outputs(self, call: CheckedCall, outputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        """The part of the outputs whose contents the op defines, for comparing implementations."""
        return outputs

    def _execute(self, call: CheckedCall, inputs: tuple[Any, ...]) -> Any:
        """Run a checked call and record it, whatever traces (execution.py)."""
        raise NotImplementedError(f"{type(self).__name__} executes nothing")


def _refuse_hidden_entry(cls: type[BaseOp]) -> None:
    """Raises TypeError where the bases of a class belong to several entries and do not say whose the class is."""
    entries: list[tuple[type, Any]] = [
        (base, entry)
        for base in cls.__bases__
        for entry in [one for one in base.__mro__ if vars(one).get("_generated")][:1]
    ]
    if len({entry for _, entry in entries}) < 2:
        return
    (first, own), *others = entries
    if first is not own or any(base is entry is not own for base, entry in others):
        names = ", ".join(dict.fromkeys(entry.ENTRY for _, entry in entries))
        raise TypeError(
            f"{cls.__module__}.{cls.__qualname__} has bases of several entries ({names}), and the price of the first base's"
            f" entry, {own.ENTRY}, would hide the others': subclass the generated class of its own entry first, then"
            " hand-written classes alone"
        )
