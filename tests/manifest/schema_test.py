"""The JSON Schema: it accepts what the project has, and refuses what the parser refuses for its form alone."""

from __future__ import annotations

import copy
import functools
import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema
import pytest
import yaml

from tileops.codegen.analysis import analyse
from tileops.codegen.pipeline import analyse_files
from tileops.manifest.check import check_entry
from tileops.manifest.diagnostics import Diagnostic, Diagnostics
from tileops.manifest.model import Entry
from tileops.manifest.reading import forms, source
from tileops.manifest.reading.json_schema import spec_schema, types_schema
from tileops.manifest.reading.parse import parse_entry
from tileops.manifest.reading.parse_types import parse_adts
from tileops.tests.manifest.entries import variant
from tileops.tools.cli import paths

SPECS = sorted(paths.data_path("manifest", "spec").glob("*.yaml"))
CORPUS = sorted(paths.data_path("tests", "manifest", "corpus").glob("*.yaml"))
TYPES = paths.data_path("tests", "manifest", "corpus", "types.yaml")
SUMS = paths.data_path("tests", "manifest", "corpus_sums", "types.yaml")
STRUCTURAL = ("M010", "M011", "M012", "M013")
Path = tuple[Any, ...]


@functools.cache
def validator(types: bool = False) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(types_schema() if types else spec_schema())


def as_json(value: Any) -> Any:
    """What an editor sees of a YAML value: every key is text."""
    if isinstance(value, dict):
        return {key if isinstance(key, str) else json.dumps(key): as_json(item) for key, item in value.items()}
    return [as_json(item) for item in value] if isinstance(value, list) else value


def accepted(document: Any, types: bool = False) -> bool:
    return validator(types).is_valid(as_json(document))


def node(value: Any) -> source.Node:
    """A YAML value with positions, all on line 1."""
    if isinstance(value, dict):
        return source.Mapping({key: node(item) for key, item in value.items()}, dict.fromkeys(value, 1), 1)
    return (
        source.Sequence(tuple(node(item) for item in value), 1) if isinstance(value, list) else source.Scalar(value, 1)
    )


def read(path: pathlib.Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text())


@functools.cache
def algebraic_types() -> dict[str, Any]:
    return parse_adts(node(read(TYPES)), "types.yaml", Diagnostics())


def parsed(op: str, entry: Any) -> tuple[Entry, Diagnostics]:
    found = Diagnostics()
    return parse_entry(op, node(entry), 1, "demo.yaml", found, algebraic_types()), found


def defects(op: str, entry: Any) -> Diagnostics:
    """Everything that is wrong with an entry."""
    read_entry, found = parsed(op, entry)
    check_entry(read_entry, found)
    analyse(read_entry, found)
    return found


@pytest.mark.parametrize("schema", [spec_schema(), types_schema()], ids=["spec", "types"])
def test_it_is_a_schema_with_every_reference_resolved_and_used(schema):
    jsonschema.Draft202012Validator.check_schema(schema)
    text = json.dumps(schema)
    for name in schema["$defs"]:
        assert f'"#/$defs/{name}"' in text
    assert text.count('"$ref"') == sum(text.count(f'"#/$defs/{name}"') for name in schema["$defs"])


@pytest.mark.parametrize("path", [*SPECS, *CORPUS, SUMS], ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_it_accepts_every_spec_file(path):
    errors = validator(path.name == "types.yaml").iter_errors(as_json(read(path)))
    assert [(list(error.path), error.message) for error in errors] == []


# ---- one fault each, for what an author gets wrong most

FAULTS = [
    ("status", "done"),
    ("family", "Demo"),
    ("ref_api", "torch.mul()"),
    ("workloads", []),
    ("workloads.0.label", "two words"),
    ("workloads.0.label", 7),
    ("workloads.0.dtype_cases.0.T", "float 16"),
    ("workloads.0.some", "scale"),
    ("signature.inputs.x.kw_only", True),
    ("signature.inputs.out", {"dtype": "T", "shape": "[N]", "mutated": True, "write_only": True}),
    ("signature.params.flip", {"dtype": "T"}),
    ("signature.params.flip", {"type": "torch.Tensor", "dtype": "T", "shape": "[N]", "optional": True}),
    ("signature.params.flip", {"type": "bool", "contiguous": True}),
    ("signature.forall.N", "Int"),
    ("signature.forall.T", "DType[float16, float32]"),
    ("signature.forall.T", "DType[half]"),
    ("signature.inputs.x.shape", "*B, 2 * N"),
    ("signature.inputs.x.shape", ["B", "N"]),
    ("signature.inputs.x.optinal", True),
    ("signature.inputs.x.device", "cuda"),
    ("signature.inputs.x.write_only", True),
    ("signature.inputs.x.requires", ["in_range(0, 4)"]),
    ("signature.inputs.ids.values", "random(4)"),
    ("signature.outputs.y.buffer", "y"),
    ("signature.outputs.y.nullable", True),
    ("signature.params.flip.shape", "[N]"),
    ("signature.params.lambda", {"type": "int", "default": 0}),
    ("signature.types.Pair.match", {"swap": 1}),
    ("signature.types.Pair.match", []),
    ("signature.types.Pair.cases", []),
    ("signature.types.Pair.cases", [{"when": False}]),
    ("signature.types.Pair.cases", [{"is": "[P, Q]"}]),
    ("signature.types.Pair.cases", [{"when": False, "is": "[P, Q]", "if": 1}]),
    ("signature.types.Pair.cases", ["[P, Q]"]),
    ("signature.types.Pair.cases", "[P, Q]"),
    ("signature.let.L", 3),
    ("roofline.bytes", 4),
    ("roofline.func", "formulas.scale"),
    ("composition", {"kind": "composite", "stages": [{"name": "one"}]}),
    ("composition", {"kind": "composite", "stages": [{"name": "one", "op": "A", "kernel": "b"}]}),
]


def test_the_entry_that_the_faults_are_put_in_is_accepted():
    assert accepted({"ScaleFwdOp": variant()})


@pytest.mark.parametrize(("path", "value"), FAULTS, ids=[f"{path}-{value}"[:60] for path, value in FAULTS])
def test_it_refuses_a_fault_as_the_validator_does(path, value, tmp_path):
    assert_refused({"ScaleFwdOp": variant(path, value)}, tmp_path)


@pytest.mark.parametrize("op", ["scaleFwdOp", "Scale", "ScaleFwdOp2"])
def test_it_refuses_what_is_no_op_name_as_the_validator_does(op, tmp_path):
    assert_refused({op: variant()}, tmp_path)


def assert_refused(document: Any, folder: pathlib.Path) -> None:
    assert not accepted(document)
    file = folder / "demo.yaml"
    file.write_text(yaml.safe_dump(document, sort_keys=False))
    assert len(analyse_files([str(file)]).diagnostics)


# ---- every field of every form, damaged in every way, against the parser

VALUES = [None, True, 3, 1.5, "text", "", "two words", [], [1], ["a"], {}, {"a": 1}, {"a": {"b": 1}}]


def places(value: Any, form: Any, path: Path = (), shape: Path = ()) -> Iterator[tuple[Path, Path]]:
    """Paths into a document, each with the form's own: names that an entry chooses are `*` there, items `[]`."""
    if isinstance(form, forms.Either):
        form = next((one for one in form.of if isinstance(one, forms.Items) is isinstance(value, list)), form.of[0])
    yield path, shape
    if isinstance(value, dict) and isinstance(form, (forms.Form, forms.Members)):
        for key, item in value.items():
            field = form.fields.get(key) if isinstance(form, forms.Form) else None
            inner = field.holds if field else getattr(form, "of", forms.Value())
            yield from places(item, inner, (*path, key), (*shape, key if field else "*"))
    elif isinstance(value, list) and isinstance(form, forms.Items):
        for at, item in enumerate(value):
            yield from places(item, form.of, (*path, at), (*shape, "[]"))


def changed(document: Any, path: Path, change: Callable[[Any, Any], None]) -> Any:
    """A copy in which `change(container, key)` was made at a path."""
    copied = copy.deepcopy(document)
    container = copied
    for key in path[:-1]:
        container = container[key]
    change(container, path[-1])
    return copied


def damaged(document: Any, path: Path) -> Iterator[Any]:
    """The document with something else at a path, nothing there, or one more field in it."""
    for value in VALUES:
        yield changed(document, path, lambda container, key, value=value: container.__setitem__(key, value))
    yield changed(document, path, lambda container, key: container.__delitem__(key))
    for name in ("unknown", "two words", "lambda", "out"):

        def add(container: Any, key: Any, name: str = name) -> None:
            if isinstance(container[key], dict) and container[key]:
                container[key][name] = copy.deepcopy(next(iter(container[key].values())))

        yield changed(document, path, add)


def samples(documents: dict[str, Any], form: forms.Form) -> dict[Path, tuple[str, Path]]:
    """For each path of the form, the first document that has it, and where."""
    found: dict[Path, tuple[str, Path]] = {}
    for name, document in documents.items():
        for path, shape in places(document, form):
            if path:
                found.setdefault(shape, (name, path))
    return found


ENTRIES = {op: entry for path in CORPUS if path != TYPES for op, entry in read(path).items()}
ENTRY_PLACES = samples(ENTRIES, forms.ENTRY)
TYPE_PLACES = samples(read(TYPES), forms.ALGEBRAIC_TYPE)
SUM_PLACES = samples(read(SUMS)[forms.ADTS], forms.SUM)


def fields_of(form: forms.Form, shape: Path = ()) -> Iterator[Path]:
    """The path of every field that a form, or a form inside it, has."""
    for name, field in form.fields.items():
        yield (*shape, name)
        yield from _fields_inside(field.holds, (*shape, name))


def _fields_inside(holds: forms.Holds, shape: Path) -> Iterator[Path]:
    if isinstance(holds, forms.Either):
        for one in holds.of:
            yield from _fields_inside(one, shape)
    elif isinstance(holds, (forms.Items, forms.Members)):
        yield from _fields_inside(holds.of, (*shape, "[]" if isinstance(holds, forms.Items) else "*"))
    elif isinstance(holds, forms.Form):
        yield from fields_of(holds, shape)


def test_the_corpus_has_every_field():
    assert set(fields_of(forms.ENTRY)) - {("roofline", "func")} <= ENTRY_PLACES.keys()
    assert set(fields_of(forms.ALGEBRAIC_TYPE)) <= TYPE_PLACES.keys()
    assert set(fields_of(forms.SUM)) <= SUM_PLACES.keys()


def _needs_two_places(found: Diagnostic) -> bool:
    """Whether a defect is one that no schema tells: a value against its type, inputs against their order."""
    messages = (
        "follows the optional",
        "follows the kw_only",
        "has no default and follows",
        "must be the path of",
        "must be a plain value",
    )
    return ".default" in found.field or any(message in found.message for message in messages)


@pytest.mark.parametrize("shape", ENTRY_PLACES, ids=lambda shape: ".".join(map(str, shape)))
def test_it_refuses_of_an_entry_what_the_parser_refuses(shape):
    op, path = ENTRY_PLACES[shape]
    for entry in damaged(ENTRIES[op], path):
        structural = [one for one in parsed(op, entry)[1] if one.code in STRUCTURAL and not _needs_two_places(one)]
        if accepted({op: entry}):
            assert not structural, f"accepted, where the parser says: {structural[0]}"
        elif shape != ("family",):  # a family that is no file's name is found by the file's (M016)
            assert structural or defects(op, entry), f"refused, and nothing is wrong with {entry}"


@pytest.mark.parametrize(
    ("file", "shape"),
    [(TYPES, shape) for shape in TYPE_PLACES] + [(SUMS, shape) for shape in SUM_PLACES],
    ids=lambda value: ".".join(map(str, value)) if isinstance(value, tuple) else value.parent.name,
)
def test_it_refuses_of_types_what_the_parser_refuses(file, shape):
    name, path = (TYPE_PLACES if file == TYPES else SUM_PLACES)[shape]
    types = read(file)
    for one in damaged(types[name] if file == TYPES else types[forms.ADTS][name], path):
        document = {**types, name: one} if file == TYPES else {forms.ADTS: {**types[forms.ADTS], name: one}}
        found = Diagnostics()
        parse_adts(node(document), "types.yaml", found)
        structural = [said for said in found if said.code in STRUCTURAL and not _needs_two_places(said)]
        if accepted(document, types=True):
            assert not structural, f"accepted, where the parser says: {structural[0]}"
        else:
            assert len(found), f"refused, and nothing is wrong with {document}"
