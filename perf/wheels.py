"""Downloads the wheels of the libraries that --baselines measures, for a machine that has no network.

The command asks pip, with your own configuration, for each line of perf/baselines/requirements.txt: a wheel for the
machine's Python and Linux on x86-64, without dependencies. It says which wheels it leaves out and why, and what else the
machine must have. A second run downloads only what is missing. On the machine, `bash install_wheels.sh` of the same
folder installs the wheels; docs/baselines.md shows both steps.

Exit status: 0 if all wheels are there, 1 if some are left out, 2 if a flag or file is wrong.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Sequence

from absl import flags

from tileops.tools.cli import command, errors, paths, words

_OUT = flags.DEFINE_string("out", None, "Folder of the wheels; it is made if it is missing.", required=True)
_REQUIREMENTS = flags.DEFINE_string(
    "requirements", None, "File with lines NAME==VERSION. Default: perf/baselines/requirements.txt."
)
_PYTHON = flags.DEFINE_string("python_version", "3.12", "Python of the machine.")
_GLIBC = flags.DEFINE_integer("glibc_minor", 39, "N of the machine's glibc 2.N.", lower_bound=17)
_TORCH = flags.DEFINE_string("torch", "2.11.0", "PyTorch of the machine. A wheel that asks for another is left out.")
_MAX_WHEEL_MB = flags.DEFINE_float("max_wheel_mb", 0, "Leave out larger wheels. Megabytes; 0: no limit.", lower_bound=0)
_RECOMPRESS = flags.DEFINE_bool(
    "recompress",
    False,
    "Compress the content of each wheel with LZMA, for which pip needs no flag. Minutes per 100 MB of GPU code, which"
    " shrinks to a third.",
)
_TRANSFER_MB = flags.DEFINE_float(
    "transfer_mb",
    0,
    "Also write folders transfer-1, transfer-2, ... of at most this size, for a machine that takes limited uploads. A"
    " larger wheel is split. Megabytes; 0: none.",
    lower_bound=0,
)
_MB = 1_000_000
_INSTALLER = "install_wheels.sh"
_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*==\s*([A-Za-z0-9.!+_-]+)")
_COMPARISON = re.compile(r"(===|==|~=|!=|<=|>=|<|>)\s*([0-9][^,;)\s]*)")


@dataclasses.dataclass(frozen=True)
class Pin:
    """One line of the requirements: a distribution and its version."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name}=={self.version}"

    def is_of(self, wheel: pathlib.Path) -> bool:
        """Returns whether the file is a wheel of this distribution and version."""
        name, version, *_ = f"{wheel.name}-".split("-")
        return normal(name) == normal(self.name) and version == self.version


def normal(name: str) -> str:
    """Returns the name of a distribution as pip compares names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_pins(path: pathlib.Path) -> list[Pin]:
    """Returns the pins of a requirements file.

    Raises:
      UserError: the file cannot be read, or a line is no pin; the message names the line.
    """
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise errors.UserError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise errors.UserError(f"{path}: cannot be read: {error}") from error
    pins = []
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        found = _PIN.fullmatch(text)
        if text and not found:
            raise errors.UserError(f"{path}:{number}: {text!r} is no pin; write NAME==VERSION")
        if found:
            pins.append(Pin(*found.groups()))
    return pins


def download(pin: Pin, folder: pathlib.Path) -> pathlib.Path | str:
    """Returns the wheel of a pin in `folder`, downloaded if it is not there yet; or why no wheel can be had."""
    for wheel in folder.glob("*.whl"):
        if pin.is_of(wheel):
            return wheel
    # pip writes elsewhere first: an interrupted download leaves no half wheel.
    with tempfile.TemporaryDirectory(prefix=".download-", dir=folder) as part:
        done = _pip("download", "--no-deps", "--only-binary=:all:", *_target(), "--dest", part, str(pin))
        wheels = list(pathlib.Path(part).glob("*.whl"))
        if done.returncode == 0 and wheels:
            return pathlib.Path(shutil.move(wheels[0], folder))
    said = f"{done.stdout}\n{done.stderr}"
    if "No matching distribution" not in said:
        lines = [line for line in said.splitlines() if line.startswith("ERROR")] or said.split("\n")
        return f"pip failed: {lines[-1].removeprefix('ERROR: ').strip() or f'status {done.returncode}'}"
    return _why_no_wheel(pin)


def _target() -> list[str]:
    manylinux = [f"manylinux_2_{minor}_x86_64" for minor in range(_GLIBC.value, 4, -1)]
    platforms = [*manylinux, "manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64", "linux_x86_64"]
    target = [f"--python-version={_PYTHON.value}", "--implementation=cp"]
    return target + [f"--platform={platform}" for platform in platforms]


def _why_no_wheel(pin: Pin) -> str:
    """Returns why pip found no wheel: no such version, or only a source or wheels of other machines."""
    machine = f"Python {_PYTHON.value} on Linux x86-64 with glibc 2.{_GLIBC.value}"
    versions = _pip("index", "versions", "--pre", pin.name).stdout
    if pin.version in re.findall(r"[^\s,()]+", versions):
        return f"it needs compilation: version {pin.version} has no wheel for {machine}"
    return f"no wheel: pip finds no version {pin.version} for {machine}"


def _pip(verb: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command_line = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", verb, *arguments]
    done = subprocess.run(command_line, capture_output=True, text=True, check=False, env=_users_environment())
    if "No module named pip" in done.stderr:
        raise errors.UserError(f"{sys.executable} has no pip; install it with: {sys.executable} -m ensurepip")
    return done


def _users_environment() -> dict[str, str]:
    """Returns the environment without what Bazel adds for Python, so that pip is the user's."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def needs(wheel: pathlib.Path) -> list[str]:
    """Returns the requirements of a wheel as its metadata has them, extras left out."""
    with zipfile.ZipFile(wheel) as archive:
        metadata = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        head = archive.read(metadata).decode().partition("\n\n")[0]
    found = re.findall(r"^Requires-Dist:\s*(.+)$", head, re.MULTILINE)
    return [line.strip() for line in found if "extra ==" not in line]


def clash(wheel: pathlib.Path, torch: str) -> str:
    """Returns why a wheel does not fit the machine's PyTorch; "" if it fits."""
    for line in needs(wheel):
        name = re.match(r"[A-Za-z0-9._-]+", line)
        if name and normal(name[0]) == "torch":
            wanted = line.partition(";")[0]
            if not all(_fits(torch, sign, version) for sign, version in _COMPARISON.findall(wanted)):
                return f"clashing torch: it needs {wanted.strip()}, and the machine has {torch}"
    return ""


def _fits(version: str, sign: str, other: str) -> bool:
    """Returns whether a version satisfies a comparison, by its numbers alone: 2.11.0+cu130 is 2.11.0."""
    if other.endswith(".*"):
        prefix = other.removesuffix(".*")
        return (f"{version}.".startswith(f"{prefix}.")) is (sign != "!=")
    mine, its = _numbers(version), _numbers(other)
    if sign == "~=":
        kept = len(re.findall(r"\d+", other)) - 1
        return mine >= its and mine[:kept] == its[:kept]
    return {
        "==": mine == its,
        "===": mine == its,
        "!=": mine != its,
        "<": mine < its,
        "<=": mine <= its,
        ">": mine > its,
        ">=": mine >= its,
    }[sign]


def _numbers(version: str) -> tuple[int, ...]:
    numbers = [int(number) for number in re.match(r"[0-9.]*", version)[0].split(".") if number]  # type: ignore[index]
    return tuple(numbers + [0] * (6 - len(numbers)))


def recompress(wheel: pathlib.Path) -> None:
    """Compresses the content of a wheel with LZMA, in its place. A wheel that would not shrink by a tenth stays as it is."""
    with zipfile.ZipFile(wheel) as archive:
        if any(member.compress_type == zipfile.ZIP_LZMA for member in archive.infolist()):
            return  # by an earlier run
        with tempfile.TemporaryDirectory(prefix=".recompress-", dir=wheel.parent) as part:
            smaller = pathlib.Path(part) / wheel.name
            with zipfile.ZipFile(smaller, "w") as out:
                for member in archive.infolist():
                    made = zipfile.ZipInfo(member.filename, member.date_time)
                    made.compress_type, made.external_attr = zipfile.ZIP_LZMA, member.external_attr
                    with archive.open(member) as source, out.open(made, "w", force_zip64=True) as target:
                        shutil.copyfileobj(source, target, _MB)
            if smaller.stat().st_size < 0.9 * wheel.stat().st_size:
                smaller.replace(wheel)


def missing(wheels: Iterable[pathlib.Path], python: str) -> dict[str, list[str]]:
    """Returns what wheels need that is not among them: the wheels' names by the name of the distribution.

    Requirements of other versions of Python than `python` do not count. Other conditions are taken as met.
    """
    wheels = list(wheels)
    here = {normal(wheel.name.split("-")[0]) for wheel in wheels}
    found: dict[str, list[str]] = {}
    for wheel in wheels:
        for line in needs(wheel):
            name = normal(re.match(r"[A-Za-z0-9._-]+", line)[0])  # type: ignore[index]
            conditions = re.findall(r"python_version\s*([<>=!~]+)\s*['\"]([0-9.]+)['\"]", line.partition(";")[2])
            if name not in here and all(_fits(python, *condition) for condition in conditions):
                found.setdefault(name, []).append(wheel.name.split("-")[0])
    return dict(sorted(found.items()))


def pack(wheels: Iterable[pathlib.Path], folder: pathlib.Path, limit: int) -> list[pathlib.Path]:
    """Writes folders transfer-1, transfer-2, ... with all wheels, each at most `limit` bytes; returns them.

    An example: wheels of 92, 27 and 3 MB and a limit of 60 MB. The first is split in halves. Transfer 1 has one half and
    the wheel of 3 MB, transfer 2 the other half; transfer 3 has the wheel of 27 MB, which fits into neither.
    """
    for old in folder.glob("transfer-*"):
        if (old / _INSTALLER).is_file():  # of an earlier run
            shutil.rmtree(old)
    installer = paths.data_path("perf", "baselines", _INSTALLER)
    pieces: list[tuple[int, str, pathlib.Path, int]] = []  # size, name, wheel, where the piece starts
    for wheel in wheels:
        size = wheel.stat().st_size
        count = -(-size // (limit - installer.stat().st_size - 1024))
        step = -(-size // count)
        for number in range(count):
            name = wheel.name if count == 1 else f"{wheel.name}.part{number + 1}of{count}"
            pieces.append((min(step, size - number * step), name, wheel, number * step))
    rooms: list[int] = []
    for size, name, wheel, start in sorted(pieces, key=lambda piece: (-piece[0], piece[1])):
        at = next((at for at, room in enumerate(rooms) if size + 1024 <= room), len(rooms))
        into = folder / f"transfer-{at + 1}"
        if at == len(rooms):
            into.mkdir()
            shutil.copy(installer, into)
            rooms.append(limit - installer.stat().st_size)
        rooms[at] -= size + 1024  # the sum's file is small
        _write_piece(wheel, start, size, into / name)
    return [folder / f"transfer-{at + 1}" for at in range(len(rooms))]


def _write_piece(wheel: pathlib.Path, start: int, size: int, path: pathlib.Path) -> None:
    content = wheel.read_bytes()
    path.write_bytes(content[start : start + size])
    if size != len(content):
        sums = path.with_name(f"{wheel.name}.sha256")
        sums.write_text(f"{hashlib.sha256(content).hexdigest()}  {wheel.name}\n")


def main(argv: Sequence[str]) -> int:
    """Collects the wheels and prints one line per pin; returns the exit status."""
    del argv
    if 0 < _TRANSFER_MB.value < 1:
        raise errors.UserError(f"--transfer_mb={_TRANSFER_MB.value:g}: give at least 1, or 0 for no folders")
    given = _REQUIREMENTS.value
    pins = read_pins(paths.user_path(given) if given else paths.data_path("perf", "baselines", "requirements.txt"))
    folder = paths.user_path(_OUT.value)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(paths.data_path("perf", "baselines", _INSTALLER), folder)
    except OSError as error:
        raise errors.UserError(f"--out={_OUT.value}: cannot be written: {error.strerror}") from error
    kept: list[pathlib.Path] = []
    left_out = 0
    for pin in pins:
        found = download(pin, folder)
        reason = found if isinstance(found, str) else _unfit(found)
        if isinstance(found, str) or reason:
            print(f"left out  {pin}: {reason}", flush=True)
            left_out += 1
            continue
        if _RECOMPRESS.value:
            recompress(found)
        print(f"{found.stat().st_size / _MB:6.1f} MB {found.name}", flush=True)
        kept.append(found)
    print(f"{words.counted(len(kept), 'wheel')}, {sum(wheel.stat().st_size for wheel in kept) / _MB:.1f} MB")
    if needed := missing(kept, _PYTHON.value):
        print("by their metadata, the wheels need these too, which the machine has or does without:")
    for name, wheels in needed.items():
        print(f"needed    {name}: by {', '.join(wheels)}")
    if _TRANSFER_MB.value:
        for part in pack(kept, folder, int(_TRANSFER_MB.value * _MB)):
            size = sum(path.stat().st_size for path in part.iterdir())
            print(f"{size / _MB:6.1f} MB {part.name}: {', '.join(sorted(path.name for path in part.glob('*.whl*')))}")
    return command.EXIT_FOUND if left_out else command.EXIT_OK


def _unfit(wheel: pathlib.Path) -> str:
    """Returns why a wheel is left out, and deletes it; "" if it stays."""
    size = wheel.stat().st_size / _MB
    reason = clash(wheel, _TORCH.value)
    if not reason and 0 < _MAX_WHEEL_MB.value < size:
        reason = f"too large: {size:.1f} MB, and --max_wheel_mb is {_MAX_WHEEL_MB.value:g}"
    if reason:
        wheel.unlink()
    return reason


if __name__ == "__main__":
    command.run(main)
