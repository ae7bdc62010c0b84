"""What a terminal shows of a run that goes on."""

import io
import re
import sys

import pytest

from tileops.perf import bench_progress

STEP = "GroupedQueryAttentionFwdOp llama-70b-long-bfloat16-with-a-long-label-of-its-own torch_compile"


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


def test_what_is_no_terminal_gets_nothing(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with bench_progress.bar(2) as progress:
        progress.begin(STEP)
        progress.end()
    assert stream.getvalue() == ""
