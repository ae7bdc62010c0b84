"""Between `torch.dtype` objects and the dtype names that manifests, checked calls and run files use."""

from __future__ import annotations

import torch

from tileops.manifest.language.dtypes import BITS

# A torch without one of the newer dtypes (float8, say) simply does not offer it.
BY_NAME: dict[str, torch.dtype] = {name: getattr(torch, name) for name in BITS if hasattr(torch, name)}
NAMES: dict[torch.dtype, str] = {dtype: name for name, dtype in BY_NAME.items()}


def dtype_name(value: object) -> str | None:
    """Name of a dtype given as `torch.dtype` or by its name; None where it is neither."""
    if isinstance(value, torch.dtype):
        return NAMES.get(value)
    return value if isinstance(value, str) and value in BY_NAME else None
