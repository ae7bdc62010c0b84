"""Our own CUDA kernels: compiled at run time, checked, and launched."""

import dataclasses
import functools
from collections.abc import Callable

import torch

from tileops.perf.calibration import model
from tileops.tools.cli import paths

# The part of each array that a kernel's result is checked on before it is timed.
_CHECKED_BYTES = 64 * model.MIB
_SCALE = 1.5
# An unlikely sum of random words. A sum equal to it would only add to a count that nobody reads.
_UNLIKELY_SUM = 0x5EED5EED

_VALUE_TYPES = {
    "fma_fp32": torch.float32,
    "fma_fp64": torch.float64,
    "mad_int32": torch.int32,
    "fma_fp16x2": torch.float16,
    "fma_bf16x2": torch.bfloat16,
}


@functools.cache
def _compiled(file: str, kernel: str, *macros: str) -> Callable:
    """Returns a kernel of cuda/`file`, compiled for the current device."""
    source = paths.data_path("perf", "calibration", "cuda", file).read_text(encoding="utf-8")
    try:
        return torch.cuda._compile_kernel(source, kernel, nvcc_options=[f"-D{macro}" for macro in macros])
    except (RuntimeError, OSError) as error:
        raise model.TrialError(f"{file}: {kernel} was not compiled: {error}") from error


class Arrays:
    """Three arrays of random numbers that bandwidth trials read and write.

    Attributes:
      target: Written.
      left, right: Read.
    """

    def __init__(self, size: int, device: torch.device):
        """Allocates 3 x `size` bytes of fp32 numbers."""
        # Random values, as in the bench: zeros take less power.
        self.target, self.left, self.right = (
            torch.empty(size // 4, dtype=torch.float32, device=device).normal_() for _ in range(3)
        )
        self.sink = torch.zeros(1, dtype=torch.int32, device=device)


class Bandwidth:
    """Launches bandwidth trials on arrays that are allocated once."""

    def __init__(self, arrays: Arrays, multiprocessors: int, threads: int):
        """`threads`: resident threads per multiprocessor."""
        self._arrays = arrays
        self._resident = multiprocessors * threads
        self._checked: set[model.BandwidthTrial] = set()

    def call(self, trial: model.BandwidthTrial) -> Callable[[], None]:
        """Returns a function that runs the trial once, its kernel checked.

        Raises:
          TrialError: The kernel cannot be compiled or launched.
          CalibrationError: Its result is wrong.
        """
        words = trial.array_bytes // 4
        if words > self._arrays.target.numel():
            raise model.TrialError(f"the arrays are smaller than {trial.array_bytes} B")
        target, left = self._arrays.target[:words], self._arrays.left[:words]
        if trial.torch_copy:
            return lambda: target.copy_(left)
        variant = dataclasses.replace(trial, array_bytes=0)
        if variant not in self._checked:
            self._check(trial)
            self._checked.add(variant)
        return self._launch(trial, words)

    def _launch(
        self, trial: model.BandwidthTrial, words: int, source: torch.Tensor | None = None, number: int = _UNLIKELY_SUM
    ) -> Callable[[], None]:
        """Returns a launch over the first `words` of the arrays.

        `source` replaces the array that is read. `number` is the sum that a read looks for, and the first number that a
        write writes.
        """
        vectors = words * 4 // trial.width
        tile = trial.block * trial.unroll
        if vectors % tile:
            raise model.TrialError(f"{vectors} vectors are no multiple of {tile}")
        kernel = _compiled(
            "bandwidth.cu",
            f"{trial.mix.lower()}_mix",
            f"WIDTH={trial.width}",
            f"BLOCK={trial.block}",
            f"UNROLL={trial.unroll}",
            f"STREAM={int(trial.streaming)}",
        )
        arrays = self._arrays
        source = arrays.left if source is None else source
        args = {
            "COPY": [arrays.target, source, vectors],
            "TRIAD": [arrays.target, source, arrays.right, _SCALE, vectors],
            "READ": [arrays.sink, source, number, vectors],
            "WRITE": [arrays.target, number, vectors],
        }[trial.mix]
        grid, block = (self._blocks(trial, vectors // tile), 1, 1), (trial.block, 1, 1)
        return lambda: kernel(grid=grid, block=block, args=args)

    def _blocks(self, trial: model.BandwidthTrial, tiles: int) -> int:
        if not trial.waves:
            return tiles
        return min(tiles, trial.waves * self._resident // trial.block)

    def _check(self, trial: model.BandwidthTrial) -> None:
        """Runs the kernel on a part of the arrays and compares every element."""
        words = min(_CHECKED_BYTES, trial.array_bytes) // 4
        arrays = self._arrays
        target, left, right = (array[:words] for array in (arrays.target, arrays.left, arrays.right))
        if trial.mix == "READ":
            self._check_read(trial, words)
            return
        target.fill_(float("nan"))
        self._launch(trial, words, number=7)()
        if trial.mix == "COPY":
            right_result = torch.equal(target, left)
        elif trial.mix == "TRIAD":
            expected = left.double() + _SCALE * right.double()
            # One rounding of fp32.
            right_result = torch.allclose(target.double(), expected, rtol=1.2e-7, atol=1e-9)
        else:
            expected = torch.arange(7, 7 + words, dtype=torch.int32, device=target.device)
            right_result = torch.equal(target.view(torch.int32), expected)
            # Random values again, as in the other arrays.
            target.normal_()
        if not right_result:
            raise model.CalibrationError(f"{trial.mix} ({trial}) gave a wrong result")

    def _check_read(self, trial: model.BandwidthTrial, words: int) -> None:
        """Checks how many threads have the right sum over a buffer of ones."""
        ones = torch.ones(words, dtype=torch.int32, device=self._arrays.sink.device)
        words_of_thread = trial.width // 4 * trial.unroll
        tiles = words // (trial.block * words_of_thread)
        blocks = self._blocks(trial, tiles)
        each, more = divmod(tiles, blocks)
        for tiles_of_block, count in ((each, blocks - more), (each + 1, more)):
            self._arrays.sink.zero_()
            self._launch(trial, words, ones, words_of_thread * tiles_of_block)()
            found = int(self._arrays.sink.item())
            if found != count * trial.block:
                raise model.CalibrationError(
                    f"READ ({trial}): {found} threads read {tiles_of_block} tile(s), not {count * trial.block}"
                )


def arithmetic_call(trial: model.ArithmeticTrial, device: torch.device) -> Callable[[], None]:
    """Returns a function that runs the trial once, its kernel checked.

    Raises:
      TrialError: The kernel cannot be compiled.
      CalibrationError: It does not do all multiply-adds that are counted.
    """
    kernel = _compiled(
        "arithmetic.cu", trial.kernel, f"BLOCK={trial.block}", f"CHAINS={trial.chains}", f"STEPS={trial.steps}"
    )
    dtype = _VALUE_TYPES[trial.kernel]
    threads = trial.block * trial.blocks
    sums = torch.empty((threads, trial.lanes), dtype=dtype, device=device)
    # The kernel sees a packed type as 32-bit words.
    seen = (lambda t: t.view(torch.int32)) if trial.lanes == 2 else (lambda t: t)

    def launch(operands: torch.Tensor, iterations: int) -> Callable[[], None]:
        args = [seen(sums), seen(operands), iterations]
        return lambda: kernel(grid=(trial.blocks, 1, 1), block=(trial.block, 1, 1), args=args)

    # Every step adds one, in small integers that the shortest type holds, and the chains are summed in the kernel's order:
    # the result is known to the bit, and a missing step shows.
    operands = torch.ones((2 + trial.chains * trial.block, trial.lanes), dtype=dtype, device=device)
    sums.zero_()
    launch(operands, 2)()
    chain = torch.tensor(1 + 2 * trial.steps, dtype=dtype)
    expected = chain
    for _ in range(trial.chains - 1):
        expected = expected + chain
    if not bool((sums == expected.to(device)).all()):
        raise model.CalibrationError(
            f"{trial}: a thread's sum is {sums.double().min().item():g} or {sums.double().max().item():g}, not"
            f" {expected.item():g}: multiply-adds are missing"
        )
    if dtype is torch.int32:
        operands.random_(1, 2**31 - 1)
        operands[0].bitwise_or_(1)
    else:
        operands.normal_()
        operands[0] = -1
    return launch(operands, trial.iterations)
