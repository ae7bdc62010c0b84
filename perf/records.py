"""Converts run files: between the binary and the JSON form, to CSV and text, from JUnit.

Several --in files are one run's shards, and are merged: same device, software,
sources and plugins, no row twice, no part missing. What is damaged in a file is said on stderr, and the rest
converted.
"""

import dataclasses
import pathlib
from collections.abc import Iterator, Sequence

from absl import flags

from tileops.perf.roof import profiles
from tileops.perf.runs import duplicates, framing, junit, merge, parts, renames, text, writer
from tileops.perf.runs import reader as runfile
from tileops.proto import benchmark_pb2
from tileops.tools.cli import command, errors, output, paths

_IN = flags.DEFINE_multi_string("in", [], "File to convert; several are merged.")
_OUT = flags.DEFINE_string("out", None, "File to write. Default: stdout.")
_FROM = flags.DEFINE_enum(
    "from", None, ["run", "jsonl", "junit"], "Form of the input. Default: junit for .xml, otherwise what the file is."
)
_TO = flags.DEFINE_enum(
    "to",
    None,
    ["jsonl", "csv", "textproto", "run"],
    "Form of the output; csv and textproto cannot be read back. Default: by the ending"
    " of --out (.jsonl, .csv, .textproto, .binpb); jsonl without one.",
)
_DEVICE_NAME = flags.DEFINE_string(
    "device_name", None, "Device that was measured, as its driver names it, where the input does not say (JUnit)."
)

_SUITE = flags.DEFINE_string(
    "suite",
    None,
    "JUnit: the one suite to convert, by its name or its number from 1. Default: all, which must be of one device.",
)
_ALLOW_UNKNOWN_REVISION = flags.DEFINE_bool(
    "allow_unknown_revision",
    False,
    "Merge runs that do not tell their sources (of a copy without git or"
    " TILEOPS_REVISION) or that were made from modified ones; the merged run says so.",
)
_ALLOW_MISSING_PARTS = flags.DEFINE_bool(
    "allow_missing_parts",
    False,
    "Merge some parts of a run alone; the merged run says which, and can be merged with the others later.",
)
_RENAME = flags.DEFINE_bool(
    "rename", False, "Give ops, tensors and cases of earlier versions today's names, by perf/runs/renames.toml."
)

_DUPLICATES = flags.DEFINE_enum(
    "duplicates",
    None,
    duplicates.CHOICES,
    "Which stays of several successful records that one file has of a case and"
    " implementation. Default: all, and reports refuse what was written.",
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
    if not _IN.value:
        raise errors.UserError("--in names no file")
    form = _form_of_output(_OUT.value)
    files = [paths.user_path(path) for path in _IN.value]
    output.refuse_input(_OUT.value, files)
    readers = [_read(path) for path in files]
    allowed = merge.Allowed(unknown_revision=_ALLOW_UNKNOWN_REVISION.value, missing_parts=_ALLOW_MISSING_PARTS.value)
    header = merge.merged_header(readers, allowed)
    _name_device(header)
    doubt_of_device = _doubt_of_device(header, readers)
    if _RENAME.value and not renames.applies(header):
        raise errors.UserError(
            "--rename: the run took its entries from --spec_dir or --generated_dir; it has their names"
        )
    renaming = renames.Renaming(renames.load()) if _RENAME.value else None
    write = _WRITERS[form]
    output.write(_OUT.value, lambda out: write(_entries(header, readers, renaming), out), binary=form == "run")
    if renaming is not None:
        command.say(str(renaming))
    for reader in readers:
        for problem in reader.problems:
            # Of a device that was just named nobody needs to hear how to name it.
            told = problem if _DEVICE_NAME.value is None else dataclasses.replace(problem, remedy="")
            command.say(f"{reader.path.name}: {told}")
    for note in header.notes:
        command.say(note)
    if doubt := parts.doubt(header.parts):
        command.say(f"what was written {doubt}")
    if doubt_of_device:
        command.say(doubt_of_device)
    return command.EXIT_OK


def _form_of_output(name: str | None) -> str:
    """Returns the form that --to names, or else the ending of --out.

    Raises:
      errors.UserError: The ending is no form's.
    """
    ending = pathlib.Path(name or "").suffix
    if _TO.value:
        return _TO.value
    if ending and ending not in _FORM_OF_ENDING:
        raise errors.UserError(
            f"--out={name}: {ending} is the ending of no form; there are {', '.join(_FORM_OF_ENDING)}, and --to names"
            " one whatever the ending"
        )
    return _FORM_OF_ENDING.get(ending, "jsonl")


def _read(path: pathlib.Path) -> merge.Reader:
    if _FROM.value == "junit" or (_FROM.value is None and path.suffix == ".xml"):
        return junit.JUnitReader(path, _SUITE.value)
    if _SUITE.value is not None:
        raise errors.UserError(f"--suite={_SUITE.value}: {path} is no JUnit XML, which alone has suites")
    is_json = None if _FROM.value is None else _FROM.value == "jsonl"
    return runfile.RunReader(path, is_json, as_written=True)


def _name_device(header: benchmark_pb2.RunHeader) -> None:
    if _DEVICE_NAME.value is None:
        return
    known = header.environment.device_name
    if known not in ("", _DEVICE_NAME.value):
        raise errors.UserError(f"--device_name={_DEVICE_NAME.value} is not what was measured: {known!r}")
    header.environment.device_name = _DEVICE_NAME.value


def _doubt_of_device(header: benchmark_pb2.RunHeader, readers: Sequence[merge.Reader]) -> str:
    """Returns that no profile will have the device, and a report leave every row blank; "" where one has.

    Of runs that the bench recorded, which name their device as its driver does, there is nothing to say.
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
