"""Matrix products on random data: torch's library (cuBLASLt), and our own int8 one."""

import contextlib
from collections.abc import Callable, Iterator

import torch

from tileops.perf.calibration import model

_DTYPES = {
    "tensor_core.bf16": torch.bfloat16,
    "tensor_core.fp16": torch.float16,
    "tensor_core.tf32": torch.float32,
    "tensor_core.fp64": torch.float64,
    "tensor_core.fp8": torch.float8_e4m3fn,
    "tensor_core.int8": torch.int8,
}


@contextlib.contextmanager
def tf32_allowed() -> Iterator[None]:
    """Lets fp32 products use tf32 tensor cores during the block."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def matrix_call(trial: model.MatrixTrial, device: torch.device) -> Callable[[], torch.Tensor]:
    """Returns a function that computes the trial's product once.

    Run a tf32 trial inside `tf32_allowed()`.

    Raises:
      TrialError: This device cannot compute it.
      CalibrationError: Our own kernel gave a wrong product.
    """
    dtype = _DTYPES[trial.key]
    a = _random((trial.m, trial.k), dtype, device)
    if trial.layout == "TN":
        b = _random((trial.n, trial.k), dtype, device).t()
    else:
        b = _random((trial.k, trial.n), dtype, device)
    if trial.key == "tensor_core.fp8":
        one = torch.ones((), dtype=torch.float32, device=device)

        def call() -> torch.Tensor:
            return torch._scaled_mm(
                a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=trial.fast_accumulation
            )

    elif trial.tile:
        call = _own_int8(trial, a, b)
    elif trial.key == "tensor_core.int8":

        def call() -> torch.Tensor:
            return torch._int_mm(a, b)

    else:
        product = torch.empty((trial.m, trial.n), dtype=dtype, device=device)

        def call() -> torch.Tensor:
            return torch.mm(a, b, out=product)

    try:
        call()
        torch.cuda.synchronize(device)
    except torch.cuda.OutOfMemoryError as error:
        raise model.TrialError("out of device memory") from error
    except RuntimeError as error:
        raise model.TrialError(str(error).splitlines()[0]) from error
    return call


def _own_int8(trial: model.MatrixTrial, a: torch.Tensor, b: torch.Tensor) -> Callable[[], torch.Tensor]:
    """Returns our own product of a [m, k] and b [k, n], stored as [n, k]; checked."""
    # Triton comes with torch's builds for GPUs; nothing else in this folder needs it.
    import triton

    from tileops.perf.calibration import int8

    rows, columns, depth = trial.tile
    call = int8.product_call(a, b.t(), (rows, columns, depth), trial.stages)
    try:
        right = torch.equal(call(), torch._int_mm(a, b))
    except triton.TritonError as error:
        # The first lines quote the kernel; the last line says what is wrong.
        raise model.TrialError(str(error).strip().splitlines()[-1]) from error
    if not right:
        raise model.CalibrationError(f"{trial.key} ({trial}) gave a wrong product")
    return call


def _random(shape: tuple[int, int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    if dtype is torch.int8:
        return torch.randint(-128, 128, shape, dtype=dtype, device=device)
    if dtype is torch.float8_e4m3fn:
        return torch.randn(shape, dtype=torch.bfloat16, device=device).to(dtype)
    return torch.randn(shape, dtype=dtype, device=device)
