"""Which rows are selected, priced, skipped; and what a record says of them."""

import dataclasses

import pytest

from tileops.ops import catalogue
from tileops.perf.harness import devices, plan, records
from tileops.perf.harness import rows as bench_rows
from tileops.perf.harness.rows import Selection, SelectionError, Shard
from tileops.proto import benchmark_pb2
from tileops.tests.harness import toys


@pytest.mark.parametrize(
    ("price", "said"),
    [
        (-1, "gave -1, but a price must be a finite non-negative integer"),
        (float("nan"), "gave nan, but a price must be a finite non-negative integer"),
        (2**63, f"gave {2**63}, but a price must be at most {2**63 - 1}"),
    ],
)
def test_a_price_that_is_none_is_an_error_that_names_op_and_formula(classes, price, said):
    base = classes["ScaleFwdOp"]
    own = type("ScaleFwdOp", (base,), {"eval_roofline_read_bytes": lambda self: price})
    record = records.price_case(own, toys.case(base, "small"))
    assert record.status == benchmark_pb2.STATUS_ERROR
    assert record.message == f"FormulaError: ScaleFwdOp: eval_roofline_read_bytes() {said}"


@pytest.fixture
def classes():
    return toys.load("implementations")


def names(cases):
    return [case.case_id for _, case in cases]


def test_globs_select(classes):
    chosen = bench_rows.select(classes, Selection(labels=("s*", "few")))
    assert names(chosen) == ["small-float32", "few-float32"]
    assert names(bench_rows.select(classes, Selection(ops=("Scatter*",)))) == ["few-float32"]


@pytest.mark.parametrize(
    ("selection", "what"),
    [
        (Selection(ops=("GEMM*",)), "--op=GEMM. fits no op; there are: ScaleFwdOp, ScatterCountFwdOp"),
        (Selection(families=("attention",)), "--family=attention fits no family; there are: toy"),
        (Selection(labels=("small", "tiny")), "--label=tiny fits no label; there are: few, huge, middle, small$"),
        (Selection(ops=("Scatter*",), labels=("few", "tiny")), "--label=tiny fits no label; there are: few$"),
        (
            Selection(ops=("Scatter*",), labels=("small",)),
            "--label together; of the labels of these ops there are: few$",
        ),
    ],
)
def test_a_glob_that_selects_nothing_is_an_error(classes, selection, what):
    with pytest.raises(SelectionError, match=what.replace("*", ".")):
        bench_rows.select(classes, selection)


def test_quick_takes_the_cheapest_row_of_each_op(classes):
    cases = records.all_cases(classes)
    assert names(bench_rows.quick(cases, lambda row: row[1].input_bytes)) == ["small-float32", "few-float32"]
    assert names(bench_rows.quick(cases, lambda row: -row[1].input_bytes)) == ["huge-float32", "few-float32"]


def test_quick_on_the_cpu_takes_the_cheapest_row_that_a_named_implementation_serves(classes):
    scale = type("ScaleFwdOp", (classes["ScaleFwdOp"],), {})  # a registration of this test alone
    cases = [(scale, case) for case in scale.CASES]
    scale.register("large", lambda self, call, x: x, when=lambda call: call.indices["N"] == 256)

    def rows(*implementations, kind="cpu"):
        choice = plan.Choice(
            implementations=implementations, rows="quick", shard=Shard(), max_row_s=None, row_timeout_s=60.0
        )
        return names(plan.rows(cases, choice, kind))

    assert rows() == rows("torch") == rows("all") == rows("large", "torch") == ["small-float32"]
    assert rows("large") == ["middle-float16"]
    assert rows("large", kind="cuda") == ["small-float32"]  # this process asks no `when` of a GPU
    assert rows("gpu") == ["small-float32"]  # which serves no row here


@pytest.mark.parametrize("empty", ["input", "output"])
def test_quick_takes_a_row_without_elements_only_where_there_is_no_other(classes, empty):
    scale = classes["ScaleFwdOp"]
    small = toys.case(scale, "small")
    no_input = (dataclasses.replace(small.tensors[0], shape=(0, 64)),)
    change = {"output_bytes": 0} if empty == "output" else {"tensors": no_input}
    none = dataclasses.replace(small, case_id="none", **change)
    assert names(bench_rows.quick([(scale, none), (scale, small)], lambda row: 1.0)) == ["small-float32"]
    assert names(bench_rows.quick([(scale, none)], lambda row: 1.0)) == ["none"]


@pytest.mark.parametrize(
    ("device_kind", "rows", "labels", "is_told"),
    [
        ("cpu", None, (), True),
        ("cpu", None, ("small", "few"), False),
        ("cpu", "quick", (), False),
        ("cuda", None, (), False),
    ],
)
def test_the_quick_run_that_nobody_asked_for_says_how_all_rows_are_run(
    classes, capsys, device_kind, rows, labels, is_told
):
    choice = plan.Choice(implementations=["torch"], rows=rows, shard=Shard(), max_row_s=None, row_timeout_s=9.0)
    environment = benchmark_pb2.Environment(device_kind=device_kind)
    plan.units(bench_rows.select(classes, Selection(labels=labels)), choice, environment)
    told = "on the CPU the cheapest row of each op runs, 2 of 4; --rows=all runs all"
    assert (told in capsys.readouterr().err) == is_told


@pytest.mark.parametrize(("wanted", "left"), [("all", ["torch", "honest"]), ("gpu", ["gpu"])])
def test_what_serves_no_row_on_the_cpu_is_not_asked_again_unless_it_is_named(classes, wanted, left):
    choice = plan.Choice(implementations=[wanted], rows="all", shard=Shard(), max_row_s=None, row_timeout_s=9.0)
    cases = bench_rows.select(classes, Selection(labels=("small",)))
    planned = plan.units(cases, choice, benchmark_pb2.Environment(device_kind="cpu"))
    assert "gpu" in [unit.implementation for unit in planned]
    assert [unit.implementation for unit in plan.served(planned)] == left


def test_implementations_by_name(classes):
    scale = classes["ScaleFwdOp"]
    assert bench_rows.implementations(scale, ["all"]) == ("torch", "honest", "gpu")
    assert bench_rows.implementations(scale, ["gpu", "torch"]) == ("torch", "gpu")
    with pytest.raises(SelectionError, match="there are: gpu, honest, loop, torch"):
        bench_rows.check_implementations(classes.values(), ["cutlass"])


def test_a_row_is_priced_without_its_tensors(classes):
    prices = {record.case_id: record for record in records.price_cases(records.all_cases(classes))}
    huge = prices["huge-float32"]  # 4 TiB in and as much out
    assert huge.status == benchmark_pb2.STATUS_OK
    assert (huge.flops, huge.bytes, huge.read_bytes) == (1 << 40, 1 << 43, 1 << 42)
    assert (huge.roof_key, huge.implementation) == ("cuda_core.fp32", "")
    assert dict(huge.bindings) == {"factor": "2.0", "N": str(1 << 34)} and dict(huge.dtypes) == {"T": "float32"}
    assert not huge.HasField("timing")


def test_metadata_has_its_values_while_a_row_is_priced(classes):
    (few,) = records.price_cases([(classes["ScatterCountFwdOp"], classes["ScatterCountFwdOp"].CASES[0])])
    assert few.bytes == 3 * 8 + 4 * 12  # three different ids
    assert dict(few.data_terms) == {"touched": 3}
    assert not few.HasField("read_bytes")  # nobody declared it


def test_an_entry_without_a_class_of_its_own_has_no_roof():
    classes = toys.load()
    (record, *_) = records.price_cases(records.all_cases(classes))
    assert record.roof_key == "" and record.flops


def test_a_case_that_cannot_be_priced_costs_its_row(classes, monkeypatch):
    monkeypatch.setattr(classes["ScaleFwdOp"], "roof_key", lambda self: 1 // 0)
    first, *_, last = records.price_cases(records.all_cases(classes))
    assert first.status == benchmark_pb2.STATUS_ERROR and "ZeroDivisionError" in first.message
    assert last.status == benchmark_pb2.STATUS_OK


def test_a_cpu_is_judged_by_the_sizes_of_tensors_before_anything_runs(classes):
    scale = classes["ScaleFwdOp"]
    huge, small = toys.case(scale, "huge"), toys.case(scale, "small")
    little = devices.Machine(cores=2, memory_bytes=8 << 30)
    endless = devices.Machine(cores=2, memory_bytes=1 << 60)
    assert devices.too_much(huge, "", little, 2.0) == (
        "too large for this machine: about 52 TiB; a row may take 50% of the memory that is available, 4 GiB of 8 GiB"
    )
    assert devices.too_much(huge, "", endless, 2.0) == (
        "too long for this machine: about 6 days, estimated from the sizes of its tensors; --max_row_seconds=2 is the limit"
    )
    assert devices.too_much(huge, "", endless, 0.0) is None
    assert devices.too_much(small, "", little, 2.0) is None


def test_the_estimate_of_a_bfloat16_product_is_no_shorter_than_one_took():
    """148 s for a row of 1024^3 on two cores, which others used as well."""
    gemm = catalogue.load()["GEMMFwdOp"]
    case = next(case for case in gemm.CASES if case.case_id == "square-1k-bfloat16")
    two = devices.Machine(cores=2, memory_bytes=8 << 30)
    assert devices.estimate_s(case, gemm.ARITHMETIC, two) >= 148
    # Two operands of an elementwise op are no product.
    assert devices.estimate_s(case, "elementwise", two) < 1


def test_a_gpu_is_judged_by_the_sizes_of_tensors_and_says_that_it_is_an_estimate(classes):
    scale = classes["ScaleFwdOp"]
    huge, small = toys.case(scale, "huge"), toys.case(scale, "small")
    # 19 calls of 8 TiB, each with 4 TiB of new inputs, at 4e12 bytes/s: 63 s.
    assert devices.too_long(huge, 4e12, 5.0) == (
        "too long for this device: at least 1 min, estimated from the sizes of its tensors; --max_row_seconds=5 is the limit"
    )
    assert devices.too_long(huge, 4e12, 64.0) is None
    assert devices.too_long(small, 4e12, 5.0) is None


def test_a_gpu_s_bandwidth_comes_from_its_profile():
    assert 4e12 < devices.bandwidth("NVIDIA H200") < 4.8e12
    assert devices.bandwidth("NVIDIA A10")  # theoretical, where nothing was measured
    assert devices.bandwidth("No such GPU") is None


@pytest.mark.parametrize(
    ("device_name", "choice", "is_skipped"),
    [
        ("NVIDIA H200", {}, False),
        ("NVIDIA H200", {"row_timeout_s": 10.0}, False),
        ("NVIDIA H200", {"max_row_s": 3.0}, True),
        ("NVIDIA H200", {"max_row_s": 0.0}, False),
        ("No such GPU", {"max_row_s": 3.0}, False),
    ],
)
def test_a_gpu_skips_rows_by_an_estimate_only_where_the_user_asks(classes, device_name, choice, is_skipped):
    asked = {"implementations": ["torch"], "rows": "all", "shard": Shard(), "max_row_s": None, "row_timeout_s": 180.0}
    environment = benchmark_pb2.Environment(device_kind="cuda", device_name=device_name)
    units = plan.units(records.all_cases(classes), plan.Choice(**asked | choice), environment)
    skipped = {unit.case.case_id: unit.skip for unit in units if unit.skip}
    assert list(skipped) == (["huge-float32"] if is_skipped else [])
    if is_skipped:  # the time itself is the calibration's
        assert skipped["huge-float32"].startswith("too long for this device: at least ")
        assert skipped["huge-float32"].endswith(
            ", estimated from the sizes of its tensors; --max_row_seconds=3 is the limit"
        )


@pytest.mark.requirement("5.2.1")
@pytest.mark.parametrize("device_kind", ["cpu", "cuda"])
def test_no_price_decides_which_rows_are_skipped(classes, monkeypatch, device_kind):
    choice = plan.Choice(implementations=["torch"], rows=None, shard=Shard(), max_row_s=3.0, row_timeout_s=180.0)
    environment = benchmark_pb2.Environment(device_kind=device_kind, device_name="NVIDIA H200")
    cases = records.all_cases(classes)

    def planned():
        return [(unit.key, unit.skip and unit.skip[:8]) for unit in plan.units(cases, choice, environment)]

    before = planned()
    for flops, nbytes in ((2**63, 2**63), (0, 0)):
        price = benchmark_pb2.BenchmarkRecord(flops=flops, bytes=nbytes, roof_key="tensor_core.bf16")
        monkeypatch.setattr(plan, "_prices", lambda cases, price=price: {id(case): price for _, case in cases})
        assert planned() == before


@pytest.mark.parametrize(
    ("seconds", "words"), [(6.42, "6.4 s"), (90, "1.5 min"), (6.42e3, "1.8 h"), (2e5, "2.3 days"), (1e8, "1157 days")]
)
def test_a_time_is_told_in_units_of_people(classes, monkeypatch, seconds, words):
    scale = classes["ScaleFwdOp"]
    small = toys.case(scale, "small")
    monkeypatch.setattr(devices, "estimate_s", lambda case, arithmetic, machine: seconds)
    machine = devices.Machine(cores=2, memory_bytes=8 << 30)
    assert f" about {words}," in devices.too_much(small, "", machine, 2.0)
