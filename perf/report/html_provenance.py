"""Where a report's numbers come from: its runs, and the profile with its sources."""

from tileops.perf.report import page
from tileops.proto import gpu_profile_pb2, roofline_pb2
from tileops.tools.cli import words


def provenance(head: roofline_pb2.Report) -> str:
    """Returns the section of the page."""
    parts = ["<h2>Where the numbers come from</h2>", '<div class="two">']
    for run in head.runs:
        parts.append(f"<section>{page.facts(_run_facts(run))}</section>")
    if head.HasField("profile"):
        parts.append(f"<section>{page.facts(_profile_facts(head.profile))}</section>")
    parts.append("</div>")
    if head.HasField("profile"):
        parts.append(_profile_table(head.profile))
    return "".join(parts)


def _run_facts(run: roofline_pb2.RunSummary) -> list[tuple[str, str]]:
    revision = run.project_revision
    if run.project_dirty:
        revision = f"{revision or 'unknown'}, and the sources differed from it"
    clocks = [
        f"{name} {_span(run, field)} MHz"
        for name, field in (("SM", "sm_clock"), ("memory", "memory_clock"))
        if run.HasField(f"{field}_min_mhz")
    ]
    if run.throttled_records:
        clocks.append(f"reduced during {words.counted(run.throttled_records, 'record')}")
    devices = f" x {run.device_count}" if run.device_count > 1 else ""
    pairs = (
        ("run", run.file + (" (interrupted)" if run.interrupted else "")),
        ("records", f"{run.records:,}"),
        ("started", run.started_at),
        ("device", (run.device_name or run.device_kind) + devices),
        ("driver", run.driver_version),
        ("CUDA", run.cuda_version),
        ("torch", run.torch_version),
        ("triton", run.triton_version),
        ("Python", run.python_version),
        ("revision", revision),
        ("clocks", ", ".join(clocks)),
        ("command", " ".join(run.command_line)),
        ("run id", run.run_id),
        ("host", run.hostname_hash),
    )
    return [(name, page.text(value)) for name, value in pairs]


def _span(run: roofline_pb2.RunSummary, field: str) -> str:
    low, high = getattr(run, f"{field}_min_mhz"), getattr(run, f"{field}_max_mhz")
    return str(low) if low == high else f"{low}-{high}"


def _profile_facts(profile: gpu_profile_pb2.GpuProfile) -> list[tuple[str, str]]:
    provenance = profile.provenance
    floor = ""
    if profile.HasField("latency_floor_s"):
        floor = f"{profile.latency_floor_s * 1e6:.3g} us: {profile.latency_floor_method}"
    pairs = (
        ("profile", profile.gpu),
        ("latency floor", floor),
        ("calibrated by", f"{provenance.tool}, {provenance.date}".strip(", ")),
        ("with driver", provenance.driver),
        ("clocks", provenance.clocks),
        ("software", provenance.software),
        *(("source", source) for source in profile.source),
        *(("note", note) for note in profile.note),
    )
    return [(name, page.text(value)) for name, value in pairs]


def _profile_table(profile: gpu_profile_pb2.GpuProfile) -> str:
    def row(name: str, theoretical: float, unit: str, part) -> tuple[str, ...]:
        calibration, said, effective = None, "not measured", ""
        if part.HasField("calibration"):
            calibration = part.calibration
            said = f"{calibration:.2%}"
        elif profile.HasField("assumed_calibration"):
            calibration = profile.assumed_calibration
            said = f"{calibration:.2%}, assumed"
        if calibration is not None:
            effective = f"{theoretical * calibration / 1e12:,.4g} {unit}"
        return (
            page.text(name),
            f"{theoretical / 1e12:,.4g} {unit}",
            said,
            effective,
            page.text(". ".join(filter(None, (part.source, part.condition, part.doubt)))),
        )

    rows = [row("hbm", profile.hbm.theoretical_bytes_per_s, "TB/s", profile.hbm)]
    rows += [row(unit.key, unit.theoretical_flops_per_s, "TFLOP/s", unit) for unit in profile.unit]
    return page.table(
        ("ceiling", "theoretical", "calibration", "effective", "source of the theoretical figure"), rows, (1, 2, 3)
    )
