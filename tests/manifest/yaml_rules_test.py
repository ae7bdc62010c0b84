"""YAML is read by what its versions agree on: everything else is a defect that says what to write, never a surprise."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
import yaml

from tileops.manifest.diagnostics import Diagnostics
from tileops.manifest.reading import scalars, source


def read(text: str | bytes) -> tuple[Any, list[str]]:
    """The document as plain data, and what is said of it as `line code`."""
    diagnostics = Diagnostics()
    data = text.encode() if isinstance(text, str) else text
    root = source.parse(data, "x.yaml", diagnostics)
    return plain(root), [f"{one.line} {one.code}" for one in diagnostics]


def plain(node: source.Node | None) -> Any:
    if isinstance(node, source.Mapping):
        return {key: plain(part) for key, part in node.entries.items()}
    if isinstance(node, source.Sequence):
        return [plain(item) for item in node.items]
    return None if node is None else node.value


ALIKE = {
    "12": 12,
    "-3": -3,
    "+4": 4,
    "0": 0,
    "0x1F": 31,
    "1.5": 1.5,
    "1.": 1.0,
    ".5": 0.5,
    "-0.5": -0.5,
    "1.0e-6": 1e-6,
    "2.5E+3": 2500.0,
    ".inf": math.inf,
    "-.INF": -math.inf,
    "true": True,
    "True": True,
    "FALSE": False,
    "~": None,
    "null": None,
    "": None,
    "text": "text",
    "2024-1-1": "2024-1-1",
    "1.2.3": "1.2.3",
    "y": "y",
    "n": "n",
    "0abc": "0abc",
    "0x": "0x",
    "-": "-",
    "N + 1": "N + 1",
    "٣": "٣",
    "१": "१",
    "nan": "nan",
    ".": ".",
    "x_1": "x_1",
}


@pytest.mark.parametrize("text", ALIKE)
def test_a_plain_scalar_is_what_every_reader_takes_it_for(text):
    found = scalars.read(text)
    assert found.objection == ""
    assert (type(found.value), found.value) == (type(ALIKE[text]), ALIKE[text])


@pytest.mark.parametrize("text", [text for text, value in ALIKE.items() if not isinstance(value, str)])
def test_a_scalar_that_is_read_as_a_value_is_that_value_to_pyyaml_too(text):
    assert yaml.safe_load(text) == ALIKE[text]


@pytest.mark.parametrize(
    "text",
    [
        "010",
        "-007",
        "08",
        "1_0",
        "1_000.5",
        "0b11",
        "0o17",
        "1:30",
        "190:20:30",
        "yes",
        "No",
        "ON",
        "off",
        ".nan",
        ".NaN",
        "9" * 41,
        "1.0e+999",
        "4096_128",
        "-.5",
        "1e6",
        "1e-6",
        "1.0e5",
        "-.5E3",
        "1.E4",
        ".5e999",
        "0x_0",
    ],
)
def test_a_scalar_that_readers_take_differently_is_refused_with_what_to_write(text):
    data, said = read(f"a: 1\nb: {text}\n")
    assert said == ["2 M005"]
    assert data["b"] is not None and not isinstance(data["b"], str), "the likeliest meaning keeps further defects away"


@pytest.mark.parametrize("text", ["010", "1_0", "yes", "1:30", ".nan", "9" * 41])
def test_the_same_in_quotes_is_text(text):
    assert read(f"b: '{text}'\n") == ({"b": text}, [])
    assert read(f"b: |-\n  {text}\n") == ({"b": text}, [])


@pytest.mark.parametrize(
    "tagged",
    [
        "!!str 1",
        "!!int '3'",
        "!!python/object/apply:os.system ['true']",
        "!!python/name:os.system x",
        "!!binary aGk=",
        "!!set {a: null}",
        "!!omap [a: 1]",
        "!!timestamp 2024-01-01",
        "!own x",
        "! x",
        "!!null x",
        "!!merge <<",
    ],
)
def test_a_tag_is_refused(tagged):
    assert read(f"a: 1\nb: {tagged}\n")[1] == ["2 M005"]


def test_a_merge_key_is_refused_and_merges_nothing():
    data, said = read("base: &base {k: 1}\nmade:\n  <<: *base\n  own: 2\n")
    assert said == ["3 M005"] and data["made"] == {"own": 2}
    assert read("a:\n  '<<': 1\n") == ({"a": {"<<": 1}}, [])


def test_a_word_that_some_readers_take_for_a_bool_is_refused_as_a_key():
    assert read("on: 1\n")[1] == ["1 M005"]


@pytest.mark.parametrize("key", ["? [a, b]\n: 1", "? {a: b}\n: 1", "? &x [1]\n: 2"])
def test_a_key_is_a_scalar(key):
    assert read(f"{key}\n")[1] == ["1 M012"]


def test_a_key_that_stands_twice_is_refused_with_both_lines():
    diagnostics = Diagnostics()
    source.parse(b"a: 1\nb: 2\na: 3\n", "x.yaml", diagnostics)
    (found,) = diagnostics
    assert (found.line, found.code) == (3, "M002") and "first on line 1" in found.message


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"a: 1\nb: \xff\n", 2),
        (b"a: \xc3\x28\n", 1),
        ("a: é\n".encode("latin-1"), 1),
        ("a: 1\n".encode("utf-16"), 1),
        (b"a: \xed\xa0\x80\n", 1),
        (b"a: \x07\n", 1),
        (b"a: \x00\n", 1),
    ],
)
def test_bytes_that_are_no_utf_8_text_are_refused(data, line):
    assert read(data) == (None, [f"{line} M001"])


def test_a_byte_order_mark_is_no_part_of_the_first_key():
    assert read("\ufeffa: 1\n".encode()) == ({"a": 1}, [])


def test_anchors_are_read_and_an_alias_stands_for_the_whole():
    assert read("a: &x [1, 2]\nb: *x\n") == ({"a": [1, 2], "b": [1, 2]}, [])
    assert read("b: 1\na: *nowhere\n") == (None, ["2 M001"])
    assert read("a: &x {b: *x}\n") == (None, ["1 M003"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "b: 1\nx: {shape: [*S]}\n",
            r"2: not YAML: the alias \*S has no anchor before it; write text that begins with \* in quotes",
        ),
        ("a:\n\tb: 1\n", "2: not YAML: .*; indent with spaces, not with a tab"),
        ("a:\n  b: [1\n", "[23]: not YAML: "),
    ],
)
def test_text_that_is_no_yaml_is_told_with_its_line_and_what_to_write(text, said):
    diagnostics = Diagnostics()
    assert source.parse(text.encode(), "x.yaml", diagnostics) is None
    (found,) = map(str, diagnostics)
    assert re.match(f"x.yaml:{said}", found), found
    assert ("a tab" in found) == ("\t" in text)


@pytest.mark.parametrize("text", ["2020-01-01", "2020-1-1 10:00:00", "2020-01-01T10:00:00Z"])
def test_a_date_is_quoted(text):
    data, said = read(f"a: {text}\nb: '{text}'\n")
    assert said == ["1 M005"] and data == {"a": text, "b": text}


@pytest.mark.parametrize(
    ("text", "sure"),
    [
        ("1e6", "1000000.0"),
        ("1.0e5", "100000.0"),
        ("2.5E-3", ""),
        (".5e3", "500.0"),
        ("-.5E3", "-500.0"),
        ("1e22", "1.0e+22"),
        ("1e-7", "1.0e-07"),
        ("e5", ""),
    ],
)
def test_a_number_that_some_readers_take_for_text_is_told_as_all_read_it(text, sure):
    objection = scalars.read(text).objection
    assert f"write {sure}, or quote it" in objection if sure else objection == ""
    assert not sure or yaml.safe_load(sure) == float(text)


@pytest.mark.parametrize(
    ("text", "advice"),
    [("010", "write 8 or 10"), ("yes", "write true, or quote it"), ("1:30", "write 90, or quote it")],
)
def test_the_message_says_what_each_version_reads(text, advice):
    assert scalars.read(text).objection == f"readers of YAML differ on {text}; {advice}"


@pytest.mark.parametrize("char", ["\x85", "\u2028", "\u2029"])
def test_a_character_that_only_some_readers_end_a_line_at_is_refused_where_it_stands(char):
    assert read(f"a: 1\nb: x{char}y\n") == (None, ["2 M005"])
