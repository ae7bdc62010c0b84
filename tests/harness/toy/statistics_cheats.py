"""A plug-in: ops computed without a statistic, over part of it, with a bias or in less precision than asked.

None may pass; those named `honest_` round as implementations do, and must.
"""

from __future__ import annotations

import torch

from tileops.ops import catalogue

_OPS = catalogue.load()


def _several_rows(call):
    """What is wrong of several rows alone is right of one."""
    return call.tensors["x"].shape[0] > 1


def _has_weight(call):
    return "weight" in call.tensors


def _implements(op, when=None):
    def register(function):
        _OPS[op].register(function.__name__.strip("_"), function, when=when)
        return function

    return register


# ---- RMSNorm


def _scaled(x, weight, scale):
    result = x.float() * scale
    return (result if weight is None else result * weight.float()).to(x.dtype)


def _root(values, eps):
    return torch.rsqrt(values.float().square().mean(dim=-1, keepdim=True) + eps)


@_implements("RMSNormFwdOp")
def _no_norm(op, call, x, weight):
    return x * 1 if weight is None else x * weight


@_implements("RMSNormFwdOp")
def _first_half_of_rows(op, call, x, weight):
    return _scaled(x, weight, _root(x[..., : x.shape[-1] // 2], op.params["eps"]))


@_implements("RMSNormFwdOp")
def _every_other_element_of_rows(op, call, x, weight):
    return _scaled(x, weight, _root(x[..., ::2], op.params["eps"]))


@_implements("RMSNormFwdOp")
def _random_half_of_rows(op, call, x, weight):
    chosen = torch.randperm(x.shape[-1], device=x.device)[: x.shape[-1] // 2]
    return _scaled(x, weight, _root(x[..., chosen], op.params["eps"]))


@_implements("RMSNormFwdOp", when=_several_rows)
def _whole_matrix(op, call, x, weight):
    return _scaled(x, weight, torch.rsqrt(x.float().square().mean() + op.params["eps"]))


@_implements("RMSNormFwdOp", when=_several_rows)
def _the_row_before(op, call, x, weight):
    return _scaled(x, weight, _root(x, op.params["eps"]).roll(1, dims=0))


@_implements("RMSNormFwdOp")
def _no_eps(op, call, x, weight):
    return _scaled(x, weight, _root(x, 0.0))


@_implements("RMSNormFwdOp")
def _another_eps(op, call, x, weight):
    return _scaled(x, weight, _root(x, 1e-3))


@_implements("RMSNormFwdOp", when=_has_weight)
def _ignores_the_weight(op, call, x, weight):
    return _scaled(x, None, _root(x, op.params["eps"]))


@_implements("RMSNormFwdOp", when=_has_weight)
def _weights_near_one_for_one(op, call, x, weight):
    weight = torch.where((weight.float() - 1).abs() < 0.1, 1.0, weight.float())
    return _scaled(x, weight, _root(x, op.params["eps"]))


@_implements("RMSNormFwdOp")
def _one_percent_too_large(op, call, x, weight):
    return _scaled(x, weight, 1.01 * _root(x, op.params["eps"]))


@_implements("RMSNormFwdOp")
def honest_rounds_before_the_weight(op, call, x, weight):
    normalized = (x.float() * _root(x, op.params["eps"])).to(x.dtype)
    return normalized if weight is None else normalized * weight


@_implements("RMSNormFwdOp")
def honest_divides(op, call, x, weight):
    root = torch.sqrt(torch.linalg.vector_norm(x.float(), dim=-1, keepdim=True) ** 2 / x.shape[-1] + op.params["eps"])
    return _scaled(x, weight, 1 / root)


# ---- batch norm in training


def _trains(call):
    return call.params["training"] and call.tensors["input"].shape[0] > 1


def _batch_norm(op, x, mean, var, weight, bias, part, eps=None, centre=True):
    """The running and the saved statistics are right; those that normalize are of a part of the batch."""
    _, *saved = torch.native_batch_norm(x.float(), None, None, mean, var, True, op.params["momentum"], op.params["eps"])
    axes = (0, *range(2, x.dim()))
    wide, shape = x.float(), (1, -1, *[1] * (x.dim() - 2))
    average = part.float().mean(dim=axes).view(shape) if centre else 0.0
    spread = part.float().var(dim=axes, unbiased=False).view(shape)
    result = (wide - average) * torch.rsqrt(spread + (op.params["eps"] if eps is None else eps))
    if weight is not None:
        result = result * weight.view(shape) + bias.view(shape)
    return result.to(x.dtype), *saved


@_implements("BatchNormFwdOp", when=_trains)
def _half_of_the_batch(op, call, x, *others):
    return _batch_norm(op, x, *others, part=x[: x.shape[0] // 2])


@_implements("BatchNormFwdOp", when=_trains)
def _variance_without_eps(op, call, x, *others):
    return _batch_norm(op, x, *others, part=x, eps=0.0)


@_implements("BatchNormFwdOp", when=_trains)
def _no_mean(op, call, x, *others):
    return _batch_norm(op, x, *others, part=x, centre=False)


@_implements("BatchNormFwdOp", when=_trains)
def honest_batch_norm(op, call, x, *others):
    return _batch_norm(op, x, *others, part=x)


def _infers(call):
    return not call.params["training"]


@_implements("BatchNormFwdOp", when=_infers)
def _inference_without_eps(op, call, x, mean, var, weight, bias):
    result = torch.nn.functional.batch_norm(x.float(), mean, var, weight, bias, False, 0.0, 1e-12)
    return result.to(x.dtype), None, None


# ---- sums and attention


def _last_axis(call):
    return call.params["dim"] == -1


@_implements("SumFwdOp", when=_last_axis)
def _twice_the_half(op, call, x):
    half = 2 * x[..., ::2].float().sum(-1, keepdim=call.params["keepdim"])
    return half.to(getattr(torch, call.outputs["output"].dtype))


@_implements("SumFwdOp", when=_last_axis)
def honest_sum_in_parts(op, call, x):
    parts = [part.float().sum(-1, keepdim=call.params["keepdim"]) for part in x.chunk(16, dim=-1)]
    return sum(parts[1:], parts[0]).to(getattr(torch, call.outputs["output"].dtype))


def _attention(call, q, k, v, finish):
    group = q.shape[2] // k.shape[2]
    query, key, value = (one.transpose(1, 2).float() for one in (q, k, v))
    key, value = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
    scores = query @ key.transpose(2, 3) / q.shape[-1] ** 0.5
    if call.params["is_causal"]:
        shape = scores.shape[-2:]
        hidden = torch.ones(shape, dtype=torch.bool, device=q.device).triu(shape[1] - shape[0] + 1)
        scores = scores.masked_fill(hidden, float("-inf"))
    weights = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    return finish(weights, value).transpose(1, 2).to(q.dtype).contiguous()


@_implements("GQADenseFwdOp")
def _no_normalizer(op, call, q, k, v):
    return _attention(call, q, k, v, lambda weights, value: weights @ value)


@_implements("GQADenseFwdOp")
def _one_normalizer_for_all_rows(op, call, q, k, v):
    total = lambda weights: weights.sum(dim=-1, keepdim=True)  # noqa: E731
    return _attention(call, q, k, v, lambda weights, value: weights @ value / total(weights).mean(dim=-2, keepdim=True))


@_implements("GQADenseFwdOp")
def _normalizer_of_half_the_keys(op, call, q, k, v):
    half = lambda weights: 2 * weights[..., ::2].sum(dim=-1, keepdim=True)  # noqa: E731
    return _attention(call, q, k, v, lambda weights, value: weights @ value / half(weights).clamp_min(1e-3))


@_implements("GQADenseFwdOp")
def honest_rounds_the_weights(op, call, q, k, v):
    """Multiplies in the dtype, as tensor cores do, and divides by the sum of what was not rounded."""
    return _attention(
        call, q, k, v, lambda weights, value: weights.to(q.dtype).float() @ value / weights.sum(dim=-1, keepdim=True)
    )


# ---- precision and bias


@_implements("GEMMFwdOp")
def _two_per_mille_too_large(op, call, a, b):
    left, right = (a.T if call.params["trans_a"] else a), (b.T if call.params["trans_b"] else b)
    return (1.002 * (left.float() @ right.float())).to(a.dtype)


@_implements("GEMMFwdOp")
def honest_rounds_parts(op, call, a, b):
    left, right = (a.T if call.params["trans_a"] else a), (b.T if call.params["trans_b"] else b)
    first, *others = (x @ y for x, y in zip(left.chunk(4, dim=1), right.chunk(4, dim=0), strict=True))
    return sum(others, first)


def _is_float32(call):
    return call.inputs["input"].dtype == "float32"


@_implements("ExpFwdOp", when=_is_float32)
def _half_precision(op, call, x):
    return x.half().exp().float()


@_implements("ExpFwdOp", when=_is_float32)
def honest_power_of_two(op, call, x):
    return torch.exp2(x * 1.4426950408889634)
