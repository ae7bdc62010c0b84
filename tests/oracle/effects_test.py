"""Effect marks say what implementations do, for every implemented op and every implementation that serves the CPU."""

from __future__ import annotations

import dataclasses

import pytest

from tileops.manifest.language.expr_parser import parse
from tileops.ops.implementations import implementation
from tileops.tests.oracle import expected, priced_calls
from tileops.tests.oracle.effects import defects

OPS = priced_calls.implemented()
BATCH_NORM = "BatchNormFwdOp"


@pytest.mark.parametrize("name", OPS)
def test_the_effect_marks_say_what_the_implementations_do(name):
    assert defects(expected.entries()[name][0].signature, OPS[name], expected.calls_of(name, OPS[name])) == []


def _marked(**marks):
    """The signature of batch normalization with other marks on running_var."""
    signature = expected.entries()[BATCH_NORM][0].signature
    changed = dataclasses.replace(signature.inputs["running_var"], **marks)
    return dataclasses.replace(signature, inputs={**signature.inputs, "running_var": changed})


@pytest.mark.parametrize(
    ("marks", "defect"),
    [
        ({"mutated": None}, "writes 'running_var', which is not mutated in a call with"),
        ({"write_only": True}, "'running_var' is write_only, and its old contents decide a result"),
    ],
)
def test_a_wrong_mark_is_found(marks, defect):
    found = defects(_marked(**marks), OPS[BATCH_NORM], expected.calls_of(BATCH_NORM, OPS[BATCH_NORM]))
    assert found and all(defect in one for one in found)


def _calls():
    return expected.calls_of(BATCH_NORM, OPS[BATCH_NORM])


def _batch_norm(spoil):
    class Spoiled(OPS[BATCH_NORM]):
        @implementation("torch")
        def _torch(self, call, input, running_mean, running_var, weight, bias):
            return spoil(super()._torch, call, input, running_mean, running_var, weight, bias)

    return defects(expected.entries()[BATCH_NORM][0].signature, Spoiled, _calls())


def test_an_implementation_that_writes_what_is_not_mutated_is_found():
    def spoil(run, call, input, *others):
        result = run(call, input, *others)
        input.add_(1)
        return result

    assert {one.partition(",")[0] for one in _batch_norm(spoil)} == {"torch: writes 'input'"}


def test_an_implementation_that_never_writes_what_is_mutated_is_found():
    def spoil(run, call, input, *others):
        return run(call, input, *(None if one is None else one.clone() for one in others))

    assert set(_batch_norm(spoil)) == {
        f"torch: {name!r} is mutated, and every call leaves it as it was" for name in ("running_mean", "running_var")
    }


def test_an_implementation_that_overwrites_what_it_must_read_is_found():
    def spoil(run, call, input, mean, *others):
        if call.params["training"] and mean is not None:
            mean.zero_()
        return run(call, input, mean, *others)

    assert _batch_norm(spoil) == [
        "torch: 'running_mean' is mutated and not write_only, and its old contents decide no result of a call that writes it"
    ]


def test_an_effect_that_no_call_reaches_is_found():
    signature = expected.entries()[BATCH_NORM][0].signature
    never = dataclasses.replace(
        signature.inputs["running_mean"].mutated, text="momentum < 0", expr=parse("momentum < 0")
    )
    changed = dataclasses.replace(signature.inputs["input"], mutated=never)
    found = defects(
        dataclasses.replace(signature, inputs={**signature.inputs, "input": changed}), OPS[BATCH_NORM], _calls()
    )
    assert found == ["torch: no call writes 'input', which is mutated if 'momentum < 0'; add a small call that does"]
