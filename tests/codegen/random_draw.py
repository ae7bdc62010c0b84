"""Choices of the random entries: one small interface over random.Random, which hypothesis can drive as well."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """Draws choices, and counts the features that a generator says it used."""

    def __init__(self, source: random.Random) -> None:
        self._source = source
        self.features: dict[str, int] = {}

    def integer(self, low: int, high: int) -> int:
        """An integer of [low, high]."""
        return self._source.randint(low, high)

    def chance(self, percent: int) -> bool:
        """True in `percent` of the draws."""
        return self._source.randint(1, 100) <= percent

    def choice(self, options: Sequence[T]) -> T:
        """One of the options."""
        return options[self._source.randint(0, len(options) - 1)]

    def weighted(self, options: Mapping[T, int]) -> T:
        """One of the options, each as often as its weight says."""
        at = self._source.randint(1, sum(options.values()))
        for option, weight in options.items():
            at -= weight
            if at <= 0:
                return option
        raise AssertionError("weights are positive")

    def some(self, options: Sequence[T], least: int, most: int) -> list[T]:
        """Between `least` and `most` different options, in random order."""
        return self.shuffled(options)[: self.integer(least, min(most, len(options)))]

    def shuffled(self, options: Sequence[T]) -> list[T]:
        """The options in random order."""
        left = list(options)
        return [left.pop(self._source.randint(0, len(left) - 1)) for _ in options]

    def use(self, feature: str) -> None:
        """Count a feature of the language as used."""
        self.features[feature] = self.features.get(feature, 0) + 1
