"""Public ops of the family moe and their implementations."""

from __future__ import annotations

import torch

from tileops.ops.checked_call import CheckedCall
from tileops.ops.generated import moe as generated
from tileops.ops.implementations import implementation
from tileops.ops.kernels.support import triton_serves
from tileops.perf import formulas

# The kernel unrolls over the slots of a token, and one of its programs scans the counts of all local experts.
_MOST_SLOTS, _MOST_EXPERTS = 32, 4095


def _kernel_serves(call: CheckedCall) -> bool:
    slots = call.tensors["topk_ids"].shape[1]
    return triton_serves(call) and slots <= _MOST_SLOTS and call.params["num_experts_local"] <= _MOST_EXPERTS


class MoePermuteNopadFwdOp(generated.MoePermuteNopadFwdOp):
    """Rows of tokens gathered by expert, without padding between experts.

    A routed pair is a token m and a slot k, with flat index m * K + k. Pairs of local experts are ordered by (local
    expert, flat index); perm_h holds the token's row of each in that order, and its rows past the last are unspecified.
    true_sizes counts an expert's pairs, true_offsets is where they start, expert_first_token_offset the same with the
    total appended, and fwd_idx the row of each pair, -1 where its expert is not local. expert_map maps a global expert
    to a local one or to -1. An id outside [0, num_experts) is local to nobody.
    """

    ARITHMETIC = "elementwise"

    @implementation("torch")
    def _torch(
        self, call: CheckedCall, hidden_states: torch.Tensor, topk_ids: torch.Tensor, expert_map: torch.Tensor | None
    ) -> tuple[torch.Tensor, ...]:
        num_experts, num_local = call.params["num_experts"], call.params["num_experts_local"]
        experts = topk_ids.reshape(-1).long()
        known = (experts >= 0) & (experts < num_experts)
        local = experts.where(known, 0) if expert_map is None else expert_map[experts.where(known, 0)].long()
        local = local.where(known & (local >= 0) & (local < num_local), num_local)  # last, so that it sorts last
        order = torch.argsort(local, stable=True)
        counts = torch.zeros(num_local + 1, dtype=torch.int64, device=local.device)
        sizes = counts.scatter_add_(0, local, torch.ones_like(local))[:num_local]
        first = torch.cat((sizes.new_zeros(1), sizes.cumsum(0)))
        place = torch.arange(local.numel(), device=local.device)
        rows = torch.empty_like(order)
        rows[order] = place.where(place < first[-1], -1)
        perm = hidden_states[order // max(topk_ids.shape[1], 1)]
        return perm, first[:-1].int(), sizes.int(), first, rows.int()

    @implementation("triton", when=_kernel_serves)
    def _triton(
        self, call: CheckedCall, hidden_states: torch.Tensor, topk_ids: torch.Tensor, expert_map: torch.Tensor | None
    ) -> tuple[torch.Tensor, ...]:
        from tileops.ops.kernels.moe import permute as kernels  # Triton is imported when first used

        settings = call.params["num_experts"], call.params["num_experts_local"]
        return kernels.permute(hidden_states, topk_ids, expert_map, *settings)

    def roof_key(self) -> str:
        """The cores that add integers: the arithmetic is counting pairs by expert."""
        self.last_call  # noqa: B018  # a roof is valid exactly when a price is
        return "cuda_core.int32"

    def eval_roofline_read_bytes(self) -> int:
        """The hidden rows, ids and map entries that the last call's routing names."""
        return formulas.moe_permute_nopad_read_bytes(self.last_call)

    def roofline_data_terms(self) -> dict[str, int]:
        """local_pairs, tokens_read, experts_hit and map_entries_read of the last call's routing."""
        return formulas.moe_permute_terms(self.last_call)._asdict()

    def specified_outputs(self, call: CheckedCall, outputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        """The outputs with perm_h cut to the rows of local pairs."""
        return outputs[0][: formulas.moe_permute_terms(call).local_pairs], *outputs[1:]
