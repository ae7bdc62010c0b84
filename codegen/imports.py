"""The imports of a generated module: modules of func formulas, and classes of algebraic types."""

from __future__ import annotations

from collections.abc import Iterable

from tileops.manifest.language import kinds
from tileops.manifest.model import Entry

# What every generated module may import under these names; see emission.
OWN_NAMES = frozenset(
    {
        "_abs",
        "_all",
        "_isinstance",
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
    }
)


class Outside:
    """The names under which one generated module imports what its entries refer to.

    Each begins with an underscore and is distinct, also where two modules, or the constructors of two algebraic types,
    have the same name.

    Attributes:
      modules: dotted path -> its name.
      classes: (dotted module path, class) -> its name.
    """

    def __init__(self, entries: Iterable[Entry], funcs: Iterable[str]) -> None:
        """Names the imports for the entries of one module, and for the paths of their formulas."""
        self._taken = set(OWN_NAMES)
        self.modules: dict[str, str] = {}
        self.classes: dict[tuple[str, str], str] = {}
        for path in sorted({func.rpartition(".")[0] for func in funcs}):
            self.modules[path] = self._free(path.rpartition(".")[2])
        for path in sorted({path for entry in entries for path in _classes(entry)}):
            module, _, name = path.rpartition(".")
            self.classes[module, name] = self._free(name)

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

    def constructors(self, kind: kinds.Kind | None) -> dict[str, str]:
        """Returns the source of each constructor's class; {} if the kind is not algebraic."""
        found = algebraic(kind)
        if found is None:
            return {}
        paths = {constructor.name: constructor.python_class.rpartition(".") for constructor in found.constructors}
        return {name: self.classes[module, class_name] for name, (module, _, class_name) in paths.items()}


def algebraic(kind: kinds.Kind | None) -> kinds.Adt | None:
    """Returns the algebraic type of a kind that may be None too, or None."""
    return kind.given if kind is not None and isinstance(kind.given, kinds.Adt) else None


def _classes(entry: Entry) -> list[str]:
    found = (algebraic(param.kind) for param in entry.signature.params.values())
    return [constructor.python_class for kind in found if kind is not None for constructor in kind.constructors]
