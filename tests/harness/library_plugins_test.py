"""The plug-ins of perf/baselines: each with a stand-in for its library that has the same functions and arguments."""

import importlib.abc
import re
import sys
import types

import pytest
import torch
import torch.nn.functional as F

from tileops.ops import catalogue
from tileops.perf.harness import baselines
from tileops.tools.cli import paths

FOLDER = paths.data_path("perf", "baselines")
FILES = {path.stem: path for path in sorted(FOLDER.glob("*.py"))}
MOST_LINES = 60


class Absent(importlib.abc.MetaPathFinder):
    """Keeps modules from being found."""

    def __init__(self, names):
        self.names = names

    def find_spec(self, fullname, path, target=None):
        if fullname.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return


@pytest.fixture
def ops():
    """All ops; what a test registers is gone after it."""
    classes = catalogue.load()
    before = {name: dict(op._implementations) for name, op in classes.items()}
    yield classes
    for name, op in classes.items():
        op._implementations = before[name]


@pytest.fixture
def load(ops, monkeypatch):
    """Loads the plug-in of a library; returns its implementations by entry."""

    def run(library, **modules):
        for name, members in modules.items():
            module = types.ModuleType(name.replace("__", "."))
            module.__dict__.update(members)
            monkeypatch.setitem(sys.modules, module.__name__, module)
        before = {name: op.implementation_names() for name, op in ops.items()}
        name = f"plugin_of_{library}"
        sys.modules.pop(name, None)
        catalogue.import_file(FILES[library], name)
        found = {
            entry: [one for one in op.implementations() if one.name not in before[entry]] for entry, op in ops.items()
        }
        return {entry: implementations for entry, implementations in found.items() if implementations}

    return run


def test_there_is_a_plugin_for_each_library():
    assert {"fa3_fwd", "fla", "flag_gems", "flashinfer", "helion", "liger", "quack", "tokenspeed_fa3"} <= set(FILES)
    assert [library.name for library in baselines.find(["all"])] == sorted(FILES)


def test_no_target_of_the_project_depends_on_a_library():
    """What targets can depend on is in the lock file of the project's packages."""
    locked = "".join(paths.data_path("bazel", "pip", name).read_text() for name in ("lock.bzl", "requirements.in"))
    names = set(re.findall(r"[a-z0-9]+(?:[-_.][a-z0-9]+)*", locked.lower()))
    assert "torch" in names
    for library in baselines.find(["all"]):
        assert not {library.package, library.package.replace("-", "_")} & names


@pytest.mark.parametrize("library", FILES)
def test_a_file_can_be_copied_by_a_stranger(library):
    """It is short, names its package, which is pinned, and imports nothing that lies beside it or inside the project."""
    text = FILES[library].read_text()
    (said,) = baselines.find([library])
    assert len(text.splitlines()) < MOST_LINES
    assert said.modules
    pins = re.findall(r"^([a-z0-9-]+)==\S+", (FOLDER / "requirements.txt").read_text(), re.MULTILINE)
    assert said.package in pins
    imported = re.findall(r"^(?:from|import) (\S+)", text, re.MULTILINE)
    assert set(imported) <= {"collections.abc", "functools", "math", "os", "torch", "tileops.ops"}


@pytest.mark.parametrize("library", FILES)
def test_a_file_loads_without_its_package(library, load, monkeypatch):
    """And registers implementations of its own name alone."""
    tops = {name.partition(".")[0] for name in baselines.find([library])[0].modules}
    monkeypatch.setattr(sys, "meta_path", [Absent(tops), *sys.meta_path])
    found = load(library)
    assert found
    implementations = [one for of_op in found.values() for one in of_op]
    assert library in {one.name for one in implementations}
    assert all(baselines.find([library])[0].owns(one.name) and one.when.__doc__ for one in implementations)


# ---- stand-ins: the functions of the libraries, with their arguments in their order


def _norm(x, weight, eps):
    wide = x.double()
    wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide if weight is None else wide * weight.double()).to(x.dtype)


def _attention(q, k, v, scale, causal):
    """With the causal mask at the bottom right."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    wide, keys, values = (tensor.double().transpose(1, 2) for tensor in (q, k, v))
    group = q.shape[2] // k.shape[2]
    scores = wide @ keys.repeat_interleave(group, 1).mT * scale
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(k.shape[1] - q.shape[1] + 1)
        scores = scores.masked_fill(hidden, float("-inf"))
    return (scores.softmax(-1) @ values.repeat_interleave(group, 1)).transpose(1, 2).to(q.dtype)


def _gated(activation):
    return lambda gate, up: (activation(gate.double()) * up.double()).to(gate.dtype)


def _halves(activation):
    def run(input, out=None, enable_pdl=None):
        return _gated(activation)(*input.chunk(2, dim=-1))

    return run


def _tanh_gelu(x):
    return F.gelu(x, approximate="tanh")


def _quack():
    def rmsnorm(
        x,
        weight=None,
        bias=None,
        residual=None,
        out_dtype=None,
        residual_dtype=None,
        eps=1e-6,
        prenorm=False,
        weight_offset=0.0,
    ):
        assert weight is None or weight.dim() == 1  # two axes would be a weight per head
        return _norm(x, weight, eps)

    def gemm(A, B, out=None, bias=None, alpha=1.0, out_dtype=None, *, tuned=True):
        return (A.double() @ B.double()).to(A.dtype)

    return {"quack": {"rmsnorm": rmsnorm}, "quack__gemm_interface": {"gemm": gemm}}


def _liger():
    def liger_rms_norm(X, W, eps, offset=0.0, casting_mode="llama", in_place=True):
        if casting_mode == "llama" and W is not None:
            return _norm(X, None, eps) * W
        return _norm(X, W, eps)

    functions = {"liger_rms_norm": liger_rms_norm, "liger_swiglu": _gated(F.silu), "liger_geglu": _gated(_tanh_gelu)}
    return {"liger_kernel": {}, "liger_kernel__transformers": {}, "liger_kernel__transformers__functional": functions}


def _fla():
    def rms_norm(x, weight, bias, residual=None, eps=1e-5, prenorm=False, residual_in_fp32=False):
        return _norm(x, weight, eps)

    def parallel_attn(q, k, v, g=None, scale=None, window_size=None, cu_seqlens=None, chunk_indices=None):
        return _attention(q, k, v, scale, causal=True)

    empty = ("fla", "fla__modules", "fla__modules__norm", "fla__ops", "fla__ops__attn")
    return {
        **{name: {} for name in empty},
        "fla__modules__norm__layernorm": {"rms_norm": rms_norm},
        "fla__modules__activations": {"swiglu": _gated(F.silu)},
        "fla__ops__attn__parallel": {"parallel_attn": parallel_attn},
    }


def _fa3(module):
    def flash_attn_func(q, k, v, softmax_scale=None, causal=False, qv=None, *, num_splits=1):
        return _attention(q, k, v, softmax_scale, causal)

    return {module: {"flash_attn_func": flash_attn_func}}


def _flashinfer():
    class Wrapper:
        def __init__(self, float_workspace_buffer, kv_layout="NHD"):
            assert float_workspace_buffer.dtype == torch.uint8

        def plan(
            self,
            qo_indptr,
            kv_indptr,
            num_qo_heads,
            num_kv_heads,
            head_dim_qk,
            head_dim_vo=None,
            *,
            causal=False,
            sm_scale=None,
            q_data_type="float16",
            kv_data_type=None,
        ):
            self.planned = qo_indptr.tolist(), kv_indptr.tolist(), num_qo_heads, num_kv_heads, head_dim_qk
            self.settings = sm_scale, causal
            self.dtypes = {q_data_type, kv_data_type}

        def run(self, q, k, v):
            queries, keys, heads, kv_heads, width = self.planned
            assert q.shape == (queries[-1], heads, width) and k.shape == v.shape == (keys[-1], kv_heads, width)
            assert self.dtypes == {q.dtype}
            batch = len(queries) - 1
            parts = (tensor.view(batch, -1, *tensor.shape[1:]) for tensor in (q, k, v))
            return _attention(*parts, *self.settings).reshape(q.shape)

    functions = {
        "rmsnorm": lambda input, weight, eps=1e-6, out=None, enable_pdl=None: _norm(input, weight, eps),
        "silu_and_mul": _halves(F.silu),
        "gelu_and_mul": _halves(F.gelu),
        "gelu_tanh_and_mul": _halves(_tanh_gelu),
        "BatchPrefillWithRaggedKVCacheWrapper": Wrapper,
    }
    return {"flashinfer": functions}


def _flag_gems():
    def true_divide(x, y, rounding_mode=None):
        return torch.div(x, y, rounding_mode=rounding_mode)

    functions = {
        "abs": torch.abs,
        "add": torch.add,
        "clamp": torch.clamp,
        "clamp_tensor": torch.clamp,
        "div_mode": true_divide,
        "elu": lambda A, alpha=1.0, scale=1.0, input_scale=1.0: F.elu(A, alpha),
        "eq": torch.eq,
        "gelu": F.gelu,
        "gelu_and_mul": lambda x, y, approximate="none": F.gelu(x, approximate=approximate) * y,
        "lerp_scalar": torch.lerp,
        "lerp_tensor": torch.lerp,
        "masked_fill": torch.masked_fill,
        "mm": torch.mm,
        "nan_to_num": torch.nan_to_num,
        "pow_tensor_tensor": torch.pow,
        "prelu": F.prelu,
        "round": lambda input, decimals=0: torch.round(input, decimals=decimals),
        "silu_and_mul": lambda A, B: F.silu(A) * B,
        "rms_norm": lambda x, normalized_shape, weight, eps=1e-5: _norm(x, weight, eps),
        "softplus": F.softplus,
        "sub": torch.sub,
        "sum_dim": lambda inp, dim=None, keepdim=False, *, dtype=None: torch.sum(inp, dim, keepdim, dtype=dtype),
        "where_self": torch.where,
    }
    return {"flag_gems": functions}


def _helion():
    def kernel(*, static_shapes, autotune_effort):
        return lambda function: function

    language = {"tile": lambda size: [slice(0, size)]}
    module = types.SimpleNamespace(**language)
    return {"helion": {"kernel": kernel, "language": module}, "helion__language": language}


LIBRARIES = {
    "fa3_fwd": _fa3("fa3_fwd_interface"),
    "fla": _fla(),
    "flag_gems": _flag_gems(),
    "flashinfer": _flashinfer(),
    "helion": _helion(),
    "liger": _liger(),
    "quack": _quack(),
    "tokenspeed_fa3": _fa3("flash_attn_interface"),
}


# ---- results


def _random(shape, dtype):
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.rand(shape, generator=generator, dtype=torch.float64).add(0.25).to(dtype)


HALF, SINGLE = torch.bfloat16, torch.float32
HEADS = [(2, 5, 4, 64), (2, 5, 2, 64), (2, 5, 2, 64)]
MORE_KEYS = [(2, 3, 4, 64), (2, 5, 2, 64), (2, 5, 2, 64)]
PAIR = [(4, 8), (4, 8)]
ATTENTION = [
    ("GQADenseFwdOp", {"is_causal": True}, HEADS),
    ("GQADenseFwdOp", {"is_causal": True, "sm_scale": 0.3}, HEADS),
]
ANY_ATTENTION = [
    *ATTENTION,
    ("GQADenseFwdOp", {"is_causal": True}, MORE_KEYS),
    ("GQADenseFwdOp", {"is_causal": False}, MORE_KEYS),
]
WEIGHTED = ("RMSNormFwdOp", {"normalized_shape": [16], "eps": 0.01}, [(2, 3, 16), (16,)])
NORMS = [
    WEIGHTED,
    ("RMSNormFwdOp", {"normalized_shape": [16], "eps": 0.01}, [(2, 3, 16), None]),
    ("RMSNormFwdOp", {"normalized_shape": [3, 16], "eps": 0.01}, [(2, 3, 16), (3, 16)]),
]
SILU, EXACT_GELU, TANH_GELU = (
    ("SiLUAndMulFwdOp", {}, [(2, 3, 16)]),
    ("GELUAndMulFwdOp", {"approximate": "none"}, [(2, 3, 16)]),
    ("GELUAndMulFwdOp", {"approximate": "tanh"}, [(2, 3, 16)]),
)
CALLS = {
    "fa3_fwd": ANY_ATTENTION,
    "fla": [*NORMS, SILU, *ATTENTION],
    "flag_gems": [
        WEIGHTED,
        SILU,
        EXACT_GELU,
        TANH_GELU,
        ("AbsFwdOp", {}, [(4, 8)]),
        ("EqFwdOp", {}, PAIR),
        ("PReLUFwdOp", {}, [(4, 8), (8,)]),
        ("RoundFwdOp", {"decimals": 1}, [(4, 8)]),
        ("NanToNumFwdOp", {"nan": 1.0, "posinf": 2.0, "neginf": 3.0}, [(4, 8)]),
        ("ELUFwdOp", {"alpha": 0.5}, [(4, 8)]),
        ("GELUFwdOp", {"approximate": "tanh"}, [(4, 8)]),
        ("SoftplusFwdOp", {"beta": 2.0, "threshold": 1.0}, [(4, 8)]),
        ("ClampScalarFwdOp", {"min": 0.5}, [(4, 8)]),
        ("ClampTensorFwdOp", {}, [(4, 8), (4, 8), (4, 8)]),
        ("AddFwdOp", {"alpha": 2}, PAIR),
        ("SubFwdOp", {"alpha": 3}, PAIR),
        ("DivFwdOp", {"rounding_mode": "floor"}, PAIR),
        ("PowFwdOp", {}, PAIR),
        ("LerpScalarFwdOp", {"weight": 0.25}, PAIR),
        ("LerpTensorFwdOp", {}, [*PAIR, (4, 8)]),
        ("WhereFwdOp", {}, [torch.tensor([[True], [False]]), (2, 8), (2, 8)]),
        ("MaskedFillScalarFwdOp", {"value": 2.0}, [(2, 8), torch.tensor([[True], [False]])]),
        ("SumFwdOp", {"dim": -1}, [(4, 8)]),
        ("SumFwdOp", {"dim": [0, 2], "keepdim": True}, [(4, 8, 3)]),
        ("SumFwdOp", {"dim": None, "dtype": torch.float32}, [(4, 8)]),
        *[
            ("GEMMFwdOp", {"trans_a": a, "trans_b": b}, [(8, 16) if a else (16, 8), (24, 8) if b else (8, 24)])
            for a in (False, True)
            for b in (False, True)
        ],
    ],
    "flashinfer": [WEIGHTED, SILU, EXACT_GELU, TANH_GELU, *ANY_ATTENTION],
    "helion": [WEIGHTED, NORMS[2]],
    "liger": [*NORMS, SILU, TANH_GELU],
    "quack": [
        *NORMS,
        ("GEMMFwdOp", {"trans_a": False, "trans_b": True}, [(16, 8), (24, 8)]),
        ("GEMMFwdOp", {"trans_a": True, "trans_b": False}, [(8, 16), (8, 24)]),
    ],
    "tokenspeed_fa3": ANY_ATTENTION,
}


def _checked(op, inputs):
    """The call of these inputs as if they were on a GPU."""
    call = op.check(*inputs)
    call._device = "cuda:0"
    return call


@pytest.mark.parametrize(
    ("library", "entry", "params", "shapes"), [(library, *call) for library, calls in CALLS.items() for call in calls]
)
def test_a_plugin_computes_the_op(library, entry, params, shapes, load, ops):
    implementations = load(library, **LIBRARIES[library])[entry]
    op = ops[entry](**params)
    dtype = HALF if entry in ("GQADenseFwdOp", "GEMMFwdOp") else SINGLE
    inputs = [_random(shape, dtype) if isinstance(shape, tuple) else shape for shape in shapes]
    call = _checked(op, inputs)
    reference = ops[entry].implementations()[0].function(op, op.check(*inputs), *inputs)
    for found in implementations:
        assert found.serves(call) or (library == "flashinfer" and dtype == SINGLE)
        result = found.function(op, call, *inputs)
        assert result.dtype == reference.dtype
        torch.testing.assert_close(result, reference, rtol=1e-2 if dtype == HALF else 1e-5, atol=1e-5)


def test_every_function_of_a_plugin_is_tried(load):
    """Of FlagGems, some of the functions that are called alike stand for all."""
    for library in FILES:
        tried = {entry for entry, *_ in CALLS[library]}
        untried = set(load(library, **LIBRARIES[library])) - tried
        if library == "flag_gems":
            plain = re.search(r'ALIKE = """(.*?)"""', FILES[library].read_text(), re.DOTALL)[1].split()
            untried = {entry for entry in untried if entry.lower() not in {f"{n.replace('_', '')}fwdop" for n in plain}}
        assert not untried


# ---- conditions

NORM_LIBRARIES = {"fla", "flag_gems", "flashinfer", "helion", "liger", "quack"}


def _norm_call(rows, width, weight=True, **params):
    return "RMSNormFwdOp", {"normalized_shape": [width], **params}, [(rows, width), (width,) if weight else None]


def _heads(queries, keys, width, causal=True):
    shapes = [(2, queries, 4, width), (2, keys, 2, width), (2, keys, 2, width)]
    return "GQADenseFwdOp", {"is_causal": causal}, shapes


def _matrices(m, n, k, trans_a=False, trans_b=True):
    shapes = [(k, m) if trans_a else (m, k), (n, k) if trans_b else (k, n)]
    return "GEMMFwdOp", {"trans_a": trans_a, "trans_b": trans_b}, shapes


FLASH = {"fa3_fwd", "tokenspeed_fa3"}


@pytest.mark.parametrize(
    ("call", "dtype", "served_by"),
    [
        (_norm_call(8, 4096), "bfloat16", NORM_LIBRARIES),
        (_norm_call(8, 4096), "float32", NORM_LIBRARIES),
        (_norm_call(8, 4096, weight=False), "bfloat16", {"fla", "liger", "quack"}),
        (_norm_call(8, 32768), "bfloat16", NORM_LIBRARIES),
        (_norm_call(8, 65536), "bfloat16", NORM_LIBRARIES - {"fla"}),
        (_norm_call(8, 131072), "bfloat16", {"flag_gems", "flashinfer", "quack"}),
        (_norm_call(8, 1001), "bfloat16", NORM_LIBRARIES - {"quack"}),
        (_norm_call(0, 4096), "bfloat16", set()),
        (NORMS[2], "bfloat16", NORM_LIBRARIES - {"flashinfer"}),
        (SILU, "bfloat16", {"fla", "flag_gems", "flashinfer", "liger"}),
        (SILU, "float64", set()),
        (TANH_GELU, "float16", {"flag_gems", "flashinfer", "liger"}),
        (EXACT_GELU, "float16", {"flag_gems", "flashinfer"}),
        (("SiLUAndMulFwdOp", {}, [(2, 2 * 131072)]), "bfloat16", {"fla", "flag_gems", "flashinfer"}),
        (_heads(256, 256, 128), "bfloat16", {"fla", "flashinfer", *FLASH}),
        (_heads(256, 256, 128), "float16", {"fla", "flashinfer", "tokenspeed_fa3"}),
        (_heads(1, 256, 128), "bfloat16", {"flashinfer", *FLASH}),
        (_heads(256, 256, 128, causal=False), "bfloat16", {"flashinfer", *FLASH}),
        (_heads(256, 256, 72), "bfloat16", {"fla", *FLASH}),
        (_heads(256, 256, 20), "bfloat16", {"fla"}),
        (_heads(256, 256, 512), "bfloat16", set()),
        (_heads(2, 0, 128, causal=False), "bfloat16", set()),
        (_matrices(1, 2112, 7168), "bfloat16", {"flag_gems", "quack"}),
        (_matrices(256, 21843, 1024), "bfloat16", {"flag_gems"}),
        (_matrices(1, 1024, 1024, trans_a=True), "bfloat16", {"flag_gems"}),
        (_matrices(16, 16, 0), "bfloat16", set()),
        (("ReLUFwdOp", {}, [(4, 8)]), "float16", {"flag_gems"}),
        (("ReLUFwdOp", {"inplace": True}, [(4, 8)]), "float16", set()),
        (("ReLUFwdOp", {}, [(4, 8)]), "int32", set()),
        (("ReLUFwdOp", {}, [(4, 8)]), "float64", set()),
        (("MulFwdOp", {}, [(4, 8), torch.ones(4, 8)]), "float16", set()),
    ],
)
def test_a_plugin_says_which_calls_it_serves(call, dtype, served_by, load, ops):
    entry, params, shapes = call
    op = ops[entry](**params)
    inputs = [
        torch.empty(shape, dtype=getattr(torch, dtype), device="meta")
        if isinstance(shape, tuple)
        else None
        if shape is None
        else shape.to("meta")
        for shape in shapes
    ]
    found = {library: load(library) for library in FILES}
    implementations = [(library, one) for library, of_ops in found.items() for one in of_ops.get(entry, ())]
    assert {library for library, one in implementations if one.serves(_checked(op, inputs))} == served_by
    on_cpu = op.check(*inputs)
    on_cpu._device = "cpu"
    assert not any(one.serves(on_cpu) for _, one in implementations)
