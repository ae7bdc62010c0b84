"""The plan stays past the cache, within memory, and counts its own work right."""

import dataclasses

import pytest

from tileops.perf.calibration import model as model
from tileops.perf.calibration import plan as plan

H200 = plan.Device(
    name="NVIDIA H200",
    multiprocessors=132,
    threads_per_multiprocessor=2048,
    l2_bytes=60 * model.MIB,
    free_bytes=139 * model.GIB,
)
EFFORTS = [plan.FULL, plan.QUICK]


@pytest.mark.parametrize("effort", EFFORTS)
def test_all_mixes_are_planned_past_the_cache(effort):
    quantities = plan.bandwidth(H200, 4.8e12, effort)
    assert [q.name for q in quantities] == ["hbm.COPY", "hbm.TRIAD", "hbm.READ", "hbm.WRITE"]
    for quantity in quantities:
        sizes = {t.array_bytes for t in quantity.sweep} | set(quantity.final_array_bytes)
        assert min(sizes) >= 8 * H200.l2_bytes
        assert 3 * max(sizes) <= H200.free_bytes
        assert len(set(quantity.final_array_bytes)) > 1
        # Variants are ranked where the most bytes have to be in flight.
        assert {t.array_bytes for t in quantity.sweep} == {max(sizes)}
        assert len(set(quantity.sweep)) == len(quantity.sweep)


@pytest.mark.parametrize("effort", EFFORTS)
def test_every_array_is_a_whole_number_of_tiles(effort):
    trials = [t for q in plan.bandwidth(H200, 4.8e12, effort) for t in q.sweep]
    trials += plan.start_up(effort.quick)
    for trial in trials:
        if not trial.torch_copy:
            assert trial.array_bytes % (trial.width * trial.block * trial.unroll) == 0, trial
            # The kernels count vectors in 32 bits, and step past the end by a grid.
            assert trial.array_bytes // trial.width < 1 << 31, trial


def test_copy_competes_with_torch_and_is_held_against_it():
    copy, *others = plan.bandwidth(H200, 4.8e12, plan.FULL)
    assert any(trial.torch_copy for trial in copy.sweep)
    assert copy.cross_check.torch_copy and copy.cross_check.array_bytes >= 2 * model.GIB
    assert not any(quantity.cross_check for quantity in others)


@pytest.mark.parametrize("effort", EFFORTS)
def test_every_mix_tries_every_access_width(effort):
    for quantity in plan.bandwidth(H200, 4.8e12, effort):
        assert {t.width for t in quantity.sweep if not t.torch_copy} == {4, 8, 16}


@pytest.mark.parametrize("effort", EFFORTS)
def test_tensor_units_are_held_against_the_librarys_product_of_8192_cubed(effort):
    theoretical = dict.fromkeys(plan.MATRIX_KEYS, 100000000000000.0)
    for quantity in plan.peaks(H200, theoretical, effort):
        check = quantity.cross_check
        assert (check.m, check.n, check.k, check.tile) == (8192, 8192, 8192, ())
        assert check in quantity.sweep
    (fp32,) = plan.peaks(H200, {"cuda_core.fp32": 67e12}, effort)
    assert fp32.cross_check is None


def test_a_small_memory_gets_smaller_arrays():
    small = dataclasses.replace(H200, free_bytes=8 * model.GIB)
    for quantity in plan.bandwidth(small, 4.8e12, plan.FULL):
        assert 3 * max(quantity.final_array_bytes) <= small.free_bytes


def test_no_room_past_the_cache_is_an_error_with_both_sizes():
    tiny = dataclasses.replace(H200, free_bytes=model.GIB)
    with pytest.raises(model.CalibrationError, match=r"NVIDIA H200.*60 MiB.*1\.0 GiB"):
        plan.bandwidth(tiny, 4.8e12, plan.FULL)


def test_work_counts_every_array_and_both_halves_of_a_multiply_add():
    def moved(mix):
        return model.BandwidthTrial(mix=mix, array_bytes=100).work

    assert [moved(m) for m in ("COPY", "TRIAD", "READ", "WRITE")] == [200, 300, 100, 100]
    assert model.MatrixTrial(key="tensor_core.bf16", m=2, n=3, k=5).work == 60
    packed = model.ArithmeticTrial(
        key="cuda_core.fp16", kernel="fma_fp16x2", lanes=2, block=4, blocks=3, chains=2, steps=5, iterations=7
    )
    assert packed.work == 2 * (2 * 5 * 7) * 2 * 12


@pytest.mark.parametrize("effort", EFFORTS)
def test_units_of_the_profile_are_planned_and_no_others(effort):
    theoretical = {
        "cuda_core.fp32": 67e12,
        "cuda_core.fp64": 34e12,
        "tensor_core.bf16": 989.5e12,
        "tensor_core.fp8": 1979e12,
        "tensor_core.fp4": 4e15,
    }
    quantities = {q.name: q for q in plan.peaks(H200, theoretical, effort)}
    assert set(quantities) == set(theoretical) - {"tensor_core.fp4"}
    assert not plan.measurable("tensor_core.fp4")
    shapes = {(t.m, t.n, t.k) for t in quantities["tensor_core.bf16"].sweep}
    assert (8192, 8192, 8192) in shapes and len(shapes) > 1
    assert all(t.fast_accumulation for t in quantities["tensor_core.fp8"].sweep)
    assert all(t.layout == "TN" for t in quantities["tensor_core.fp8"].sweep)


def test_register_kernels_fill_the_device_for_milliseconds():
    (quantity,) = plan.peaks(H200, {"cuda_core.fp32": 67e12}, plan.FULL)
    for trial in quantity.sweep:
        assert trial.block * trial.blocks >= 132 * 2048
        assert trial.work / 67e12 == pytest.approx(3e-3, rel=0.2)


@pytest.mark.parametrize(("effort", "limit_s"), [(plan.FULL, 240), (plan.QUICK, 60)])
def test_budgets_leave_time_for_the_start(effort, limit_s):
    theoretical = dict.fromkeys([*plan._ARITHMETIC, *sorted(plan.MATRIX_KEYS)], 100000000000000.0)
    quantities = plan.bandwidth(H200, 4.8e12, effort) + plan.peaks(H200, theoretical, effort)
    assert sum(q.budget_s for q in quantities) <= 0.9 * limit_s


def test_the_start_up_copies_span_the_stated_sizes():
    sizes = {trial.array_bytes for trial in plan.start_up(False)}
    assert (min(sizes), max(sizes)) == (32 << 10, 8 << 20)
