"""Workload rows of a random entry, and the entry as the mapping that its spec file holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileops.tests.codegen import random_primitives as primitives
from tileops.tests.codegen import random_scope as sorts
from tileops.tests.codegen.random_build import Build
from tileops.tests.codegen.random_draw import Draw
from tileops.tests.codegen.random_model import Model, RefusedError, Row, Tensor
from tileops.tests.codegen.random_terms import Env, OutOfBoundsError, Term
from tileops.tests.codegen.random_types import in_yaml

FAMILY = "random"


def rows(build: Build) -> None:
    """A row for each call, at times with a second case of other dtypes."""
    for at, env in enumerate(build.envs):
        row = _row(build, env, f"r{at}.{build.draw.choice(('a', 'B-1', 'x_y'))}")
        build.model.rows.append(row)
        if build.model.dtype_indices and build.draw.chance(40):
            other = _other_dtypes(build, row)
            if other is not None:
                build.draw.use("row with several dtype cases")
                build.model.rows.append(other)


def _other_dtypes(build: Build, row: Row) -> Row | None:
    """The same row in other dtypes, which its YAML then lists too; None where they make another call of it."""
    model, draw = build.model, build.draw
    dtypes = {index: draw.choice(model.dtype_indices[index]) for index in row.dtypes}
    env = Env({name: value for name, value in row.env.items() if name not in model.lets} | dtypes, model.lets)
    model.presences(env)
    if dtypes == row.dtypes or any(env["present", name] != row.env["present", name] for name in model.tensors):
        return None
    try:
        model.complete(env)
        model.price(env)
    except (RefusedError, OutOfBoundsError):
        return None
    written = _written_dtypes(build, dtypes)
    case_id = _case_id(build, env, row.label, written)
    if case_id == row.case_id:
        return None
    row.yaml["dtype_cases"].append(dict(draw.shuffled(list(written.items()))))
    return Row(env, row.label, row.yaml, dtypes, case_id)


def _row(build: Build, env: Env, label: str) -> Row:
    draw, model = build.draw, build.model
    bindings: dict[str, Any] = {}
    for param in model.params:
        default = param.defaulted and env[param.name] == param.default and type(env[param.name]) is type(param.default)
        if not default or draw.chance(30):
            bindings[param.name] = in_yaml(env[param.name])
    for index in written_indices(model, env):
        bindings[index] = _called(build, env[index]) if model.indices[index] == "Seq[Int]" else in_yaml(env[index])
    some = [t.name for t in model.tensors.values() if t.presence == "own" and env["present", t.name]]
    dtypes = {index: env[index] for index in model.dtype_indices if index in env}
    row: dict[str, Any] = {"label": label, **dict(draw.shuffled(list(bindings.items())))}
    if some or draw.chance(10):
        row["some"] = draw.shuffled(some)
    written = _written_dtypes(build, dtypes)
    if dtypes:
        row["dtype_cases"] = [dict(draw.shuffled(list(written.items())))]
    return Row(env, label, row, dtypes, _case_id(build, env, label, written))


def _called(build: Build, values: Sequence[int]) -> Any:
    """A list as a row writes it: at times as the call that gives it."""
    calls = [f"repeat({values[0] if values else 7}, {len(values)})"] if len(set(values)) < 2 else []
    if values and tuple(values) == primitives.balanced_sizes(sum(values), len(values)):
        calls.append(f"balanced_sizes({sum(values)}, {len(values)})")
    if not calls or build.draw.chance(40):
        return in_yaml(tuple(values))
    build.draw.use("list as a call")
    return build.draw.choice(calls)


def _written_dtypes(build: Build, dtypes: dict[str, str]) -> dict[str, str]:
    """The dtypes as a row writes them: at times by the name of an index before, which has the same."""
    written: dict[str, str] = {}
    for index, dtype in dtypes.items():
        earlier = next((name for name, given in written.items() if given == dtype), None)
        written[index] = earlier if earlier is not None and build.draw.chance(30) else dtype
        if written[index] != dtype:
            build.draw.use("dtype of another index")
    return written


def _case_id(build: Build, env: Env, label: str, written: dict[str, str]) -> str:
    dtypes = [dtype for dtype in written.values() if dtype not in written]
    ordered = sorted(build.model.params, key=lambda param: (param.kw_only, param.defaulted))  # as the entry lists them
    params = [param.name for param in ordered if isinstance(_unmaybe(param.sort), sorts.DTypeName)]
    return "-".join([label, *dtypes, *(str(env[name]) for name in params if env[name] is not None)])


def _unmaybe(sort: sorts.Sort) -> sorts.Sort:
    return sort.item if isinstance(sort, sorts.Maybe) else sort


def written_indices(model: Model, env: Env) -> list[str]:
    """The indices that a row of this call writes: those that the call has and no generator determines."""
    present = [tensor for tensor in model.tensors.values() if env["present", tensor.name]]
    generated = {tensor.generated for tensor in present if tensor.generated}
    return [index for index in model.indices if index in env and index not in generated]


def write_entry(build: Build) -> dict[str, Any]:
    """The entry as its spec file holds it."""
    model, draw = build.model, build.draw
    signature: dict[str, Any] = {}
    forall = {**model.indices, **{name: f"DType[{' | '.join(values)}]" for name, values in model.dtype_indices.items()}}
    if forall:
        signature["forall"] = forall
    constants = list(model.of_role("constant"))
    declared: dict[str, dict[str, Any]] = {}
    for param in model.params:
        declared[param.name] = {"type": param.type}
        if param.defaulted:
            declared[param.name]["default"] = in_yaml(param.default)
        if param.kw_only:
            declared[param.name]["kw_only"] = True
    for tensor in constants:
        declared[tensor.name] = _constant(tensor, draw)
    # Parameters without a default first, keywords last: the order that Python asks for.
    order = sorted(
        declared,
        key=lambda name: (declared[name].get("kw_only", False), not declared[name].keys().isdisjoint(_DEFAULTED)),
    )
    if declared:
        signature["params"] = {name: declared[name] for name in order}
    inputs = {tensor.name: _input(tensor, draw.chance(50)) for tensor in model.of_role("input")}
    if inputs or draw.chance(50):
        signature["inputs"] = inputs
    outputs = {tensor.name: _output(tensor) for tensor in model.of_role("output")}
    if outputs or draw.chance(50):
        signature["outputs"] = outputs
    if build.families:
        signature["types"] = dict(draw.shuffled(list(build.families.items())))
    if model.lets:
        signature["let"] = {name: term.text for name, term in draw.shuffled(list(model.lets.items()))}
    if model.rules:
        signature["shape_rules"] = [term.text for term in model.rules]
    if model.combos:
        signature["dtype_combos"] = [dict(combo) for combo in model.combos]
    block = {"func": model.func} if model.func else {"flops": model.flops.text}
    if model.bytes is not None:
        block["bytes"] = model.bytes.text
    return {
        "family": FAMILY,
        "status": _status(build),
        "signature": signature,
        "workloads": list({id(row.yaml): row.yaml for row in model.rows}.values()),
        "roofline": block,
    }


def _status(build: Build) -> str:
    """Implemented at times where the rows pass and leave out every tensor that may be absent."""
    model = build.model
    optional = [tensor.name for tensor in model.of_role("constant", "input") if tensor.presence is not None]
    covered = all({row.env["present", name] for row in model.rows} == {False, True} for name in optional)
    if not covered or build.draw.chance(50):
        return "spec-only"
    build.draw.use("status implemented")
    return "implemented"


_DEFAULTED = ("default", "optional")


def _constant(tensor: Tensor, draw: Draw) -> dict[str, Any]:
    """A construction-time tensor: of type torch.Tensor, or as an input is declared."""
    found = _input(tensor, draw.chance(50))
    if draw.chance(50) and not isinstance(tensor.presence, Term):
        optional = found.pop("optional", False)
        found["type"] = f"torch.Tensor{' | None' if optional else ''}"
        return {**found, "default": None} if optional else found
    draw.use("construction-time tensor without a type")
    if tensor.presence is not None and draw.chance(50):
        found["default"] = None
    return found


def _input(tensor: Tensor, says_no: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"dtype": tensor.dtype.text, "shape": tensor.shape_text}
    if tensor.presence is not None:
        found["optional"] = True if tensor.presence == "own" else tensor.presence.text
    if tensor.mutated is not None:
        found["mutated"] = True if tensor.mutated.text == "True" else tensor.mutated.text
    if tensor.write_only:
        found["write_only"] = True
    if tensor.generator is not None:
        found["values"] = tensor.generator[0]
        if tensor.requires:
            found["requires"] = list(tensor.requires)
    if tensor.contiguous:
        found["contiguous"] = True
    if tensor.on_cpu:
        found["device"] = "cpu"
    if tensor.kw_only or (says_no and tensor.role == "input"):
        found["kw_only"] = tensor.kw_only
    return found


def _output(tensor: Tensor) -> dict[str, Any]:
    found: dict[str, Any] = {"dtype": tensor.dtype.text, "shape": tensor.shape_text}
    if isinstance(tensor.presence, Term):
        found["nullable"] = tensor.presence.text
    if tensor.buffer:
        found["buffer"] = "out"
    if tensor.alias:
        found["alias"] = tensor.alias
    if tensor.contiguous:
        found["contiguous"] = True
    return found
