"""Merges outcomes into a base profile and writes the profile. No torch."""

import os
import re
import textwrap
from collections.abc import Mapping, Sequence

from google.protobuf import text_format

from tileops.perf.calibration import check, fit, model
from tileops.perf.roof import profile_checks
from tileops.proto import gpu_profile_pb2
from tileops.tools.cli import output

# A repeated measurement confirms this many decimals of a fraction.
_DECIMALS = 4

# protobuf writes 989500000000000.0; 9.895e+14 is easier to read.
_LARGE_NUMBER = re.compile(r"^(\s*\w+: )(\d{7,}\.0)$", re.MULTILINE)

# Strings longer than a line are split into adjacent literals.
_LONG_STRING = re.compile(r'^( *)(\w+): "(.{72,})"$', re.MULTILINE)
_LINE = 84

_HEADER = """\
# proto-file: proto/gpu_profile.proto
# proto-message: tileops.gpu_profile.GpuProfile
#
# {gpu}. Theoretical figures as their sources state them; calibration factors
# written by //perf:calibrate, which measured them on such a device.

"""


def check_fractions(outcomes: Sequence[model.Outcome]) -> None:
    """Raises CalibrationError if a rate exceeds its theoretical figure; the message has both and likely causes."""
    excesses = [_excess(outcome) for outcome in outcomes if outcome.fraction > 1]
    if excesses:
        raise model.CalibrationError("; ".join(excesses))


def _excess(outcome: model.Outcome) -> str:
    quantity = outcome.quantity
    if quantity.name.startswith("hbm."):
        cause = (
            "the base profile is another card's or states a lower memory clock, or the arrays are served from the cache"
        )
    else:
        cause = (
            "the base profile is another card's, its figure is for a lower clock than this device runs at, or it counts a"
            " multiply-add as one"
        )
    if outcome.conditions:
        cause += f"; seen here: {outcome.conditions}"
    return (
        f"{quantity.name}: measured {outcome.tera(outcome.best.rate_per_s)} ({outcome.best.trial}) exceeds the theoretical"
        f" {outcome.tera(quantity.theoretical_per_s)} of the base profile. Likely: {cause}"
    )


def merge(
    base: gpu_profile_pb2.GpuProfile,
    outcomes: Sequence[model.Outcome],
    start_up: fit.StartUp,
    provenance: Mapping[str, str],
    l2_bytes: int,
    max_clock_mhz: int | None,
) -> gpu_profile_pb2.GpuProfile:
    """Returns the base profile with its calibration replaced by the outcomes.

    Theoretical figures, sources and notes stay. Calibrations of the base without an outcome are removed: one profile has
    one provenance, which says how far it differs from the base's.

    Args:
      base: Not changed.
      outcomes: Of all four mixes, and of any units of the base.
      start_up: The fitted start-up time.
      provenance: `tool`, `date`, `driver`, `clocks` and `software`.
      l2_bytes: Last-level cache, as the device reports it. Bytes.
      max_clock_mhz: Highest SM clock, as the device reports it; None keeps the base's. MHz.

    Raises:
      CalibrationError: A mix is missing, the base has no unit for an outcome, a fraction exceeds 1, an outcome is below
        its cross-check, or the result is no valid profile.
    """
    check_fractions(outcomes)
    check.check_not_lower(outcomes)
    by_name = {outcome.quantity.name: outcome for outcome in outcomes}
    result = gpu_profile_pb2.GpuProfile()
    result.CopyFrom(base)
    result.l2_bytes = l2_bytes
    if max_clock_mhz is not None:
        result.max_clock_mhz = max_clock_mhz
        result.max_clock_source = f"NVML of the calibrated device, driver {provenance['driver']}"
    _set_memory(result.hbm, by_name)
    for unit in result.unit:
        unit.ClearField("calibration")
        unit.ClearField("calibration_method")
        outcome = by_name.pop(unit.key, None)
        if outcome is not None:
            unit.calibration = _fraction(outcome)
            unit.calibration_method = _method(outcome)
    if by_name:
        raise model.CalibrationError(f"the base profile of {base.gpu!r} has no {', '.join(sorted(by_name))}")
    # Two significant digits are what repeated fits agree on; three lose nothing.
    result.latency_floor_s = float(f"{start_up.floor_s:.3g}")
    result.latency_floor_method = (
        f"{fit.START_UPS_IN_FLOOR} x t0; t0 = {start_up.t0_s * 1e6:.3f} us from the best line t0 + traffic /"
        f" {start_up.bytes_per_s / 1e12:.2f} TB/s through {start_up.points} cold copies of arrays of 32 KiB to 8 MiB, worst"
        f" miss {start_up.worst_miss:.0%}"
    )
    result.ClearField("provenance")
    for field, value in provenance.items():
        setattr(result.provenance, field, value)
    # The proto promises at least this many calls behind each factor.
    result.provenance.samples = min(outcome.samples for outcome in outcomes)
    if spread := check.spread_in_words(base, check.repeats(base, result)):
        result.provenance.agreement = spread
    if defects := profile_checks.validate(result):
        raise model.CalibrationError("the merged profile is not valid: " + "; ".join(defects))
    return result


def _set_memory(hbm: gpu_profile_pb2.Hbm, by_name: dict[str, model.Outcome]) -> None:
    missing = [mix for mix in model.ARRAYS_MOVED if f"hbm.{mix}" not in by_name]
    if missing:
        raise model.CalibrationError(f"all four access mixes must be measured; missing: {', '.join(missing)}")
    hbm.ClearField("mix")
    methods = []
    for mix in model.ARRAYS_MOVED:
        outcome = by_name.pop(f"hbm.{mix}")
        hbm.mix.add(kind=gpu_profile_pb2.AccessKind.Value(mix), fraction=_fraction(outcome))
        methods.append(f"{mix} {_method(outcome)}")
    hbm.calibration = max(mix.fraction for mix in hbm.mix)
    hbm.calibration_method = "largest of the mixes. " + ". ".join(methods)


def _fraction(outcome: model.Outcome) -> float:
    return round(outcome.fraction, _DECIMALS)


def _method(outcome: model.Outcome) -> str:
    """Returns how an outcome was measured, on one line."""
    rounds = len(outcome.round_bests)
    if outcome.stable:
        agreement = f"the last rounds agree within {outcome.spread:.2%}"
    elif rounds > 1 and outcome.spread <= outcome.quantity.tolerance:
        agreement = f"NOT STABLE: {len(outcome.unconfirmed)} readings lie above what the last rounds reach again"
    else:
        agreement = (
            f"NOT STABLE after {rounds} rounds: they vary by {outcome.spread:.2%}, more than {outcome.quantity.tolerance:.1%}"
            if rounds > 1
            else "NOT STABLE: no time was left to repeat it"
        )
    return in_words(
        outcome,
        f"{outcome.tera(outcome.best.rate_per_s)}: {outcome.best.trial}",
        f"median of {outcome.best.samples} calls, the best of {outcome.samples} calls in all; {agreement}",
        sustained="{} when it goes on for seconds",
    )


def in_words(outcome: model.Outcome, *head: str, sustained: str) -> str:
    """Returns what was measured of a quantity on one line, after `head`; `sustained` formats the sustained rate."""
    parts = list(head)
    if outcome.unconfirmed:
        highest = max(outcome.unconfirmed, key=lambda reading: reading.rate_per_s)
        parts.append(
            f"{len(outcome.unconfirmed)} reading(s) up to {outcome.tera(highest.rate_per_s)} ({highest.trial}) were not"
            " reached again and do not count"
        )
    if isinstance(outcome.best.trial, model.BandwidthTrial):
        parts.append(_variants_in_words(outcome))
    parts += [check.cross_check_in_words(outcome), outcome.conditions]
    if outcome.sustained_per_s is not None:
        parts += [sustained.format(outcome.tera(outcome.sustained_per_s)), outcome.sustained_conditions]
    return "; ".join(filter(None, parts))


def _variants_in_words(outcome: model.Outcome) -> str:
    """Returns the best rate of each access width and of each size of a bandwidth outcome, best first."""
    widths: dict[str, float] = {}
    sizes: dict[str, float] = {}
    for reading in outcome.readings:
        trial = reading.trial
        assert isinstance(trial, model.BandwidthTrial)
        width = "torch copy_" if trial.torch_copy else f"{trial.width}-byte accesses"
        for bests, name in ((widths, width), (sizes, model.written_size(trial.array_bytes))):
            bests[name] = max(reading.rate_per_s, bests.get(name, 0.0))
    by_width, by_size = (
        ", ".join(f"{name} {rate / 1e12:.4g}" for name, rate in sorted(bests.items(), key=lambda item: -item[1]))
        for bests in (widths, sizes)
    )
    return f"best in TB/s of {by_width}; of arrays of {by_size}"


def to_text(profile: gpu_profile_pb2.GpuProfile) -> str:
    """Returns the profile as a text file with a header. Reading the text gives the same profile.

    Raises:
      CalibrationError: A number has more digits than the text keeps.
    """
    # protobuf escapes apostrophes, which is not needed in double quotes.
    body = text_format.MessageToString(profile, as_utf8=True).replace("\\'", "'")
    body = _LARGE_NUMBER.sub(lambda found: found[1] + f"{float(found[2]):.12g}", body)
    body = _LONG_STRING.sub(_wrapped, body)
    back = text_format.Parse(body, gpu_profile_pb2.GpuProfile())
    if back != profile:
        raise model.CalibrationError("a figure of the base profile has more than 12 significant digits")
    return _HEADER.format(gpu=profile.gpu) + body


def _wrapped(found: re.Match) -> str:
    indent, field, text = found.groups()
    # Only spaces separate lines, so that no escape sequence is cut.
    lines = textwrap.wrap(text, _LINE, break_long_words=False, break_on_hyphens=False, drop_whitespace=False)
    literals = "".join(f'\n{indent}  "{line}"' for line in lines)
    return f"{indent}{field}:{literals}"


def write(profile: gpu_profile_pb2.GpuProfile, path: str | os.PathLike) -> None:
    """Writes the profile to a file, wholly or not at all.

    Raises:
      CalibrationError: As `to_text`.
      OutputError: The file cannot be written.
    """
    text = to_text(profile)
    output.write(str(path), lambda file: file.write(text))
