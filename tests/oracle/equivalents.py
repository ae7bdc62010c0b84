"""Wrong formulas that price every call as the right one does: proved so, or listed with the reason.

Proved are changes after which the same sizes are added up: of two tensors that the signature declares alike, the size
of one is the size of the other. A listed one is named by the function and the statement that the change makes of one of
its own, so that the same change elsewhere is not excused with it.
"""

from __future__ import annotations

import ast

from tileops.manifest.language import expr
from tileops.manifest.model import Signature, Tensor
from tileops.tests.oracle.mutants import Mutant

_POOLS = [f"AvgPool{rank}dFwdOp" for rank in (1, 2, 3)]
_POOLS += [f"MaxPool{rank}d{kind}FwdOp" for rank in (1, 2, 3) for kind in ("", "Indices")]
_AXES = (
    "return (batch * channels, [Axis(length, outputs[at], *(per_axis(setting, at, {rank}) for setting in settings)) "
    "for at, length in enumerate(lengths)])"
)
# The codes, the scales and the input of quantizers.
_QUANTIZERS = {
    "INT8QuantPerTensorFwdOp": ("q", "scale", "x"),
    "INT8QuantPerChannelFwdOp": ("q", "scale", "w"),
    "INT8QuantPerTokenGroupFwdOp": ("q", "scale", "x"),
    "SmoothQuantFwdOp": ("q", "scale", "x"),
    "FP8QuantPerTokenGroupFwdOp": ("q", "scale", "x"),
    "FP8QuantPerBlockFwdOp": ("q", "scale", "w"),
    "INT4QuantPerGroupFwdOp": ("packed_weight", "params", "w"),
}

# Why no call tells them apart, by (op, function, the statement that the mutant has).
LISTED: dict[tuple[str, str, str], str] = {
    **{
        (
            "BatchNormFwdOp",
            "eval_roofline",
            f"_written = _call.bytes_of('output', '{saved}')",
        ): "both are of training alone"
        for saved in ("save_mean", "save_invstd")
    },
    **{
        (
            op,
            "eval_roofline_read_bytes",
            f"_written = _call.bytes_of('{name}')",
        ): "without a result there is no input, and without input there is nothing to read"
        for op, name in (
            ("SumFwdOp", "input"),
            ("MeanFwdOp", "input"),
            ("AmaxFwdOp", "input"),
            ("AminFwdOp", "input"),
            ("ProdFwdOp", "input"),
            ("VectorNormFwdOp", "x"),
            ("SiLUAndMulFwdOp", "input"),
            ("GELUAndMulFwdOp", "input"),
        )
    },
    **{
        (
            "BatchNormFwdOp",
            "eval_roofline_read_bytes",
            f"_written = _call.bytes_of({names})",
        ): "in training no tensor is empty unless there are no channels, and then all are"
        for names in (
            "'running_mean', 'running_var', 'save_mean', 'save_invstd'",
            "'weight', 'running_var', 'output', 'save_mean', 'save_invstd'",
            "'bias', 'running_var', 'output', 'save_mean', 'save_invstd'",
            "'running_mean', 'weight', 'output', 'save_mean', 'save_invstd'",
            "'running_mean', 'bias', 'output', 'save_mean', 'save_invstd'",
            "'running_mean', 'running_var', 'running_mean', 'save_mean', 'save_invstd'",
            "'running_mean', 'running_var', 'running_var', 'save_mean', 'save_invstd'",
            "'running_mean', 'running_var', 'weight', 'save_mean', 'save_invstd'",
            "'running_mean', 'running_var', 'bias', 'save_mean', 'save_invstd'",
            "'running_mean', 'running_var', 'save_mean', 'save_mean', 'save_invstd'",
            "'running_mean', 'running_var', 'save_invstd', 'save_mean', 'save_invstd'",
            "'running_mean', 'running_var', 'output', 'weight', 'save_invstd'",
            "'running_mean', 'running_var', 'output', 'bias', 'save_invstd'",
            "'running_mean', 'running_var', 'output', 'save_mean', 'weight'",
            "'running_mean', 'running_var', 'output', 'save_mean', 'bias'",
        )
    },
    **{
        (op, "_pooled", _AXES.format(rank="len(outputs)")): "input and output have the same number of axes"
        for op in _POOLS
    },
    **{
        (op, "_pooled", _AXES.format(rank="len(settings)")): "one axis takes the only item, out of however many axes"
        for op in _POOLS
        if "1d" in op
    },
    **{
        (op, "_element_bytes", "return BITS[call.tensors['input'].dtype] // 7"): "as many bytes, rounded down"
        for op in (*_POOLS, *(f"Conv{rank}dFwdOp" for rank in (1, 2, 3)))
    },
    **{
        (
            "AvgPool1dFwdOp",
            "avg_pool_roofline",
            f"divides = {chosen} if call.params.get('divisor_override') == {one} "
            "else channels * math.prod((axis.outputs for axis in axes))",
        ): "over one axis the caller chooses no divisor"
        for chosen, one in ((0, 2), (0, 0), (1, 1))
    },
    **{
        (op, "_element_bytes", "return BITS[call.tensors['output'].dtype] // 8"): "both have the dtype T"
        for op in _POOLS
    },
    **{
        (
            op,
            "eval_roofline_read_bytes",
            f"_written = _call.bytes_of('{tensor}')",
        ): "one has elements where the other has"
        for op, tensor in (
            ("MeanPoolingFwdOp", "x"),
            ("AdaptiveAvgPool2dFwdOp", "input"),
            ("AdaptiveMaxPool2dFwdOp", "input"),
        )
    },
    **{
        ("MeanPoolingFwdOp", "BITS", f"64 bits of float64 -> {bits}"): "sums are float64, but no tensor is"
        for bits in (32, 128)
    },
    **{
        (op, "eval_roofline_read_bytes", f"_written = _call.bytes_of({names})"): "all are empty, or none is"
        for op, (codes, scales, given) in _QUANTIZERS.items()
        for names in (
            f"'{scales}'",
            f"'{codes}'",
            f"'{scales}', '{scales}'",
            f"'{codes}', '{given}'",
            f"'{codes}', '{codes}'",
        )
    },
    (
        "INT4QuantPerGroupFwdOp",
        "eval_roofline_read_bytes",
        "_written = _call.bytes_of('w', 'params')",
    ): "all are empty, or none is",
    (
        "INT8DequantPerBlockFwdOp",
        "eval_roofline_read_bytes",
        "_written = _call.bytes_of('scale')",
    ): "all are empty, or none is",
    **{
        ("INT8QuantPerTensorFwdOp", function, "_read = _read if _written else 1"): "no tensor is empty"
        for function in ("eval_roofline", "eval_roofline_read_bytes")
    },
    (
        "GQADenseFwdOp",
        "gqa_fwd_roofline",
        "flops = scores * (4 * width + _SOFTMAX_FLOPS_PER_SCORE) + results if scores and width else 0",
    ): "a call with scores has results exactly if its width is not 0",
    (
        "GQADenseFwdOp",
        "gqa_fwd_read_bytes",
        "if 0 in (*call.tensors['q'].shape[:4], call.tensors['k'].shape[1]):",
    ): "heads of no width hold no bytes, read or not",
    (
        "MoePermuteNopadFwdOp",
        "moe_permute_terms",
        "local = np.where(known, call.values('expert_map')[local], -2)",
    ): "any negative number is no local expert",
    (
        "MoePermuteNopadFwdOp",
        "moe_permute_nopad_roofline",
        "indices = call.bytes_of('true_offsets', 'true_sizes', 'expert_first_token_offset', 'topk_ids')",
    ): "both hold an int32 a routed pair",
    ("MoePermuteNopadFwdOp", "_moe_permute_reads", "entry_bytes = 1"): "the size of an entry where no entry is read",
    **{
        (
            "MoePermuteNopadFwdOp",
            "_moe_permute_reads",
            f"record = call.tensors['{other}']",
        ): "an entry of either is an int32"
        for other in ("true_offsets", "true_sizes", "fwd_idx")
    },
    (
        "MoePermuteNopadFwdOp",
        "_moe_permute_reads",
        "return terms.tokens_read * _row_bytes(call) + call.tensors['fwd_idx'].bytes + terms.map_entries_read * entry_bytes",
    ): "both hold an int32 a routed pair",
    ("MoePermuteNopadFwdOp", "_row_bytes", "record = call.tensors['perm_h']"): "rows of both are H values of T",
}

_ALIKE = "sizes of tensors that are declared alike"


def reason(op: str, signature: Signature, source: str, mutant: Mutant) -> str:
    """Why a mutant prices every call as the formula does; "" where nobody has said.

    Args:
      op: the entry's name.
      signature: of the entry.
      source: what the mutant was made of; "" where no source was changed.
      mutant: one that no oracle noticed.
    """
    if mutant.tree is not None and _same_sizes(signature, source, mutant):
        return _ALIKE
    return LISTED.get((op, mutant.function, mutant.becomes), "")


def _same_sizes(signature: Signature, source: str, mutant: Mutant) -> bool:
    """Whether source and mutant are the same text once tensors that are declared alike have one name."""
    before, after = (
        _Canonical(signature).visit(_function(tree, mutant.function)) for tree in (ast.parse(source), mutant.tree)
    )
    return ast.dump(before) == ast.dump(after)


def _function(tree: ast.Module, name: str) -> ast.FunctionDef:
    return next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name)


class _Canonical(ast.NodeTransformer):
    """One name for all tensors of a size, where only their size is asked for; branches that then agree are one."""

    def __init__(self, signature: Signature) -> None:
        self._signature = signature
        self._zeros: set[str] = set()
        self._is_read_half = False

    def _alike(self, name: str, with_dtype: bool) -> str:
        """The first tensor that is as large as `name` in every call; one that a call may leave out is like no other."""
        tensors = self._signature.tensors
        name = self._passed_with(name)
        if name not in tensors or tensors[name].optional:
            return name
        return next(other for other, tensor in tensors.items() if _is_alike(tensor, tensors[name], with_dtype))

    def _passed_with(self, name: str) -> str:
        """The tensor of the same size that a call passes exactly if it passes `name`; `name` if no condition says so."""
        tensors = self._signature.tensors
        when = tensors[name].when if name in tensors else None
        for other, tensor in tensors.items():
            here = expr.Call("present", (expr.Name(other),))
            if when is not None and when.expr == here and tensor.shape.expr == tensors[name].shape.expr:
                return other if tensor.dtype.expr == tensors[name].dtype.expr else name
        return name

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Without reads of indices and parameters that nothing uses any more, and with a 0 for the name of one."""
        self._is_read_half = node.name == "eval_roofline_read_bytes"
        stored = [one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
        self._zeros = {
            one.targets[0].id
            for one in node.body
            if isinstance(one, ast.Assign) and _is_zero(one.value) and stored.count(one.targets[0].id) == 1
        }
        self.generic_visit(node)
        used = {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}
        node.body = [one for one in node.body if not _is_unused_read(one, used)]
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """Of the read half, which asks of the written tensors only whether they have an element, with their shapes."""
        call = node.value
        is_written = isinstance(node.targets[0], ast.Name) and node.targets[0].id == "_written"
        if self._is_read_half and is_written and isinstance(call, ast.Call):
            names = {self._alike(one.value, with_dtype=False) for one in call.args if isinstance(one, ast.Constant)}
            return ast.Assign(node.targets, ast.Call(call.func, [ast.Constant(name) for name in sorted(names)], []))
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        is_named = all(isinstance(one, ast.Constant) for one in node.args)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "present" and is_named:
            return ast.Call(node.func, [ast.Constant(self._passed_with(one.value)) for one in node.args], node.keywords)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "bytes_of":
            if all(isinstance(one, ast.Constant) for one in node.args):
                names = sorted(self._alike(one.value, with_dtype=True) for one in node.args)
                return ast.Call(node.func, [ast.Constant(name) for name in names], node.keywords)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        record = node.value
        if (
            node.attr in ("bytes", "shape")
            and isinstance(record, ast.Subscript)
            and isinstance(record.slice, ast.Constant)
        ):
            if isinstance(record.value, ast.Attribute) and record.value.attr == "tensors":
                name = ast.Constant(self._alike(record.slice.value, with_dtype=node.attr == "bytes"))
                return ast.Attribute(ast.Subscript(record.value, name, record.ctx), node.attr, node.ctx)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """A sum without what is 0 in every call: the reads of an op that has no input."""
        self.generic_visit(node)
        if isinstance(node.op, ast.Add):
            for one, other in ((node.left, node.right), (node.right, node.left)):
                if isinstance(one, ast.Name) and one.id in self._zeros:
                    return other
        return node

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        return node.body if [ast.dump(one) for one in node.body] == [ast.dump(one) for one in node.orelse] else node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        return node.body if ast.dump(node.body) == ast.dump(node.orelse) else node


def _is_zero(node: ast.expr) -> bool:
    """Whether an expression is the bytes of no tensor."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "bytes_of"
        and not node.args
    )


def _is_unused_read(statement: ast.stmt, used: set[str]) -> bool:
    """Whether a statement is `name = call.indices[...]` or `call.params[...]`, and the name is not used."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Subscript):
        return False
    read, target = statement.value.value, statement.targets[0]
    bound = isinstance(read, ast.Attribute) and read.attr in ("indices", "params")
    return bound and isinstance(target, ast.Name) and target.id not in used


def _is_alike(one: Tensor, other: Tensor, with_dtype: bool) -> bool:
    when, others = (None if tensor.when is None else tensor.when.expr for tensor in (one, other))
    same = not one.optional and one.shape.expr == other.shape.expr and when == others
    return same and (not with_dtype or one.dtype.expr == other.dtype.expr)
