"""What a generated module names from outside: modules of func formulas, and algebraic types."""

from __future__ import annotations

from collections.abc import Iterable

from tileops.manifest.language import kinds
from tileops.manifest.model import Entry

# What every generated module may import under these names; see emission.
OWN_NAMES = frozenset(
    {
        "_abs",
        "_all",
        "_len",
        "_math",
        "_torch",
        "_checks",
        "_primitives",
        "_Generated",
        "_TensorCase",
        "_WorkloadCase",
        "_CheckedCall",
        "_TensorRecord",
        "_Op",
        "_Stage",
        "_Algebraic",
        "_Constructor",
        "_Sum",
    }
)


class Outside:
    """The names under which one generated module imports what its entries refer to.

    Each begins with an underscore and is distinct, also where two modules, or a module and an algebraic type, have the same
    name.

    Attributes:
      modules: dotted path -> its name.
      sums: algebraic type -> its name, and the type.
    """

    def __init__(self, entries: Iterable[Entry], funcs: Iterable[str]) -> None:
        """Names the imports for the entries of one module, and for the paths of their formulas."""
        self._taken = set(OWN_NAMES)
        self.modules: dict[str, str] = {}
        self.sums: dict[str, tuple[str, kinds.Adt]] = {}
        for path in sorted({func.rpartition(".")[0] for func in funcs}):
            self.modules[path] = self._free(path.rpartition(".")[2])
        for name, kind in sorted({kind.name: kind for entry in entries for kind in _sums(entry)}.items()):
            self.sums[name] = self._free(name), kind

    def _free(self, name: str) -> str:
        # Python changes a name with two underscores within a class, so that a private module loses its own.
        first = f"_{name.lstrip('_') or 'module'}"
        found, number = first, 1
        while found in self._taken:
            number += 1
            found = f"{first}_{number}"
        self._taken.add(found)
        return found

    def function(self, path: str) -> str:
        """Returns the source of the function of a dotted path."""
        module, _, name = path.rpartition(".")
        return f"{self.modules[module]}.{name}"

    def sum(self, kind: kinds.Adt) -> str:
        """Returns the source of an algebraic type."""
        return self.sums[kind.name][0]


def algebraic(kind: kinds.Kind | None) -> kinds.Adt | None:
    """Returns the algebraic type of a kind that may be None too, or None."""
    return kind.given if kind is not None and isinstance(kind.given, kinds.Adt) else None


def _sums(entry: Entry) -> list[kinds.Adt]:
    found = (algebraic(param.kind) for param in entry.signature.params.values())
    return [kind for kind in found if kind is not None]
