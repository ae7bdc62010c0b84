"""What implementations do to tensors reaches nothing that the bench itself calls."""

import pytest
import torch
import torch._dynamo

from tileops.perf.clock import measure
from tileops.perf.clock.measurement import Budget
from tileops.perf.harness import border, expected, timing
from tileops.perf.harness.expected import WrongResultError
from tileops.perf.harness.inputs import RowInputs
from tileops.tests.harness import toys

CPU = torch.device("cpu")


@pytest.fixture
def op_class():
    return toys.load("implementations")["ScaleFwdOp"]


@pytest.fixture
def inputs(op_class):
    return RowInputs(op_class, toys.case(op_class, "small"), CPU)


def _noted(tensor, **attributes):
    for name, value in attributes.items():
        setattr(tensor, name, value)
    return tensor


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (lambda: _noted(torch.ones(3), clone=print), r"output 'output' .* hide a tensor's own \(clone\)"),
        (lambda: _noted(torch.ones(3), ne=1, detach=2, mine=3), r"that hide a tensor's own \(detach, ne\)"),
        (
            lambda: torch.nn.Parameter(torch.ones(3)),
            "is a Parameter, which belongs to a module .* a plain tensor, its detach",
        ),
        (lambda: torch.ones(3).as_subclass(type("Own", (torch.Tensor,), {})), "is a Own, which may compute"),
    ],
)
def test_an_output_that_is_no_plain_tensor_is_refused_with_the_reason(op_class, output, reason):
    with pytest.raises(WrongResultError, match=reason):
        border.taken(op_class(), output())


def test_attributes_that_hide_nothing_are_no_cheat_and_are_left_behind(op_class):
    """PyTorch's compiler leaves some."""
    tensor = _noted(torch.ones(3), mine=1)
    torch._dynamo.maybe_mark_dynamic(tensor, 0)
    (taken,) = border.taken(op_class(), tensor)
    assert taken is not tensor and not vars(taken) and taken.data_ptr() == tensor.data_ptr()


def test_a_call_gets_aliases_that_share_storage_and_count_of_writes_and_nothing_else(inputs):
    own, lent = inputs.tensors["x"], inputs.lent["x"]
    lent.copy_ = lambda source: None
    lent.add_(1)
    assert own._version == lent._version and own.data_ptr() == lent.data_ptr() and not vars(own)
    with pytest.raises(WrongResultError, match=r"input 'x' carries attributes that hide a tensor's own \(copy_\)"):
        border.check_lent(inputs.lent)
    border.check_lent(inputs.lend())


def test_an_input_that_was_turned_into_another_class_is_refused(inputs):
    inputs.lent["x"].__class__ = type("Own", (torch.Tensor,), {})
    with pytest.raises(WrongResultError, match="input 'x' is a Own"):
        border.check_lent(inputs.lent)


def test_a_storage_cannot_deny_that_it_is_shared(inputs):
    x = inputs.lent["x"]
    x.untyped_storage().data_ptr = lambda: 0
    assert not expected.share_storage(x, torch.ones(3)) and expected.share_storage(x, x[1:])
    other = torch.ones(4)
    other.untyped_storage().data_ptr = iter((1, 2)).__next__
    assert expected.share_storage(other, other[1:])


def test_no_instance_of_what_measures_takes_another_method(op_class, inputs):
    row = timing.Row(op_class, toys.case(op_class, "small"), CPU)
    timed = timing._TimedCalls(op_class(), inputs, 0, {})
    steps = measure._Steps(timed.call, timed.prepare, timed.inspect)
    for instance in (row, inputs, timed, steps, Budget()):
        method = next(name for name in ("fill", "run", "prepare", "samples") if hasattr(instance, name))
        assert not hasattr(instance, "__dict__")
        with pytest.raises((AttributeError, TypeError)):
            setattr(instance, method, print)
