"""Roofline formulas that need Python: what an entry's `func` names, over the checked call and nothing else.

Each prices one completed call at the algorithm's minimum (seed, section 1.2): every distinct element that the call must
read, read once, every public output written once. The `..._read_bytes` functions state the read half of the same
count, for the bytes audit (section 4.5).

One module per family. An entry names a formula by this package: `tileops.perf.formulas.<name>`.
"""

from tileops.perf.formulas.attention import gqa_fwd_read_bytes, gqa_fwd_roofline, gqa_scores
from tileops.perf.formulas.moe import (
    MoePermuteTerms,
    moe_permute_nopad_read_bytes,
    moe_permute_nopad_roofline,
    moe_permute_terms,
)
from tileops.perf.formulas.windows import (
    avg_pool_read_bytes,
    avg_pool_roofline,
    convolution_read_bytes,
    convolution_roofline,
    max_pool_read_bytes,
    max_pool_roofline,
)

__all__ = [
    "MoePermuteTerms",
    "avg_pool_read_bytes",
    "avg_pool_roofline",
    "convolution_read_bytes",
    "convolution_roofline",
    "gqa_fwd_read_bytes",
    "gqa_fwd_roofline",
    "gqa_scores",
    "max_pool_read_bytes",
    "max_pool_roofline",
    "moe_permute_nopad_read_bytes",
    "moe_permute_nopad_roofline",
    "moe_permute_terms",
]
