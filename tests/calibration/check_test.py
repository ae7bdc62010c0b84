"""How far two calibrations lie apart, in numbers and words."""

from google.protobuf import text_format

from tileops.perf.calibration import check
from tileops.proto import gpu_profile_pb2

_BEFORE = """
gpu: "Some GPU"
hbm { mix { kind: COPY fraction: 0.9 } mix { kind: READ fraction: 0.96 } }
unit { key: "cuda_core.fp32" theoretical_flops_per_s: 67e12 calibration: 0.98 }
unit { key: "tensor_core.bf16" theoretical_flops_per_s: 989.5e12 calibration: 0.8 }
unit { key: "tensor_core.fp8" theoretical_flops_per_s: 1979e12 }
provenance { date: "2026-01-31" }
"""


def _profile(text=_BEFORE):
    return text_format.Parse(text, gpu_profile_pb2.GpuProfile())


def test_each_number_of_both_is_compared():
    now = _BEFORE.replace("0.96", "0.9504").replace("calibration: 0.8 ", "calibration: 0.82 ")
    found = {r.name: r for r in check.repeats(_profile(), _profile(now))}
    assert list(found) == ["hbm.COPY", "hbm.READ", "cuda_core.fp32", "tensor_core.bf16"]
    assert round(found["hbm.READ"].change, 6) == -0.01
    assert str(found["hbm.READ"]) == "hbm.READ 0.9600 before, 0.9504 now (-1.00%)"
    assert str(found["tensor_core.bf16"]) == ("tensor_core.bf16 0.8000 before, 0.8200 now (+2.50%, MORE than 2%)")


def test_the_largest_change_of_each_kind_is_what_a_profile_says():
    before = _profile()
    now = _profile(_BEFORE.replace("0.96", "0.9504").replace("calibration: 0.98", "calibration: 0.9849"))
    words = check.spread_in_words(before, check.repeats(before, now))
    assert words == (
        "against the calibration of 2026-01-31: bandwidth within 1.00% (hbm.READ -1.00%),"
        " peaks within 0.50% (cuda_core.fp32 +0.50%)"
    )


def test_a_first_calibration_has_no_spread():
    first = gpu_profile_pb2.GpuProfile(gpu="Some GPU")
    assert check.spread_in_words(first, check.repeats(first, _profile())) == ""
