"""Rows that do not fit: added to a copy of a clean entry, one must be refused by the validator, and nothing else."""

from __future__ import annotations

import copy
from typing import Any

from tileops.tests.codegen.random_draw import Draw
from tileops.tests.codegen.random_model import Model, RefusedError
from tileops.tests.codegen.random_params import DTYPES, Param
from tileops.tests.codegen.random_terms import Env, OutOfBoundsError
from tileops.tests.codegen.random_types import in_yaml

_NO_LISTS = ("repeat(1)", "repeat(1, 1 + 1)", "repeat(2, -1)", "range(3)", "balanced_sizes(n, 2)", "[1]")
Fault = tuple[str, dict[str, Any], str]


def fault(model: Model, draw: Draw) -> Fault | None:
    """(what is wrong, the entry with the wrong row last, its code); None where the draw does not suit the entry."""
    row = draw.choice(model.rows)
    bad = copy.deepcopy(row.yaml)
    form = draw.choice(tuple(_FORMS))
    if row.dtypes:  # one case, so one defect; an id that stands already depends on how its dtypes are written
        bad["dtype_cases"] = bad["dtype_cases"][:1] if form == "a case id that stands twice" else [dict(row.dtypes)]
    if not _FORMS[form](model, row.env, bad, draw):
        return None
    if form != "a case id that stands twice":
        bad["label"] = "bad"
    entry = copy.deepcopy(model.yaml)
    entry["workloads"].append(bad)
    return form, entry, "M061" if form == "a case id that stands twice" else "M060"


def _written(model: Model, bad: dict[str, Any], draw: Draw) -> str | None:
    names = [name for name in bad if name in model.indices]
    return draw.choice(names) if names else None


def _missing_index(model: Model, env: Env, bad: dict[str, Any], draw: Draw) -> bool:
    name = _written(model, bad, draw)
    return name is not None and bad.pop(name) is not None


def _unknown_name(model: Model, env: Env, bad: dict[str, Any], draw: Draw) -> bool:
    bad["nothing_of_that_name"] = 3
    return True


def _wrong_index(model: Model, env: Env, bad: dict[str, Any], draw: Draw) -> bool:
    name = _written(model, bad, draw)
    if name is not None:
        wrong: dict[str, Any] = {
            "Dim": (-1, [1], True, "3"),
            "Shape": (3, [-1], "[1]"),
            "Seq[Int]": (3, [True], [0.5], *_NO_LISTS),
        }
        bad[name] = draw.choice(wrong[model.indices[name]])
    return name is not None


def _wrong_parameter(model: Model, env: Env, bad: dict[str, Any], draw: Draw) -> bool:
    params = [param for param in model.params if param.wrong is not Param.ANY]
    if params:
        param = draw.choice(params)
        bad[param.name] = in_yaml(param.wrong)
    return bool(params)


def _missing_parameter(model: Model, env: Env, bad: dict[str, Any], draw: Draw) -> bool:
    required = [param.name for param in model.params if not param.defaulted]
    if required:
        del bad[draw.choice(required)]
    return bool(required)


def _wrong_dtype(model: Model, env: Env, bad: dict[str, Any], draw: Draw) -> bool:
    if not bad.get("dtype_cases"):
        return False
    index = draw.choice(list(bad["dtype_cases"][0]))
    bad["dtype_cases"][0][index] = draw.choice([one for one in DTYPES if one not in model.dtype_indices[index]])
    return True


def _missing_dtype(model: Model, env: Env, bad: dict[str, Any], draw: Draw) -> bool:
    if not bad.get("dtype_cases"):
        return False
    del bad["dtype_cases"][0][draw.choice(list(bad["dtype_cases"][0]))]
    return True


def _unlisted_dtypes(model: Model, env: Env, bad: dict[str, Any], draw: Draw) -> bool:
    if not model.combos or not bad.get("dtype_cases") or not model.combos[0].keys() <= bad["dtype_cases"][0].keys():
        return False
    case = bad["dtype_cases"][0]
    case.update({name: draw.choice(model.dtype_indices[name]) for name in model.combos[0]})
    return not any(all(case[name] == dtype for name, dtype in combo.items()) for combo in model.combos)


def _unknown_tensor(model: Model, env: Env, bad: dict[str, Any], draw: Draw) -> bool:
    required = [tensor.name for tensor in model.tensors.values() if tensor.presence != "own"]
    bad["some"] = [*bad.get("some", []), draw.choice([*required, "nothing_of_that_name"])]
    return True


def _generated_index(model: Model, env: Env, bad: dict[str, Any], draw: Draw) -> bool:
    generated = [tensor.generated for tensor in model.tensors.values() if tensor.generated]
    if generated:
        bad[generated[0]] = env[generated[0]]
    return bool(generated)


def _other_sizes(model: Model, env: Env, bad: dict[str, Any], draw: Draw) -> bool:
    """Other sizes, which the model refuses: a rule, a domain or a negative axis."""
    if any(tensor.generator for tensor in model.tensors.values()):
        return False  # what a generator refuses, and what a requirement does, is not the model's business
    for _ in range(4):
        changed = {name: draw.integer(0, 5) for name, kind in model.indices.items() if kind == "Dim" and name in bad}
        fresh = Env({name: value for name, value in env.items() if name not in model.lets} | changed, model.lets)
        try:
            model.complete(fresh)
        except OutOfBoundsError:
            continue
        except RefusedError:
            bad.update(changed)
            return True
    return False


def _same_label(model: Model, env: Env, bad: dict[str, Any], draw: Draw) -> bool:
    return True


_FORMS = {
    "an index is not written": _missing_index,
    "a name that the entry lacks": _unknown_name,
    "an index of the wrong kind": _wrong_index,
    "a parameter of the wrong type": _wrong_parameter,
    "a parameter without default is not written": _missing_parameter,
    "a dtype outside its set": _wrong_dtype,
    "a dtype index is not assigned": _missing_dtype,
    "dtypes that are no combination": _unlisted_dtypes,
    "a tensor that no row may pass": _unknown_tensor,
    "an index that a generator determines": _generated_index,
    "sizes that the signature refuses": _other_sizes,
    "a case id that stands twice": _same_label,
}
