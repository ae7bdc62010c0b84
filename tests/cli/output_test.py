"""A command replaces its own earlier output and no other file, and says which file it wrote."""

import os
import subprocess
import sys

import pytest

from tileops.tools.cli import output

_PAGE = b'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n<meta http-equiv="x" y="z">\n<title>'
# How an output of each command begins, by command and form.
OWN = {
    (
        "roofline",
        "table",
    ): b"NVIDIA H200  run.binpb\npriced\nop    case   implementation   time   SOL time   headroom\n",
    ("roofline", "json"): b'{\n"is_prediction": false,\n',
    ("roofline", "csv"): b"op,family,case_id,label,implementation,library,roof_key,flops\n",
    ("roofline", "html"): _PAGE + b"Roofline: NVIDIA H200</title>",
    ("compare", "table"): b"base  NVIDIA H200  a.binpb\nnew   NVIDIA H200  b.binpb\n1 row, 1 same\n",
    ("compare", "json"): b'{\n "base": {\n',
    ("compare", "csv"): b"op,family,case_id,implementation,verdict,ratio\n",
    ("compare", "html"): _PAGE + b"Comparison: a and b</title>",
    (
        "league",
        "table",
    ): b"NVIDIA H200  a.binpb\n1 row in which some implementation is over 2% faster than our default\n",
    ("league", "json"): b'{\n"device_name": "NVIDIA H200",\n"runs": [',
    ("league", "csv"): b"op,family,case_id,implementation,library,outcome\n",
    ("league", "html"): _PAGE + b"Libraries beside our kernels</title>",
    ("stability", "table"): b"note: a doubt\n1 row longer than 10 us in both runs\n",
    ("records", "csv"): b"op,family,case_id,label,implementation,library,is_default,message,roof_key\n",
    ("records", "textproto"): b"# proto-file: proto/benchmark.proto\n",
    ("clock_study", "csv"): b"access,size_mb,flush\n",
    ("calibrate", "profile"): b"# proto-file: proto/gpu_profile.proto\n",
    ("audit", "table"): b"   \n verdict   op      case    implementation   kernels\n",
    ("audit", "json"): b'{\n"device_name": "NVIDIA H200",\n"driver_version": "580",\n',
    ("schema", "json"): b'{\n  "$schema": "https://json-schema.org"',
}
JSON = ("compare", "json")
OTHERS = {
    "run file": b"\x8a\x02\n\x87\x02\x08\x01",
    "JSON lines": b'{"header": {"schema_version": 1}}\n',
    "program": b"def main():\n",
    "package.json": b'{\n  "name": "mine"\n}\n',
    "page": b"<!DOCTYPE html><html><body>",
    "notes": b"What the op and the case of NVIDIA H200 mean, and what to do at SOL time.\n",
    "bytes": b"op    case   implementation   time   SOL time\n\0",
}


@pytest.fixture(autouse=True)
def _stand_in(tmp_path, monkeypatch):
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(tmp_path))


@pytest.mark.parametrize("own", OWN)
def test_a_command_replaces_its_own_output_of_the_same_form_alone(tmp_path, own):
    output.check("new", own)
    (tmp_path / "empty").touch()
    output.check("empty", own)
    for found, content in {**OWN, **OTHERS}.items():
        (tmp_path / "there.txt").write_bytes(content)
        if found == own:
            output.check("there.txt", own)
            continue
        with pytest.raises(output.OutputError, match="--out=there.txt exists, and this command replaces only its own"):
            output.check("there.txt", own)
        assert (tmp_path / "there.txt").read_bytes() == content


def test_a_command_may_decide_by_itself_what_it_replaces(tmp_path):
    (tmp_path / "there").write_bytes(b"mine")
    output.check("there", lambda path: path.read_bytes() == b"mine")
    with pytest.raises(output.OutputError, match="exists"):
        output.check("there", lambda path: False)


def test_an_output_that_cannot_be_written_is_refused_before_the_work(tmp_path):
    (tmp_path / "in").write_bytes(b"x")
    (tmp_path / "link").symlink_to("in")
    os.mkfifo(tmp_path / "pipe")
    output.check(None, JSON)
    output.check("pipe", JSON)
    output.check("/dev/null", JSON)
    for name, said in (
        (".", "it is a folder"),
        ("missing/x.json", "No such file or directory"),
        ("link", "is a file that this command reads"),
    ):
        with pytest.raises(output.OutputError, match=said):
            output.check(name, JSON, [tmp_path / "in"])
    assert sorted(os.listdir(tmp_path)) == ["in", "link", "pipe"]


@pytest.mark.parametrize(
    ("name", "chosen", "form"),
    [
        (None, None, "table"),
        (None, "csv", "csv"),
        ("x", None, "table"),
        ("x.json", None, "json"),
        ("x.html", "html", "html"),
        ("x.txt", None, "table"),
        ("x.log", "json", "json"),
    ],
)
def test_the_ending_tells_the_form(name, chosen, form):
    assert output.form(name, chosen) == form


def test_a_form_that_contradicts_the_ending_is_refused():
    with pytest.raises(output.OutputError, match="--format=csv contradicts --out=x.json: the ending .json means json"):
        output.form("x.json", "csv")
    with pytest.raises(output.OutputError, match="no form has the ending .weird; use .csv, or choose the form by --to"):
        output.form("x.weird", None, {".csv": "csv"}, "csv", "to")
    said = "--out=report.pdf: no form has the ending .pdf; use .txt, .json, .csv, .html, or choose the form by --format"
    with pytest.raises(output.OutputError, match=said):
        output.form("report.pdf", None)
    with pytest.raises(output.OutputError, match="no form has the ending .pdf; use .txt$"):
        output.form("report.pdf", None, {".txt": "table"}, flag="")


def test_a_written_file_is_named(tmp_path, capsys):
    output.write("x.txt", lambda out: out.write("text"))
    assert (tmp_path / "x.txt").read_text() == "text"
    assert capsys.readouterr().err.endswith(f": wrote {tmp_path}/x.txt\n")
    output.write("x.txt", lambda out: out.write("more"), says=False)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_a_name_of_stdout_is_stdout(tmp_path, name):
    """A file that the shell opened is written on, not replaced: what stands before and behind stays."""
    script = (
        f"from tileops.tools.cli import output; output.check({name!r}, ('compare', 'json'));"
        f" output.write({name!r}, lambda out: out.write('data\\n'))"
    )
    with open(tmp_path / "log", "w") as log:
        for _ in range(2):
            subprocess.run(
                [sys.executable, "-c", script],
                stdout=log,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
                check=True,
            )
    assert (tmp_path / "log").read_text() == "data\ndata\n"


def test_a_named_pipe_of_the_shell_is_written(tmp_path):
    reading, writing = os.pipe()
    output.check(f"/dev/fd/{writing}", JSON)
    output.write(f"/dev/fd/{writing}", lambda out: out.write("data\n"), says=False)
    os.close(writing)
    assert os.read(reading, 100) == b"data\n"
    os.close(reading)


def test_links_that_lead_to_each_other_are_refused(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(output.OutputError, match="the link leads to no file"):
        output.check("a", JSON)
