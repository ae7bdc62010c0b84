"""Spec files of an outside team: entries that use each feature are clean, and a single fault gives one diagnostic."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest

from tileops.codegen.analysis import analyse
from tileops.manifest.check import check_entry
from tileops.manifest.diagnostics import Diagnostic, Diagnostics
from tileops.manifest.reading import loader

FOLDERS = ("corpus", "corpus_sums")  # each has its own types.yaml


@dataclasses.dataclass(frozen=True)
class Fault:
    """One edit of one file.

    Attributes:
      file: the spec file's stem.
      old, new: text that stands once in the file, and what takes its place.
      code: the one code that the edit yields.
      at: text that stands once in the edited file, on the line of the diagnostic; "" for the line of the edit.
      folder: the corpus.
    """

    file: str
    old: str
    new: str
    code: str
    at: str = ""
    folder: str = "corpus"


FAULTS = [
    # entries and names
    Fault("paged", "status: implemented", "status: done", "M012"),
    Fault("paged", "status: implemented", "statuss: implemented", "M011"),
    Fault("norms", "ref_api: acme.reference.residual_norm", "ref_api: residual norm", "M012"),
    Fault("paged", "family: paged", "family: attention", "M016"),
    Fault("reductions", "TotalFwdOp:", "total_fwd:", "M013"),
    Fault("reductions", "TotalFwdOp:", "PoolFwdOp:", "M015"),
    Fault("reductions", "TotalFwdOp:", "ScanFwdOp:", "M002", "\nScanFwdOp:\n  family: reductions\n  status: spec-only"),
    Fault("mixture", "H: Dim, I: Dim", "H: Dim, lambda: Dim, I: Dim", "M013"),
    Fault("norms", 'elements: "prod(B)', 'x: "prod(B)', "M014"),
    # kinds and types
    Fault("paged", "      W: Dim", "      W: Dimension", "M023"),
    Fault("ragged", "C: Dim, D: Dim, lengths", "C: Dim, D: Index, lengths", "M023"),
    Fault("paged", "DType[float16 | bfloat16]", "DType[float16 | bf16]", "M024"),
    Fault("norms", '"tuple[int, ...]"', '"tuple[int ...]"', "M023"),
    Fault(
        "paged", 'window: {type: "int | None", default: null}', 'window: {type: "int | None", default: wide}', "M012"
    ),
    Fault("grouped", "default: {Nopad: {}}", "default: {Flat: {}}", "M012"),
    Fault("grouped", "layout: {type: Layout, ", "layout: {type: Layout | int, ", "M023"),
    Fault("grouped", "default: {PerTensor: {}}", "default: {PerTensor: {rows: 1}}", "M012"),
    Fault("norms", "default: train", "default: training", "M012"),
    Fault(
        "reductions",
        "empty: {type: \"'full' | 'noop' | 'reject'\"",
        "empty: {type: \"'full' | 'none'\"",
        "M022",
        'norm: {dtype: "promote_types(T, A)"',
    ),
    Fault("types", "class: acme.layouts.Padded", "class: acme.layouts.padding", "M012"),
    Fault("types", "class: acme.layouts.Padded", "class: threading.Padded", "M012"),
    Fault("types", '"rows > 0 and columns > 0"', '"block > 0"', "M021"),
    Fault("types", '"rows > 0 and columns > 0"', "rows", "M022"),
    Fault("types", '"rows > 0 and columns > 0"', "rows ** 2 > 0", "M020"),
    Fault("types", '"rows > 0 and columns > 0"', "1 > 0", "M027"),
    Fault("types", "fields: {capacity: int}", "fields: {capacity: int}, invariant: 3", "M012"),
    Fault("grouped", "{rows: 8, columns: 16, order: column}", "{rows: 0, columns: 16, order: column}", "M060"),
    Fault("types", "fields: {capacity: int}", "fields: {kind: int}", "M013"),
    Fault("types", "fields: {block: int, zeroed: bool}", "fields: {block: int, zeroed: [bool]}", "M012"),
    Fault("types", "fields: {block: int, zeroed: bool}", "fields: {block: bfloat, zeroed: bool}", "M023"),
    Fault("types", "fields: {block: int, zeroed: bool}", "fields: {block: Scaling, zeroed: bool}", "M023"),
    Fault("types", "fields: {block: int, zeroed: bool}", "fields: {block: float16, zeroed: bool}", "M023"),
    Fault("types", "Layout:   #", "- Layout:   #", "M001", "Scaling:   #"),
    # expressions
    Fault("paged", 'cap: "W * page"', 'cap: "W ** page"', "M020"),
    Fault("paged", '"window.value > 0 if', '"window is not None and window > 0 if', "M020"),
    Fault("norms", '"all(size > 0 for size in normalized_shape)"', '"x.shape[0] > 0"', "M020"),
    Fault("norms", '"all(size > 0 for size in normalized_shape)"', '"len({size for size in B}) == len(B)"', "M020"),
    Fault("convs", '"abs(kernel) == kernel and kernel > 0"', '"isinstance(kernel, int)"', "M020"),
    Fault("grouped", "layout.block % 16 == 0", "layout.__class__ == 0", "M020"),
    Fault("paged", "H % max((G, 1)) == 0", "H % max((G_kv, 1)) == 0", "M021"),
    Fault("reductions", "log2_floor(chunk) <= 10", "log2_ceil(chunk) <= 10", "M021"),
    Fault("paged", 'nullable: "return_lse"', 'nullable: "return_max"', "M021"),
    Fault("convs", '"groups > 0 and', '"filter > 0 and', "M021"),
    Fault("paged", "not quantized or C == 'float8_e4m3fn'", "not quantized or C == 'float8_e5m2'", "M022"),
    Fault("norms", "mode == 'frozen' and track", "mode == 'fixed' and track", "M022"),
    Fault("grouped", "layout.kind == 'Padded' else", "layout.kind == 'Pad' else", "M022"),
    Fault("norms", '"len(normalized_shape) > 0"', '"len(normalized_shape)"', "M022"),
    Fault(
        "reductions",
        'carry: {dtype: float32, shape: "[ceil_div(L, chunk), N]"',
        'carry: {dtype: float32, shape: "[N > 1, N]"',
        "M022",
    ),
    Fault("reductions", "promote_types(T, A)", "promote_types(T)", "M022"),
    Fault("convs", "[*B, L]", "[L, B]", "M022"),
    Fault("ragged", 'dtype: int32, shape: "[N, heads]"', 'dtype: heads, shape: "[N, heads]"', "M022"),
    Fault("ragged", '"nsa_block_counts(N, heads, selected)"', '"nsa_block_counts(N, heads)"', "M022"),
    Fault("ragged", '"token_indices(lengths)"', '"token_indices(N)"', "M022"),
    Fault("ragged", '"offsets(lengths)"', '"running_sum(lengths)"', "M020"),
    Fault("ragged", 'requires: ["in_range(0, N)"]', 'requires: ["sorted(N)"]', "M020"),
    Fault("paged", '"window.value > 0 if present(window) else True"', '"window.value > 0"', "M025"),
    Fault("grouped", "layout.capacity >= 0 if layout.kind == 'Masked' else True", "layout.capacity >= 0", "M025"),
    Fault("grouped", '"[moe.capacity(how, rows, count), width]"', '"[how.block, how.capacity, width]"', "M025"),
    Fault("convs", 'step: "stride.value if present(stride) else kernel"', 'step: "stride.value"', "M025"),
    Fault("grouped", '"coalesce_dtype(out_dtype, bfloat16)"', "out_dtype", "M025"),
    Fault("grouped", '"experts > 0"', '"R == N * K"', "M026"),
    # families
    Fault("grouped", "Weight[trans_b, experts, K, N]", "Wait[trans_b, experts, K, N]", "M030"),
    Fault("grouped", "Weight[trans_b, experts, K, N]", "Weight[trans_b, K, N]", "M030"),
    Fault("convs", "match: [order]", "match: [n]", "M030"),
    Fault("convs", "Image[layout, N, groups * C, Y, X]", "Image['nchw' if groups > 1 else layout, N, C, Y, X]", "M030"),
    Fault("grouped", '          Masked: "[count, how.capacity, width]"\n', "", "M031", "      Routed:"),
    Fault("grouped", 'Masked: "[count', 'Slab: "[count', "M031"),
    Fault("grouped", '"(PerRow, True)"', '"(PerRow, False) "', "M031"),
    Fault("grouped", "\"(PerBlock(order='column'), False)\"", '"(PerBlock, False)"', "M031"),
    Fault("grouped", "\"PerBlock(order='column')\"", '"PerBlock(rows=2)"', "M031"),
    Fault("grouped", '"(PerTensor, True)"', "PerTensor", "M031"),
    Fault(
        "grouped",
        '          PerRow: "[rows]"',
        '          PerRow: "Scales[how, True, rows, columns]"',
        "M041",
        "      Scales:",
    ),
    # plan and points
    Fault(
        "ragged", 'y: {dtype: T, shape: "[N, D]"}\n      final', 'y: {dtype: T, shape: "[N, Z]"}\n      final', "M021"
    ),
    Fault("ragged", "forall: {N: Dim, B: Dim", "forall: {N: Dim, Z: Dim, B: Dim", "M040"),
    Fault(
        "reductions", 'x: {dtype: T, shape: "[L, N]"}', 'x: {dtype: T, shape: "[L * N, N]"}', "M040", "forall: {L: Dim"
    ),
    Fault(
        "norms",
        'residual: {dtype: T, shape: "[*B, *normalized_shape]"',
        'residual: {dtype: V, shape: "[*B, *normalized_shape]"',
        "M021",
    ),
    Fault("paged", 'cap: "W * page"', 'cap: "cap + 1"', "M041"),
    Fault("optionals", 'nullable: "present(gain)"', 'nullable: "N > 0 and present(gain)"', "M052"),
    Fault("optionals", ', nullable: "present(gain)"', "", "M040", "{N: Dim, C: Dim, G: Dim"),
    Fault("optionals", '"[M, 2]", optional: true', '"[M * M]", optional: true', "M040", "{A: Shape, L: Shape"),
    Fault("optionals", '"broadcast(B, H) if present(high) else B"', '"broadcast(B, H)"', "M040", "{A: Shape, L: Shape"),
    Fault("optionals", "optional: true, default: null", "optional: true, default: 0", "M012"),
    Fault(
        "optionals", "last: {type: torch.Tensor | None,", "last: {type: torch.Tensor | None, optional: true,", "M012"
    ),
    Fault("optionals", 'table: {dtype: T, shape: "[V, D]"', "table: {dtype: T", "M012"),
    Fault("optionals", "centred: {type: bool, default: false}", "centred: {type: bool, device: cpu}", "M012"),
    Fault("optionals", "centred: {type: bool, default: false}", "centred: {default: false}", "M010"),
    Fault("optionals", 'optional: "centred"', 'optional: "V > 3"', "M052"),
    Fault("optionals", "as_tensor((1, 2, 3))", "as_tensor((1, 9, 3))", "M064", "label: shifted"),
    Fault("optionals", 'values: "as_tensor((1, 2, 3))", requires', "requires", "M051"),
    Fault("optionals", "optional: true, kw_only: true}", "kw_only: true}", "M012"),
    Fault(
        "optionals",
        '"[N]", optional: true}\n      bias:',
        '"[N]", optional: true, kw_only: true}\n      bias: {dtype: T, shape: "[N]", optional: true}\n      more:',
        "M012",
        'bias: {dtype: T, shape: "[N]", optional: true}',
    ),
    Fault("optionals", "write_only: true, kw_only: true}\n    outputs", "write_only: true}\n    outputs", "M013"),
    Fault(
        "optionals",
        'y: {dtype: float32, shape: "[N, 2]", alias: out}',
        'y: {dtype: float32, shape: "[N, 2]"}',
        "M050",
        "out: {dtype",
    ),
    Fault("optionals", 'last: {dtype: T, shape: "[]"}', 'last: {dtype: T, shape: "[]", buffer: out}', "M050"),
    Fault(
        "optionals",
        'log: {dtype: float32, shape: "[N]", mutated: true}',
        'log: {dtype: float32, shape: "[N]"}',
        "M010",
        "outputs: {}",
    ),
    Fault(
        "optionals",
        'log: {dtype: float32, shape: "[N]", mutated: true}',
        'log: {dtype: float32, shape: "[N]", mutated: false}',
        "M010",
        "outputs: {}",
    ),
    Fault("optionals", "accumulate: float32, to: bfloat16", "accumulate: null, to: bfloat16", "M053"),
    Fault("optionals", "accumulate: float32, to: bfloat16", "accumulate: float32, to: float32", "M053"),
    Fault("optionals", "accumulate: float32, to: bfloat16", "accumulate: float32, into: bfloat16", "M053"),
    Fault(
        "optionals", "{label: same, N: 4, dtype_cases", "{label: same, N: 4, accumulate: float16, dtype_cases", "M060"
    ),
    Fault("optionals", "present(layout) and layout.value.kind", "layout.value.kind", "M025"),
    Fault(
        "grouped",
        "layout.capacity >= 0 if layout.kind == 'Masked' else True",
        "layout.capacity >= 0 if layout.value.kind == 'Masked' else True",
        "M022",
    ),
    Fault("optionals", '"[N]", buffer: out}', '"[N]"}', "R011", "(N if present(out) else 0)"),
    Fault("optionals", "(N if present(out) else 0)", "(bytes(out) if present(out) else 0)", "R011"),
    Fault("optionals", '"block > 0"', '"N == 0 or (block, N)[0:2:2] == (1,)"', "M020"),
    Fault("optionals", "{label: plain, N: 4, C: 8,", "{label: plain, N: 4, C: 8, G: 2,", "M060"),
    Fault("optionals", "{label: scaled, N: 4, C: 8, G: 2,", "{label: scaled, N: 4, C: 8,", "M060"),
    Fault(
        "optionals", "(N * G * width if present(gain) else 0)", "(N * width if present(bias) or N > 1 else 0)", "R011"
    ),
    # effects, metadata, presence, combinations
    Fault("norms", "alias: residual", "alias: rest", "M050", "summed:"),
    Fault("norms", "alias: residual", "alias: x", "M050", "summed:"),
    Fault(
        "norms",
        'statistics: {dtype: float32, shape: "[*B, 2]", mutated: true, write_only',
        'statistics: {dtype: float32, shape: "[*B, 2]", write_only',
        "M050",
    ),
    Fault("paged", '        values: "as_tensor(cached)"\n', "", "M051", 'requires: ["attn.paged_fits'),
    Fault("ragged", "counts: {dtype: int32", "counts: {dtype: float32", "M051"),
    Fault("norms", "mode == 'train' and track", "N > 0", "M052"),
    Fault("norms", "nullable: \"mode != 'eval'\"", 'nullable: "G > 1"', "M052"),
    Fault("mixture", "optional: \"scoring == 'sigmoid'\"", 'optional: "M > 16"', "M052"),
    Fault("paged", "{T: float16, C: float16}\n      -", "{T: float32, C: float16}\n      -", "M053"),
    Fault("paged", "{T: bfloat16, C: float8_e4m3fn}\n  workloads", "{T: bfloat16}\n  workloads", "M053"),
    Fault(
        "paged", "{T: bfloat16, C: float8_e4m3fn}\n  workloads", "{T: bfloat16, B: float8_e4m3fn}\n  workloads", "M053"
    ),
    # rows
    Fault("grouped", "label: masked\n      experts: 4", "label: masked", "M060"),
    Fault("grouped", "{Masked: {capacity: 80}}", "{Masked: {capacity: eighty}}", "M060"),
    Fault(
        "grouped",
        "{Padded: {block: 16, zeroed: false}}",
        "{Padded: {block: 8, zeroed: false}}",
        "M060",
        "label: padded",
    ),
    Fault("grouped", "order: row}}", "order: rows}}", "M060"),
    Fault("paged", "window: 256", "window: -1", "M060", "label: prefill"),
    Fault("paged", "label: quantized\n      Q: 2\n", "label: quantized\n", "M060"),
    Fault("paged", "quantized: true", "quantized: 1", "M060"),
    Fault("paged", "some: [sinks]", "some: [sinks, k_scale]", "M060"),
    Fault(
        "paged",
        "dtype_cases: [{T: bfloat16, C: float8_e4m3fn}]",
        "dtype_cases: [{T: bfloat16, C: bfloat16}]",
        "M060",
        "label: quantized",
    ),
    Fault(
        "paged",
        "dtype_cases: [{T: bfloat16, C: float8_e4m3fn}]",
        "dtype_cases: [{T: float16, C: float8_e4m3fn}]",
        "M060",
    ),
    Fault("ragged", "{label: empty, lengths: [],", "{label: empty, lengths: [], N: 0,", "M060"),
    Fault("ragged", "lengths: [40, 8]", "lengths: [40, -8]", "M060"),
    Fault("ragged", "{label: empty, lengths: [], D: 16", "{label: empty, D: 16", "M060"),
    Fault("reductions", "dim: -1, keepdim: true", "dim: 2, keepdim: true", "M060"),
    Fault("norms", "mode: eval", "mode: frozen, track: true", "M060"),
    Fault(
        "reductions",
        "{label: vector, S: [4096], dtype_cases: [{T: int32}, {T: float32}]}",
        "{label: vector, S: [4096], dtype_cases: [{T: int32}, {T: int32}]}",
        "M061",
    ),
    Fault("paged", "label: quantized", "label: two words", "M013"),
    Fault(
        "grouped",
        "      some: [bias]\n      dtype_cases: [{T: bfloat16}]\n    - label: masked",
        "      dtype_cases: [{T: bfloat16}]\n    - label: masked",
        "M063",
        'bias: {dtype: T, shape: "[experts, N]"',
    ),
    Fault("paged", "cached: [511, 5]", "cached: [512, 5]", "M064", "label: quantized"),
    Fault("paged", "offsets: [0, 128, 640]", "offsets: [0, 641, 640]", "M064", "label: prefill"),
    Fault(
        "grouped", "label: dense\n      experts: 4\n      R: 96", "label: dense\n      experts: 4\n      R: 97", "M064"
    ),
    # generators and predicates of published manifests
    Fault("published", "label: empty, N: 0, lens: [0]", "label: empty, N: 0, lens: []", "M060"),
    Fault("published", "label: three, N: 5, lens: [3, 0, 2]", "label: three, N: 5, lens: [3, 0, 3]", "M064"),
    Fault("published", "running_sums(lens)", "inclusive_prefix_sum(lens)", "M020"),
    Fault(
        "published", "label: plain, lens: [3, 2], D: 8, W: 5", "label: plain, lens: [3, 2], D: 8, W: 5, P: 5", "M060"
    ),
    Fault("published", "rope: true, side: end, P: 9", "rope: true, side: end, W: 9", "M060", "- {label: turned"),
    Fault("published", "label: one, lens: [3], D: 8, W: 1", "label: one, lens: [3, 0], D: 8, W: 1", "M060"),
    Fault("published", "label: one, lens: [3], D: 8, W: 1", "label: one, lens: [3], D: 8, W: 0", "M060"),
    Fault("published", "key_windows(lens, 1, 2, side)", "key_windows(lens, 1, 2, 'middle')", "M022"),
    Fault("published", "key_windows(lens, 1, 2, side)", "key_windows(lens, 1, 2)", "M022"),
    Fault("published", "full((S, 2), -1)", "full(lens, -1)", "M022"),
    Fault("published", "full((S, 2), -1)", "full((S, 2, 1), -1)", "M051"),
    Fault("published", "random_ids(N, 3, P if rope else W)", "random_ids(N, P if rope else W)", "M051"),
    Fault("published", "random_ids(N, 3, P if rope else W)", "random_ids(P if rope else W)", "M022"),
    Fault("published", "sample_indices(3, N)", "sample_indices(3, N if rope else W)", "M060", "- {label: one"),
    Fault("published", "attn.sparse_topk_positions(lens, 2, 4)", "sparse_topk_positions(lens, 2, 4)", "M020"),
    Fault("published", "indices_within(cu)", "sums_to(N)", "M051"),
    Fault("published", "exclusive_prefix_of(sizes)", "exclusive_prefix_of(tokens)", "M051"),
    Fault("published", "exclusive_prefix_of(sizes)", "exclusive_prefix_of(firsts)", "M021"),
    Fault("published", '"sums_to(N)"', '"sums_to(N)", "indices_within(cu)"', "M051"),
    Fault("published", "rows: 7, H: 8", "rows: -7, H: 8", "M060"),
    Fault("published", "rows: 16, layout", "rows: 15, layout", "M060"),
    Fault("published", "rows: 24, layout", "rows: 23, layout", "M060"),
    Fault("published", "Masked: {capacity: 6}", "Masked: {capacity: 0}", "M060"),
    Fault(
        "published",
        'moe.layout_metadata(layout, rows, experts)"',
        'moe.layout_metadata(experts, rows, experts)"',
        "M022",
    ),
    Fault("published", '"sums_to(5)"', '"sums_to(6)"', "M064", "- {label: masked"),
    Fault("folds", "per_row, alignment: 2", "per_row, alignment: 3", "M060", folder="corpus_sums"),
    Fault("folds", "counts, R: 12", "counts, R: 13", "M060", folder="corpus_sums"),
    Fault(
        "folds",
        "valid(slots, R, experts)",
        "valid(slots, R, max((experts, 3)))",
        "M064",
        "- {label: counts",
        folder="corpus_sums",
    ),
    # spellings of published manifests
    Fault("spellings", '"repeat(96, 3)"', '"repeat(96, N)"', "M060"),
    Fault("spellings", '"repeat(7, 0)"', '"repeat(7, -1)"', "M060"),
    Fault("spellings", "tail: [2, 3]", 'tail: "repeat(2, 2)"', "M060"),
    Fault("spellings", "[1d, _]", "[1d, true]", "M031", "      Kept:\n"),
    Fault("spellings", "[tiles, true]", "[tiles, _]", "M031", "      Kept:\n"),
    Fault("spellings", "[tiles, true]", "[tiles]", "M031"),
    Fault("spellings", '{when: first, is: "', '{when: first, then: "', "M011"),
    Fault("spellings", '{when: first, is: "[count, h]"}', '"[count, h]"', "M012"),
    Fault("spellings", "{Padded: {zeroed: true}}, is", "{Padded: {block: 8}}, is", "M031"),
    Fault("spellings", '          - {when: null, is: "[h]"}\n', "", "M031", "      Placed:\n"),
    Fault("spellings", "match: how", "match: count", "M030"),
    Fault("spellings", "planes: 1,", "planes: -1,", "M060"),
    Fault("spellings", "per_axis(step, 0, 2, fallback=1)", "per_axis(step, 0, 2, default=1)", "M022"),
    Fault("spellings", "per_axis(step, 0, 2, fallback=1)", "per_axis(step, 0, 2, 1, fallback=1)", "M022"),
    Fault("spellings", "per_axis(step, 0, 2, fallback=1)", "per_axis(step, *(0, 2), fallback=1)", "M020"),
    Fault("spellings", "step: [2, null]", "step: [2, null, 1]", "M060"),
    Fault("spellings", "step: [null]", "step: [0]", "M060"),
    Fault("spellings", "0 if pad == 'keep' else per_axis(pad, 0, 2)", "per_axis(pad, 0, 2)", "M022"),
    Fault("spellings", "if pad != 'keep' else 0", "if pad != 'same' else 0", "M022"),
    Fault(
        "spellings",
        'sizes: {type: "list[int] | tuple[int, ...] | None"',
        'sizes: {type: "list[int] | list[bool] | None"',
        "M022",
        "      longest:",
    ),
    Fault("spellings", "value: -255", "value: -256", "M060"),
    Fault("spellings", "scale: false", "scale: none", "M060"),
    Fault("spellings", "category(scale) != 'bool'", "category(scale) != 'complex'", "M022"),
    Fault("spellings", "category(scale) == 'float'", "category(scale) == 'number'", "R012"),
    Fault("spellings", "Q: 24", "Q: 25", "M060"),
    Fault("spellings", "mhc.expansion(Q)", "mhc.expansion(25)", "M022"),
    # composition
    Fault("mixture", "{name: permute, kernel: acme_permute}", "{name: permute}", "M070"),
    Fault("mixture", "{name: combine, kernel: acme_combine}", "{name: permute, kernel: acme_combine}", "M014"),
    Fault("mixture", "kind: composite", "kind: fused", "M012"),
    Fault("mixture", "op: GroupedGEMMFwdOp, optional: true", "op: GroupedGEMMFwdOp, optional: perhaps", "M012"),
    # roofline
    Fault("mixture", 'func: "acme.formulas.mixture"', 'func: "acme/formulas"', "R020"),
    Fault("making", '["n >= 0"]', "[\"device == 'cpu'\"]", "M022"),
    Fault("making", '["n >= 0"]', '["present(device)"]', "M021"),
    Fault("making", '"torch.device | str | None", default: null', '"torch.device | str | None", default: 3', "M012"),
    Fault("making", "device: cpu, seed: 3", "device: 3, seed: 3", "M060"),
    Fault("making", "device: cpu, seed: 3", "device: cpu, seed: late", "M060"),
    Fault("making", '"torch.Generator | int | None"', '"torch.Generator | Slots | int"', "M023"),
    Fault("making", '"FrameOptions | None"', '"FrameOptions"', "M023"),
    Fault("making", '"FrameOptions | None"', '"Layouts | None"', "M023"),
    Fault("making", '"FrameOptions | None"', '"Tensor | None"', "M023"),
    Fault("making", '"FrameOptions | None"', '"Dim | None"', "M023"),
    Fault("making", '"FrameOptions | None"', '"List | None"', "M023"),
    Fault("making", '"FrameOptions | None", default: null', '"FrameOptions | int | None", default: 2', "M023"),
    Fault("elsewhere", "func: acme._costs.window", "func: acme.__costs.window", "R020"),
    Fault("elsewhere", "func: acme._costs.window", "func: acme._costs._window", "R020"),
    Fault("mixture", 'func: "acme.formulas.mixture"', 'function: "acme.formulas.mixture"', "R001"),
    Fault("reductions", 'flops: "max((prod(S) - 1, 0))"', "flops: 12", "R002"),
    Fault("reductions", 'flops: "max((prod(S) - 1, 0))"', 'flops: "prod(S) ** 2"', "R010"),
    Fault("grouped", 'flops: "2 * R * N * K +', 'flops: "2 * R * N * J +', "R011"),
    Fault("ragged", 'flops: "2 * N * D * D + C', 'flops: "sum(lengths) * D + C', "R011"),
    Fault("norms", "(5 if present(weight) else 4)", "(present(weight))", "R012"),
    Fault("reductions", "+ (A if p6 else N)", "* (A if p6 else N)", "M042", "flops: >-"),
    Fault("paged", "(bytes(k_scale) + bytes(v_scale) if quantized else 0)", "bytes(k_scale)", "R013"),
    Fault("paged", "(bytes(lse) if return_lse else 0)", "bytes(lse)", "R013"),
    Fault(
        "grouped", "(experts * layout.capacity if layout.kind == 'Masked' else 0)", "experts * layout.capacity", "R013"
    ),
    *(
        Fault(file, old, new, code, "Other:" if "Other:" in new else "", folder="corpus_sums")
        for file, old, new, code in (
            ("types", "adts:\n", "adts:\n  Other: {constructors: {A: {class: acme.A}}}\n", "M011"),
            ("types", "adts:\n", "Other: {constructors: {A: {class: acme.A}}}\nadts:\n", "M012"),
            ("types", "flat: {python: acme._t.FlatFold}", "flat: {class: acme._t.FlatFold}", "M011"),
            ("types", "acme._t.FlatFold", "acme.__t.FlatFold", "M012"),
            ("types", "acme._t.FlatFold", "enum.FlatFold", "M012"),
            ("types", "edge: Dim", "edge: int", "M023"),
            ("types", "edge: Dim", "edge: Shape", "M023"),
            ("types", "shift: Int", "shift: 3", "M012"),
            ("types", "shift: Int", "kind: Int", "M013"),
            ("types", "python: acme._t.Order", "python: acme._t.Order, value: 3", "M011"),
            ("types", ", python: acme._t.Order", "", "M010"),
            ("types", "python: acme._t.Order", "python: Order", "M012"),
            ("types", "type: \"'row' | 'column'\"", "type: Int", "M023"),
            ("types", '"edge > 1"', '"order > 1"', "M022"),
            ("folds", "{edge: 4,", "{edge: 1,", "M060"),
            ("folds", "{edge: 4,", "{edge: -4,", "M060"),
            ("folds", "order: column", "order: diagonal", "M060"),
            ("folds", ", order: column", "", "M060"),
            ("folds", "fold.kind == 'tiled' and fold.wide", "fold.kind == 'tile' and fold.wide", "R012"),
            ("folds", "max_m: 5", "max_m: true", "M060"),
        )
    ),
]


def judge(folder: pathlib.Path, texts: dict[str, str], edited: str = "types") -> list[Diagnostic]:
    """All defects of spec files given as text. If one file alone was edited, other files' entries are read and not checked."""
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)
    manifest = loader.load(loader.spec_files(str(folder)))
    entries = [one for one in manifest.entries.values() if edited in ("types", pathlib.PurePath(one.file).stem)]
    return diagnose(entries, manifest.diagnostics)


def diagnose(entries, diagnostics: Diagnostics) -> list[Diagnostic]:
    """All defects of loaded entries, those of loading included."""
    for entry in entries:
        analyse(entry, diagnostics, check_entry(entry, diagnostics))
    return list(diagnostics)


def corpus(folder: str = "corpus") -> dict[str, str]:
    """The text of each spec file, by its stem."""
    return {path.stem: path.read_text() for path in sorted((pathlib.Path(__file__).parent / folder).glob("*.yaml"))}


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_corpus_is_clean(tmp_path, folder):
    assert judge(tmp_path, corpus(folder)) == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.code}-{fault.file}-{fault.new.strip()[:40]}")
def test_a_single_fault_is_told_alone_and_in_its_place(fault, tmp_path):
    texts = corpus(fault.folder)
    assert texts[fault.file].count(fault.old) == 1
    place = texts[fault.file].index(fault.old)
    edited = texts[fault.file].replace(fault.old, fault.new)
    if fault.at:
        assert edited.count(fault.at) == 1
        place = edited.index(fault.at) + fault.at.startswith("\n")
    found = judge(tmp_path, texts | {fault.file: edited}, fault.file)
    assert [one.code for one in found] == [fault.code], "\n".join(map(str, found))
    assert found[0].line == edited.count("\n", 0, place) + 1, str(found[0])
