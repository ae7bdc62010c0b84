"""Checks that the code of ops keeps what the manifest promises: classes, signatures, implementations, prices.

Exit status: 0 if the code conforms, 1 if it has a defect, 2 if a flag is wrong or a manifest has defects.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import tempfile
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from absl import flags

from tileops.manifest.foreign import roots
from tileops.ops import emitting, row_index
from tileops.tools.cli import command, errors, globs, nearest, paths, words

if TYPE_CHECKING:
    from tileops.ops.conformance.check import Report

_SPEC_DIR = flags.DEFINE_multi_string("spec_dir", [], "Folder of a manifest to check instead of the project's")
_ROOT = flags.DEFINE_multi_string("root", [], roots.HELP)
_PLUGIN = flags.DEFINE_multi_string("plugin", [], "Module or .py file with classes and implementations")
_OP = flags.DEFINE_string("op", "*", "Check only ops that match this glob.")
_FORMAT = flags.DEFINE_enum("format", "text", ["text", "json"], "Form of the output.")


def main(argv: Sequence[str]) -> int:
    """Prints what the check finds; returns the exit status."""
    del argv
    plugins = [paths.plugin_path(name) for name in _PLUGIN.value]
    listed_by = nearest.rows(spec_dir=_SPEC_DIR.value, root=_ROOT.value, plugin=_PLUGIN.value)
    roots.use(roots.parse(_ROOT.value))
    if plugins or _SPEC_DIR.value:
        paths.make_user_modules_importable(plugins)
    elif not any(globs.fits(name, _OP.value) for name in row_index.load()):
        instead = nearest.instead(_OP.value, row_index.load(), listed_by)
        raise errors.UserError(f"--op={_OP.value} fits no op; {instead}")

    from tileops.ops.conformance import check  # imports torch: that takes seconds

    with _generated() as generated_dir:
        report = check.check(generated_dir, plugins, _OP.value, listed_by)
    print(as_json(report) if _FORMAT.value == "json" else as_text(report))
    return command.EXIT_FOUND if report.findings else command.EXIT_OK


@contextlib.contextmanager
def _generated() -> Iterator[str | None]:
    """Yields the folder of modules emitted for --spec_dir, which the block may use; None for the project's own."""
    if not _SPEC_DIR.value:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="tileops-generated-") as folder:
        spec_dirs = [paths.user_path(spec_dir) for spec_dir in _SPEC_DIR.value]
        emitting.emit(spec_dirs, pathlib.Path(folder), roots.parse(_ROOT.value))
        yield folder


def as_text(report: Report) -> str:
    """Returns a line per finding, then checks that were not made, ops without a read half, and a count."""
    lines = [str(finding) for finding in report.findings]
    lines += [f"not reached: {what}" for what in report.unreached]
    if report.no_verdict:
        lines.append(f"no read half, NO-VERDICT in the bytes audit: {', '.join(report.no_verdict)}")
    found = words.counted(len(report.findings), "defect")
    lines.append(f"{found} in {words.counted(len(report.entries), 'entry', 'entries')}")
    return "\n".join(lines)


def as_json(report: Report) -> str:
    """Returns the report as a JSON object with the fields of `check.Report`."""
    return json.dumps(dataclasses.asdict(report), indent=2)


if __name__ == "__main__":
    command.run(main)
