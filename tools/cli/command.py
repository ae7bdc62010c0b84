"""How the project's commands start and end: one line on errors, three statuses.

0: fine. 1: ran, and found what it exists to find. 2: bad usage, unreadable input
or unwritable output, with one line on stderr that says what and where. 130: the
user pressed Ctrl-C.

Ctrl-C is answered with one line from the import of this module on, since the
imports of a command (torch) take longer than many a run.
"""

import errno
import os
import re
import sys
from collections.abc import Callable, Sequence

from absl import app, flags

from tileops.tools.cli import errors, words

EXIT_OK = 0
EXIT_FOUND = 1
EXIT_UNUSABLE = 2
EXIT_INTERRUPTED = 130

# What a full or failing disk says of a write.
_NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO))


def run(main: Callable[[Sequence[str]], int | None]) -> None:
    """Runs `main` under absl, with the exit statuses of this project.

    `main` returns a status (None is 0), and lets every `errors.UserError` pass: this is the one place that catches
    it. absl's `app.UsageError` means the same. `main` takes no positional arguments.
    """
    try:
        try:
            app.run(lambda argv: _guarded(main, argv), flags_parser=_parse_flags)
        finally:
            # Here, where a failure still has a status: not at the interpreter's exit.
            if sys.stdout is not None:
                sys.stdout.flush()
    except KeyboardInterrupt:
        say("interrupted")
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output left (as `head` does); nothing more to say.
        _drop_stdout()
        sys.exit(EXIT_OK)
    except OSError as error:
        if error.errno not in _NO_ROOM or error.filename is not None:
            raise
        _drop_stdout()
        say(f"cannot write the output: {error.strerror}")
        sys.exit(EXIT_UNUSABLE)


def say(message: str) -> None:
    """Tells the user something on stderr, where it cannot mix with the data.

    It takes one line, and nothing in it steers a terminal: names come from files.
    """
    if sys.stderr is None:
        return  # Closed; print would then write to stdout, among the data.
    print(f"{_program()}: {words.printable(message)}", file=sys.stderr, flush=True)


def _program() -> str:
    """Returns the command's name: that of its file, but for what tells the file from a library of the same name."""
    return os.path.splitext(os.path.basename(sys.argv[0]))[0].removesuffix("_command")


def _parse_flags(argv: Sequence[str]) -> list[str]:
    try:
        return flags.FLAGS(argv)
    except flags.Error as error:
        said = " ".join(str(error).split())
        # What absl says of a flag that has to be given and was not.
        lacking = re.fullmatch(r"flag --(\w+)=None: Flag --\1 must have a value other than None\.", said)
        if lacking:
            said = f"--{lacking[1]} has to be given"
        say(f"{said} (--help lists the flags)")
        sys.exit(EXIT_UNUSABLE)
    except SystemExit:
        # absl's help flags print and exit with 1; asking for help is no failure.
        sys.exit(EXIT_OK)


def _guarded(main: Callable[[Sequence[str]], int | None], argv: Sequence[str]) -> int | None:
    try:
        if len(argv) > 1:
            raise errors.UserError(f"unexpected argument {argv[1]!r}: all input is flags")
        return main(argv)
    except errors.UserError as error:
        for line in error.lines():
            say(line)
        return EXIT_UNUSABLE
    except app.UsageError as error:
        say(str(error))
        return EXIT_UNUSABLE


def _drop_stdout() -> None:
    """Sends what stdout still holds nowhere: the interpreter flushes it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _tell_uncaught(kind, error, traceback) -> None:
    if issubclass(kind, KeyboardInterrupt):
        # The interpreter then ends itself by SIGINT, which shells show as 130.
        say("interrupted")
    else:
        sys.__excepthook__(kind, error, traceback)


sys.excepthook = _tell_uncaught
