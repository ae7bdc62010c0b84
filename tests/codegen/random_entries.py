"""Random well-formed entries: each is drawn together with the model that says what its calls bind and cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileops.tests.codegen import random_scope as sorts
from tileops.tests.codegen.random_build import MAX_POINTS, Build
from tileops.tests.codegen.random_draw import Draw
from tileops.tests.codegen.random_families import compared_family
from tileops.tests.codegen.random_indices import add, affine, determining_inputs, dtype_indices, size
from tileops.tests.codegen.random_metadata import drawn_at_random, filled_by_list
from tileops.tests.codegen.random_model import Axis, Model, RefusedError, Tensor
from tileops.tests.codegen.random_params import DEVICE, DTYPES, Param, finite_size, params
from tileops.tests.codegen.random_prices import roofline
from tileops.tests.codegen.random_rows import rows, write_entry
from tileops.tests.codegen.random_rules import combos, lets, rules
from tileops.tests.codegen.random_terms import Env, OutOfBoundsError, Term, literal, name


def entry(draw: Draw, op: str) -> Model:
    """A well-formed entry with one to four rows."""
    for _ in range(50):
        features = dict(draw.features)
        try:
            return _Entry(draw, op).model()
        except (RefusedError, OutOfBoundsError):
            draw.features = features  # the parts fit each call alone, and not all of them together
    raise AssertionError("fifty entries in a row fit no call")


class _Entry:
    def __init__(self, draw: Draw, op: str) -> None:
        self._draw = draw
        self._build = Build(draw, op)

    def model(self) -> Model:
        build, draw = self._build, self._draw
        model = build.model
        model.params = params(draw, build.name)
        build.envs = [Env({}, model.lets) for _ in range(draw.integer(1, 4))]
        for param in model.params:
            build.known[param.name] = param.sort
            build.points *= finite_size(param.sort)
            for env in build.envs:
                env[param.name] = param.make(draw)
                env["present", param.name] = env[param.name] is not None
        alone = draw.chance(4)
        if alone:
            self._device()
        else:
            dtype_indices(build, 1 if build.points > 16 else 2)
            determining_inputs(build)
            if draw.chance(20):
                add(build, filled_by_list(build))
        lets(build)
        for _ in range(0 if alone else draw.integer(0, 3)):
            self._compared_input()
        outputs = draw.integer(1, 3)
        if draw.chance(15) and any(tensor.mutated is not None for tensor in model.of_role("input")):
            outputs = 0
            draw.use("no outputs")
        for _ in range(outputs):
            self._output()
        if outputs and not alone and not any(tensor.buffer for tensor in model.tensors.values()) and draw.chance(15):
            self._required_buffer()
        combos(build)
        rules(build)
        self._reorder()
        for env in build.envs:
            model.complete(env)
        model.scope = build.scope(types=False)
        roofline(build)
        for env in build.envs:
            model.price(env)
        rows(build)
        model.yaml = write_entry(build)
        return model

    # ---- entries without inputs

    def _device(self) -> None:
        """At times a parameter that says where the call is."""
        draw, build = self._draw, self._build
        draw.use("no inputs")
        if draw.chance(30) or any(param.name == DEVICE for param in build.model.params):
            return
        draw.use("parameter that says where a call is")
        text = draw.choice(("torch.device | str | None", "str | None", "'cpu' | 'meta' | None"))
        param = Param(
            DEVICE, text, sorts.Opaque(), lambda d: d.choice((None, "cpu", "meta")), "no-such-device", True, None, True
        )
        build.model.params.append(param)
        build.known[DEVICE] = param.sort
        for env in build.envs:
            env[DEVICE] = param.make(draw)
            env["present", DEVICE] = env[DEVICE] is not None

    # ---- inputs that are only compared

    def _compared_input(self) -> None:
        draw, build = self._draw, self._build
        presence = self._presence()
        envs = [env for env in build.envs if presence is None or self._there(presence, env)]
        role = "constant" if draw.chance(15) else "input"
        if draw.chance(15):
            tensor = drawn_at_random(build, presence, envs)
            tensor.role = role
        else:
            tensor = Tensor(build.name("t"), role, "", lambda env: (), literal(None), presence=presence)
            self._shape(tensor, envs)
            if tensor.name in build.under and presence == "own" and draw.chance(50):
                self._own_dtype(tensor)
            else:
                tensor.dtype = build.dtype(envs)
        if presence == "own":
            build.points *= 2
        add(build, tensor)
        tensor.contiguous = draw.chance(10)
        tensor.on_cpu = tensor.on_cpu or draw.chance(6)
        if role == "input":
            tensor.kw_only = presence is not None and draw.chance(25)
            if tensor.generator is None and draw.chance(30):
                self._effect(tensor)

    def _presence(self) -> Any:
        draw, build = self._draw, self._build
        form = draw.weighted({"always": 4, "own": 3, "shared": 3})
        if form == "own" and build.points * 2 <= MAX_POINTS:
            return "own"
        return build.presence() if form == "shared" else None

    def _there(self, presence: Any, env: Env) -> bool:
        return True if presence == "own" else presence.of(env)

    def _shape(self, tensor: Tensor, envs: Sequence[Env]) -> None:
        """Any axes; of a tensor that may be absent at times one that determines an index of its own."""
        draw, build = self._draw, self._build
        if draw.chance(20) and (family := compared_family(build, envs)) is not None:
            tensor.shape_text, tensor.axes = family
            return
        axes = build.axes(build.scope(), envs)
        if isinstance(tensor.presence, Term) and draw.chance(40):
            draw.use("index of a tensor that may be absent")
            self._own_axis(tensor, axes, envs)
        elif tensor.presence == "own" and draw.chance(50):
            for env in envs:
                env["present", tensor.name] = draw.chance(50)
            self._own_axis(tensor, axes, [env for env in envs if env["present", tensor.name]])
        tensor.shape_text, tensor.axes = build.text(axes), lambda env: tuple(axes)

    def _own_axis(self, tensor: Tensor, axes: list[Axis], envs: Sequence[Env]) -> None:
        """Adds an axis that determines an index in the calls that have the tensor, at times one of another optional one."""
        draw, build = self._draw, self._build
        others = [name for name, found in build.under.items() if build.tags[name] == "own" and found]
        if tensor.presence == "own":
            draw.use("index of an optional tensor")
        if tensor.presence == "own" and others and draw.chance(60):
            draw.use("index of two optional tensors")
            index = next(iter(build.under[draw.choice(others)]))
        else:
            index = build.name("n")
            build.model.indices[index] = "Dim"
        for env in envs:
            env.setdefault(index, size(build))
        axes.insert(draw.integer(0, len(axes)), affine(build, index, list(envs)))
        build.under[tensor.name] = {index: sorts.Integer(True)}

    def _own_dtype(self, tensor: Tensor) -> None:
        """Gives the tensor a dtype index of its own, which no expression of a type may compare."""
        draw, build = self._draw, self._build
        draw.use("dtype index of an optional tensor")
        index, values = build.name("T"), tuple(draw.some(DTYPES, 1, 3))
        build.model.dtype_indices[index] = values
        for env in build.envs:
            if env["present", tensor.name]:
                env[index] = draw.choice(values)
        tensor.dtype, tensor.dtype_index = name(index), index
        build.dtypes_under[tensor.name] = {index: sorts.DTypeName(values)}

    def _effect(self, tensor: Tensor) -> None:
        draw, build = self._draw, self._build
        condition = build.presence() if draw.chance(50) else None
        tensor.mutated = literal(True) if condition is None else condition
        tensor.write_only = draw.chance(30)
        when = "always" if condition is None else "where a condition holds"
        draw.use(f"{'write_only' if tensor.write_only else 'mutated'} {when}")

    # ---- outputs

    def _output(self) -> None:
        draw, build = self._draw, self._build
        sources = [
            one
            for one in build.model.of_role("input")
            if one.mutated is not None
            and one.name not in build.under
            and self._everywhere(one)
            and not any(other.alias == one.name for other in build.model.tensors.values())
        ]
        if sources and draw.chance(60):
            source = draw.choice(sources)
            draw.use("alias" if source.presence is None else "alias of an input that may be absent")
            axes = source.axes
            add(build, Tensor(build.name("o"), "output", source.shape_text, axes, source.dtype, alias=source.name))
            return
        presence: Any = build.presence() if draw.chance(30) else None
        scope = build.scope()
        own_dtype = ""
        shared = [name for name, tag in build.tags.items() if tag != "always" and build.under.get(name)]
        if shared and draw.chance(50):
            with_index = draw.choice(shared)
            draw.use("nullable where an input is present")
            presence = build.make.conditions.present(with_index)  # which varies, as the input's own condition does
            scope = scope.showing(with_index)
            own_dtype = next(iter(build.dtypes_under.get(with_index, ())), "")
        envs = [env for env in build.envs if presence is None or presence.of(env)]
        tensor = Tensor(build.name("o"), "output", "", lambda env: (), literal(None), presence=presence)
        if draw.chance(20) and (family := compared_family(build, envs)) is not None:
            tensor.shape_text, tensor.axes = family
        else:
            axes: list[Axis] = build.axes(scope, envs)
            tensor.shape_text, tensor.axes = build.text(axes), lambda env: tuple(axes)
        tensor.dtype = name(own_dtype) if own_dtype and draw.chance(70) else build.dtype(envs)
        tensor.buffer, tensor.contiguous = draw.chance(20), draw.chance(10)
        if tensor.buffer:
            draw.use("buffer out")
        add(build, tensor)

    def _required_buffer(self) -> None:
        """An input `out`, which is one output of every call that has this output's shape."""
        build = self._build
        build.draw.use("input out")
        axes = build.axes(build.scope(), build.envs)
        shape, dtype = build.text(axes), build.dtype(build.envs)
        passed = Tensor("out", "input", shape, lambda env: tuple(axes), dtype, kw_only=True)
        passed.mutated, passed.write_only = literal(True), True
        add(build, passed)
        add(build, Tensor(build.name("o"), "output", shape, lambda env: tuple(axes), dtype, alias="out"))

    def _everywhere(self, tensor: Tensor) -> bool:
        """Whether the tensor's shape has a value in calls that lack the tensor too."""
        try:
            return all(min(self._build.model.shape(tensor, env), default=0) >= 0 for env in self._build.envs)
        except (ArithmeticError, ValueError, IndexError, OutOfBoundsError):
            return False

    def _reorder(self) -> None:
        """Declared order: any, but for optional inputs and then those passed by name, which come last."""
        tensors = self._build.model.tensors
        required = [t for t in tensors.values() if t.role != "output" and t.presence is None]
        others = [t for t in tensors.values() if t.role != "output" and t.presence is not None]
        outputs = [t for t in tensors.values() if t.role == "output"]
        ordered = [*self._draw.shuffled(required), *self._draw.shuffled(others), *self._draw.shuffled(outputs)]
        ordered.sort(key=lambda tensor: tensor.kw_only)
        if any(tensor.kw_only for tensor in ordered):
            self._draw.use("input passed by name")
        self._build.model.tensors = {tensor.name: tensor for tensor in ordered}
