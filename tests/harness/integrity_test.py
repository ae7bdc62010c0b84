"""What a fingerprint notices, and what it leaves alone."""

import dataclasses
import os
import subprocess
import sys
import types

import pytest
import torch

from tileops.perf.harness import fingerprint as bench_fingerprint
from tileops.perf.harness import records
from tileops.proto import benchmark_pb2
from tileops.tests.harness import toys


@dataclasses.dataclass(frozen=True)
class _Setting:
    limit: int


@dataclasses.dataclass(frozen=True, slots=True)
class _Slotted:
    limit: int


def _module():
    """A module with something of everything."""
    source = """
import functools
import math

LIMITS = {"a": 1.0}
PARTS = (({"b": 2},),)
SETTING = Setting(3)
SLOTTED = Slotted(3)
cache = {}
queue = []
count = 0


def plain(x, scale=2, *, shift={"by": 1}):
    return math.floor(x) * scale + shift["by"]


def _closed():
    seen = plain
    return lambda: seen


closed = _closed()


@functools.cache
def cached():
    return 1


class Thing:
    LIMIT = 4
    state = 0

    def method(self):
        return sum([1])

    @staticmethod
    def fixed():
        return 1

    @property
    def shown(self):
        return 1


class Other(Thing):
    pass
"""
    module = types.ModuleType("ours")
    module.Setting, module.Slotted = _Setting, _Slotted
    exec(source, vars(module))
    return module


def _other(*args, **kwargs):
    return 0


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda m: setattr(m, "plain", _other), "ours.plain"),
        (lambda m: setattr(m.plain, "__code__", _other.__code__), "ours.plain"),
        (lambda m: setattr(m.plain, "__defaults__", (3,)), "ours.plain"),
        (lambda m: m.plain.__kwdefaults__["shift"].update(by=2), "ours.plain"),
        (lambda m: m.plain.__kwdefaults__.update(shift={"by": 1}), "ours.plain"),
        (lambda m: setattr(m.closed.__closure__[0], "cell_contents", _other), "ours.closed"),
        (lambda m: setattr(m.cached.__wrapped__, "__code__", _other.__code__), "ours.cached"),
        (lambda m: m.LIMITS.update(a=2.0), "ours.LIMITS"),
        (lambda m: m.LIMITS.update(c=2.0), "ours.LIMITS.c"),
        (lambda m: m.LIMITS.clear(), "ours.LIMITS"),
        (lambda m: m.PARTS[0][0].update(b=3), "ours.PARTS"),
        (lambda m: object.__setattr__(m.SETTING, "limit", 9), "ours.SETTING"),
        (lambda m: object.__setattr__(m.SLOTTED, "limit", 9), "ours.SLOTTED"),
        (lambda m: setattr(m, "math", object()), "ours.math"),
        (lambda m: setattr(m, "count", 1), "ours.count"),
        (lambda m: setattr(m, "sum", _other), "ours.sum"),
        (lambda m: setattr(m.Thing, "LIMIT", 5), "ours.Thing.LIMIT"),
        (lambda m: setattr(m.Thing, "method", _other), "ours.Thing.method"),
        (lambda m: setattr(m.Thing.method, "__code__", _other.__code__), "ours.Thing.method"),
        (lambda m: setattr(m.Thing.__dict__["fixed"].__func__, "__code__", _other.__code__), "ours.Thing.fixed"),
        (lambda m: setattr(m.Thing.__dict__["shown"].fget, "__code__", _other.__code__), "ours.Thing.shown"),
        (lambda m: setattr(m.Other, "method", _other), "ours.Other.method"),
        (lambda m: setattr(m.Other, "__getattribute__", _other), "ours.Other.__getattribute__"),
    ],
)
def test_what_changes_what_code_does_is_named(change, named):
    module = _module()
    fingerprint = bench_fingerprint.Fingerprint([module])
    assert fingerprint.changed() == []
    change(module)
    assert named in fingerprint.changed() == fingerprint.sealed()()


def test_state_may_change():
    module = _module()
    fingerprint = bench_fingerprint.Fingerprint([module])
    module.cache["x"] = module.Thing()
    module.queue.append(1)
    module.Thing.state = 5
    module.Thing.compiled = _other
    module.__compiled_fn_1 = _other
    module.cached()
    module.cache["x"].method()
    assert fingerprint.changed() == []


def test_what_our_code_looks_up_in_other_people_s_modules_and_classes_must_stay(monkeypatch):
    module = _module()
    source = "import torch\n\ndef norm(x):\n    return torch.linalg.vector_norm(x.square())\n"
    module.torch = torch
    exec(source, vars(module))
    fingerprint = bench_fingerprint.Fingerprint([module], names=("Tensor",))
    monkeypatch.setattr(torch, "dist", _other)  # which it does not look up
    assert fingerprint.changed() == []
    monkeypatch.setattr(torch.Tensor, "square", _other, raising=False)
    monkeypatch.setattr(torch.linalg, "vector_norm", _other)
    assert fingerprint.changed() == ["torch.Tensor.square", "torch.linalg.vector_norm"]


def test_an_implementation_keeps_what_it_likes_and_stays_what_it_is():
    op_class = toys.load("implementations")["ScaleFwdOp"]
    own = type("ScaleFwdOp", (op_class,), {})

    def keeping(op, call, x, kept={}):  # noqa: B006  # what the test is about
        kept[0] = x
        return x

    own.register("mine", keeping)
    fingerprint = bench_fingerprint.Fingerprint([], [own])
    keeping(None, None, 1)
    own.register("another", keeping)
    own.plan = keeping
    assert fingerprint.changed() == []
    own.register("mine", lambda op, call, x: x)
    assert fingerprint.changed() == ["implementation 'mine' of ScaleFwdOp"]


def test_what_an_implementation_of_ours_looks_up_must_stay(monkeypatch):
    """A library may put its own function in place of PyTorch's, which our implementation would run."""
    module = _module()
    source = (
        "def norm(x):\n    return torch.nn.functional.layer_norm(x, (3,))\n\nnorm._tileops_implementation = 'torch'\n"
    )
    module.torch = torch
    exec(source, vars(module))
    fingerprint = bench_fingerprint.Fingerprint([module])
    assert fingerprint.changed() == []
    monkeypatch.setattr(torch.nn.functional, "layer_norm", _other)
    assert fingerprint.changed() == ["torch.nn.functional.layer_norm"]


def test_what_pytorch_replaces_itself_is_no_change():
    """Its compiler wraps functions of its own when it is first imported, and more of them when it first compiles."""
    program = """
import torch
from tileops.ops import catalogue
from tileops.perf.harness import fingerprint as bench_integrity, worker as bench_worker
from tileops.ops.families import norm
guard = bench_integrity.Guard(catalogue.load().values())
before = len(vars(norm))
torch.compile(norm._rms_norm, backend="eager")(torch.ones(3, 4), torch.ones(4), (4,), 1e-6)
import torch._inductor.compile_fx
assert len(vars(norm)) > before
assert torch.manual_seed.__code__.co_name != "manual_seed"
print(guard.changed())
"""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stderr


def test_a_median_that_its_samples_do_not_have_is_an_error_without_a_time():
    record = benchmark_pb2.BenchmarkRecord(status=benchmark_pb2.STATUS_OK)
    record.timing.sample_ns.extend([3.0, 5.0, 4.0])
    record.timing.device_busy_ns = 4.0
    records.refuse_impossible_time(record)
    assert record.status == benchmark_pb2.STATUS_OK and record.HasField("timing")
    record.timing.device_busy_ns = 1.0
    records.refuse_impossible_time(record)
    assert record.status == benchmark_pb2.STATUS_ERROR and not record.HasField("timing")
    assert record.message == "not timed: the record says a median of 1 ns, but its samples have 4 ns"


def test_a_formula_is_watched_by_the_name_that_generated_code_calls_it_by(monkeypatch):
    from tileops.perf import formulas
    from tileops.perf.harness.fingerprint import Guard

    guard = Guard(())
    assert guard.changed() == []
    monkeypatch.setattr(formulas, "gqa_fwd_roofline", lambda call: (0, 0))
    assert guard.changed() == ["tileops.perf.formulas.gqa_fwd_roofline"]
