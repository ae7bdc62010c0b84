"""How the project's commands start and end.

| exit status | means |
| --- | --- |
| 0 | the command did its work and found nothing wrong |
| 1 | the command did its work and found what it looks for: a slower row, a defect |
| 2 | bad usage, unreadable input or unwritable output; stderr says what and where |
| 130 | the user pressed Ctrl-C |

From the import of this module on, Ctrl-C is answered with one line: importing torch takes seconds.
"""

import contextlib
import errno
import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from absl import app, flags

from tileops.tools.cli import errors, words

EXIT_OK = 0
EXIT_FOUND = 1
EXIT_UNUSABLE = 2
EXIT_INTERRUPTED = 130

# The error numbers of a full or failing disk.
_NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO))


# absl's message about a required flag that is missing; it joins those of several flags.
_LACKING = re.compile(r"flag --(\w+)=None: Flag --\1 must have a value other than None\.")
# Python's messages about text that is no number, which absl passes on.
_NO_NUMBER = (
    (re.compile(r"could not convert string to float: '.*?'"), "write a number"),
    (re.compile(r"invalid literal for int\(\) with base \d+: '.*?'"), "write a whole number"),
)


class UserInterrupt(KeyboardInterrupt):
    """Ctrl-C or SIGTERM, told from a KeyboardInterrupt that a plug-in raises."""


def interrupt(number: int, frame: object) -> NoReturn:
    """Handles a signal by raising UserInterrupt."""
    del number, frame
    raise UserInterrupt


def run(main: Callable[[Sequence[str]], int | None]) -> None:
    """Runs `main` under absl, with the exit statuses of this project.

    `main` returns a status (None is 0). Only this function catches `errors.UserError`, and absl's `app.UsageError`,
    which means the same. The command takes no positional arguments.
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
        # The reader of our output left, as `head` does.
        _drop_stdout()
        sys.exit(EXIT_OK)
    except OSError as error:
        if error.errno not in _NO_ROOM or error.filename is not None:
            raise
        _drop_stdout()
        say(f"cannot write the output: {error.strerror}")
        sys.exit(EXIT_UNUSABLE)


def say(message: str) -> None:
    """Prints a message on stderr, apart from the data.

    The message takes one line. Its control characters, which names in files may hold, are escaped.
    """
    if sys.stderr is None:
        return  # Closed: print would then write to stdout, among the data.
    print(f"{_program()}: {words.printable(message)}", file=sys.stderr, flush=True)


def _program() -> str:
    """Returns the command's name: that of its file, without a suffix that tells it from a library of the same name."""
    return os.path.splitext(os.path.basename(sys.argv[0]))[0].removesuffix("_command")


def _parse_flags(argv: Sequence[str]) -> list[str]:
    help_text = io.StringIO()
    try:
        with contextlib.redirect_stdout(help_text):
            return flags.FLAGS(argv)
    except flags.Error as error:
        said = " ".join(str(error).split())
        lacking = _LACKING.findall(said)
        if lacking and not _LACKING.sub("", said).strip():
            names = " and ".join(f"--{name}" for name in lacking)
            said = f"{names} {'is' if len(lacking) == 1 else 'are'} required"
        for python, plain in _NO_NUMBER:
            said = python.sub(plain, said)
        say(f"{said} (--help lists the flags)")
        sys.exit(EXIT_UNUSABLE)
    except SystemExit:
        # absl heads the flags with the path of the program, and exits with 1: asking for help is no failure.
        print(help_text.getvalue().replace(f"\n{argv[0]}:\n", "", 1).rstrip())
        sys.exit(EXIT_OK)


def _guarded(main: Callable[[Sequence[str]], int | None], argv: Sequence[str]) -> int | None:
    try:
        if len(argv) > 1:
            raise errors.UserError(f"unexpected argument {argv[1]!r}: this command takes flags only")
        return main(argv)
    except errors.UserError as error:
        for line in error.lines():
            say(line)
        return EXIT_UNUSABLE
    except app.UsageError as error:
        say(str(error))
        return EXIT_UNUSABLE


def _drop_stdout() -> None:
    """Discards what stdout still holds, which the interpreter would write at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _tell_uncaught(kind, error, traceback) -> None:
    if issubclass(kind, KeyboardInterrupt):
        # The interpreter then ends itself by SIGINT, which shells show as status 130.
        say("interrupted")
    else:
        sys.__excepthook__(kind, error, traceback)


sys.excepthook = _tell_uncaught
