"""The documentation of the language says what the code says, and its examples hold."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest
import yaml

from tileops.codegen.analysis import analyse
from tileops.manifest.check import check_entry
from tileops.manifest.diagnostics import CODES, Diagnostics
from tileops.manifest.language import declarations, expr_parser, generators, kinds
from tileops.manifest.reading import forms, source
from tileops.manifest.reading.parse import parse_entry
from tileops.manifest.reading.parse_types import parse_adts
from tileops.tests.manifest.entries import codes
from tileops.tools.cli import paths

MANIFEST = paths.data_path("docs", "manifest.md").read_text()
_BLOCK = re.compile(r"^```yaml *(.*?)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """(what stands behind `yaml`, contents) of each example."""
    return ((found[1], found[2]) for found in _BLOCK.finditer(text))


def table(heading: str) -> list[list[str]]:
    """Cells of the table whose first column has the heading."""
    (rows,) = re.findall(rf"^\| {heading} \|.*\n\|[ -|]*\n((?:\|.*\n)+)", MANIFEST, re.MULTILINE)
    return [
        [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows.splitlines()
    ]


def merged(base: source.Node | None, change: source.Node) -> source.Node:
    """The base with the fields of `change` in it; anything but a mapping replaces what stands there."""
    if not isinstance(base, source.Mapping) or not isinstance(change, source.Mapping):
        return change
    entries = base.entries | {key: merged(base.entries.get(key), value) for key, value in change.entries.items()}
    return source.Mapping(entries, base.key_lines | change.key_lines, change.line)


class Example(NamedTuple):
    """An example: the code that it shows ("" if it is clean), its lines in the document, and its entry with these."""

    code: str
    op: str
    lines: range
    entry: source.Node


def examples() -> Iterator[Example]:
    """The examples in order; one whose op stands in an earlier one is worked into that."""
    first: dict[str, source.Node] = {}
    for found in _BLOCK.finditer(MANIFEST):
        if found[1].startswith("types.yaml"):
            continue
        start = MANIFEST.count("\n", 0, found.start(2))
        root = source.parse(b"\n" * start + found[2].encode(), "docs/manifest.md", Diagnostics())
        ((op, entry),) = root.entries.items()
        yield Example(found[1], op, range(start + 1, start + 1 + found[2].count("\n")), merged(first.get(op), entry))
        first.setdefault(op, entry)


def defects(op: str, entry: source.Node) -> Diagnostics:
    """What is wrong with an entry, the algebraic types of the document at hand."""
    found = Diagnostics()
    (types,) = (text for mark, text in blocks(MANIFEST) if mark == "types.yaml")
    adts = parse_adts(source.parse(types.encode(), "types.yaml", found), "types.yaml", found)
    parsed = parse_entry(op, entry, entry.line, "docs/manifest.md", found, adts)
    analyse(parsed, found, check_entry(parsed, found))
    return found


@pytest.mark.parametrize(
    "example", list(examples()), ids=lambda example: f"{example.lines[0]}-{example.op}-{example.code or 'clean'}"
)
def test_an_example_is_clean_or_has_the_one_code_that_it_shows_on_the_line_that_says_so(example):
    found = list(defects(example.op, example.entry))
    assert {one.code for one in found} == ({example.code} if example.code else set()), [str(one) for one in found]
    lines = MANIFEST.splitlines()
    for line in {one.line for one in found} & set(example.lines):
        assert f"# {example.code}" in lines[line - 1], line


def test_the_other_form_of_types_is_clean_and_has_the_type_that_it_shows():
    (text,) = (text for mark, text in blocks(MANIFEST) if mark == "types.yaml adts")
    found = Diagnostics()
    adts = parse_adts(source.parse(text.encode(), "types.yaml", found), "types.yaml", found)
    assert list(found) == [] and [one.name for one in adts["Fold"].constructors] == ["flat", "tiled"]


def test_a_faulty_example_says_so_where_it_can_be_seen():
    for code, text in blocks(MANIFEST):
        assert set(re.findall(r"# ([MR]\d{3})", text)) == ({code} if code in CODES else set()), text


@pytest.mark.requirement("0.1")
def test_every_field_of_every_form_is_documented():
    for form in vars(forms).values():
        if isinstance(form, forms.Form):
            for name in form.fields:
                assert re.search(rf"\b{name}\b", MANIFEST), f"{form.name}.{name}"


def test_every_form_of_type_has_the_kind_that_is_documented():
    for text, kind, _ in table("`type`"):
        found = kinds.parameter_kind(text.strip("`"))
        assert str(found) == kind.strip("`") or (kind == "every dtype" and found == kinds.ALL_DTYPES)


@pytest.mark.parametrize("row", table("instead of"), ids=lambda row: row[0])
def test_what_belongs_elsewhere_is_refused_as_a_rule(row):
    text, code = re.fullmatch(r"`(.*)` \((M\d{3})\)", row[0]).groups()
    if code == "M020":
        with pytest.raises(expr_parser.ExprError):
            expr_parser.parse(text)
    else:
        assert any(example.code == code for example in examples())


def test_every_kind_of_index_is_documented():
    assert [row[0].strip("`").partition("[")[0] for row in table("kind")] == ["Dim", "Shape", "DType", "Seq"]
    assert {name.partition("[")[0] for name in kinds.INDEX_KINDS} == {"Dim", "Shape", "Seq"}


@pytest.mark.parametrize(
    ("heading", "members"),
    [
        ("primitive", declarations.PRIMITIVES),
        ("generator", declarations.GENERATORS),
        ("predicate", declarations.PREDICATES),
    ],
)
def test_a_table_has_every_member_in_the_words_of_its_declaration(heading, members):
    rows = {cells[0].strip("`").partition("(")[0]: cells[1:] for cells in table(heading)}
    assert rows == {
        name: [declarations.summary(name), *([declarations.domain(name)] if heading == "primitive" else [])]
        for name in members
    }


_LAYOUTS = {
    "tight": {"kind": "Nopad"},
    "aligned to 4": {"kind": "Padded", "block": 4},
    "masked, 6 rows of each expert": {"kind": "Masked", "capacity": 6},
    "masked": {"kind": "Masked", "capacity": 6},
}


@pytest.mark.parametrize("row", table("call"), ids=lambda row: row[0])
def test_a_generator_gives_the_contents_of_its_example(row):
    name, written, layout = re.fullmatch(r"`([\w.]+)\((.*)\)`(?:, (.*))?", row[0]).groups()
    args = [_LAYOUTS[layout]] if layout else []
    args += ast.literal_eval(f"[{written.removeprefix('layout, ')}]")
    wanted = ast.literal_eval(row[1].partition(":")[0])
    assert generators.generate(name, args, seed=0).tolist() == wanted
    if "by row " in row[1]:
        by_row = {"kind": "contiguous", "packing": "tight", "metadata_kind": "per_row", "alignment": 1}
        assert generators.generate(name, [by_row, *args[1:]], 0).tolist() == ast.literal_eval(
            row[1].partition("by row ")[2]
        )


def test_every_defect_code_is_documented_under_its_own_words():
    rows = re.findall(
        r"^\| ([MR]\d{3}) \| (.*?) \|", paths.data_path("docs", "defect-codes.md").read_text(), re.MULTILINE
    )
    assert dict(rows) == CODES


def test_the_worked_example_of_adding_an_op_is_clean():
    ((_, text),) = blocks(paths.data_path("docs", "adding-an-op.md").read_text())
    ((op, entry),) = yaml.safe_load(text).items()
    assert codes(entry, op) == []
