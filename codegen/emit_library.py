"""Emits what a traced call looks like to PyTorch: the schema of the entry's operator, and the outputs it returns."""

from __future__ import annotations

from collections.abc import Collection

from tileops.codegen.emit_steps import may_be_absent
from tileops.manifest.language import expr
from tileops.manifest.language.invariants import expect
from tileops.manifest.model import Expression, Signature

_SCHEMA_WORDS = ("NoneType",)  # of the names that an entry may give, the one that schemas keep for themselves


def operator_schema(signature: Signature) -> str:
    """The operator's schema without its name: the op's handle, then tensors; `(a!)` marks those that a call may write.

    Construction-time tensors follow the inputs, and the buffers that may be passed for outputs follow those.
    """
    taken = {*signature.inputs, *signature.constants}
    arguments = [f"str {_free('handle', taken)}"]
    writes = 0
    for name, tensor in (*signature.inputs.items(), *signature.constants.items()):
        mark = ""
        if tensor.mutated is not None:
            mark, writes = f"(a{writes}!)", writes + 1
        absent = "?" if may_be_absent(tensor) else ""
        arguments.append(f"Tensor{mark}{absent} {_free(name, _SCHEMA_WORDS)}")
    for name, tensor in signature.outputs.items():
        if tensor.buffer:
            arguments.append(f"Tensor(a{writes}!)? {_free(f'out_{name}', taken)}")
            writes += 1
    count = len(returned_names(signature))
    returned = "Tensor" if count == 1 else f"({', '.join(['Tensor'] * count)})"
    return f"({', '.join(arguments)}) -> {returned}"


def returned_names(signature: Signature) -> tuple[str, ...]:
    """Outputs that the operator returns: all that some call has which are no input of it on every branch."""
    return tuple(
        name
        for name, tensor in signature.outputs.items()
        if not tensor.alias or expect(signature.inputs[tensor.alias].mutated, Expression).expr != expr.Literal(True)
    )


def _free(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "_"
    return name
