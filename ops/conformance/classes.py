"""The classes behind entries: what each module offers, and whether it is the entry's public class."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.util
import inspect
import pathlib
import traceback
import types
from collections.abc import Callable, Iterable, Sequence

from tileops.ops import catalogue
from tileops.ops.conformance.findings import Findings, describe
from tileops.ops.errors import OpFormulaError
from tileops.ops.op import Op

_ROOT = pathlib.Path(__file__).absolute().parents[2]

# Members of Op that no class of an op may replace: the price would refer to another call, or to none.
_FINAL = ("last_call", "_complete", "_execute", "_in_graph")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Subject:
    """One entry: its generated class, and the public class that completes it (None if there is none)."""

    generated: type[Op]
    public: type[Op] | None

    @property
    def entry(self) -> str:
        """Name of the manifest entry."""
        return self.generated.ENTRY

    @property
    def place(self) -> str:
        """The place of the code; without code, the place of the entry."""
        return self.generated.SPEC if self.public is None else place_of(self.public)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Modules:
    """The modules that could be imported.

    Attributes:
      generated: the generated modules.
      written: the hand-written modules and plugins.
    """

    generated: tuple[types.ModuleType, ...]
    written: tuple[types.ModuleType, ...]


def import_modules(generated_dir: str | None, plugins: Sequence[str], findings: Findings) -> Modules:
    """Imports the project's modules (or those emitted for a manifest outside it), then the plugins.

    Args:
      generated_dir: folder of modules that //codegen:emit wrote; None for the project's own.
      plugins: modules by dotted name, or absolute paths of .py files.
      findings: gets a C001, or the C008 of a class, for each module that cannot be imported; the others are imported.
    """
    generated: list[types.ModuleType] = []
    written: list[types.ModuleType] = []
    if generated_dir is not None:
        for path in catalogue.generated_files(generated_dir):
            generated += _import(functools.partial(catalogue.import_generated, path), str(path), findings)
    else:
        for family in importlib.import_module("tileops.ops.generated.families").FAMILIES:
            name = f"tileops.ops.generated.{family}"
            generated += _import(functools.partial(importlib.import_module, name), name, findings)
            name = f"tileops.ops.families.{family}"
            if importlib.util.find_spec(name) is not None:  # a spec-only family has none
                written += _import(functools.partial(importlib.import_module, name), name, findings)
    for plugin in plugins:
        written += _import(functools.partial(catalogue.import_plugin, plugin), plugin, findings)
    return Modules(generated=tuple(generated), written=tuple(written))


def _import(load: Callable[[], types.ModuleType], name: str, findings: Findings) -> list[types.ModuleType]:
    try:
        return [load()]
    except OpFormulaError as error:
        findings.add(error.place, "", "roofline.func", "C008", str(error).removeprefix(f"{error.place}: "))
    except (Exception, SystemExit) as error:  # whatever a module does on import is its defect; the rest goes on
        message = f"{name} cannot be imported: {describe(error)}"
        findings.add(_raised_at(error), "", "", "C001", message)
    findings.not_reached(f"classes and implementations of {name}: it cannot be imported")
    return []


def _raised_at(error: BaseException) -> str:
    """Returns the `file:line` of the innermost frame outside Python's own import."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    return f"{_relative(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""


def place_of(thing: object) -> str:
    """`file:line` of a class or function, relative to the project; "" where Python does not know."""
    try:
        file, (_, line) = inspect.getsourcefile(thing), inspect.getsourcelines(thing)  # type: ignore[arg-type]
    except (OSError, TypeError):  # made by exec or in C: there is no line to show
        return ""
    return "" if file is None else f"{_relative(file)}:{line}"


def _relative(file: str) -> str:
    path = pathlib.Path(file)
    return str(path.relative_to(_ROOT)) if path.is_relative_to(_ROOT) else str(path)


def subjects(modules: Modules, findings: Findings) -> list[Subject]:
    """Returns every entry with its classes, in the order of the manifest. Reports defects to `findings`."""
    generated = catalogue.classes_of(modules.generated)
    offered = catalogue.classes_of([*modules.generated, *modules.written])
    found = []
    for entry, base in generated.items():
        public = offered[entry] if offered[entry] is not base else None
        subject = Subject(generated=base, public=public)
        if public is None:
            _absent(subject, modules.written, findings)
        elif not issubclass(public, base):
            message = (
                f"does not subclass {base.__module__}.{entry}, so neither its calls nor its price follow the manifest"
            )
            findings.add(subject.place, entry, "class", "C003", message)
            subject = dataclasses.replace(subject, public=None)
        found.append(subject)
    return found


def _absent(subject: Subject, written: Iterable[types.ModuleType], findings: Findings) -> None:
    """Reports why the catalogue offers only the generated class."""
    entry, base = subject.entry, subject.generated
    for module in written:
        namesake = vars(module).get(entry)
        if not isinstance(namesake, type) or namesake is base:
            continue
        if not issubclass(namesake, base):
            message = (
                f"does not subclass {base.__module__}.{entry}, so neither its calls nor its price follow the manifest"
            )
            findings.add(place_of(namesake), entry, "class", "C003", message)
        else:
            message = f"is defined in {namesake.__module__} and imported by {module.__name__}: define it in the importing module"
            findings.add(place_of(namesake), entry, "class", "C004", message)
        return
    names = {module.__name__ for module in written}
    others = [one for one in base.__subclasses__() if one.__module__ in names]
    for other in others:
        message = f"{other.__qualname__} subclasses the generated class under another name or scope: name it {entry}, at module level"
        findings.add(place_of(other), entry, "class", "C004", message)
    if not others and base.STATUS == "implemented":
        message = f"the entry is implemented, but no module has a class {entry}: write it, or make the entry spec-only"
        findings.add(subject.place, entry, "class", "C002", message)


def check_class(subject: Subject, findings: Findings) -> None:
    """Checks that the public class keeps what the manifest decides: checks, cases, names and the price."""
    for name, value in vars(subject.generated).items():
        if name.startswith("_") or name == "forward":
            continue
        if inspect.getattr_static(subject.public, name) is not value:
            message = "is decided by the manifest, but this class replaces it: change the entry instead"
            findings.add(subject.place, subject.entry, name, "C007", message)
    for name in _FINAL:
        if inspect.getattr_static(subject.public, name) is not inspect.getattr_static(Op, name):
            message = "decides which call is priced, but this class replaces it: keep the one of Op"
            findings.add(subject.place, subject.entry, name, "C007", message)
