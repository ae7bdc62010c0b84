"""Entries with many finite facts that no expression relates, each in a feature of the language of its own."""

from __future__ import annotations

from typing import Any

from tileops.tests.manifest.entries import small

MANY = 17  # 2 ** 17 is more than an entry may have points
MAT = {
    "Mat": {"params": {"t": "Bool", "P": "Dim", "Q": "Dim"}, "match": ["t"], "cases": {False: "[P, Q]", True: "[Q, P]"}}
}
X = {"x": {"dtype": "float32", "shape": "[N, M]"}}
OTHER = {"label": "other", "N": 2, "M": 1}


def flags(count: int = MANY) -> dict[str, Any]:
    return {f"p{at}": {"type": "bool", "default": False} for at in range(count)}


def optionals(count: int = MANY, **fields: Any) -> dict[str, Any]:
    own = {f"t{at}": {"dtype": "float32", "shape": "[N]", "optional": True, **fields} for at in range(count)}
    return {"x": {"dtype": "float32", "shape": "[N]"}} | own


def tensors(count: int = MANY, **fields: str) -> dict[str, Any]:
    """Tensors t0, t1, ... whose fields may name their number as `#`."""
    made = {"dtype": "float32", "shape": "[N]"} | fields
    return {
        f"t{at}": {key: value.replace("#", str(at)) if isinstance(value, str) else value for key, value in made.items()}
        for at in range(count)
    }


def outputs(count: int = MANY, **fields: str) -> dict[str, Any]:
    return {f"z{name[1:]}": tensor for name, tensor in tensors(count, **fields).items()}


def many(way: str, count: int = MANY) -> dict[str, Any]:
    """An entry whose types depend on `count` facts that nothing relates."""
    indices, other = {"N": "Dim", "M": "Dim"}, dict(OTHER)
    parts = {"params": flags(count), "inputs": X, "outputs": {"y": {"dtype": "float32", "shape": "[N, M]"}}}
    if way == "an output for each optional input":
        parts["inputs"] = X | tensors(count, optional=True)
        parts["outputs"] |= outputs(count, nullable="present(t#)")
        other["some"] = ["t1", "t2"]
    elif way == "a shape for each output":
        parts["outputs"] = outputs(count, shape="[N if p# else M]")
    elif way == "a condition for each input":
        parts["inputs"] = X | tensors(count, optional="p#")
    elif way == "a family applied to each input":
        parts |= {"types": MAT, "inputs": tensors(count, shape="Mat[p#, N, M]")}
    elif way == "contents of each input that its condition decides":
        zeros = {"dtype": "int32", "shape": "[N]", "values": "full((N,), 0)"}
        own = {"values": "full((N,), M - M if p# else 1)", "requires": "exclusive_prefix_of(zeros if p# else (M,))"}
        parts["inputs"] = X | {"zeros": zeros} | tensors(count, dtype="int32", optional="p#", **own)
        for at in range(count):
            tensor = parts["inputs"][f"t{at}"]
            tensor["requires"] = [tensor["requires"]]
    elif way == "an index that some inputs solve where they are there":
        indices |= {f"K{at}": "Dim" for at in range(count)}
        parts["inputs"] = X | tensors(count, shape="[K#, N]", optional="p#")
        parts["outputs"] = outputs(count, shape="[K# + 1 if p# else M]")
        other["K1"] = 7
    elif way == "an index that each optional input alone solves":
        indices |= {f"K{at}": "Dim" for at in range(count)}
        parts["inputs"] = X | tensors(count, shape="[K#, N]", optional=True)
        parts["outputs"] |= outputs(count, shape="[K# + 1 if present(t#) else M]")
        other |= {"some": ["t1"], "K1": 7}
    else:
        parts["inputs"] = X | tensors(count, mutated="p#")
        parts["outputs"] = outputs(count, alias="t#")
    if "some" not in other:
        other["p1"] = True
    return small(forall=indices, workloads=[{"label": "row", "N": 3, "M": 5}, other], **parts)


WAYS = [
    "an output for each optional input",
    "a shape for each output",
    "a condition for each input",
    "a family applied to each input",
    "an index that some inputs solve where they are there",
    "an alias for each input that is written",
    "contents of each input that its condition decides",
    "an index that each optional input alone solves",
]
