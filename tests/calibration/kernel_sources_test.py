"""The kernels compile, for every variant of the plan, to the instructions that are counted."""

import itertools
import re
import shutil
import subprocess

import pytest

from tileops.tools.cli import paths

_NVCC = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
_CUOBJDUMP = shutil.which("cuobjdump") or shutil.which("cuobjdump", path="/usr/local/cuda/bin")

needs_nvcc = pytest.mark.skipif(_NVCC is None, reason="no nvcc here: the kernels are compiled on GPU machines")


def _compile(tmp_path, file, *macros, arch="sm_90", kind="cubin"):
    """Compiles a kernel file; returns the object's path and ptxas' resource report."""
    out = tmp_path / f"kernel.{kind}"
    done = subprocess.run(
        [
            _NVCC,
            f"-arch={arch}",
            f"-{kind}",
            "-Xptxas",
            "-v",
            *[f"-D{m}" for m in macros],
            str(paths.data_path("perf", "calibration", "cuda", file)),
            "-o",
            str(out),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return out, done.stderr


@needs_nvcc
@pytest.mark.parametrize(
    ("width", "block", "unroll", "stream"),
    [*itertools.product((16,), (256, 1024), (1, 8), (0, 1)), *itertools.product((8, 4), (1024,), (8,), (0, 1))],
)
def test_bandwidth_kernels_compile_without_spills(tmp_path, width, block, unroll, stream):
    _, report = _compile(
        tmp_path, "bandwidth.cu", f"WIDTH={width}", f"BLOCK={block}", f"UNROLL={unroll}", f"STREAM={stream}"
    )
    for mix in ("copy", "triad", "read", "write"):
        assert f"'{mix}_mix'" in report
    assert set(re.findall(r"(\d+) bytes spill", report)) == {"0"}


@needs_nvcc
@pytest.mark.parametrize(("width", "vector"), [(16, ".v4.u32"), (8, ".v2.u32"), (4, ".u32")])
def test_accesses_have_the_width_that_is_asked_for(tmp_path, width, vector):
    out, _ = _compile(tmp_path, "bandwidth.cu", f"WIDTH={width}", "BLOCK=256", "UNROLL=4", "STREAM=0", kind="ptx")
    copy = out.read_text().split(".entry copy_mix")[1].split(".entry")[0]
    for access in ("ld.global", "st.global"):
        assert re.findall(rf"{access}([.\w]*) ", copy) == [vector] * 4


@needs_nvcc
@pytest.mark.parametrize("chains", [8, 16])
def test_arithmetic_kernels_fill_a_multiprocessor_without_spills(tmp_path, chains):
    _, report = _compile(tmp_path, "arithmetic.cu", "BLOCK=256", f"CHAINS={chains}", "STEPS=32")
    assert report.count("Compiling entry function") == 5
    assert set(re.findall(r"(\d+) bytes spill", report)) == {"0"}


@needs_nvcc
def test_an_older_device_has_no_bf16_kernel(tmp_path):
    _, report = _compile(tmp_path, "arithmetic.cu", "BLOCK=256", "CHAINS=8", "STEPS=32", arch="sm_80")
    assert "'fma_fp32'" in report and "'fma_bf16x2'" not in report


@needs_nvcc
@pytest.mark.skipif(_CUOBJDUMP is None, reason="no cuobjdump here to disassemble with")
def test_a_pass_of_the_loop_holds_every_multiply_add(tmp_path):
    out, _ = _compile(tmp_path, "arithmetic.cu", "BLOCK=256", "CHAINS=16", "STEPS=32")
    listing = subprocess.run([_CUOBJDUMP, "-sass", str(out)], capture_output=True, text=True, check=True).stdout
    for function in re.split(r"Function : ", listing)[1:]:
        name = function.split()[0]
        instruction = {
            "fma_fp32": "FFMA",
            "fma_fp64": "DFMA",
            "mad_int32": "IMAD",
            "fma_fp16x2": "HFMA2",
            "fma_bf16x2": "HFMA2",
        }[name]
        assert len(re.findall(rf"\b{instruction}\b", function)) >= 16 * 32, name
        assert not re.search(r"\b(LDL|STL)\b", function), name
