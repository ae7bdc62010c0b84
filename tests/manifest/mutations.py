"""Seeded random damage to valid spec files, as data and as text. Each kind of damage has a name; long runs count it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import yaml

_LOOKALIKES = str.maketrans(
    {"a": "\u0430", "e": "\u0435", "o": "\u043e", "T": "\u03a4", "N": "\u039d", "1": "\uff11", "i": "\u0131"}
)
WORDS = [
    "N",
    "T",
    "B",
    "[N]",
    "[*B]",
    "[*B, 2 * N]",
    "x",
    "present(scale)",
    "present(x)",
    "N // 0",
    "N % N",
    "B[9]",
    "prod(B)",
    "len(B)",
    "max(())",
    "flip",
    "not flip",
    "int | None",
    "list[int]",
    "'a' | 'b'",
    "DType[float16]",
    "DType[]",
    "topk_ids(4, 9, 8)",
    "inf",
    "dim.value",
    "layout.kind",
    "layout.block",
    "Layout",
    "sum(i for i in B)",
    "all(i > 0 for i in B)",
    "range(9)",
    "(1, 2)",
    "'float16'",
    "float16",
    "bytes(x)",
    "coalesce_dtype(dtype, T)",
    "conv.out(N, 0, 0, 0, 0)",
    "ceil_div(N, 0)",
    "true",
    "implemented",
    "\u202e",
    "\ufeff",
    "N" * 300,
    "(" * 80,
    "a" + " + a" * 2000,
    "__import__('os')",
    "x.__class__",
    "lambda: 0",
    "{}",
    "&a",
    "*a",
    "<<",
    "\u2028",
    "\x85",
    "a\nb",
    "\x1b[31m",
    "\u0301",
    "Pair[flip, N, 3]",
    "repeat(1, 1000000)",
    "9" * 5000,
    "N.shape",
    "x.value",
]
Path = tuple[Any, ...]


def junk(draw: random.Random) -> Any:
    """A value of any type that YAML can hold."""
    choice = draw.randrange(9)
    if choice == 0:
        return draw.choice([None, True, False])
    if choice == 1:
        return huge(draw)
    if choice == 2:
        return draw.choice([0.5, 1e300, float("inf"), float("-inf"), float("nan")])
    if choice == 3:
        return [junk(draw) for _ in range(draw.randrange(4))]
    if choice == 4:
        return {draw.choice([*WORDS, 3, None, True, 0.5]): junk(draw) for _ in range(draw.randrange(3))}
    return draw.choice(WORDS)


def huge(draw: random.Random) -> int:
    """A number at an edge of what anything holds."""
    return draw.choice([0, -1, 1, 7, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 2**128, -(10**40), 10**300])


def places(value: Any, path: Path = ()) -> list[Path]:
    """The path of every value inside a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, item in items for found in ((*path, key), *places(item, (*path, key)))]


def _apart(value: Any) -> Any:
    """A copy in which nothing stands in two places, so that no swap puts a value into itself."""
    if isinstance(value, dict):
        return {key: _apart(item) for key, item in value.items()}
    return [_apart(item) for item in value] if isinstance(value, list) else value


def _at(entry: Any, path: Path) -> Any:
    for part in path:
        entry = entry[part]
    return entry


def _drop(entry: Any, path: Path, draw: random.Random) -> None:
    del _at(entry, path[:-1])[path[-1]]


def _retype(entry: Any, path: Path, draw: random.Random) -> None:
    _at(entry, path[:-1])[path[-1]] = junk(draw)


def _wrap(entry: Any, path: Path, draw: random.Random) -> None:
    place = _at(entry, path[:-1])
    place[path[-1]] = [place[path[-1]]] if draw.random() < 0.5 else {draw.choice(WORDS): place[path[-1]]}


def _nest(entry: Any, path: Path, draw: random.Random) -> None:
    nested: Any = "N"
    for _ in range(draw.choice([3, 25, 35, 60])):
        nested = [nested] if draw.random() < 0.5 else {"a": nested}
    _at(entry, path[:-1])[path[-1]] = nested


def _rename(entry: Any, path: Path, draw: random.Random) -> None:
    place = _at(entry, path[:-1])
    if isinstance(place, dict):
        new = draw.choice([str(path[-1]).translate(_LOOKALIKES), str(path[-1]).upper(), *WORDS, 3, None, True, 0.5])
        items = [(new if key == path[-1] else key, value) for key, value in place.items()]
        place.clear()
        place.update(items)


def _number(entry: Any, path: Path, draw: random.Random) -> None:
    _at(entry, path[:-1])[path[-1]] = huge(draw)


def _lookalike(entry: Any, path: Path, draw: random.Random) -> None:
    place = _at(entry, path[:-1])
    if isinstance(place[path[-1]], str):
        place[path[-1]] = place[path[-1]].translate(_LOOKALIKES)


def _edit(entry: Any, path: Path, draw: random.Random) -> None:
    """One character of a text more, fewer or another."""
    place = _at(entry, path[:-1])
    text = place[path[-1]]
    if isinstance(text, str):
        at = draw.randrange(len(text) + 1)
        new = draw.choice([*"()*+-/%<>=!.,:'\"[]{}|&# 01N_", " if ", " or ", " not ", " for i in ", ""])
        place[path[-1]] = text[:at] + new + text[at + draw.randrange(2) :]


def _swap(entry: Any, path: Path, draw: random.Random) -> None:
    """Two values change places."""
    other = draw.choice(places(entry))
    if path[: len(other)] == other or other[: len(path)] == path:
        return
    here, there = _at(entry, path), _at(entry, other)
    _at(entry, path[:-1])[path[-1]], _at(entry, other[:-1])[other[-1]] = there, here


def _copy(entry: Any, path: Path, draw: random.Random) -> None:
    """A value stands in another place too; one item of a list twice."""
    value = _apart(_at(entry, path))
    place = _at(entry, path[:-1])
    if isinstance(place, list):
        place.insert(path[-1], value)
    else:
        place[draw.choice([key for key in (other[-1] for other in places(entry)) if isinstance(key, str)])] = value


DATA_DAMAGE: dict[str, Callable[[Any, Path, random.Random], None]] = {
    "drop": _drop,
    "retype": _retype,
    "wrap": _wrap,
    "nest": _nest,
    "rename": _rename,
    "number": _number,
    "lookalike": _lookalike,
    "edit": _edit,
    "swap": _swap,
    "copy": _copy,
}


def damage_data(entry: Any, kind: str, draw: random.Random) -> Any:
    """A copy of an entry with one to three of its values damaged in one way."""
    entry = _apart(entry)
    for _ in range(draw.randint(1, 3)):
        found = places(entry)
        if found:
            DATA_DAMAGE[kind](entry, draw.choice(found), draw)
    return entry


# What stands behind a key in the text of a document, where it stands for a value of its own.
SCALARS = [
    b"010",
    b"1_0",
    b"0x10",
    b"0b11",
    b"0o7",
    b"1:30",
    b"yes",
    b"Off",
    b".nan",
    b".inf",
    b"-.INF",
    b"1e6",
    b"1.0e+400",
    b"~",
    b"",
    b"2024-01-01",
    b"2024-01-01T00:00:00Z",
    b"9" * 60,
    b"'\xf0\x9f\x94\xa5'",
    b'"\\x07"',
    b'"\\u2028"',
    b'"\\ud800"',
    b"|\n  a",
    b"@",
    b"`",
    b"%",
]
TAGS = [
    b"!!python/name:os.system",
    b"!!python/object/apply:os.system ['true']",
    b"!!binary aGk=",
    b"!!set {a}",
    b"!!omap [a: 1]",
    b"!!str",
    b"!!int",
    b"!!null",
    b"!own",
    b"!",
    b"!<tag:yaml.org,2002:bool>",
    b"!!timestamp",
]
ANCHORS = [b"&a", b"*a", b"&a [*a]", b"&a {b: *a}", b"*nowhere", b"&a [&b [*a], *b]"]
MEMBERS = [
    b"<<: *a",
    b"<<: {x: 1}",
    b"<<: [{x: 1}, {y: 2}]",
    b"? [a, b]\n: c",
    b"1: 2",
    b"~: 3",
    b"true: 4",
    b"a: .nan",
    b"0.5: 5",
    b"? x",
]
NOISE = [
    b"\xff",
    b"\xc3(",
    b"\xed\xa0\x80",
    b"\x00",
    b"\x07",
    b"\x1b[0m",
    b"\xe2\x80\xae",
    b"\xef\xbb\xbf",
    b"\xc2\x85",
    b"\t",
    b"\r",
    b"\x7f",
    b"\xfe\xff",
]


def _valued(lines: list[bytes], values: list[bytes], draw: random.Random) -> None:
    """The value of some key of a line becomes another."""
    at = draw.randrange(len(lines))
    head, colon, _ = lines[at].partition(b": ")
    lines[at] = head + (colon or b": ") + draw.choice(values)


def _tagged(lines: list[bytes], draw: random.Random) -> None:
    at = draw.randrange(len(lines))
    if draw.random() < 0.5:
        _valued(lines, TAGS, draw)
    else:
        lines[at] = lines[at].replace(b": ", b": " + draw.choice(TAGS).split(b" ")[0] + b" ", 1)


def _member(lines: list[bytes], draw: random.Random) -> None:
    at = draw.randrange(len(lines))
    indent = b" " * (len(lines[at]) - len(lines[at].lstrip()))
    lines.insert(at, indent + draw.choice(MEMBERS).replace(b"\n", b"\n" + indent))


def _doubled(lines: list[bytes], draw: random.Random) -> None:
    at = draw.randrange(len(lines))
    lines.insert(draw.choice([at, draw.randrange(len(lines))]), lines[at])


def _cut(lines: list[bytes], draw: random.Random) -> None:
    at = draw.randrange(len(lines))
    lines[at] = lines[at][: draw.randrange(len(lines[at]) + 1)]


def _moved(lines: list[bytes], draw: random.Random) -> None:
    at = draw.randrange(len(lines))
    lines[at] = b" " * draw.randrange(6) + (lines[at] if draw.random() < 0.5 else lines[at].lstrip())


def _noise(lines: list[bytes], draw: random.Random) -> None:
    at = draw.randrange(len(lines))
    position = draw.randrange(len(lines[at]) + 1)
    piece = draw.choice([draw.choice(NOISE), bytes(draw.randrange(256) for _ in range(draw.randrange(8)))])
    lines[at] = lines[at][:position] + piece + lines[at][position:]


def _deep(lines: list[bytes], draw: random.Random) -> None:
    at, depth = draw.randrange(len(lines)), draw.choice([5, 31, 33, 300])
    head, _, tail = lines[at].partition(b": ")
    lines[at] = (
        head
        + b": "
        + draw.choice([b"[" * depth + tail + b"]" * depth, b"{a: " * depth + tail + b"}" * depth, b"[" * depth])
    )


TEXT_DAMAGE: dict[str, Callable[[list[bytes], random.Random], None]] = {
    "scalar": lambda lines, draw: _valued(lines, SCALARS, draw),
    "tag": _tagged,
    "anchor": lambda lines, draw: _valued(lines, ANCHORS, draw),
    "member": _member,
    "doubled": _doubled,
    "cut": _cut,
    "moved": _moved,
    "noise": _noise,
    "deep": _deep,
}


def damage_text(text: bytes, kind: str, draw: random.Random) -> bytes:
    """A document with one to three of its lines damaged in one way."""
    lines = text.rstrip(b"\n").split(b"\n")
    for _ in range(draw.randint(1, 3)):
        TEXT_DAMAGE[kind](lines, draw)
    return b"\n".join(lines) + b"\n" * draw.randrange(2)


def to_yaml(document: Any) -> bytes:
    """A document as text, shared values written out in full: an alias is damage of its own."""
    return yaml.dump(document, sort_keys=False, allow_unicode=True, Dumper=_Dumper, width=10_000).encode(
        "utf-8", "surrogatepass"
    )


# libyaml's emitter where PyYAML was built with it: a long run writes hundreds of thousands of documents.
class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):
    def ignore_aliases(self, data: Any) -> bool:
        return True
