"""//manifest:validate and //codegen:emit print every defect, what they could not judge, and a count."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
import yaml
from absl import app, flags
from absl.testing import flagsaver

from tileops.codegen import validate
from tileops.manifest.diagnostics import CODES
from tileops.tests.manifest.entries import OP, VALID, variant

SECOND = f"Other{OP}"


def run(module: str, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, *flags],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
        check=False,
    )


@pytest.fixture
def printed(capsys):
    """Runs the validator in this process, which is faster, and returns what it prints."""

    def main(*given: str) -> str:
        with flagsaver.flagsaver():
            flags.FLAGS(["validate", *given])
            validate.main([])
        return capsys.readouterr().out

    return main


@pytest.fixture
def folder(tmp_path):
    def write(**entries):
        (tmp_path / "demo.yaml").write_text(yaml.safe_dump(entries, sort_keys=False))
        return f"--spec_dir={tmp_path}"

    return write


def test_a_clean_manifest_is_counted_and_is_status_0(folder):
    done = run("tileops.codegen.validate", folder(**{OP: VALID, SECOND: VALID}))
    assert (done.returncode, done.stdout) == (0, "0 defects in 2 entries of 1 file\n")


def test_a_defect_is_followed_by_what_waits_for_its_mending(folder):
    spec_dir = folder(**{OP: variant("signature.params.flip.type", "int |")})
    done = run("tileops.codegen.validate", spec_dir)
    *lines, count = done.stdout.splitlines()
    assert done.returncode == 1
    assert [line.rpartition("[")[2] for line in lines[:1]] == ["M023]"]
    assert len(lines) == 3 and all(f"demo.yaml:1: {OP}: not judged: " in line for line in lines[1:])
    assert "inference plans and workload rows: signature.params.flip" in lines[1]
    assert count == "1 defect in 1 entry of 1 file; 2 judgments not reached"


def test_a_formula_that_reads_a_defective_let_waits_for_it(folder):
    entry = variant("signature.let.L", "float16")
    entry["roofline"]["flops"] = "N // L"
    *lines, count = run("tileops.codegen.validate", folder(**{OP: entry})).stdout.splitlines()
    assert [line.rpartition("[")[2] for line in lines if line.endswith("]")] == ["M021]"]
    assert lines[-1].endswith("not judged: roofline.flops: it reads L, which has a defect")
    assert count.startswith("1 defect in 1 entry of 1 file; 2 judgments")


def test_json_holds_defects_and_what_was_not_reached(folder):
    spec_dir = folder(**{OP: variant("signature.params.flip.type", "int |"), SECOND: VALID})
    found = json.loads(run("tileops.codegen.validate", spec_dir, "--format=json").stdout)
    assert [(one["op"], one["field"], one["code"]) for one in found["diagnostics"]] == [
        (OP, "signature.params.flip.type", "M023")
    ]
    assert {one["op"] for one in found["unreached"]} == {OP} and len(found["unreached"]) == 2
    assert found["unreached"][0].keys() == {"file", "line", "op", "reason"} and found["entries"] == 2
    assert (
        json.loads(run("tileops.codegen.validate", spec_dir, "--format=json", f"--op={SECOND}").stdout)["unreached"]
        == []
    )


def defective(folder) -> str:
    """The flag of a folder whose one file has a defect with all characters that a workflow command escapes."""
    return folder(**{OP: VALID, SECOND: variant("ref_api", "a,b: 50%\r\nof c")})


def test_github_annotates_the_line_and_escapes_what_would_end_the_command(folder, printed, tmp_path):
    flag = defective(folder)
    (text, count), (command, same) = (printed(flag, f"--format={form}").splitlines() for form in ("text", "github"))
    assert count == same == "1 defect in 2 entries of 1 file"
    line = re.match(rf"{tmp_path}/demo\.yaml:(\d+): ", text)[1]
    found = re.fullmatch(r"::error ([^:]*)::([^\r\n]*)", command)
    properties = dict(part.split("=", 1) for part in found[1].split(","))
    assert properties == {"file": f"{tmp_path}/demo.yaml", "line": line, "col": "3", "title": f"M012 {SECOND}"}
    message = found[2].replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")
    assert "50%25" in found[2] and f"{message} [M012]" == text.split(": ", 1)[1]


def test_github_escapes_a_path_and_notes_what_was_not_judged(printed, tmp_path):
    (tmp_path / "demo.yaml").write_text(
        yaml.safe_dump({OP: variant("signature.params.flip.type", "int |")}, sort_keys=False)
    )
    moved = tmp_path / "a,b:c 50%"
    moved.mkdir()
    (tmp_path / "demo.yaml").rename(moved / "demo.yaml")
    error, *notices, _ = printed(f"--spec_dir={moved}", "--format=github").splitlines()
    assert f"file={tmp_path}/a%2Cb%3Ac 50%25/demo.yaml," in error
    assert len(notices) == 2 and all(re.match(r"::notice file=.*::not judged: ", notice) for notice in notices)


def test_paths_are_those_of_the_repository_that_holds_the_file(printed, tmp_path):
    """Also where a program reaches the file by a link, as one of a runfiles tree does."""
    (tmp_path / "work" / ".git").mkdir(parents=True)
    (tmp_path / "work" / "my specs").mkdir()
    (tmp_path / "work" / "my specs" / "demo.yaml").write_text(
        yaml.safe_dump({OP: variant("status", "done")}, sort_keys=False)
    )
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "demo.yaml").symlink_to(tmp_path / "work" / "my specs" / "demo.yaml")
    flag = f"--spec_dir={tmp_path}/links"
    assert printed(flag, "--format=github").startswith("::error file=my specs/demo.yaml,")
    (result,) = json.loads(printed(flag, "--format=sarif"))["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "my%20specs/demo.yaml"


# The properties that SARIF 2.1.0 requires of the objects that a log of ours has, by the property that holds the object.
SARIF_REQUIRED = {
    "": {"version", "runs"},
    "runs": {"tool"},
    "tool": {"driver"},
    "driver": {"name"},
    "rules": {"id"},
    "results": {"message"},
    "invocations": {"executionSuccessful"},
    "toolExecutionNotifications": {"message"},
    "shortDescription": {"text"},
    "help": {"text"},
    "message": {"text"},  # or an id, which no log of ours has
    "locations": set(),
    "physicalLocation": {"artifactLocation"},
    "artifactLocation": {"uri"},  # or an index
    "region": {"startLine"},  # or an offset
    "logicalLocations": set(),
}


def sarif_objects(value, name=""):
    """Yields each object of a log with the name of the property that holds it, alone or in an array."""
    if isinstance(value, list):
        for each in value:
            yield from sarif_objects(each, name)
    elif isinstance(value, dict):
        yield name, value
        for key, each in value.items():
            yield from sarif_objects(each, key)


def test_sarif_has_what_the_standard_requires(folder, printed, tmp_path):
    log = json.loads(printed(defective(folder), "--format=sarif"))
    assert log["version"] == "2.1.0"
    for name, found in sarif_objects(log):
        assert found.keys() >= SARIF_REQUIRED[name], (name, found)
    (one_run,) = log["runs"]
    rules = one_run["tool"]["driver"]["rules"]
    assert {rule["id"]: rule["shortDescription"]["text"] for rule in rules} == CODES
    assert all(len(rule["help"]["text"]) > 20 and "`" not in rule["help"]["text"] for rule in rules)
    (result,) = one_run["results"]
    assert result["ruleId"] == "M012" == rules[result["ruleIndex"]]["id"] and result["level"] == "error"
    assert SECOND in result["message"]["text"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == (tmp_path / "demo.yaml").as_uri()
    region = place["region"]
    line = (tmp_path / "demo.yaml").read_text().splitlines()[region["startLine"] - 1]
    assert line[region["startColumn"] - 1 :].startswith("ref_api:")


def test_sarif_of_a_clean_manifest_and_of_what_was_not_judged(folder, printed):
    clean = json.loads(printed(folder(**{OP: VALID}), "--format=sarif"))
    assert clean["runs"][0]["results"] == []  # an empty list says that nothing was found
    flag = folder(**{OP: variant("signature.params.flip.type", "int |")})
    found = json.loads(printed(flag, "--format=sarif"))["runs"][0]
    notes = found["invocations"][0]["toolExecutionNotifications"]
    assert len(notes) == 2 and all(note["message"]["text"].startswith("not judged: ") for note in notes)
    assert all(SARIF_REQUIRED[name] <= each.keys() for name, each in sarif_objects(found, "runs"))


def test_a_column_is_that_of_the_key_or_else_of_the_first_character(printed, tmp_path):
    (tmp_path / "demo.yaml").write_text("  \n- no mapping\n")
    command = printed(f"--spec_dir={tmp_path}", "--format=github")
    assert ",line=2,col=1,title=M012::must be a mapping" in command
    text = yaml.safe_dump({OP: VALID}, sort_keys=False)
    text = re.sub(r"flip:\n.*\n.*\n", "flip: {default: false, type: 'int |'}\n", text)
    (tmp_path / "demo.yaml").write_text(text)
    command = printed(f"--spec_dir={tmp_path}", "--format=github")
    assert ",col=30,title=M023 " in command  # behind 6 columns of indentation and the 23 of `flip: {default: false, `


@pytest.mark.parametrize("form", ["json", "github", "sarif"])
def test_watch_prints_text_only(folder, printed, form):
    with pytest.raises(app.UsageError, match=f"--watch prints text, and --format={form} "):
        printed(folder(**{OP: VALID}), "--watch", f"--format={form}")


def test_a_glob_that_fits_no_entry_is_bad_usage(folder):
    done = run("tileops.codegen.validate", folder(**{OP: VALID}), "--op=Nope*")
    assert (done.returncode, done.stdout) == (2, "") and f"--op=Nope* fits no op; there are: {OP}" in done.stderr


def test_emit_counts_one_defect_in_the_singular(folder):
    done = run("tileops.codegen.emit", folder(**{OP: variant("status", "done")}), "--check")
    assert done.returncode == 1 and done.stderr.endswith("\n1 defect; nothing was written\n")
