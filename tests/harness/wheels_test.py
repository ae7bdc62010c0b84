"""//perf:wheels: which wheels it downloads, leaves out and splits, from a folder of made wheels that pip takes as its index."""

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import zipfile

import pytest

from tileops.perf import wheels
from tileops.tools.cli import paths

PINS = """\
# what is measured
plain==1.0
Native_Part==2.0.post1   # for plain
old-torch==1.0
any-torch==1.0
big==1.0
source-only==1.0
other-machine==1.0
unknown==9
"""


@pytest.fixture
def index(tmp_path):
    """Makes wheels and a source distribution in a folder."""
    folder = tmp_path / "index"
    folder.mkdir()

    def wheel(name, version, tag="py3-none-any", needs=(), size=0):
        base = name.replace("-", "_")
        info = f"{base}-{version}.dist-info"
        content = {
            f"{base}.py": f"VERSION = {version!r}\n".encode(),
            f"shared/{base}.py": b"",
            f"{base}.bin": os.urandom(size),
            f"{info}/METADATA": "\n".join(
                [
                    "Metadata-Version: 2.1",
                    f"Name: {name}",
                    f"Version: {version}",
                    *[f"Requires-Dist: {n}" for n in needs],
                ]
            ).encode()
            + b"\n\nRequires-Dist: words of the description\n",
            f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n".encode(),
        }
        content[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*content, f"{info}/RECORD"]).encode()
        with zipfile.ZipFile(folder / f"{base}-{version}-{tag}.whl", "w") as archive:
            for path, data in content.items():
                archive.writestr(path, data)

    wheel(
        "plain",
        "1.0",
        needs=("einops", "torch", "native-part>=2", "black ; extra == 'dev'", 'enums ; python_version<"3.11"'),
    )
    wheel("plain", "2.0")
    wheel("native_part", "2.0.post1", "cp312-cp312-manylinux_2_28_x86_64")
    wheel("old-torch", "1.0", needs=("torch ==2.9.1",))
    wheel("any-torch", "1.0", needs=("torch >=2.9,<3",), tag="cp39-abi3-manylinux_2_24_x86_64")
    wheel("big", "1.0", size=2_500_000)
    wheel("other-machine", "1.0", "cp311-cp311-manylinux_2_28_x86_64")
    with tarfile.open(folder / "source-only-1.0.tar.gz", "w:gz") as archive:
        data = b"Metadata-Version: 2.1\nName: source-only\nVersion: 1.0\n"
        member = tarfile.TarInfo("source-only-1.0/PKG-INFO")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return folder


@pytest.fixture
def collect(tmp_path, index):
    """Runs the command with pip's own settings for the folder; returns (status, stdout, stderr)."""
    (tmp_path / "pins.txt").write_text(PINS)

    def run(*flags, **environment):
        settings = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index), "PIP_CONFIG_FILE": os.devnull}
        done = subprocess.run(
            [sys.executable, "-m", "tileops.perf.wheels", "--requirements=pins.txt", "--out=wheels", *flags],
            env={
                **os.environ,
                **settings,
                "PYTHONPATH": os.pathsep.join(sys.path),
                "BUILD_WORKING_DIRECTORY": str(tmp_path),
                **environment,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    return run


def test_it_downloads_what_the_machine_can_use_and_says_what_it_leaves_out(tmp_path, collect):
    status, out, err = collect("--max_wheel_mb=2")
    assert (status, err) == (1, "")
    left_out = dict(line.removeprefix("left out  ").split(": ", 1) for line in out.splitlines() if "left out" in line)
    machine = "Python 3.12 on Linux x86-64 with glibc 2.39"
    assert left_out == {
        "old-torch==1.0": "clashing torch: it needs torch ==2.9.1, and the machine has 2.11.0",
        "big==1.0": "too large: 2.5 MB, and --max_wheel_mb is 2",
        "source-only==1.0": f"it needs compilation: version 1.0 has no wheel for {machine}",
        "other-machine==1.0": f"it needs compilation: version 1.0 has no wheel for {machine}",
        "unknown==9": f"no wheel: pip finds no version 9 for {machine}",
    }
    assert {path.name for path in (tmp_path / "wheels").iterdir()} == {
        "plain-1.0-py3-none-any.whl",
        "native_part-2.0.post1-cp312-cp312-manylinux_2_28_x86_64.whl",
        "any_torch-1.0-cp39-abi3-manylinux_2_24_x86_64.whl",
        "install_wheels.sh",
    }
    assert "3 wheels, 0.0 MB" in out
    needed = dict(line.removeprefix("needed    ").split(": by ") for line in out.splitlines() if "needed" in line)
    assert needed == {"einops": "plain", "torch": "plain, any_torch"}


def test_another_run_downloads_only_what_is_missing(tmp_path, collect, index):
    (tmp_path / "pins.txt").write_text("plain==1.0\nbig==1.0\n")
    assert collect()[0] == 0
    kept = tmp_path / "wheels" / "plain-1.0-py3-none-any.whl"
    before = kept.stat().st_mtime_ns
    (tmp_path / "wheels" / "big-1.0-py3-none-any.whl").unlink()
    (index / kept.name).unlink()
    status, out, _ = collect()
    assert status == 0
    assert kept.name in out and kept.stat().st_mtime_ns == before
    assert (tmp_path / "wheels" / "big-1.0-py3-none-any.whl").is_file()


def test_transfers_keep_to_their_size_and_install_everything(tmp_path, collect):
    (tmp_path / "pins.txt").write_text("big==1.0\nplain==1.0\nold-torch==1.0\n")
    status, out, _ = collect("--transfer_mb=1.5", "--torch=2.9.1")
    assert status == 0
    folders = sorted((tmp_path / "wheels").glob("transfer-*"))
    assert len(folders) == 2
    assert all(sum(path.stat().st_size for path in folder.iterdir()) <= 1_500_000 for folder in folders)
    assert "big-1.0-py3-none-any.whl.part1of2" in out and "big-1.0-py3-none-any.whl.part2of2" in out
    said = [_install(folder, tmp_path / "site") for folder in reversed(folders)]
    assert "big-1.0-py3-none-any.whl: 1 of 2 parts are here" in said[0].stderr
    assert said[1].stderr == "" and said[1].stdout == f"export PYTHONPATH={tmp_path}/site\n"
    modules = {path.name for path in (tmp_path / "site").rglob("*.py")}
    assert {"big.py", "plain.py", "old_torch.py"} <= modules
    assert len(list((tmp_path / "site" / "shared").glob("*.py"))) == 3
    with zipfile.ZipFile(tmp_path / "wheels" / "big-1.0-py3-none-any.whl") as archive:
        assert (tmp_path / "site" / "big.bin").read_bytes() == archive.read("big.bin")


def test_recompressed_wheels_are_smaller_and_install_the_same(tmp_path, collect, index):
    """A wheel of random bytes does not shrink, and stays as it is."""
    path = index / "plain-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        tool = zipfile.ZipInfo("shared/tool")
        tool.external_attr, tool.compress_type = 0o100755 << 16, zipfile.ZIP_DEFLATED
        archive.writestr(tool, os.urandom(20_000) * 20)  # repeats too far apart for deflate
    (tmp_path / "pins.txt").write_text("plain==1.0\nbig==1.0\n")
    assert collect("--recompress")[0] == 0
    packed = tmp_path / "wheels" / path.name
    assert packed.stat().st_size < 0.9 * path.stat().st_size
    big = "big-1.0-py3-none-any.whl"
    assert (tmp_path / "wheels" / big).read_bytes() == (index / big).read_bytes()
    before = packed.read_bytes()
    assert collect("--recompress")[0] == 0
    assert packed.read_bytes() == before
    assert _install(tmp_path / "wheels", tmp_path / "site").returncode == 0
    with zipfile.ZipFile(path) as archive:
        assert (tmp_path / "site" / "shared" / "tool").read_bytes() == archive.read("shared/tool")
    assert os.access(tmp_path / "site" / "shared" / "tool", os.X_OK)


def test_a_part_that_is_damaged_is_not_installed(tmp_path, collect):
    (tmp_path / "pins.txt").write_text("big==1.0\n")
    collect("--transfer_mb=1.5")
    first, second = sorted((tmp_path / "wheels").glob("transfer-*"))
    part = next(second.glob("*.part*"))
    part.write_bytes(b"x" + part.read_bytes()[1:])
    _install(first, tmp_path / "site")
    done = _install(second, tmp_path / "site")
    assert done.returncode != 0 and "FAILED" in done.stdout + done.stderr
    assert not (tmp_path / "site" / "big.py").exists()


def test_the_folders_of_a_pth_file_are_named(tmp_path):
    target = tmp_path / "site"
    (target / "inner").mkdir(parents=True)
    (target / "more.pth").write_text("inner\n")
    folder = tmp_path / "empty"
    folder.mkdir()
    (folder / "install_wheels.sh").write_bytes(paths.data_path("perf", "baselines", "install_wheels.sh").read_bytes())
    assert _install(folder, target).stdout == f"export PYTHONPATH={target}{os.pathsep}{target / 'inner'}\n"


def _install(folder, target):
    return subprocess.run(
        ["bash", str(folder / "install_wheels.sh"), str(target)], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("pins", "flags", "said"),
    [
        ("plain>=1\n", (), "pins.txt:1: 'plain>=1' is no pin; write NAME==VERSION"),
        ("plain==1.0\n", ("--transfer_mb=0.5",), "--transfer_mb=0.5: give at least 1, or 0 for no folders"),
        ("plain==1.0\n", ("--requirements=none.txt",), "none.txt: cannot be read: No such file"),
        ("plain==1.0\n", ("--out=pins.txt",), "--out=pins.txt: cannot be written: File exists"),
    ],
)
def test_wrong_flags_and_files_are_errors(tmp_path, collect, pins, flags, said):
    (tmp_path / "pins.txt").write_text(pins)
    status, out, err = collect(*flags)
    assert (status, out) == (2, "")
    assert said in err


def test_what_pip_says_about_anything_else_is_the_reason(tmp_path, collect):
    (tmp_path / "pins.txt").write_text("plain==1.0\n")
    status, out, _ = collect(PIP_CONSTRAINT=str(tmp_path / "no-such-file"))
    assert status == 1
    assert "left out  plain==1.0: pip failed: " in out and "no-such-file" in out


@pytest.mark.parametrize(
    ("comparison", "fits"),
    [
        ("==2.11.0", True),
        ("==2.11", True),
        ("==2.11.*", True),
        ("!=2.11.*", False),
        ("~=2.9", True),
        ("~=2.9.0", False),
        (">=2.12", False),
        ("<2.11", False),
        ("<=2.11", True),
        (">2.9, <3", True),
        ("", True),
    ],
)
def test_a_wheel_fits_a_torch_by_its_numbers(tmp_path, index, comparison, fits):
    path = tmp_path / "wheel.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a-1.dist-info/METADATA", f"Name: a\nRequires-Dist: torch{comparison}\n\n")
    assert (wheels.clash(path, "2.11.0+cu130") == "") is fits


def test_the_pins_of_the_project_are_read():
    pins = wheels.read_pins(paths.data_path("perf", "baselines", "requirements.txt"))
    assert len(pins) == len({wheels.normal(pin.name) for pin in pins}) > 10


def test_a_sum_is_that_of_the_whole_wheel(tmp_path, collect, index):
    (tmp_path / "pins.txt").write_text("big==1.0\n")
    collect("--transfer_mb=1.5")
    digest = hashlib.sha256((index / "big-1.0-py3-none-any.whl").read_bytes()).hexdigest()
    for sums in (tmp_path / "wheels").rglob("*.sha256"):
        assert sums.read_text().split()[0] == digest
