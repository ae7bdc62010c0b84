"""Two ops as generated modules look, small enough to run anywhere: one plain, one that writes an input."""

from __future__ import annotations

from tileops.ops import checks
from tileops.ops.cases import Generated, TensorCase, WorkloadCase
from tileops.ops.checked_call import CheckedCall, TensorRecord
from tileops.ops.op import Op


def _case(label: str, rows: int, dtype: str) -> WorkloadCase:
    size = rows * 64 * (2 if dtype == "float16" else 4)
    return WorkloadCase(
        case_id=f"{label}-{dtype}",
        label=label,
        params={"factor": 2.0},
        indices={"N": rows},
        dtypes={"T": dtype},
        tensors=(TensorCase(name="x", dtype=dtype, shape=(rows, 64)),),
        input_bytes=size,
        output_bytes=size,
    )


class ScaleFwdOp(Op, generated=True):
    """output = factor * x."""

    ENTRY = "ScaleFwdOp"
    FAMILY = "toy"
    STATUS = "implemented"
    REF_API = "torch.mul"
    INPUT_NAMES = ("x",)
    OUTPUT_NAMES = ("output",)
    CASES = (_case("small", 32, "float32"), _case("middle", 256, "float16"), _case("huge", 1 << 34, "float32"))

    def __init__(self, factor=1.0, *, target=None) -> None:
        super().__init__({"factor": factor}, target)

    def forward(self, x):
        return self._complete(self.check(x), (x,))

    def check(self, x) -> CheckedCall:
        shape, dtype = checks.tensor_facts("ScaleFwdOp", "x", x)
        if dtype not in ("float16", "float32"):
            raise checks.dtype_error("ScaleFwdOp", "x", "T", ("float16", "float32"), dtype)
        record = TensorRecord(shape, dtype)
        return CheckedCall(
            "ScaleFwdOp", self.params, {"N": shape[0], "T": dtype}, {"x": record}, {"output": record}, str(x.device), {}
        )

    def eval_roofline(self) -> tuple[int, int]:
        """A multiplication per element; x read, output written."""
        rows = self.last_call.indices["N"]
        return rows * 64, 2 * self.last_call.tensors["x"].bytes

    def eval_roofline_read_bytes(self) -> int:
        """x."""
        return self.last_call.tensors["x"].bytes


class ScatterCountFwdOp(Op, generated=True):
    """total[ids[i]] += x[i], in place; output = total as it was. ids are metadata."""

    ENTRY = "ScatterCountFwdOp"
    FAMILY = "toy"
    STATUS = "implemented"
    REF_API = ""
    INPUT_NAMES = ("total", "ids", "x")
    OUTPUT_NAMES = ("output",)
    MUTATED_NAMES = ("total",)
    METADATA_NAMES = ("ids",)
    CASES = (
        WorkloadCase(
            case_id="few-float32",
            label="few",
            params={},
            indices={"N": 4},
            dtypes={"T": "float32"},
            tensors=(
                TensorCase(name="total", dtype="float32", shape=(8,)),
                TensorCase(
                    name="ids", dtype="int64", shape=(4,), values=Generated(name="as_tensor", args=((1, 3, 3, 5),))
                ),
                TensorCase(name="x", dtype="float32", shape=(4,)),
            ),
            input_bytes=80,
            output_bytes=32,
        ),
    )

    def __init__(self, *, target=None) -> None:
        super().__init__({}, target)

    def forward(self, total, ids, x):
        return self._complete(self.check(total, ids, x), (total, ids, x))

    def check(self, total, ids, x) -> CheckedCall:
        records = {
            name: TensorRecord(*checks.tensor_facts("ScatterCountFwdOp", name, tensor))
            for name, tensor in (("total", total), ("ids", ids), ("x", x))
        }
        device = checks.call_device("ScatterCountFwdOp", (("total", total), ("ids", ids), ("x", x)), ("ids",))
        outputs = {"output": records["total"]}
        return CheckedCall("ScatterCountFwdOp", self.params, {"N": x.shape[0]}, records, outputs, device, {"ids": ids})

    def eval_roofline(self) -> tuple[int, int]:
        """An addition per element; what the ids name is read and written."""
        touched = len(set(self.last_call.values("ids").tolist()))
        return self.last_call.indices["N"], touched * 8 + 4 * 12
