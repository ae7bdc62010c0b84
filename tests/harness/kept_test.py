"""Kept tensors come back as they were, nobody can write to them, and whoever replaces them is named."""

import dataclasses
import os

import pytest
import torch

from tileops.ops import catalogue
from tileops.perf.clock.measurement import Budget
from tileops.perf.harness import border, timing
from tileops.proto import benchmark_pb2

BUDGET = Budget(warmup_s=0.0, measure_s=0.0)


@dataclasses.dataclass(frozen=True)
class _Pair:
    tensor: torch.Tensor
    rest: tuple


VALUES = [
    torch.arange(15.0).view(3, 5).t(),
    torch.tensor(3.0, dtype=torch.float64),
    torch.empty(0, 4),
    torch.tensor([True, False, True]),
    torch.arange(7).to(torch.bfloat16)[1:],
    torch.full((300, 1), 2.0)[:, 0][:1].as_strided((1,), (256,)),
    torch.tensor([1, -1], dtype=torch.int8).expand(3, 2),
    torch.tensor([float("nan"), float("inf"), -0.0], dtype=torch.float16),
]


def bits(tensor):
    return tensor.dtype, tensor.shape, repr(tensor.tolist())  # in which NaN equals itself and -0.0 is not 0.0


def test_a_value_comes_back_with_its_tensors():
    value = {"a": _Pair(VALUES[0], (VALUES[1], [None, "text"])), "b": tuple(VALUES), "c": frozenset({("d", "e")})}
    found = border.Kept(value).get()
    assert found.keys() == value.keys() and found["c"] == value["c"] and found["a"].rest[1] == [None, "text"]
    given, back = [value["a"].tensor, value["a"].rest[0], *VALUES], [found["a"].tensor, found["a"].rest[0], *found["b"]]
    assert list(map(bits, back)) == list(map(bits, given))


def test_neither_what_was_given_nor_what_came_back_is_what_is_kept():
    given = torch.arange(10.0)
    kept = border.Kept(given)
    given.zero_()
    kept.get().zero_()
    assert kept.get().tolist() == list(range(10))


def test_the_file_takes_no_write():
    kept = border.Kept(torch.arange(10.0))
    path = f"/proc/self/fd/{kept._file.fileno()}"
    with pytest.raises(OSError, match="not permitted"), open(path, "r+b", buffering=0) as file:
        file.write(b"xxxx")
    with pytest.raises(OSError):
        os.truncate(path, 1)
    assert kept.get().tolist() == list(range(10))


def forged(kept, seals):
    """Another file in the place of a kept one, of the same size, zeroed."""
    file = os.memfd_create("other", os.MFD_ALLOW_SEALING)
    os.ftruncate(file, kept._size)
    if seals:
        border.fcntl.fcntl(file, border.fcntl.F_ADD_SEALS, border._SEALS)
    os.dup2(file, kept._file.fileno())


@pytest.mark.parametrize("seals", [False, True])
def test_another_file_in_its_place_is_an_error(seals):
    kept = border.Kept(torch.arange(10.0))
    kept.check()
    forged(kept, seals)
    for look in (kept.check, kept.get):
        with pytest.raises(border.KeptError, match="was replaced"):
            look()


def test_other_contents_are_an_error():
    kept = border.Kept((torch.arange(10.0), torch.arange(3)))
    forged(kept, seals=True)
    kept._identity = kept._identify()
    with pytest.raises(border.KeptError, match="checksum"):
        kept.get()


@pytest.mark.parametrize("count", [1, 7, 8, 9, 64, 1001])
def test_a_checksum_tells_every_byte_and_its_place(count):
    data = torch.arange(count).mul_(37).to(torch.uint8)
    seen = {border.checksum(data), border.checksum(torch.cat([data, data.new_zeros(1)]))}
    for at in range(count):
        changed = data.clone()
        changed[at] += 1
        seen.add(border.checksum(changed))
    assert len(seen) == count + 2
    if count > 16:
        words = data[: count // 8 * 8].view(-1, 8)
        assert border.checksum(words) != border.checksum(words.flip(0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_changes_of_signs_do_not_cancel_in_a_checksum(dtype):
    data = torch.arange(1, 257).to(dtype)
    seen = [border.checksum(data)]
    for places in ([0, 1], [0, 2], [0, 1, 2, 3], slice(None), slice(0, None, 2), slice(100, 200)):
        changed = data.clone()
        changed[places] *= -1
        seen.append(border.checksum(changed))
    assert len(set(seen)) == len(seen)


def test_a_checksum_in_several_steps_is_that_of_all(monkeypatch):
    data = torch.arange(1000)
    monkeypatch.setattr(border, "_WORDS", 64)
    seen = {border.checksum(data)}
    for at in range(0, 1000, 50):
        changed = data.clone()
        changed[at] ^= 1 << 62
        seen.add(border.checksum(changed))
    assert len(seen) == 21


def test_whoever_replaces_the_kept_result_is_named(monkeypatch):
    """Which takes code that looks for the bench's own objects."""
    op_class = catalogue.load()["ReLUFwdOp"]
    own = type("ReLUFwdOp", (op_class,), {})
    case = min(own.CASES, key=lambda one: one.input_bytes)
    row = timing.Row(own, case, torch.device("cpu"))

    def honest(op, call, x):
        return torch.relu(x)

    def forges(op, call, x):
        forged(row._kept, seals=True)
        return torch.relu(x)

    own.register("honest", honest)
    own.register("forges", forges)
    assert row.run("honest", BUDGET).status == benchmark_pb2.STATUS_OK
    record = row.run("forges", BUDGET)
    assert record.status == benchmark_pb2.STATUS_ERROR and not record.HasField("timing")
    assert "kept results of the reference changed while 'forges' ran: the file of the kept tensors" in record.message


def test_what_replaces_it_when_all_is_over_is_found_out_before_another_runs():
    op_class = catalogue.load()["ReLUFwdOp"]
    own = type("ReLUFwdOp", (op_class,), {})
    case = min(own.CASES, key=lambda one: one.input_bytes)
    row = timing.Row(own, case, torch.device("cpu"))
    calls = []

    def forges(op, call, x):
        calls.append(1)
        if len(calls) == 3:  # the first check is over
            forged(row._kept, seals=True)
        return torch.relu(x)

    own.register("forges", forges)
    record = row.run("forges", BUDGET)
    assert record.status == benchmark_pb2.STATUS_ERROR and "while 'forges' ran" in record.message
