"""The base class: what is recorded, when, and what is refused."""

from __future__ import annotations

import threading

import pytest
import torch

from tileops.ops import checks
from tileops.ops.errors import OpCallError, OpConstructionError, OpNotAvailableError
from tileops.ops.implementations import implementation
from tileops.ops.op import Op
from tileops.tests.runtime.demo_ops import ScaleFwdOp


def test_no_price_and_no_roof_before_a_completed_call():
    op = ScaleFwdOp()
    for ask in (op.eval_roofline, op.roof_key, lambda: op.last_call):
        with pytest.raises(OpNotAvailableError, match="no call has completed"):
            ask()


def test_pricing_after_a_second_call_prices_the_second_call():
    op = ScaleFwdOp()
    op(torch.ones(4))
    assert op.eval_roofline() == (4, 32)
    op(torch.ones(6, dtype=torch.float64))
    assert op.eval_roofline() == (6, 96)


def test_a_failed_call_changes_nothing():
    op = ScaleFwdOp(factor=3)
    op(torch.ones(4))
    before = op.last_call
    with pytest.raises(RuntimeError, match="thirteen"):
        op(torch.full((9,), 13.0))
    with pytest.raises(OpCallError):
        op("no tensor")
    assert op.last_call is before


def test_the_last_registered_implementation_that_serves_runs():
    op = ScaleFwdOp()
    op(torch.ones(2))
    assert op.last_implementation == "add"
    op = ScaleFwdOp(factor=3)
    op(torch.ones(2))
    assert op.last_implementation == "torch"
    assert op.serving(op.check(torch.ones(2))) == ("torch",)


def test_a_target_is_used_or_refused():
    op = ScaleFwdOp(target="torch")
    op(torch.ones(2))
    assert op.last_implementation == "torch"
    with pytest.raises(OpConstructionError, match="no implementation is named 'cuda'; there are: torch, add, gpu"):
        ScaleFwdOp(target="cuda")
    with pytest.raises(OpNotAvailableError, match="'gpu' does not serve"):
        ScaleFwdOp(target="gpu")(torch.ones(2))


def test_an_implementation_from_outside_is_preferred_and_checked():
    class Mine(ScaleFwdOp):
        pass

    Mine.register("mine", lambda op, call, x, ids: x * op.params["factor"])
    op = Mine()
    op(torch.ones(2))
    assert op.last_implementation == "mine"
    assert "mine" not in ScaleFwdOp.implementation_names()
    Mine.register("wrong", lambda op, call, x, ids: x.double())
    with pytest.raises(
        OpCallError,
        match=r"'wrong' returned 'y' as float64\[2\] on cpu, but the signature declares float32\[2\] on cpu",
    ):
        Mine()(torch.ones(2))
    Mine.register("wrong", lambda op, call, x, ids: (x, x))
    with pytest.raises(OpCallError, match=r"returned 2 outputs, but the signature declares 1 \(y\)"):
        Mine()(torch.ones(2))


def test_an_output_that_is_no_tensor_names_the_implementation():
    class Mine(ScaleFwdOp):
        pass

    Mine.register("forgetful", lambda op, call, x, ids: None)
    with pytest.raises(OpCallError, match="implementation 'forgetful' returned a NoneType for output 'y'"):
        Mine()(torch.ones(2))


def test_what_an_implementation_raises_passes_with_a_note_and_no_other_runs_instead():
    class Mine(ScaleFwdOp):
        pass

    class CompilationError(Exception):
        pass

    def broken(op, call, x, ids):
        raise CompilationError("at line 1")

    Mine.register("broken", broken)
    with pytest.raises(CompilationError, match="^at line 1") as raised:
        Mine()(torch.ones(1).expand(127))
    (note,) = raised.value.__notes__
    assert note == (
        "ScaleFwdOp: implementation 'broken' raised this with 'x' is float32[127] with strides [0]; target= takes another"
        " implementation: 'torch', 'add', 'gpu'"
    )
    Mine(target="torch")(torch.ones(1).expand(127))


def test_a_hand_written_price_is_refused():
    with pytest.raises(TypeError, match="defines eval_roofline"):
        type("Sly", (ScaleFwdOp,), {"eval_roofline": lambda self: (0, 0)})


def test_threads_do_not_see_each_others_calls():
    op = ScaleFwdOp()
    op(torch.ones(3))
    seen = []

    def other():
        try:
            op.last_call
        except OpNotAvailableError:
            seen.append("nothing")
        op(torch.ones(5))
        seen.append(op.eval_roofline()[0])

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen == ["nothing", 5]
    assert op.eval_roofline()[0] == 3


def test_a_meta_call_runs_nothing_and_returns_the_declared_types():
    op = ScaleFwdOp(factor=3)
    result = op(torch.empty(1 << 40, device="meta"))
    assert result.device.type == "meta" and result.shape == (1 << 40,)
    assert op.eval_roofline() == (1 << 40, 8 << 40)
    assert op.last_implementation == ""


def test_values_are_read_when_asked_and_never_after_a_write():
    op, ids = ScaleFwdOp(), torch.tensor([1, 2])
    op(torch.ones(2), ids)
    assert op.last_call.values("ids").tolist() == [1, 2]
    with pytest.raises(KeyError, match="'x' is no metadata tensor"):
        op.last_call.values("x")
    ids[0] = 7
    with pytest.raises(OpNotAvailableError, match="written after the call"):
        op.last_call.values("ids")


def test_values_on_the_cpu_are_the_tensors_own_memory_and_read_only():
    op, ids = ScaleFwdOp(), torch.tensor([1, 2])
    op(torch.ones(2), ids)
    values = op.last_call.values("ids")
    assert values.ctypes.data == ids.data_ptr()
    with pytest.raises(ValueError, match="read-only"):
        values[0] = 5


def test_values_of_a_dtype_that_numpy_lacks_come_as_float32():
    op = ScaleFwdOp()
    op(torch.ones(2), torch.tensor([1.5, -2.0], dtype=torch.bfloat16))
    assert op.last_call.values("ids").dtype == "float32" and op.last_call.values("ids").tolist() == [1.5, -2.0]


def test_values_on_meta_are_not_available_but_those_kept_on_the_cpu_are():
    op = ScaleFwdOp()
    op(torch.empty(2, device="meta"), torch.empty(2, dtype=torch.int64, device="meta"))
    with pytest.raises(OpNotAvailableError, match="on meta"):
        op.last_call.values("ids")
    op(torch.empty(2, device="meta"), torch.tensor([4, 5]))
    assert op.last_call.values("ids").tolist() == [4, 5]


def test_an_absent_tensor_is_named():
    op = ScaleFwdOp()
    op(torch.ones(2))
    assert not op.last_call.present("ids")
    with pytest.raises(KeyError, match="'ids' is absent"):
        op.last_call.tensors["ids"]
    assert op.last_call.bytes_of("x", "ids") == 8


def test_two_devices_are_refused_by_name():
    with pytest.raises(OpCallError, match="input 'ids' is on cpu and 'x' on meta") as refused:
        checks.call_device("ScaleFwdOp", (("x", torch.empty(2, device="meta")), ("ids", torch.ones(2))))
    assert "ScaleFwdOp" in str(refused.value)


@pytest.mark.requirement("4.5.11")
def test_no_read_half_is_no_read_half():
    op = ScaleFwdOp()
    op(torch.ones(2))
    with pytest.raises(OpNotAvailableError, match="no read half"):
        op.eval_roofline_read_bytes()


@pytest.mark.requirement("1.4.9")
def test_before_a_call_there_are_no_data_terms_as_there_is_no_price():
    op = ScaleFwdOp()
    for asked in (op.eval_roofline, op.roofline_data_terms, op.roof_key):
        with pytest.raises(OpNotAvailableError, match="ScaleFwdOp: no call has completed yet"):
            asked()
    op(torch.ones(2))
    assert op.roofline_data_terms() == {}


@pytest.mark.requirement("1.4.6")
def test_the_base_default_roof_is_the_cuda_cores_in_fp32():
    op = ScaleFwdOp()
    op(torch.ones(2))
    assert op.roof_key() == "cuda_core.fp32" and Op.roofline_data_terms(op) == {}


# ---- classes of several entries, and what is registered


class _GeneratedDouble(Op, generated=True):
    """An entry of its own, with the calls of ScaleFwdOp."""

    ENTRY = "DoubleFwdOp"
    INPUT_NAMES, OUTPUT_NAMES, METADATA_NAMES = (
        ScaleFwdOp.INPUT_NAMES,
        ScaleFwdOp.OUTPUT_NAMES,
        ScaleFwdOp.METADATA_NAMES,
    )
    __init__, forward, check = ScaleFwdOp.__init__, ScaleFwdOp.forward, ScaleFwdOp.check

    def eval_roofline(self):
        return 17, 19


def test_a_subclass_with_an_entry_of_its_own_has_that_entrys_price_and_the_parents_implementations():
    class DoubleFwdOp(_GeneratedDouble, ScaleFwdOp):
        @implementation("add")
        def _add(self, call, x, ids):
            return x + x

    op = DoubleFwdOp()
    assert op(torch.ones(2)).tolist() == [2, 2] and op.eval_roofline() == (17, 19)
    assert op.ENTRY == "DoubleFwdOp" and op.implementation_names() == ("torch", "add", "gpu")
    assert op.last_implementation == "add"


@pytest.mark.requirement("4.4.1b")
def test_a_parent_that_would_hide_the_price_of_a_classes_own_entry_is_refused():
    class Other(_GeneratedDouble):
        pass

    generated = ScaleFwdOp.__mro__[1]
    for bases in ((ScaleFwdOp, _GeneratedDouble), (ScaleFwdOp, Other), (_GeneratedDouble, generated)):
        with pytest.raises(
            TypeError, match=r"Mixed has bases of several entries .* subclass the generated class of its own entry"
        ):
            type("Mixed", bases, {})


def test_the_reference_is_replaced_in_its_place_and_what_cannot_be_called_is_refused():
    class Mine(ScaleFwdOp):
        pass

    Mine.register("torch", lambda op, call, x, ids: x * 2)
    Mine.register("add", lambda op, call, x, ids: x * 2)
    assert Mine.implementation_names() == ("torch", "gpu", "add")
    for function, when in ((5, None), (lambda op, call, x, ids: x, True)):
        with pytest.raises(TypeError, match="of implementation 'n' cannot be called: it is"):
            Mine.register("n", function, when)
    assert Mine.implementation_names() == ("torch", "gpu", "add")


@pytest.mark.parametrize("name", ["", "all", "best", "a,b", "a b", "TORCH\n", ".hidden", "-x", "é", None])
def test_a_name_that_no_flag_or_record_could_give_is_refused(name):
    class Mine(ScaleFwdOp):
        pass

    with pytest.raises(ValueError, match="ScaleFwdOp: .* cannot name an implementation"):
        Mine.register(name, lambda op, call, x, ids: x * 2)
    with pytest.raises(ValueError, match="cannot name an implementation"):
        implementation(name)(lambda op, call, x, ids: x * 2)
    assert Mine.implementation_names() == ScaleFwdOp.implementation_names()
    Mine.register("torch.compile-2_x+y", lambda op, call, x, ids: x * 2)


# ---- facts of a call that formulas read


class _CountingOp(ScaleFwdOp):
    """Advances its ids, as a cache does its lengths."""

    MUTATED_NAMES = ("ids",)

    @implementation("counts")
    def _counts(self, call, x, ids):
        ids += 1
        return x * 2


def test_values_of_a_metadata_tensor_that_the_call_writes_are_those_that_it_found():
    op, ids = _CountingOp(target="counts"), torch.tensor([5, 5])
    for found in (5, 6):
        op(torch.ones(2), ids)
        assert op.last_call.values("ids").tolist() == [found, found] and ids.tolist() == [found + 1, found + 1]


def test_values_that_an_implementation_writes_unannounced_are_no_values_of_the_call():
    class Careless(_CountingOp):
        MUTATED_NAMES = ()

    op = Careless(target="counts")
    op(torch.ones(2), torch.tensor([5, 5]))
    with pytest.raises(OpNotAvailableError, match="ScaleFwdOp: 'ids' was written after the call was checked"):
        op.last_call.values("ids")


def test_values_of_an_inference_tensor_are_those_that_the_call_found():
    op = ScaleFwdOp()
    with torch.inference_mode():
        ids = torch.tensor([1, 2])
        op(torch.ones(2), ids)
        ids.zero_()
        assert op.last_call.values("ids").tolist() == [1, 2]


def test_a_name_of_no_tensor_of_the_entry_is_a_key_error_and_not_an_absent_tensor():
    op, asked = type("Mine", (ScaleFwdOp,), {})(), []
    op.register("asks", lambda op, call, x, ids: x * 1, when=lambda call: asked.append(call.present("idz")))
    for call in (lambda: op(torch.ones(2)), lambda: op.serving(op.check(torch.ones(2)))):
        with pytest.raises(KeyError, match="ScaleFwdOp has no tensor 'idz'"):
            call()
    op.register("asks", lambda op, call, x, ids: x * 1, when=lambda call: False)
    op(torch.ones(2))
    with pytest.raises(KeyError, match="has no tensor 'typo'; present in this call are x, y"):
        op.last_call.bytes_of("x", "typo")
    with pytest.raises(AttributeError):
        op.last_call.tensors.pop("x")


def test_a_call_of_metadata_alone_is_on_meta_where_one_of_its_tensors_is():
    values, none = torch.ones(2), torch.empty(2, device="meta")
    for tensors in ((("a", values), ("b", none)), (("a", none), ("b", values))):
        assert checks.call_device("ScaleFwdOp", tensors, ("a", "b")) == "meta"
    assert checks.call_device("ScaleFwdOp", (("a", values),), ("a",)) == "cpu"


@pytest.mark.requirement("2.2.22")
@pytest.mark.parametrize("name", ["device", "aliases", "buffers"])
def test_a_price_cannot_depend_on_who_served_the_call_or_where(name):
    op = ScaleFwdOp()
    op(torch.ones(3))
    with pytest.raises(OpNotAvailableError, match=f"a completed call tells no {name}"):
        getattr(op.last_call, name)
    assert not hasattr(op.last_call, "implementation")


# What a formula may read of a completed call, and what only the runtime calls.
_FACTS = (
    "op params indices inputs outputs tensors dtypes present bytes_of metadata metadata_tensor values stages".split()
)
_STEPS = "name_tensors set_stages set_metadata note_versions set_served_by seal".split()


@pytest.mark.requirement("2.2.22")
def test_a_formula_never_reads_the_op_and_gets_the_checked_call_and_nothing_else():
    op = ScaleFwdOp()
    op(torch.ones(3), torch.tensor([1, 2]))
    call = op.last_call
    assert {name for name in dir(call) if not name.startswith("_")} == {
        *_FACTS,
        *_STEPS,
        "device",
        "aliases",
        "buffers",
    }
    assert call.op == "ScaleFwdOp"
    held = [getattr(call, name) for name in (*_FACTS, "_served_by", "_device", "_aliases", "_buffers")]
    assert not any(one is op for one in held)
