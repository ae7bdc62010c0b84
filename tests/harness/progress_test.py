"""What a terminal shows of a run that goes on."""

import io
import re
import sys
import time

import pytest

from tileops.tools.cli import progress as bench_progress

STEP = "GQADenseFwdOp llama-70b-long-bfloat16-with-a-long-label-of-its-own torch_compile"


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self):
        return True


def _shown(monkeypatch, columns):
    """The last line that a terminal of so many columns shows after 1234 of 1469 rows, 17 of them errors."""
    stream = Terminal()
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stream)
    with bench_progress.bar(1469) as progress:
        for done in range(1234):
            progress.end(is_error=done < 17)
        progress.begin(STEP)
        drawn = stream.getvalue()
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn).replace("\r", "\n").splitlines()
    assert max(map(len, lines)) <= columns
    return lines[-1]


@pytest.mark.parametrize("columns", [80, 120])
def test_a_narrow_terminal_shows_all_numbers_and_cuts_the_row_s_name(monkeypatch, columns):
    line = _shown(monkeypatch, columns)
    found = re.search(r" 1234/1469 17 errors \d:\d\d:\d\d (\d|-):(\d\d|--):(\d\d|--) left (.*)", line)
    assert found, line
    name = found[4].rstrip()
    assert name.endswith("\u2026") and STEP.startswith(name[:-1]) and len(name) >= columns - 60


def test_a_wide_terminal_shows_the_whole_name(monkeypatch):
    assert _shown(monkeypatch, 200).rstrip().endswith(STEP)


def test_what_leaves_no_record_is_none_of_the_steps(monkeypatch):
    stream = Terminal()
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stream)
    with bench_progress.bar(3) as progress:
        progress.end()
        progress.end(is_counted=False)
        progress.end()
        progress.begin("none")
        assert " 2/2 0 errors" in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())


def _said(monkeypatch, every_s, steps):
    """What a stream that is no terminal gets while the steps are taken."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(bench_progress, "_LINE_EVERY_S", every_s)
    with bench_progress.bar(4) as progress:
        steps(progress)
        deadline = time.monotonic() + 30
        while every_s < 1 and "left" not in stream.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
    return stream.getvalue()


def test_what_is_no_terminal_gets_a_line_now_and_then_however_long_a_step_takes(monkeypatch):
    def steps(progress):
        progress.end(is_error=True)
        progress.end(is_counted=False)
        progress.begin(STEP)

    first = _said(monkeypatch, 0.3, steps).splitlines()[0]
    assert re.search(rf": 1 of 3 done, 1 error, about \d+ s left; now {STEP}$", first), first


def test_the_time_left_is_not_known_before_a_step_is_done(monkeypatch):
    said = _said(monkeypatch, 0.3, lambda progress: progress.begin(STEP))
    assert "0 of 4 done, 0 errors, unknown time left; now" in said


def test_what_is_no_terminal_gets_nothing_of_a_short_run(monkeypatch):
    assert _said(monkeypatch, 30.0, lambda progress: progress.begin(STEP)) == ""
