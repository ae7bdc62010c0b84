"""Public ops of the family elementwise.

Nearly all are lines of one table (kernels/elementwise/table.py), which TableOp implements; what they take and cost is
in manifest/spec/elementwise*.yaml.
"""

from __future__ import annotations

from tileops.ops.families.dropout_op import DropoutOp
from tileops.ops.families.gated_op import GatedOp
from tileops.ops.families.position_ops import AlibiOp, SinusoidalOp
from tileops.ops.families.table_op import TableOp
from tileops.ops.generated import elementwise as generated

# ---- unary math, rounding and predicates


class AbsFwdOp(generated.AbsFwdOp, TableOp):
    """|input|."""


class NegFwdOp(generated.NegFwdOp, TableOp):
    """-input."""


class SignFwdOp(generated.SignFwdOp, TableOp):
    """-1, 0 or 1, as input is negative, zero (or NaN) or positive."""


class ReciprocalFwdOp(generated.ReciprocalFwdOp, TableOp):
    """1 / input."""


class SqrtFwdOp(generated.SqrtFwdOp, TableOp):
    """The square root of input."""


class RsqrtFwdOp(generated.RsqrtFwdOp, TableOp):
    """1 / sqrt(input)."""


class ExpFwdOp(generated.ExpFwdOp, TableOp):
    """e ** input."""


class Expm1FwdOp(generated.Expm1FwdOp, TableOp):
    """e ** input - 1, without cancelling near 0."""


class LogFwdOp(generated.LogFwdOp, TableOp):
    """The natural logarithm of input."""


class Log1pFwdOp(generated.Log1pFwdOp, TableOp):
    """log(1 + input), without rounding the sum."""


class ErfFwdOp(generated.ErfFwdOp, TableOp):
    """The error function of input."""


class SinFwdOp(generated.SinFwdOp, TableOp):
    """The sine of input."""


class CosFwdOp(generated.CosFwdOp, TableOp):
    """The cosine of input."""


class TanhFwdOp(generated.TanhFwdOp, TableOp):
    """The hyperbolic tangent of input."""


class SigmoidFwdOp(generated.SigmoidFwdOp, TableOp):
    """1 / (1 + e ** -input)."""


class FloorFwdOp(generated.FloorFwdOp, TableOp):
    """The greatest whole number that is not above input."""


class CeilFwdOp(generated.CeilFwdOp, TableOp):
    """The least whole number that is not below input."""


class TruncFwdOp(generated.TruncFwdOp, TableOp):
    """input without its fraction."""


class RoundFwdOp(generated.RoundFwdOp, TableOp):
    """input at so many decimals, a tie to the even one."""


class LogicalNotFwdOp(generated.LogicalNotFwdOp, TableOp):
    """Whether input is 0."""


class BitwiseNotFwdOp(generated.BitwiseNotFwdOp, TableOp):
    """The bits of input inverted; of a bool its opposite."""


class IsnanFwdOp(generated.IsnanFwdOp, TableOp):
    """Whether input is NaN."""


class IsinfFwdOp(generated.IsinfFwdOp, TableOp):
    """Whether input is infinite."""


class IsfiniteFwdOp(generated.IsfiniteFwdOp, TableOp):
    """Whether input is neither infinite nor NaN."""


class NanToNumFwdOp(generated.NanToNumFwdOp, TableOp):
    """input with numbers in the place of NaN and the infinities."""


# ---- activations


class ReLUFwdOp(generated.ReLUFwdOp, TableOp):
    """max(input, 0)."""


class LeakyReLUFwdOp(generated.LeakyReLUFwdOp, TableOp):
    """input, times the slope where it is negative."""


class ELUFwdOp(generated.ELUFwdOp, TableOp):
    """input, and alpha (e ** input - 1) where it is negative."""


class SELUFwdOp(generated.SELUFwdOp, TableOp):
    """The scaled exponential unit: elu with its fixed alpha and scale."""


class SiLUFwdOp(generated.SiLUFwdOp, TableOp):
    """input * sigmoid(input)."""


class MishFwdOp(generated.MishFwdOp, TableOp):
    """input * tanh(log(1 + e ** input))."""


class GELUFwdOp(generated.GELUFwdOp, TableOp):
    """input times the normal distribution up to it, or its approximation by tanh."""


class SoftplusFwdOp(generated.SoftplusFwdOp, TableOp):
    """log(1 + e ** (beta input)) / beta, and input itself beyond the threshold."""


class HardsigmoidFwdOp(generated.HardsigmoidFwdOp, TableOp):
    """min(max(input + 3, 0), 6) / 6."""


class HardswishFwdOp(generated.HardswishFwdOp, TableOp):
    """input * hardsigmoid(input)."""


class HardtanhFwdOp(generated.HardtanhFwdOp, TableOp):
    """input between the two bounds."""


# ---- two operands, each broadcast to the other


class AddFwdOp(generated.AddFwdOp, TableOp):
    """input + alpha * other."""


class SubFwdOp(generated.SubFwdOp, TableOp):
    """input - alpha * other."""


class MulFwdOp(generated.MulFwdOp, TableOp):
    """input * other."""


class DivFwdOp(generated.DivFwdOp, TableOp):
    """input / other, as it is or rounded to a whole number."""


class FloorDivideFwdOp(generated.FloorDivideFwdOp, TableOp):
    """The greatest whole number that is not above input / other."""


class RemainderFwdOp(generated.RemainderFwdOp, TableOp):
    """What division by other leaves of input, with the sign of other."""


class PowFwdOp(generated.PowFwdOp, TableOp):
    """input ** exponent."""


class MaximumFwdOp(generated.MaximumFwdOp, TableOp):
    """The greater of the two; NaN where either is."""


class MinimumFwdOp(generated.MinimumFwdOp, TableOp):
    """The lesser of the two; NaN where either is."""


class LerpScalarFwdOp(generated.LerpScalarFwdOp, TableOp):
    """input + weight * (end - input)."""


# ---- predicates of two operands, and bits


class EqFwdOp(generated.EqFwdOp, TableOp):
    """input == other."""


class NeFwdOp(generated.NeFwdOp, TableOp):
    """input != other."""


class GtFwdOp(generated.GtFwdOp, TableOp):
    """input > other."""


class GeFwdOp(generated.GeFwdOp, TableOp):
    """input >= other."""


class LtFwdOp(generated.LtFwdOp, TableOp):
    """input < other."""


class LeFwdOp(generated.LeFwdOp, TableOp):
    """input <= other."""


class LogicalAndFwdOp(generated.LogicalAndFwdOp, TableOp):
    """Whether neither is 0."""


class LogicalOrFwdOp(generated.LogicalOrFwdOp, TableOp):
    """Whether not both are 0."""


class BitwiseAndFwdOp(generated.BitwiseAndFwdOp, TableOp):
    """The bits that both have."""


class BitwiseOrFwdOp(generated.BitwiseOrFwdOp, TableOp):
    """The bits that either has."""


class BitwiseXorFwdOp(generated.BitwiseXorFwdOp, TableOp):
    """The bits that one of them has."""


# ---- three operands, masks and bounds


class WhereFwdOp(generated.WhereFwdOp, TableOp):
    """input where the condition holds, other elsewhere."""


class MaskedFillTensorFwdOp(generated.MaskedFillTensorFwdOp, TableOp):
    """input, and the value where the mask holds."""


class MaskedFillScalarFwdOp(generated.MaskedFillScalarFwdOp, TableOp):
    """input, and a number where the mask holds."""


class LerpTensorFwdOp(generated.LerpTensorFwdOp, TableOp):
    """input + weight * (end - input)."""


class PReLUFwdOp(generated.PReLUFwdOp, TableOp):
    """input, times the slope of its channel where it is negative."""


class ClampTensorFwdOp(generated.ClampTensorFwdOp, TableOp):
    """input between bounds that are tensors."""


class ClampScalarFwdOp(generated.ClampScalarFwdOp, TableOp):
    """input between bounds that are numbers."""


# ---- gated


class SiLUAndMulFwdOp(generated.SiLUAndMulFwdOp, GatedOp):
    """silu(input[..., :N]) * input[..., N:]."""


class GELUAndMulFwdOp(generated.GELUAndMulFwdOp, GatedOp):
    """gelu(input[..., :N]) * input[..., N:], gelu or its approximation by tanh."""


# ---- positions


class AlibiFwdOp(generated.AlibiFwdOp, AlibiOp):
    """The bias -slope[h] * |i - j| of each head and pair of positions."""


class SinusoidalFwdOp(generated.SinusoidalFwdOp, SinusoidalOp):
    """The sines and cosines of each position at d_model / 2 frequencies."""


# ---- dropout


class DropoutFwdOp(generated.DropoutFwdOp, DropoutOp):
    """input with a share p of its elements set to 0, the others scaled by 1 / (1 - p); a copy of it outside training.

    Contiguous.
    """
