"""Level one of the structural oracle: the bytes of a call, recounted from the tensors that a workload row binds.

Seed, sections 2.2 and 4.6. The recount reads the signature, one row, the dtypes and the effect marks; the entry it is
given has no roofline block. The tensors of a row are made, on `meta`, so that nothing is allocated; their sizes are
PyTorch's own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch

from tileops.manifest.check import check_entry
from tileops.manifest.language.evaluate import evaluate
from tileops.manifest.model import Entry, Signature
from tileops.manifest.reading import loader
from tileops.manifest.rows.cases import Case
from tileops.tests.oracle.recount import Recount


@dataclasses.dataclass
class _Storage:
    """One storage of a call and the ways it moves."""

    tensor: torch.Tensor
    read: bool = False
    written: bool = False

    @property
    def nbytes(self) -> int:
        return self.tensor.numel() * self.tensor.element_size()


def signatures(spec_files: list[str]) -> dict[str, tuple[Entry, tuple[Case, ...]]]:
    """Every implemented entry without its roofline block, with the cases of its rows, by op name.

    Raises:
      ValueError: the manifest has a defect.
    """
    manifest = loader.load(spec_files)
    found = {}
    for op, entry in manifest.entries.items():
        if entry.status == "implemented":
            checked = check_entry(dataclasses.replace(entry, roofline=None), manifest.diagnostics)
            found[op] = checked.entry, checked.cases
    if len(manifest.diagnostics):
        raise ValueError("\n".join(str(one) for one in manifest.diagnostics))
    return found


def case_tensors(case: Case) -> dict[str, torch.Tensor]:
    """The tensors that a case binds and returns, by name, on `meta`."""
    bound = (*case.constants, *case.inputs, *case.outputs)
    return {one.name: torch.empty(one.shape, dtype=getattr(torch, one.dtype), device="meta") for one in bound}


def recount(
    signature: Signature, values: Mapping[str, Any], present: Mapping[str, bool], tensors: Mapping[str, torch.Tensor]
) -> Recount:
    """The bytes of one call by the effect rules: reads, writes, one charge a storage each way.

    Args:
      signature: of the entry.
      values, present: parameters, indices and presence that the entry's conditions read.
      tensors: the call's tensors by name, absent ones left out; only their sizes are read.
    """
    storages: dict[str, _Storage] = {}
    for tensor in signature.constants.values():
        if tensor.name in tensors:
            storages[tensor.name] = _Storage(tensors[tensor.name], read=True)
    for tensor in signature.inputs.values():
        if tensor.name in tensors:
            written = tensor.mutated is not None and bool(evaluate(tensor.mutated.expr, values, present))
            storages[tensor.name] = _Storage(
                tensors[tensor.name], read=not (written and tensor.write_only), written=written
            )
    for tensor in signature.outputs.values():
        same = storages.get(tensor.alias)
        if tensor.name in tensors and (same is None or not same.written):  # else the output is the written input
            storages[tensor.name] = _Storage(tensors[tensor.name], written=True)
    written = sum(one.nbytes for one in storages.values() if one.written)
    # A call that writes nothing computes nothing, and reads nothing.
    return Recount(read=sum(one.nbytes for one in storages.values() if one.read) if written else 0, written=written)


def recount_case(entry: Entry, case: Case) -> Recount:
    """The bytes of a workload case."""
    return recount(entry.signature, case.values, case.present, case_tensors(case))
