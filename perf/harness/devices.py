"""What `--device` names: a kind, one device, several of one kind, or every GPU of this machine."""

from __future__ import annotations

import re

from tileops.proto import benchmark_pb2

ALL_GPUS = "cuda:all"
# Several devices are named one by one: each of them gets a worker.
_ONE = re.compile(r"cpu|cuda:\d+")
_WHOLE = re.compile(r"auto|meta|cuda|cuda:all")


class DeviceError(Exception):
    """No device is named so; the message says what is wanted."""


def check(text: str) -> None:
    """Raises DeviceError unless `text` is what --device takes."""
    names = text.split(",")
    if not _WHOLE.fullmatch(text) and not all(_ONE.fullmatch(name) for name in names):
        raise DeviceError(
            f"--device={text}: auto, cuda, cuda:N, cuda:all, cpu or meta is wanted, or GPUs as in cuda:0,cuda:2"
        )
    if len({name.partition(":")[0] for name in names}) > 1:
        raise DeviceError(f"--device={text}: a run measures devices of one kind")
    gpus = [name for name in names if name.startswith("cuda")]
    if len(set(gpus)) < len(gpus):
        raise DeviceError(f"--device={text}: two rows at once on one GPU would take each other's time")


def expand(text: str, environment: benchmark_pb2.Environment) -> list[str]:
    """The devices that a run uses, "cpu" or "cuda:N" each: `text` where `environment` is what it turned out to be."""
    if text in ("auto", "cuda", ALL_GPUS):
        if environment.device_kind == "cpu":
            return ["cpu"]
        return [f"cuda:{index}" for index in range(environment.device_count)]
    return text.split(",")
