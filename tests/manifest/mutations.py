"""Seeded random damage to valid spec files: as data (drop, retype, rename, nest, duplicate) and as bytes."""

from __future__ import annotations

import copy
import random
from typing import Any

import yaml

_LOOKALIKES = str.maketrans({"a": "\u0430", "e": "\u0435", "o": "\u043e", "T": "\u03a4", "N": "\u039d"})
_WORDS = [
    "N", "T", "B", "[N]", "[*B]", "[*B, 2 * N]", "x", "present(scale)", "present(x)", "N // 0", "N % N", "B[9]", "prod(B)", "len(B)",
    "max(())", "flip", "not flip", "int | None", "list[int]", "'a' | 'b'", "DType[float16]", "DType[]", "topk_ids(4, 9, 8)", "inf",
    "dim.value", "layout.kind", "layout.block", "Layout", "sum(i for i in B)", "all(i > 0 for i in B)", "range(9)", "(1, 2)",
    "'float16'", "float16", "bytes(x)", "coalesce_dtype(dtype, T)", "conv.out(N, 0, 0, 0, 0)", "ceil_div(N, 0)", "true", "implemented",
    "\u202e", "\ufeff", "N" * 300, "(" * 80, "a" + " + a" * 2000, "__import__('os')", "x.__class__", "lambda: 0", "{}", "&a", "*a", "<<",
]  # fmt: skip


def junk(draw: random.Random) -> Any:
    """A value of any type that YAML can hold."""
    choice = draw.randrange(10)
    if choice == 0:
        return draw.choice([None, True, False])
    if choice == 1:
        return draw.choice([0, -1, 1, 7, 2**63, -(10**40), 10**300])
    if choice == 2:
        return draw.choice([0.5, 1e300, float("inf"), float("-inf"), float("nan")])
    if choice == 3:
        return [junk(draw) for _ in range(draw.randrange(4))]
    if choice == 4:
        return {draw.choice([*_WORDS, 3, None, True, 0.5]): junk(draw) for _ in range(draw.randrange(3))}
    if choice == 5:
        nested: Any = "N"
        for _ in range(draw.choice([3, 40, 200])):
            nested = [nested] if draw.random() < 0.5 else {"a": nested}
        return nested
    return draw.choice(_WORDS)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value inside a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, item in items for found in ((*path, key), *places(item, (*path, key)))]


def damage_data(entry: Any, draw: random.Random) -> Any:
    """A copy of an entry with one to four fields dropped, retyped, renamed, nested or swapped."""
    entry = copy.deepcopy(entry)
    for _ in range(draw.randint(1, 4)):
        found = places(entry)
        if not found:
            break
        *parents, last = draw.choice(found)
        place = entry
        for part in parents:
            place = place[part]
        action = draw.randrange(6)
        if action == 0:
            del place[last]
        elif action == 1:
            place[last] = junk(draw)
        elif action == 2:
            place[last] = [place[last]]
        elif action == 3 and isinstance(place, dict):
            place[draw.choice([str(last).translate(_LOOKALIKES), *_WORDS])] = place.pop(last)
        elif action == 4 and isinstance(place[last], str):
            text = place[last]
            at = draw.randrange(len(text) + 1)
            place[last] = text[:at] + draw.choice(["(", ")", "*", " ", "N", ".", "'", "[", ",", "0"]) + text[at + draw.randrange(2) :]
        else:
            other = draw.choice(found)
            place[last] = other[-1]
    return entry


def damage_bytes(text: bytes, draw: random.Random) -> bytes:
    """A document with lines doubled, cut, moved or overwritten, anchors and merge keys planted."""
    lines = text.split(b"\n")
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(len(lines))
        action = draw.randrange(6)
        if action == 0:
            lines.insert(at, lines[at])
        elif action == 1:
            lines[at] = lines[at][: draw.randrange(len(lines[at]) + 1)]
        elif action == 2:
            lines[at] = b" " * draw.randrange(6) + lines[at]
        elif action == 3:
            lines[at] = bytes(draw.randrange(256) for _ in range(draw.randrange(12)))
        elif action == 4:
            lines[at] = lines[at].replace(b": ", draw.choice([b": &a ", b": *a ", b": !!python/name:os.system ", b": ? ", b":\t"]), 1)
        else:
            indent = len(lines[at]) - len(lines[at].lstrip())
            lines.insert(at, b" " * indent + draw.choice([b"<<: *a", b"<<: {x: 1}", b"? [a, b] : c", b"1: 2", b"~: 3", b"a: .nan"]))
    return b"\n".join(lines)


def documents(valid: dict[str, Any], seed: int):
    """Endless damaged documents from valid entries by name; the same ones for the same seed."""
    draw = random.Random(seed)
    ops = list(valid)
    while True:
        op = draw.choice(ops)
        if draw.random() < 0.7:
            yield yaml.dump({op: damage_data(valid[op], draw)}, sort_keys=False, allow_unicode=True, Dumper=_Dumper).encode()
        else:
            yield damage_bytes(yaml.dump({op: valid[op]}, sort_keys=False).encode(), draw)


class _Dumper(yaml.SafeDumper):
    """Writes shared values out in full: an alias is damage of its own."""

    def ignore_aliases(self, data: Any) -> bool:
        return True
