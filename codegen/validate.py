"""Prints every defect of the manifest, with its file, line and code.

Exit status: 0 if there is no defect, 1 if there is a defect, 2 if a flag is wrong, such as an --op that fits no op. With
--watch the command runs until Ctrl-C, and the status is 130.
"""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Sequence
from typing import NoReturn

from absl import app, flags

from tileops.codegen import defect_forms, watching
from tileops.codegen.func_paths import check_func
from tileops.codegen.memory import Memory
from tileops.codegen.pipeline import Unreached, analyse_files, chosen_spec_files
from tileops.manifest.diagnostics import Diagnostic
from tileops.manifest.foreign import roots
from tileops.tools.cli import command, globs, nearest, paths, words

_SPEC_DIR = flags.DEFINE_multi_string("spec_dir", [], "Folder of spec files, at most one. Default: the project's")
_ROOT = flags.DEFINE_multi_string("root", [], roots.HELP)
_FORMAT = flags.DEFINE_enum(
    "format",
    "text",
    ["text", "json", "github", "sarif"],
    "Form of the output. github: annotations of a GitHub workflow; sarif: a SARIF 2.1.0 log, for code scanning.",
)
_OP = flags.DEFINE_string("op", "*", "Print only defects of ops that match this glob.")
_WATCH = flags.DEFINE_bool("watch", False, "Validate again after each save of a spec file, until Ctrl-C.")


@dataclasses.dataclass(frozen=True)
class _Findings:
    """The defects and the checks that were not made, of the ops that the user chose, and how much was validated."""

    defects: list[Diagnostic]
    unreached: list[Unreached]
    entries: int
    files: int

    def count(self) -> str:
        left = f"; {words.counted(len(self.unreached), 'judgment')} not reached" if self.unreached else ""
        return (
            f"{words.counted(len(self.defects), 'defect')} in {words.counted(self.entries, 'entry', 'entries')}"
            f" of {words.counted(self.files, 'file')}{left}"
        )

    def text(self) -> str:
        return "\n".join([*map(str, self.defects), *map(str, self.unreached), self.count()])

    def json(self) -> str:
        found = {
            "diagnostics": [dataclasses.asdict(one) for one in self.defects],
            "unreached": [dataclasses.asdict(one) for one in self.unreached],
            "entries": self.entries,
        }
        return json.dumps(found, indent=2)

    def github(self) -> str:
        return "\n".join([*defect_forms.github_lines(self.defects, self.unreached), self.count()])

    def sarif(self) -> str:
        return json.dumps(defect_forms.sarif(self.defects, self.unreached), indent=2)


def main(argv: Sequence[str]) -> int:
    """Prints the defects; returns the exit status."""
    if _WATCH.value and _FORMAT.value != "text":
        raise app.UsageError(
            f"--watch prints text, and --format={_FORMAT.value} is one document; leave one of them out"
        )
    memory = Memory()
    seen = watching.state(_files())
    if _SPEC_DIR.value:
        paths.make_user_modules_importable()
    roots.use(roots.parse(_ROOT.value))
    found = _validate(memory)
    print(getattr(found, _FORMAT.value)(), flush=True)
    if _WATCH.value:
        _watch(memory, seen)  # never returns
    return 1 if found.defects else 0


def _files() -> list[str]:
    return chosen_spec_files(_SPEC_DIR.value)


def _validate(memory: Memory) -> _Findings:
    """Returns what is found in the files as they are now. Raises app.UsageError if --op fits no op."""
    files = _files()
    analysed = analyse_files(files, memory=memory)
    for checked, analysis in analysed.entries.values():
        check_func(checked.entry, analysis, analysed.diagnostics)
    named = {*analysed.entries, *(one.op for one in analysed.diagnostics)}  # "" is the op of a defect of a whole file
    if _OP.value != "*" and not any(globs.fits(op, _OP.value) for op in named):
        instead = nearest.instead(_OP.value, named - {""}, nearest.rows(spec_dir=_SPEC_DIR.value, root=_ROOT.value))
        raise app.UsageError(f"--op={_OP.value} fits no op; {instead}")
    return _Findings(
        [one for one in analysed.diagnostics if globs.fits(one.op, _OP.value)],
        [one for one in analysed.unreached if globs.fits(one.op, _OP.value)],
        len(analysed.entries),
        len(files),
    )


def _watch(memory: Memory, seen: watching.State) -> NoReturn:
    """Prints the findings anew after each save. Only Ctrl-C ends it."""
    command.say("waiting for saves; press Ctrl-C to end")
    while True:
        now = watching.next_state(_present_files, seen)
        began, before = time.monotonic(), memory.checks
        try:
            found = _validate(memory).text()
        except app.UsageError as error:  # there is no file now, or no op that --op fits
            found = str(error)
        if watching.state(_present_files()) != now:
            continue  # a file changed while it was read
        saved = ", ".join(map(os.path.basename, watching.changed(seen, now)))
        checked = words.counted(memory.checks - before, "entry", "entries")
        print(f"\n{saved}: checked {checked} in {time.monotonic() - began:.2f} s\n{found}", flush=True)
        seen = now


def _present_files() -> list[str]:
    """Returns the spec files, or [] while the folder has none."""
    try:
        return _files()
    except app.UsageError:
        return []


if __name__ == "__main__":
    command.run(main)
