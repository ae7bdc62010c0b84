"""Makes the schema of the operator that PyTorch sees in a traced call, and the outputs that it returns."""

from __future__ import annotations

from collections.abc import Collection

from tileops.manifest.language import expr
from tileops.manifest.language.invariants import expect
from tileops.manifest.model import Expression, Signature

_SCHEMA_WORDS = ("NoneType", "out")  # names that an entry may give, but a schema may not


def operator_schema(signature: Signature) -> str:
    """Returns the operator's schema without its name: the op's handle, then tensors; `(a!)` marks written ones.

    Construction-time tensors follow the inputs, and the buffers that may be passed for outputs follow those.
    """
    taken = {*signature.inputs, *signature.constants}
    arguments = [f"str {_free('handle', taken)}"]
    writes = 0
    for name, tensor in (*signature.inputs.items(), *signature.constants.items()):
        mark = ""
        if tensor.mutated is not None:
            mark, writes = f"(a{writes}!)", writes + 1
        absent = "?" if tensor.may_be_absent else ""
        arguments.append(f"Tensor{mark}{absent} {_free(name, _SCHEMA_WORDS)}")
    for name, tensor in signature.outputs.items():
        if tensor.buffer:
            arguments.append(f"Tensor(a{writes}!)? {_free(f'out_{name}', taken)}")
            writes += 1
    count = len(returned_names(signature))
    returned = "Tensor" if count == 1 else f"({', '.join(['Tensor'] * count)})"
    return f"({', '.join(arguments)}) -> {returned}"


def returned_names(signature: Signature) -> tuple[str, ...]:
    """Returns the outputs that the operator returns: all that are not an input in every call."""
    return tuple(
        name
        for name, tensor in signature.outputs.items()
        if not tensor.alias or expect(signature.inputs[tensor.alias].mutated, Expression).expr != expr.Literal(True)
    )


def _free(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "_"
    return name
