"""Prints every defect of the manifest, with its file, line and code.

Exit status: 0 if there is no defect, 1 if there is a defect, 2 if a flag is wrong, such as an --op that fits no op.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

from absl import app, flags

from tileops.codegen.func_paths import check_func
from tileops.codegen.pipeline import analyse_files, chosen_spec_files
from tileops.tools.cli import command, globs, nearest, paths, words

_SPEC_DIR = flags.DEFINE_multi_string("spec_dir", [], "Folder of spec files, at most one. Default: the project's")
_FORMAT = flags.DEFINE_enum("format", "text", ["text", "json"], "Form of the output.")
_OP = flags.DEFINE_string("op", "*", "Print only defects of ops that match this glob.")


def main(argv: Sequence[str]) -> int:
    """Prints the defects; returns the exit status."""
    files = chosen_spec_files(_SPEC_DIR.value)
    if _SPEC_DIR.value:
        paths.make_user_modules_importable()
    analysed = analyse_files(files)
    for checked, analysis in analysed.entries.values():
        check_func(checked.entry, analysis, analysed.diagnostics)
    named = {*analysed.entries, *(one.op for one in analysed.diagnostics)}  # "" is the op of a defect of a whole file
    if _OP.value != "*" and not any(globs.fits(op, _OP.value) for op in named):
        instead = nearest.instead(_OP.value, named - {""}, nearest.rows(spec_dir=_SPEC_DIR.value))
        raise app.UsageError(f"--op={_OP.value} fits no op; {instead}")
    found = [one for one in analysed.diagnostics if globs.fits(one.op, _OP.value)]
    unreached = [one for one in analysed.unreached if globs.fits(one.op, _OP.value)]
    if _FORMAT.value == "json":
        print(
            json.dumps(
                {
                    "diagnostics": [dataclasses.asdict(one) for one in found],
                    "unreached": [dataclasses.asdict(one) for one in unreached],
                    "entries": len(analysed.entries),
                },
                indent=2,
            )
        )
    else:
        for one in (*found, *unreached):
            print(one)
        left = f"; {words.counted(len(unreached), 'judgment')} not reached" if unreached else ""
        print(
            f"{words.counted(len(found), 'defect')} in {words.counted(len(analysed.entries), 'entry', 'entries')}"
            f" of {words.counted(len(files), 'file')}{left}"
        )
    return 1 if found else 0


if __name__ == "__main__":
    command.run(main)
