"""//ops:conformance: whether the code of ops keeps what the manifest says."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import tempfile
from collections.abc import Iterator

from absl import app, flags

from tileops.ops import row_index
from tileops.tools.cli import command, globs, later, nearest, paths

# Imported when first used, since they import torch.
conformance = later.module("tileops.ops.conformance.check")
bench_emit = later.module("tileops.ops.emitting")

_SPEC_DIR = flags.DEFINE_multi_string("spec_dir", [], "Manifest outside the project to check instead; repeatable.")
_PLUGIN = flags.DEFINE_multi_string("plugin", [], "Module or .py file with classes and implementations; repeatable.")
_OP = flags.DEFINE_string("op", "*", "Check the ops that match this glob alone.")
_FORMAT = flags.DEFINE_enum("format", "text", ["text", "json"], "How to print what is found.")


def main(argv: list[str]) -> int:
    """Exit status: 0 the code conforms, 1 it does not, 2 bad usage or a manifest with defects."""
    del argv
    plugins = [paths.plugin_path(name) for name in _PLUGIN.value]
    if plugins or _SPEC_DIR.value:
        paths.make_user_modules_importable(plugins)
    elif not any(globs.fits(name, _OP.value) for name in row_index.load()):
        raise app.UsageError(
            f"no entry matches {_OP.value!r}; {nearest.instead(_OP.value, row_index.load(), nearest.ROWS)}"
        )
    try:
        with _generated() as generated_dir:
            report = conformance.check(
                generated_dir, plugins, _OP.value, nearest.rows(spec_dir=_SPEC_DIR.value, plugin=_PLUGIN.value)
            )
    except (bench_emit.EmitError, conformance.NoSuchOp) as error:
        *lines, last = str(error).splitlines()
        for line in lines:
            command.say(line)
        raise app.UsageError(last) from error
    print(as_json(report) if _FORMAT.value == "json" else as_text(report))
    return command.EXIT_FOUND if report.findings else command.EXIT_OK


@contextlib.contextmanager
def _generated() -> Iterator[str | None]:
    """The folder of modules emitted for --spec_dir, as long as the block; None for the project's own."""
    if not _SPEC_DIR.value:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="tileops-generated-") as folder:
        bench_emit.emit([paths.user_path(spec_dir) for spec_dir in _SPEC_DIR.value], pathlib.Path(folder))
        yield folder


def as_text(report: conformance.Report) -> str:
    """A line for each finding, then what was not reached, who has no read half, and a count."""
    lines = [str(finding) for finding in report.findings]
    lines += [f"not reached: {what}" for what in report.unreached]
    if report.no_verdict:
        lines.append(f"no read half, NO-VERDICT in the bytes audit: {', '.join(report.no_verdict)}")
    found, entries = len(report.findings), len(report.entries)
    lines.append(f"{found} defect{'' if found == 1 else 's'} in {entries} {'entry' if entries == 1 else 'entries'}")
    return "\n".join(lines)


def as_json(report: conformance.Report) -> str:
    """The report as one object; fields as in the library's dataclasses."""
    return json.dumps(dataclasses.asdict(report), indent=2)


if __name__ == "__main__":
    command.run(main)
