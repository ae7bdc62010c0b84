"""How a command ends when the user has to mend something."""

import subprocess
import sys

import pytest

_PROGRAM = """
from tileops.tools.cli import command, errors, output

class OneLine(errors.UserError):
    pass

class Lines(errors.UserError):
    has_lines = True

def main(argv):
    raise {error}

command.run(main)
"""


def _run(error: str) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": ":".join(sys.path)}
    program = [sys.executable, "-c", _PROGRAM.format(error=error)]
    return subprocess.run(program, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "error, said",
    [
        ("errors.UserError('a.binpb: mend it')", ["a.binpb: mend it"]),
        ("OneLine('a.binpb\\nhealth: ok')", ["a.binpb\\nhealth: ok"]),  # a file's name makes no line of its own
        ("Lines('first\\nsecond\\x1b[2J')", ["first", "second\\x1b[2J"]),
        ("output.OutputError('cannot write a')", ["cannot write a"]),
    ],
)
def test_what_a_user_did_wrong_is_told_and_exits_2(error, said):
    done = _run(error)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.splitlines() == [f"-c: {line}" for line in said]


def test_a_fault_of_the_program_is_none_of_the_users():
    done = _run("ValueError('a defect')")
    assert done.returncode == 1 and "Traceback" in done.stderr
