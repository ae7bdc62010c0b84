"""Small records, runs and profiles for the tests of this folder."""

import io
import re

from google.protobuf import text_format, timestamp_pb2

from tileops.perf.report import rows as report_rows
from tileops.perf.report import runs
from tileops.perf.report import store as report_store
from tileops.perf.roof import profiles
from tileops.perf.runs import reader
from tileops.perf.runs import writer as run_writer
from tileops.proto import benchmark_pb2, gpu_profile_pb2, roofline_pb2

DEVICE = "Test GPU"

# Round figures: effective bandwidth 8e11 bytes/s, effective fp32 peak 5e12.
PROFILE_TEXT = """
    gpu: "Test GPU"
    alias: "Test GPU 8GB"
    compute_capability: "1.0"
    hbm {
      theoretical_bytes_per_s: 1e12
      calibration: 0.8
      mix { kind: COPY fraction: 0.7 }
      mix { kind: READ fraction: 0.8 }
      mix { kind: TRIAD fraction: 0.65 }
      mix { kind: WRITE fraction: 0.6 }
      source: "a datasheet"
    }
    unit {
      key: "cuda_core.fp32"
      theoretical_flops_per_s: 1e13
      calibration: 0.5
      source: "a datasheet"
    }
    unit {
      key: "tensor_core.bf16"
      theoretical_flops_per_s: 1e14
      source: "a datasheet"
    }
    latency_floor_s: 10e-6
    provenance { tool: "a tool" date: "2026-01-01" }
"""
# The same, with nothing measured of its memory.
NO_BANDWIDTH_CALIBRATION_TEXT = re.sub(r"mix {.*}", "", PROFILE_TEXT).replace("calibration: 0.8", "")

# 20e6 bytes in 100 us, 4.8e12 bytes/s at most: possible. In 1 us it is not.
POSSIBLE = dict(bytes=20_000_000, flops=1_000)


def profile_message(text: str = PROFILE_TEXT) -> gpu_profile_pb2.GpuProfile:
    """Returns a parsed profile."""
    return text_format.Parse(text, gpu_profile_pb2.GpuProfile())


def profile(tmp_path, text: str = PROFILE_TEXT) -> profiles.Profile:
    """Returns a validated profile."""
    path = tmp_path / "test_gpu.textproto"
    path.write_text(text)
    return profiles.load_profile(path)


def record(
    *, ns: float | None = 100_000.0, source: int = benchmark_pb2.TIMING_SOURCE_CUPTI, copy_ns: float = 0.0, **fields
) -> benchmark_pb2.BenchmarkRecord:
    """Returns a record: of a measured row, unless `ns` is None."""
    values = {
        "op": "SiLUFwdOp",
        "family": "elementwise",
        "case_id": "a-float16",
        "implementation": "torch",
        "status": benchmark_pb2.STATUS_OK,
        "roof_key": "cuda_core.fp32",
        "flops": 1_000_000,
        "bytes": 40_000_000,
    } | fields
    made = benchmark_pb2.BenchmarkRecord(**values)
    if ns is not None:
        made.timing.source = source
        made.timing.device_busy_ns = ns
        made.timing.excluded_copy_ns = copy_ns
        made.timing.samples = 50
    return made


def header(device: str = DEVICE, started_s: int = 1_000) -> benchmark_pb2.RunHeader:
    """Returns a run's header; `started_s` is its start in seconds of the epoch."""
    made = benchmark_pb2.RunHeader(
        run_id=f"run-{started_s}",
        environment=benchmark_pb2.Environment(
            device_name=device, device_kind="cuda", driver_version="1.2", project_revision="abc", hostname_hash="def"
        ),
    )
    made.started_at.seconds = started_s
    return made


def write_run(path, *records, device: str = DEVICE, started_s: int = 1_000):
    """Writes a complete run; returns its path."""
    finished_at = timestamp_pb2.Timestamp(seconds=started_s + 60)
    with run_writer.RunWriter(path, header(device, started_s)) as writer:
        for each in records:
            writer.write(each)
        writer.close(finished_at)
    return path


def lose_header(path) -> None:
    """Makes a binary run's header one that no reader can put right."""
    data = bytearray(path.read_bytes())
    data[1:20] = b"\xff" * 19
    path.write_bytes(data)


class Terminal(io.StringIO):
    """A stream that calls itself a terminal."""

    def isatty(self):
        return True


def collected(
    paths,
    profile: profiles.Profile | None,
    encode: report_rows.Encoder,
    *,
    ops=(),
    families=(),
    implementation: str = runs.ALL,
    libraries=(),
    is_prediction: bool = False,
    sort: str = "headroom",
) -> tuple[roofline_pb2.Report, list[bytes]]:
    """Returns the report of some run files: its head, and the texts of its rows."""
    query = report_rows.Query(
        selection=runs.Selection(ops=ops, families=families, implementation=implementation, libraries=libraries),
        profile=profile,
        is_prediction=is_prediction,
        sort=sort,
    )
    readers = [reader.read_run(path) for path in paths]
    with report_store.RowStore() as store:
        made = report_rows.collect(readers, query, encode, store)
        return made.head, list(made.texts())


def report(paths, profile: profiles.Profile | None, **query) -> roofline_pb2.Report:
    """Returns the report of some run files as a message."""
    made, rows = collected(paths, profile, report_rows.message_text, **query)
    made.rows.extend(map(roofline_pb2.Row.FromString, rows))
    return made
