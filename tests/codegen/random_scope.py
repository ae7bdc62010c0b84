"""What an expression may read where it stands, and what the guards around it have shown."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from tileops.tests.codegen.random_terms import Term, name


@dataclasses.dataclass(frozen=True)
class Sort:
    """Base of what a name can stand for."""


@dataclasses.dataclass(frozen=True)
class Integer(Sort):
    """An integer; `dim` where the language knows that it is >= 0, `decided` where finite facts alone may decide it."""

    dim: bool = False
    decided: bool = False


@dataclasses.dataclass(frozen=True)
class Flag(Sort):
    """True or False."""


@dataclasses.dataclass(frozen=True)
class Word(Sort):
    """One of a finite set of strings."""

    values: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class DTypeName(Sort):
    """One of a finite set of dtypes, by name."""

    values: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Number(Sort):
    """A float; guards alone read it. With `bools` also True and False."""

    bools: bool = False


@dataclasses.dataclass(frozen=True)
class Text(Sort):
    """An open string."""


@dataclasses.dataclass(frozen=True)
class Sequence(Sort):
    """A sequence of integers; of known length where `length` says so, `derived` where it is a let."""

    dim: bool = False
    length: int | None = None
    derived: bool = False


@dataclasses.dataclass(frozen=True)
class Flags(Sort):
    """A sequence of Bools."""


@dataclasses.dataclass(frozen=True)
class Axes(Sort):
    """An integer or a list of integers."""


@dataclasses.dataclass(frozen=True)
class Items(Sort):
    """A sequence of integers and None."""


@dataclasses.dataclass(frozen=True)
class WordOr(Sort):
    """One of some words, or a value of another sort, which a guard against all words leaves."""

    words: tuple[str, ...]
    item: Sort


@dataclasses.dataclass(frozen=True)
class Maybe(Sort):
    """A value or None."""

    item: Sort


@dataclasses.dataclass(frozen=True)
class Algebraic(Sort):
    """A sealed sum: constructor -> its fields' sorts."""

    type: str
    constructors: Mapping[str, Mapping[str, Sort]]

    def __hash__(self) -> int:
        return hash(self.type)


@dataclasses.dataclass(frozen=True)
class Opaque(Sort):
    """An object that no expression reads."""


@dataclasses.dataclass(frozen=True)
class Scope:
    """What may be read.

    Attributes:
      names: sort of each index, parameter and let.
      tensors: tensor -> "always", "own" or "shared" presence.
      under: names that only calls with a tensor know, by tensor.
      sizes: whether bytes(t) may be read.
      shown: tensors and Maybes known to be present.
      allowed: what guards leave of a finite name, where it is known exactly.
      blocked: finite names of which guards may have taught something; they are compared with nothing again.
      variables: comprehension variables bound so far.
    """

    names: Mapping[str, Sort]
    tensors: Mapping[str, str] = dataclasses.field(default_factory=dict)
    under: Mapping[str, Mapping[str, Sort]] = dataclasses.field(default_factory=dict)
    sizes: bool = False
    shown: frozenset[str] = frozenset()
    allowed: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    blocked: frozenset[str] = frozenset()
    variables: frozenset[str] = frozenset()

    def showing(self, shown: str) -> Scope:
        """Where the tensor or Maybe is present."""
        names = {**self.names, **self.under.get(shown, {})}
        return dataclasses.replace(self, names=names, shown=self.shown | {shown})

    def narrowed(self, narrowed: str, values: tuple[str, ...]) -> Scope:
        """Where a finite name has one of these values."""
        return dataclasses.replace(self, allowed={**self.allowed, narrowed: values})

    def without_words(self, base: str, item: Sort) -> Scope:
        """Where a name that may be a word is none."""
        return dataclasses.replace(self, names={**self.names, base: item})

    def blocking(self, reads: frozenset[str]) -> Scope:
        """Behind a test that read these names."""
        return dataclasses.replace(self, blocked=self.blocked | reads)

    def binding(self, variable: str, sort: Sort) -> Scope:
        """Inside a comprehension."""
        return dataclasses.replace(self, names={**self.names, variable: sort}, variables=self.variables | {variable})

    def plain(self) -> Iterator[tuple[str, str, Sort]]:
        """(name, text that reads it, sort) of everything that may be read; a Maybe shown present by its contents."""
        for found, sort in self.names.items():
            yield found, found, sort
            if isinstance(sort, Maybe) and found in self.shown and found not in self.variables:
                yield found, f"{found}.value", sort.item

    def of(self, *sorts: type[Sort]) -> list[Term]:
        """Terms for every name of one of the sorts, and every field of an algebraic value of known constructor."""
        found = []
        for base, text, sort in self.plain():
            if isinstance(sort, sorts):
                found.append(_read(base, text, sort))
        for base, sort in self.algebraic():
            constructors = self.allowed.get(base, ())
            if len(constructors) == 1:
                for field, inner in sort.constructors[constructors[0]].items():
                    if isinstance(inner, sorts):
                        found.append(_field(base, field))
        return found

    def open(self) -> list[Term]:
        """Integers that no discriminant point decides: indices, parameters, and lets over them."""
        return [
            _read(base, text, sort)
            for base, text, sort in self.plain()
            if isinstance(sort, Integer) and not sort.decided and base not in self.variables
        ]

    def indexable(self) -> list[Term]:
        """Sequences whose items may be read by number: those whose length no constant decides."""
        return [
            _read(base, text, sort)
            for base, text, sort in self.plain()
            if isinstance(sort, Sequence) and not sort.derived
        ]

    def algebraic(self) -> list[tuple[str, Algebraic]]:
        """Algebraic names that are known to have a value."""
        found = [(base, sort) for base, sort in self.names.items() if isinstance(sort, Algebraic)]
        found += [
            (base, sort.item)
            for base, sort in self.names.items()
            if isinstance(sort, Maybe) and isinstance(sort.item, Algebraic) and base in self.shown
        ]
        return found

    def untouched(self, base: str) -> bool:
        """Whether no guard has taught anything of the name."""
        return base not in self.allowed and base not in self.blocked

    def values_of(self, base: str, sort: Word | DTypeName) -> tuple[str, ...]:
        """Values with which a finite name may be compared here; none where a guard may have taken some away."""
        if base in self.allowed:
            return self.allowed[base]
        return () if base in self.blocked else sort.values


def _read(base: str, text: str, sort: Sort) -> Term:
    dim = getattr(sort, "dim", False)
    return dataclasses.replace(name(base, dim), text=text)


def _field(base: str, field: str) -> Term:
    return Term(f"{base}.{field}", name(base).level, lambda env: getattr(env[base], field), frozenset({base}))
