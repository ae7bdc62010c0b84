"""The commands of docs/bring-your-kernel.md do what it says, on the CPU through Triton's interpreter."""

import pathlib
import re
import shlex

import pytest

from tileops.perf.runs import reader
from tileops.tests.harness import runs
from tileops.tests.harness.runs import OK
from tileops.tools.cli import command

DOC = (pathlib.Path(__file__).absolute().parents[2] / "docs/bring-your-kernel.md").read_text(encoding="utf-8")
FILES = re.findall(r"```python\n# (\S+\.py)\n(.*?)```", DOC, re.DOTALL)
COMMANDS = re.findall(
    r"^    (?:TRITON_INTERPRET=1 )?((?:\./bazelw run|python3) .+)$", re.sub(r" \\\n +", " ", DOC), re.MULTILINE
)


@pytest.fixture(autouse=True)
def interpreter(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")


def run(folder, line):
    """Run a command of the document with this Python: (status, stdout, stderr)."""
    words = shlex.split(line)
    if words[0] == "python3":
        target, flags = "//perf:" + words[1].removesuffix("_zip.zip"), words[2:]
    else:
        target, flags = words[2], words[4:]
    module = "tileops." + target.removeprefix("//").replace(":", ".")
    process = runs.start(folder, *flags, module=module)
    out, err = process.communicate(timeout=400)
    return process.returncode, out, err


def test_the_document_leads_from_a_file_to_an_efficiency(tmp_path):
    ((name, content),) = FILES
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert len(COMMANDS) == 6
    said = []
    for line in COMMANDS:
        status, out, err = run(tmp_path, line)
        # Two times of an interpreter on a busy CPU may differ by any amount, which `compare` says with status 1.
        assert status in ((0, 1) if ":compare" in line else (0,)), f"{line}\n{err}"
        said.append(out)
    records = list(reader.read_run(tmp_path / "try.binpb").records())
    assert [(record.implementation, record.label, record.status) for record in records] == [
        ("torch", "llama-8b-decode", OK),
        ("mine", "llama-8b-decode", OK),
    ]
    assert records[1].correctness.checked and 0 < records[1].correctness.max_relative_error < 1e-2
    report = said[COMMANDS.index("./bazelw run //perf:roofline -- --run=mine.binpb --implementation=all")]
    assert "mine" in report and "RMSNormFwdOp" in report


def test_a_mistake_in_the_kernel_is_told_before_any_time(tmp_path):
    ((name, content),) = FILES
    assert content.count("/ length + eps") == 1
    (tmp_path / name).write_text(content.replace("/ length + eps", "/ length * eps"), encoding="utf-8")
    status, _, err = run(tmp_path, COMMANDS[0])
    assert status == command.EXIT_FOUND
    assert (
        "error: RMSNormFwdOp llama-8b-decode-bfloat16 mine: wrong result: output 'output' has a relative error" in err
    )
