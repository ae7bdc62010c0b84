"""Flags that take a fraction, as 5% or as 0.05."""

import math

from absl import flags


class _Parser(flags.ArgumentParser):
    """Reads 5% and 0.05 alike. A plain 5 would be 500%, which nobody means: it is an error.

    A share is above 0 and at most 1, so that a plain 1 has one meaning: it is 100%.
    """

    syntactic_help = "a fraction, as in 5% or 0.05"

    def __init__(self, is_share: bool = False):
        super().__init__()
        self._is_share = is_share

    def parse(self, argument: str | float) -> float:
        """Returns the fraction that a text means. Raises ValueError."""
        text = str(argument).strip()
        try:
            number = float(text.removesuffix("%"))
        except ValueError:
            raise ValueError("write a fraction as 5% or as 0.05") from None
        if not (math.isfinite(number) and number >= 0):
            raise ValueError("a fraction is finite and not negative; write it as 5% or as 0.05")
        if text.endswith("%"):
            number /= 100
        elif number > 1 or (number == 1 and not self._is_share):
            raise ValueError(f"write {number:g}% or {number / 100:g}; {number:g} alone would be {number:.0%}")
        if self._is_share and not 0 < number <= 1:
            raise ValueError("a share is above 0% and at most 100%")
        return number


def define(name: str, default: float, help: str) -> flags.FlagHolder[float]:
    """Defines a flag of the calling module that takes a fraction."""
    return flags.DEFINE(_Parser(), name, default, help, serializer=flags.ArgumentSerializer())


def define_share(name: str, help: str) -> flags.FlagHolder[float | None]:
    """Defines a flag of the calling module that takes a fraction above 0 and at most 1. It is None by default."""
    return flags.DEFINE(_Parser(is_share=True), name, None, help, serializer=flags.ArgumentSerializer())


# The flag belongs to the module that calls `define`: `--help` lists the flags of that module.
flags.disclaim_key_flags()
