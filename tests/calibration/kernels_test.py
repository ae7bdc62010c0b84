"""Launches and checks of our kernels, with stand-ins that do on the CPU what the kernels do."""

import pytest
import torch

from tileops.perf.calibration import kernels as calibrate_kernels
from tileops.perf.calibration import model as model

_CPU = torch.device("cpu")
_BYTES = model.MIB


def _copy(words, target, source):
    target.view(torch.int32)[:words] = source.view(torch.int32)[:words]


def _triad(words, target, left, right, scale):
    # Rounded once, as a fused multiply-add is.
    exact = left[:words].double() + scale * right[:words].double()
    target[:words] = exact.float()


def _write(words, target, offset):
    target.view(torch.int32)[:words] = torch.arange(offset, offset + words, dtype=torch.int32)


class FakeKernel:
    """Stands in for one compiled bandwidth kernel; `lost` vectors are not worked on."""

    def __init__(self, kernel, macros, lost=0):
        self._kernel, self._lost = kernel, lost
        self._macros = dict(macro.split("=") for macro in macros)
        self.launches = []

    def __call__(self, grid, block, args):
        threads, unroll = int(self._macros["BLOCK"]), int(self._macros["UNROLL"])
        assert block == (threads, 1, 1) and grid[1:] == (1, 1)
        self.launches.append((grid[0], args))
        *args, vectors = args
        tile, words = threads * unroll, int(self._macros["WIDTH"]) // 4
        vectors -= self._lost
        if self._kernel == "read_mix":
            self._read(grid[0], threads, tile, vectors, words, *args)
        else:
            step = {"copy_mix": _copy, "triad_mix": _triad, "write_mix": _write}[self._kernel]
            step(words * vectors, *args)

    @staticmethod
    def _read(blocks, threads, tile, vectors, words, sink, source, key):
        for first in range(blocks):
            rows = [
                source.view(torch.int32)[words * at : words * min(at + tile, vectors)]
                for at in range(first * tile, vectors, blocks * tile)
            ]
            sums = torch.zeros(threads, dtype=torch.int64)
            for row in rows:
                by_vector = row.view(-1, words).sum(dim=1)
                sums.index_add_(0, torch.arange(len(by_vector)) % threads, by_vector)
            sink += int((sums == key).sum())


@pytest.fixture(name="kernels")
def _kernels(monkeypatch):
    """Replaces compilation; holds the stand-ins made, and how many vectors they lose."""
    state = {"made": [], "lost": 0}

    def compiled(file, kernel, *macros):
        assert file == "bandwidth.cu"
        made = FakeKernel(kernel, macros, state["lost"])
        state["made"].append(made)
        return made

    monkeypatch.setattr(calibrate_kernels, "_compiled", compiled)
    return state


def _bandwidth():
    return calibrate_kernels.Bandwidth(calibrate_kernels.Arrays(_BYTES, _CPU), 4, 1024)


def _trial(mix, **changes):
    settings = {"array_bytes": _BYTES, "block": 256, "unroll": 4, "waves": 1}
    return model.BandwidthTrial(mix=mix, **{**settings, **changes})


@pytest.mark.parametrize("width", [16, 8, 4])
@pytest.mark.parametrize("waves", [0, 1, 3])
@pytest.mark.parametrize("mix", ["COPY", "TRIAD", "READ", "WRITE"])
def test_a_right_kernel_passes_and_is_launched_on_the_whole_array(kernels, mix, waves, width):
    _bandwidth().call(_trial(mix, waves=waves, width=width))()
    blocks, args = kernels["made"][-1].launches[-1]
    tiles = _BYTES // width // 1024
    assert blocks == (tiles if waves == 0 else min(tiles, waves * 16))
    assert args[-1] == _BYTES // width


@pytest.mark.parametrize("width", [16, 8, 4])
@pytest.mark.parametrize("mix", ["COPY", "TRIAD", "READ", "WRITE"])
def test_a_kernel_that_leaves_a_vector_out_is_refused(kernels, mix, width):
    kernels["lost"] = 1
    with pytest.raises(model.CalibrationError, match=mix):
        _bandwidth().call(_trial(mix, width=width))


def test_a_variant_is_checked_once(kernels):
    bandwidth = _bandwidth()
    bandwidth.call(_trial("COPY"))
    before = len(kernels["made"])
    bandwidth.call(_trial("COPY", array_bytes=_BYTES // 2))
    assert len(kernels["made"]) == before + 1


def test_the_arrays_bound_a_trial(kernels):
    with pytest.raises(model.TrialError, match="smaller than"):
        _bandwidth().call(_trial("COPY", array_bytes=2 * _BYTES))


def test_a_part_of_a_tile_is_refused(kernels):
    with pytest.raises(model.TrialError, match="no multiple of 1024"):
        _bandwidth().call(_trial("COPY", array_bytes=_BYTES // 2 + 4096))


def test_torch_copy_needs_no_kernel(kernels):
    arrays = calibrate_kernels.Arrays(_BYTES, _CPU)
    bandwidth = calibrate_kernels.Bandwidth(arrays, 4, 1024)
    bandwidth.call(model.BandwidthTrial(mix="COPY", array_bytes=_BYTES, torch_copy=True))()
    assert torch.equal(arrays.target, arrays.left) and not kernels["made"]


def _arithmetic(monkeypatch, steps_done):
    """Replaces the register kernels by one that does `steps_done` of each pass's steps."""

    def compiled(file, kernel, *macros):
        chains = int(dict(macro.split("=") for macro in macros)["CHAINS"])
        dtype = calibrate_kernels._VALUE_TYPES[kernel]

        def launch(grid, block, args):
            sums, operands, iterations = args
            lanes = operands.view(dtype).view(len(operands), -1)
            factor, addend, starts = lanes[0], lanes[1], lanes[2:].view(chains, block[0], -1)
            chain = starts.clone()
            for _ in range(iterations * steps_done):
                chain = chain * factor + addend
            total = chain[0]
            for index in range(1, chains):
                total = total + chain[index]
            sums.view(dtype).view(grid[0], block[0], -1)[:] = total

        return launch

    monkeypatch.setattr(calibrate_kernels, "_compiled", compiled)


def _arithmetic_trial(kernel):
    lanes = 2 if kernel.endswith("x2") else 1
    return model.ArithmeticTrial(
        key="key", kernel=kernel, lanes=lanes, block=32, blocks=2, chains=16, steps=32, iterations=4
    )


@pytest.mark.parametrize("kernel", sorted(calibrate_kernels._VALUE_TYPES))
def test_register_kernels_are_checked_to_the_bit(monkeypatch, kernel):
    _arithmetic(monkeypatch, steps_done=32)
    calibrate_kernels.arithmetic_call(_arithmetic_trial(kernel), _CPU)()


@pytest.mark.parametrize("kernel", sorted(calibrate_kernels._VALUE_TYPES))
def test_a_register_kernel_that_skips_a_step_is_refused(monkeypatch, kernel):
    _arithmetic(monkeypatch, steps_done=31)
    with pytest.raises(model.CalibrationError, match="multiply-adds are missing"):
        calibrate_kernels.arithmetic_call(_arithmetic_trial(kernel), _CPU)
