"""The base class of errors that the user can correct."""


class UserError(Exception):
    """Flags, files or sources that the user has to correct. The message says what is wrong, where, and what to do.

    Every module derives its own errors of this kind from it. `command.run` prints the message and exits with 2; no
    command catches it.

    Attributes:
      has_lines: Whether the message has several lines, each printed as one. If not, a line break in it belongs to the
        name of a file or the like, and is shown as `\\n`.
    """

    has_lines = False

    def lines(self) -> list[str]:
        """Returns the message as it is printed, line by line."""
        return str(self).splitlines() if self.has_lines else [str(self)]
