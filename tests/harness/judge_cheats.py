"""Judges a run of the cheats that was made on another machine. Exits 1 where one passed, or an honest one did not."""

from __future__ import annotations

from collections.abc import Sequence

from absl import app, flags

from tileops.perf.runs import reader
from tileops.tests.harness import cheat_corpus
from tileops.tools.cli import command, paths

_RUN = flags.DEFINE_string("run", None, "Run file of one plugin's implementations.")
_PLUGIN = flags.DEFINE_enum("plugin", None, sorted(cheat_corpus.CHEATS), "Which plugin was run.")


def main(argv: Sequence[str]) -> int:
    """Print what is wrong, a line each; returns the exit status."""
    del argv
    if not _RUN.value or not _PLUGIN.value:
        raise app.UsageError("--run and --plugin are wanted")
    try:
        records = list(reader.read_run(paths.user_path(_RUN.value)).records())
    except reader.RunFileError as error:
        raise app.UsageError(str(error)) from error
    wrong = cheat_corpus.judge(_PLUGIN.value, records)
    for line in wrong:
        print(line)
    command.say(f"{len(records)} implementations, {len(wrong)} judged wrongly")
    return command.EXIT_FOUND if wrong else command.EXIT_OK


if __name__ == "__main__":
    command.run(main)
