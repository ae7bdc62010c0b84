"""The plan of a calibration: the trials of each quantity. No torch."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from tileops.perf.calibration import model

# The best of the last rounds may vary by this fraction.
BANDWIDTH_TOLERANCE = 0.003
PEAK_TOLERANCE = 0.01

# Arrays have at least this many L2 sizes, so that little of them stays in the cache.
_CACHES_IN_ARRAY = 8

# Time of a call of a register kernel at the theoretical rate. Seconds.
_ARITHMETIC_CALL_S = 3e-3
_STEPS = 32


@dataclasses.dataclass(frozen=True, kw_only=True)
class Device:
    """Facts of a device for a plan.

    Attributes:
      name: As the driver reports it.
      multiprocessors: A count.
      threads_per_multiprocessor: The most resident threads. A count.
      l2_bytes: Last-level cache. Bytes.
      free_bytes: Device memory that can be allocated. Bytes.
    """

    name: str
    multiprocessors: int
    threads_per_multiprocessor: int
    l2_bytes: int
    free_bytes: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Effort:
    """The effort of a calibration, in wall-clock time.

    Attributes:
      quick: Whether to try fewer variants and rounds.
      mix_s: Per access mix. Seconds.
      tensor_s: Per tensor unit. Seconds.
      arithmetic_s: Per other unit. Seconds.
      max_rounds: Rounds after which a quantity is called unstable.
    """

    quick: bool
    mix_s: float
    tensor_s: float
    arithmetic_s: float
    max_rounds: int


FULL = Effort(quick=False, mix_s=25, tensor_s=15, arithmetic_s=5, max_rounds=12)
QUICK = Effort(quick=True, mix_s=4.5, tensor_s=4, arithmetic_s=1.5, max_rounds=4)

# Kernel in cuda/arithmetic.cu and numbers per register, by roof key.
_ARITHMETIC = {
    "cuda_core.fp32": ("fma_fp32", 1),
    "cuda_core.fp64": ("fma_fp64", 1),
    "cuda_core.int32": ("mad_int32", 1),
    "cuda_core.fp16": ("fma_fp16x2", 2),
    "cuda_core.bf16": ("fma_bf16x2", 2),
}
# (rows, columns, depth) and depths in flight of our own int8 product.
_INT8_TILES = (((128, 256, 128), 4), ((128, 256, 128), 3), ((128, 128, 128), 6), ((256, 128, 128), 4))
MATRIX_KEYS = frozenset(f"tensor_core.{kind}" for kind in ("bf16", "fp16", "tf32", "fp8", "int8", "fp64"))


def measurable(key: str) -> bool:
    """Returns whether the unit of this roof key can be measured."""
    return key in _ARITHMETIC or key in MATRIX_KEYS


def bandwidth(device: Device, theoretical_bytes_per_s: float, effort: Effort) -> list[model.Quantity]:
    """Returns the quantities of the four access mixes.

    Raises:
      CalibrationError: The device's memory has no room for arrays much larger than its L2.
    """
    sizes = _array_sizes(device)
    # The sweep uses the largest size: a ranking of variants at 1 GiB has missed a read that was 2% faster at 4 GiB.
    sweep_size = sizes[-1]
    quantities = []
    for mix in model.ARRAYS_MOVED:
        sweep = [
            model.BandwidthTrial(mix=mix, array_bytes=sweep_size, **variant) for variant in _variants(effort.quick)
        ]
        cross_check = None
        if mix == "COPY":
            # torch's own copy comes first. The outcome must not be lower.
            cross_check = model.BandwidthTrial(mix=mix, array_bytes=sweep_size, torch_copy=True)
            sweep.insert(0, cross_check)
        quantities.append(
            model.Quantity(
                name=f"hbm.{mix}",
                theoretical_per_s=theoretical_bytes_per_s,
                sweep=tuple(sweep),
                finalists=1 if effort.quick else 4,
                final_array_bytes=tuple(sizes),
                cross_check=cross_check,
                tolerance=BANDWIDTH_TOLERANCE,
                max_rounds=effort.max_rounds,
                budget_s=effort.mix_s,
            )
        )
    return quantities


def _variants(quick: bool) -> list[dict[str, Any]]:
    """Returns the kernel's fields of a trial per variant, the likeliest first."""
    names = ("width", "waves", "streaming", "unroll", "block")
    if quick:
        wide = itertools.product((16,), (0,), (False,), (1, 4, 8), (256, 1024))
        narrow = itertools.product((8, 4), (0,), (False,), (4,), (256,))
        return [dict(zip(names, variant)) for variant in (*wide, *narrow)]
    one_shot = itertools.product((16,), (0,), (False, True), (1, 4, 8, 2), (256, 1024, 512, 128))
    # Fewer bytes per access, as many in flight.
    narrow = itertools.product((8, 4), (0,), (False,), (2, 4, 8), (256, 1024))
    striding = itertools.product((16,), (1, 4), (False, True), (4, 8), (256, 512))
    return [dict(zip(names, variant)) for variant in (*one_shot, *narrow, *striding)]


def _array_sizes(device: Device) -> list[int]:
    # A triad has three arrays; a tenth of the memory is left free.
    room = 0.9 * device.free_bytes / model.ARRAYS_MOVED["TRIAD"]
    least = _CACHES_IN_ARRAY * device.l2_bytes
    sizes = [size for size in (model.GIB // 2, model.GIB, 2 * model.GIB, 4 * model.GIB) if least <= size <= room]
    if not sizes:
        raise model.CalibrationError(
            f"{device.name}: three arrays of at least {_CACHES_IN_ARRAY} times its L2 ({device.l2_bytes / model.MIB:.0f}"
            f" MiB) do not fit in {device.free_bytes / model.GIB:.1f} GiB of free memory: end other programs on it"
        )
    return sizes


def peaks(device: Device, theoretical: Mapping[str, float], effort: Effort) -> list[model.Quantity]:
    """Returns the quantities of unit peaks: of the profile's units, those that can be measured.

    Args:
      theoretical: Operations per second by roof key.
    """
    quantities = []
    for key, flops_per_s in theoretical.items():
        cross_check: model.Trial | None = None
        sweep: Sequence[model.Trial]
        if key in _ARITHMETIC:
            sweep = _arithmetic_trials(key, device, flops_per_s, effort.quick)
            budget_s = effort.arithmetic_s
        elif key in MATRIX_KEYS:
            sweep = _matrix_trials(key, device, effort.quick)
            budget_s = effort.tensor_s
            # torch's own product, first in every sweep.
            cross_check = sweep[0]
        else:
            continue
        quantities.append(
            model.Quantity(
                name=key,
                theoretical_per_s=flops_per_s,
                sweep=tuple(sweep),
                finalists=1 if effort.quick else 3,
                tolerance=PEAK_TOLERANCE,
                max_rounds=effort.max_rounds,
                budget_s=budget_s,
                cross_check=cross_check,
            )
        )
    return quantities


def _arithmetic_trials(key: str, device: Device, flops_per_s: float, quick: bool) -> list[model.ArithmeticTrial]:
    kernel, lanes = _ARITHMETIC[key]
    trials = []
    # One wave keeps every multiprocessor busy to the end; several waves even out multiprocessors that start late.
    for waves, chains, block in itertools.product((1,) if quick else (1, 4), (8, 16), (256,) if quick else (256, 512)):
        blocks = waves * device.multiprocessors * device.threads_per_multiprocessor // block
        one_pass = 2 * _STEPS * chains * lanes * block * blocks
        trials.append(
            model.ArithmeticTrial(
                key=key,
                kernel=kernel,
                lanes=lanes,
                block=block,
                blocks=blocks,
                chains=chains,
                steps=_STEPS,
                iterations=max(1, round(_ARITHMETIC_CALL_S * flops_per_s / one_pass)),
            )
        )
    return trials


def _matrix_trials(key: str, device: Device, quick: bool) -> list[model.MatrixTrial]:
    # Tiles of the large kernels have 128 rows. This many rows fill every multiprocessor equally often, without a ragged
    # last wave.
    even = 64 * device.multiprocessors
    if key == "tensor_core.fp64":
        # The rate is a fifteenth of the others, so small shapes suffice.
        shapes = [(8192, 8192, 8192), (4096, 4096, 4096), (even, 4096, 4096)]
    else:
        shapes = [
            (8192, 8192, 8192),
            (even, 8192, 8192),
            (16384, 8192, 8192),
            (8192, 8192, 16384),
            (4096, 4096, 4096),
            (even, 8192, 4096),
            (16384, 16384, 8192),
            (4096, 4096, 16384),
        ]
    if quick:
        shapes = shapes[:2]
    # The library takes the second operand of 8-bit types only as [n, k].
    narrow = key in ("tensor_core.fp8", "tensor_core.int8")
    layouts = [(shape, "TN") for shape in shapes]
    if not (narrow or quick):
        layouts += [(shape, "NN") for shape in shapes[:3]]
    trials = [
        model.MatrixTrial(key=key, m=m, n=n, k=k, layout=layout, fast_accumulation=key == "tensor_core.fp8")
        for (m, n, k), layout in layouts
    ]
    if key == "tensor_core.int8":
        # Second in the sweep: if time runs out, a sweep loses its end.
        trials[1:1] = [
            dataclasses.replace(trials[1], m=m, n=n, k=k, tile=tile, stages=stages)
            for (m, n, k) in _own_int8_shapes(even, quick)
            for tile, stages in _INT8_TILES[: 1 if quick else None]
        ]
    return trials


def _own_int8_shapes(even: int, quick: bool) -> list[tuple[int, int, int]]:
    """Returns shapes (m, n, k). A deeper product writes less of its 32-bit result per step."""
    shapes = [(even, 8192, 8192), (even, 8192, 16384), (4096, 4096, 16384)]
    return shapes[:1] if quick else shapes


def start_up(quick: bool) -> list[model.BandwidthTrial]:
    """Returns the small copies through whose times the start-up line is fitted.

    Arrays have 32 KiB to 8 MiB. Each size has several variants, of which the fastest counts: the floor is the device's,
    not a kernel's.
    """
    sizes = [(32 << 10) << step for step in range(9)]
    blocks, unrolls = ((256, 1024), (1, 2)) if quick else ((128, 256, 512, 1024), (1, 2, 4))
    return [
        model.BandwidthTrial(mix="COPY", array_bytes=size, block=block, unroll=unroll, waves=0)
        for size, block, unroll in itertools.product(sizes, blocks, unrolls)
        if size % (16 * block * unroll) == 0
    ]
