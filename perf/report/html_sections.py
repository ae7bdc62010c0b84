"""The parts of a report's page that stand without a script: head, errors, summaries."""

from collections.abc import Sequence

from tileops.perf.report import page, summary, text
from tileops.perf.roof import profiles
from tileops.proto import roofline_pb2
from tileops.tools.cli import words

OPS_TO_WIN = 5

_COUNTED = "Counted: the rows that a sum is over, those with a reading that tells of their kernel."

# (verdict, what it means), in the order that a reader wants them.
_VERDICTS = (
    ("formula_error", "faster than physics allows: the formula counts too much"),
    ("anomaly", "above 105%: the formula or the calibration is wrong"),
    ("below", "below 80%: the headroom says what it is worth"),
    ("at_ceiling", "80% or more: done"),
    ("latency_bound", "launch overhead dominates; a faster kernel will not show"),
    ("blank", "cannot be priced honestly; the reason is given"),
)


def device(head: roofline_pb2.Report) -> str:
    """Returns which device the report is about."""
    if head.is_prediction:
        return f"bounds for {head.profile.gpu}"
    run = head.runs[0]
    return run.device_name or run.device_kind or "unknown device"


def header(head: roofline_pb2.Report) -> str:
    """Returns the head of the page: which device, how many rows, the health."""
    health = text.enum_name(head, "health") or ""
    said_more = text.health(head).removeprefix(health)
    if head.is_prediction:
        said = "SOL times are bounds; nothing was measured there"
    elif head.HasField("profile"):
        said = f"priced against the profile of {head.profile.gpu}"
    else:
        said = "no profile matches the device: nothing is priced"
    return (
        f"<header><h1>Roofline: {page.text(device(head))}</h1>"
        f"<p>{page.text(words.counted(head.summary.rows, 'row'))}, {page.text(said)}</p>"
        f'<p>health: <strong class="health-{health}">{health}</strong>{page.text(said_more)}</p>'
        '<button type="button" id="theme" hidden></button></header>'
    )


def errors(head: roofline_pb2.Report, errors: Sequence[roofline_pb2.Row]) -> str:
    """Returns the impossible rows, listed first of all; empty without any."""
    if not errors:
        return ""
    lines = "".join(
        f"<li>{page.text(text.row_name(row))}: {page.text(text.breach(breach))}</li>"
        for row in errors
        for breach in row.breaches
    )
    more = head.summary.formula_error - len(errors)
    if more > 0:
        lines += f"<li>and {more:,} more: see the rows with this verdict</li>"
    count = words.counted(head.summary.formula_error, "formula error")
    return (
        f'<section class="alarm" id="errors"><h2>{page.glyph("formula_error")} {count}:'
        f" physically impossible</h2><ul>{lines}</ul></section>"
    )


def warnings(head: roofline_pb2.Report, summaries: summary.Summaries) -> str:
    """Returns what was assumed, what could be, and what was wrong with the run files."""
    warnings = [
        profiles.assumption_in_words(head.profile),
        text.summing_hint(head),
        *text.blank_hints(summaries.blanks),
        *text.problems(head.runs),
    ]
    return "".join(f'<p class="warning">{page.text(each)}</p>' for each in warnings if each)


def chips(head: roofline_pb2.Report, predicted: int) -> str:
    """Returns the count of each verdict, as buttons that hide and show its rows."""
    counts = {name: getattr(head.summary, name) for name, _ in _VERDICTS}
    meanings = dict(_VERDICTS)
    if head.is_prediction:
        counts = {"predicted": predicted, "blank": counts["blank"] - predicted}
        meanings["predicted"] = "a bound, not a measurement"
    return (
        '<div class="chips" role="group" aria-label="verdicts: press to hide or show">'
        + "".join(
            f'<button type="button" class="chip" data-verdict="{name}" aria-pressed="true"'
            f' title="{page.text(meanings[name])}"><span class="v-{name}">{page.glyph(name)}</span>'
            f"<strong>{count:,}</strong> {name.replace('_', ' ')}</button>"
            for name, count in counts.items()
        )
        + "</div>"
    )


def to_win(head: roofline_pb2.Report, summaries: summary.Summaries) -> str:
    """Returns the ops with the most headroom; empty where nothing is to win."""
    if head.is_prediction:
        return ""
    ops = summaries.most_to_win(OPS_TO_WIN)
    if not ops:
        return ""
    rows = [
        (
            f'<button type="button" data-op="{page.text(op.name)}">{page.text(op.name)}</button>',
            _microseconds(op.to_win_s),
            _percent(op.median_efficiency),
            f"{op.rows:,}",
        )
        for op in ops
    ]
    caption = "What perfect kernels would save, one call of each row below 80%; latency-bound rows left out."
    titles = ("op", "time to win µs", "median efficiency", "rows")
    return (
        '<section id="to-win"><h2>Most time to win</h2>' + page.table(titles, rows, (1, 2, 3), caption) + "</section>"
    )


def families(head: roofline_pb2.Report, summaries: summary.Summaries) -> str:
    """Returns what each family comes to."""
    titles: tuple[str, ...]
    rows: list[tuple[str, ...]]
    if head.is_prediction:
        titles = ("family", "rows", "counted", "total SOL time µs")
        rows = [
            (
                page.text(family.name or "(none)"),
                f"{family.rows:,}",
                f"{family.bounded:,}",
                _microseconds(family.sol_time_s),
            )
            for family in summaries.families()
        ]
    else:
        titles = ("family", "rows", "at ceiling", "counted", "median efficiency", "headroom µs")
        rows = [
            (
                page.text(family.name or "(none)"),
                f"{family.rows:,}",
                f"{family.at_ceiling:,}",
                f"{family.counted:,}",
                _percent(family.median_efficiency),
                _microseconds(family.headroom_s),
            )
            for family in summaries.families()
        ]
    return (
        '<section id="families"><h2>Families</h2>'
        + page.table(titles, rows, range(1, len(titles)), _COUNTED)
        + "</section>"
    )


def _microseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e6:,.2f}"


def _percent(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.1%}"


GLOSSARY = """\
<h2>How to read it</h2>
<dl class="facts"><dt>time</dt><dd>device-busy time of one call from cold caches: the median of its samples</dd>
<dt>SOL time</dt><dd>speed of light: the larger of bytes / bandwidth and FLOPs / peak, both as calibrated; bytes and
FLOPs are the least that the algorithm needs</dd>
<dt>efficiency</dt><dd>SOL time / time</dd><dt>headroom</dt><dd>time - SOL time: what a perfect kernel would save</dd>
<dt>bound</dt><dd>which of the two terms is larger; a tie is memory</dd></dl>"""
