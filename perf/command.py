"""How the project's commands start and end: one line on errors, three statuses.

0: fine. 1: ran, and found what it exists to find. 2: bad usage or unreadable
input, with one line on stderr that says what and where.
"""

import os
import sys
from collections.abc import Callable, Sequence

from absl import app
from absl import flags

EXIT_OK = 0
EXIT_FOUND = 1
EXIT_UNUSABLE = 2


def run(main: Callable[[Sequence[str]], int | None]) -> None:
    """Runs `main` under absl, with the exit statuses of this project.

    `main` returns a status (None is 0), and raises `app.UsageError` for what the
    user has to mend: flags, and files that cannot be read or written. It takes
    no positional arguments.
    """
    app.run(lambda argv: _guarded(main, argv), flags_parser=_parse_flags)


def say(message: str) -> None:
    """Tells the user something on stderr, where it cannot mix with the data."""
    print(f"{_program()}: {message}", file=sys.stderr, flush=True)


def _program() -> str:
    return os.path.splitext(os.path.basename(sys.argv[0]))[0]


def _parse_flags(argv: Sequence[str]) -> list[str]:
    try:
        return flags.FLAGS(argv)
    except flags.Error as error:
        say(f"{error} (--help lists the flags)")
        sys.exit(EXIT_UNUSABLE)
    except SystemExit:
        # absl's help flags print and exit with 1; asking for help is no failure.
        sys.exit(EXIT_OK)


def _guarded(
    main: Callable[[Sequence[str]], int | None], argv: Sequence[str]
) -> int | None:
    try:
        if len(argv) > 1:
            raise app.UsageError(f"unexpected argument {argv[1]!r}: all input is flags")
        status = main(argv)
        sys.stdout.flush()
        return status
    except app.UsageError as error:
        say(str(error))
        return EXIT_UNUSABLE
    except BrokenPipeError:
        # The reader of our output left (as `head` does); nothing more to say.
        # stdout is redirected so that the interpreter's own flush stays silent.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
