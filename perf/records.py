"""Converts run files: between the binary and the JSON form, to CSV and text, and from JUnit.

Several --in files are parts of one run, and the command merges them. The parts must have the same device, software, sources
and plug-ins, no row twice and no part missing. Stderr names damage in a file; the rest of that file is converted.

Exit status: 0, or 2 if a flag or file is wrong or the parts do not fit together.
"""

import dataclasses
import pathlib
from collections.abc import Iterator, Sequence

from absl import flags

from tileops.perf.roof import profiles
from tileops.perf.runs import duplicates, framing, headers, junit, merge, renames, text, writer
from tileops.perf.runs import reader as runfile
from tileops.proto import benchmark_pb2
from tileops.tools.cli import command, errors, output, paths

_IN = flags.DEFINE_multi_string("in", None, "File to convert. Several files are merged", required=True)
_OUT = flags.DEFINE_string("out", None, "File to write. Default: stdout. A file of another run is not replaced.")
_FROM = flags.DEFINE_enum(
    "from", None, ["run", "jsonl", "junit"], "Form of the input. Default: junit for .xml, otherwise by its content."
)
_TO = flags.DEFINE_enum(
    "to",
    None,
    ["jsonl", "csv", "textproto", "run"],
    "Form of the output. Default: by the ending of --out, else jsonl. csv and textproto cannot be read back.",
)
_DEVICE_NAME = flags.DEFINE_string(
    "device_name", None, "Name of the measured device, as its driver gives it. For inputs that do not name it (JUnit)."
)
_SUITE = flags.DEFINE_string(
    "suite", None, "JUnit: convert only this suite, by its name or its number from 1. Default: all, of one device."
)
_ALLOW_UNKNOWN_REVISION = flags.DEFINE_bool(
    "allow_unknown_revision",
    False,
    "Merge runs whose sources were modified or have no known revision. The merged run says so.",
)
_ALLOW_MISSING_PARTS = flags.DEFINE_bool(
    "allow_missing_parts",
    False,
    "Merge only some parts of a run. The merged run names them, and takes the others later.",
)
_RENAME = flags.DEFINE_bool(
    "rename", False, "Give ops, tensors and cases of earlier versions today's names, by perf/runs/renames.toml."
)
_DUPLICATES = flags.DEFINE_enum(
    "duplicates",
    None,
    duplicates.CHOICES,
    "Which record to keep if a file has several successful records of one row. Default: all.",
)

_FORM_OF_ENDING = {".jsonl": "jsonl", ".csv": "csv", ".textproto": "textproto", ".binpb": "run"}
_WRITERS = {
    "jsonl": text.write_jsonl,
    "csv": text.write_csv,
    "textproto": text.write_textproto,
    "run": lambda entries, out: out.writelines(map(framing.frame, entries)),
}


def main(argv: Sequence[str]) -> int:
    """Converts; returns the exit status."""
    del argv
    form = output.form(_OUT.value, _TO.value, _FORM_OF_ENDING, "jsonl", "to")
    files = [paths.user_path(path) for path in _IN.value]
    readers = [_read(path) for path in files]
    allowed = merge.Allowed(unknown_revision=_ALLOW_UNKNOWN_REVISION.value, missing_parts=_ALLOW_MISSING_PARTS.value)
    header = merge.merged_header(readers, allowed)
    _name_device(header)
    doubt_of_device = _doubt_of_device(header, readers)

    def is_earlier(path: pathlib.Path) -> bool:
        return runfile.is_earlier_output(path, header, readers)

    output.check(_OUT.value, is_earlier if form in ("jsonl", "run") else ("records", form), files)
    if _RENAME.value and not renames.applies(header):
        raise errors.UserError(
            "--rename: the run took its entries from --spec_dir or --generated_dir, so it has their names"
        )
    renaming = renames.Renaming(renames.load()) if _RENAME.value else None
    write = _WRITERS[form]
    output.write(_OUT.value, lambda out: write(_entries(header, readers, renaming), out), binary=form == "run")
    if renaming is not None:
        command.say(str(renaming))
    for reader in readers:
        for problem in reader.problems:
            # The remedy would be to name the device, which --device_name does.
            told = problem if _DEVICE_NAME.value is None else dataclasses.replace(problem, remedy="")
            command.say(f"{reader.path.name}: {told}")
    for note in header.notes:
        command.say(note)
    if doubt := headers.doubt(header.parts):
        command.say(f"what was written {doubt}")
    if doubt_of_device:
        command.say(doubt_of_device)
    return command.EXIT_OK


def _read(path: pathlib.Path) -> merge.Reader:
    if _FROM.value == "junit" or (_FROM.value is None and path.suffix == ".xml"):
        return junit.JUnitReader(path, _SUITE.value)
    if _SUITE.value is not None:
        raise errors.UserError(f"--suite={_SUITE.value}: {path} is no JUnit XML, and only JUnit has suites")
    is_json = None if _FROM.value is None else _FROM.value == "jsonl"
    return runfile.RunReader(path, is_json, as_written=True)


def _name_device(header: benchmark_pb2.RunHeader) -> None:
    if _DEVICE_NAME.value is None:
        return
    known = header.environment.device_name
    if known not in ("", _DEVICE_NAME.value):
        raise errors.UserError(
            f"--device_name={_DEVICE_NAME.value} contradicts the input, which names the device {known!r}"
        )
    header.environment.device_name = _DEVICE_NAME.value


def _doubt_of_device(header: benchmark_pb2.RunHeader, readers: Sequence[merge.Reader]) -> str:
    """Returns that no profile names the device, so that reports leave every row blank; "" if a profile does.

    Always "" for runs of the bench, which name their device as its driver does.
    """
    is_junit = any(isinstance(reader, junit.JUnitReader) for reader in readers)
    if not is_junit and _DEVICE_NAME.value is None:
        return ""
    name = header.environment.device_name
    if not name:
        return "the input does not name its device: a report leaves every row blank (no_profile); see --device_name"
    known = profiles.load_profiles()
    if profiles.select(known, name) is not None:
        return ""
    return (
        f"no profile has the device {name!r}: a report leaves every row blank (no_profile);"
        f" {profiles.candidates(known, name)}"
    )


def _entries(
    header: benchmark_pb2.RunHeader, readers: Sequence[merge.Reader], renaming: renames.Renaming | None
) -> Iterator[benchmark_pb2.RunEntry]:
    stamped = benchmark_pb2.RunHeader()
    stamped.CopyFrom(header)
    stamped.schema_version = runfile.SCHEMA_VERSION
    yield benchmark_pb2.RunEntry(header=stamped)
    counts = benchmark_pb2.RunFooter()
    records = merge.merged_records(readers, _DUPLICATES.value)
    for record in records if renaming is None else renaming(records):
        writer.count_record(counts, record)
        yield benchmark_pb2.RunEntry(record=record)
    footer = merge.merged_footer(readers)
    if footer is not None:
        if footer.HasField("finished_at"):
            counts.finished_at.CopyFrom(footer.finished_at)
        yield benchmark_pb2.RunEntry(footer=counts)


if __name__ == "__main__":
    command.run(main)
