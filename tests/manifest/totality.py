"""Documents of every kind of damage and growth, and the judgment that each of them must stand."""

from __future__ import annotations

import pathlib
import random
import time
from collections.abc import Iterator
from typing import Any

import yaml

from tileops.codegen.analysis import analyse
from tileops.codegen.emission import module_source
from tileops.manifest.check import check_entry
from tileops.manifest.diagnostics import Diagnostics
from tileops.manifest.language import effort
from tileops.manifest.reading import source
from tileops.manifest.reading.parse import parse_entry
from tileops.manifest.reading.parse_types import parse_adts
from tileops.tests.manifest.entries import OP, VALID
from tileops.tests.manifest.grammar import grown
from tileops.tests.manifest.mutations import DATA_DAMAGE, TEXT_DAMAGE, damage_data, damage_text, to_yaml

CORPORA = [pathlib.Path(__file__).parent / name for name in ("corpus", "corpus_sums")]
CORPUS = CORPORA[0]
ADTS = {
    name: kind
    for file in [str(corpus / "types.yaml") for corpus in CORPORA]
    for name, kind in parse_adts(source.read(file, "types.yaml", Diagnostics()), "types.yaml", Diagnostics()).items()
}
MAX_SECONDS = 1.0  # of processor time that judging one document may take
GROWN = ("grown", "grown and damaged")
KINDS = (*DATA_DAMAGE, *TEXT_DAMAGE, *GROWN)


def valid_entries() -> dict[str, Any]:
    """Entries to damage: the small one of this folder's tests, and those of the corpora."""
    entries = {OP: VALID}
    for path in sorted(path for corpus in CORPORA for path in corpus.glob("*.yaml")):
        if path.name != "types.yaml":
            entries.update(yaml.safe_load(path.read_text()))
    return entries


def documents(seed: int) -> Iterator[tuple[str, bytes]]:
    """Endless documents with the kind of each; the same ones for the same seed."""
    draw = random.Random(seed)
    valid = valid_entries()
    texts = {op: to_yaml({op: entry}) for op, entry in valid.items()}
    while True:
        op, kind = draw.choice(list(valid)), draw.choice(KINDS)
        if kind in DATA_DAMAGE:
            yield kind, to_yaml({op: damage_data(valid[op], kind, draw)})
        elif kind in TEXT_DAMAGE:
            yield kind, damage_text(texts[op], kind, draw)
        elif kind == "grown":
            yield kind, to_yaml({"GrownFwdOp": grown(draw)})
        else:
            damage = draw.choice(list(DATA_DAMAGE))
            yield kind, to_yaml({"GrownFwdOp": damage_data(grown(draw), damage, draw)})


def judge(document: bytes) -> list[str]:
    """What is said of a document, which is never a traceback; nothing is said only of what can be emitted."""
    diagnostics = Diagnostics()
    root = source.parse(document, "demo.yaml", diagnostics)
    if isinstance(root, source.Mapping):
        efforts = effort.FileEffort()
        for op, node in root.entries.items():
            with efforts.entry():
                entry = parse_entry(str(op), node, root.key_lines[op], "demo.yaml", diagnostics, ADTS)
                checked = check_entry(entry, diagnostics)
                analysis = analyse(entry, diagnostics, checked)
            if not len(diagnostics):
                compile(module_source("demo", [(checked, analysis)]), "demo", "exec")
    return [str(found) for found in diagnostics]


class BrokenError(Exception):
    """A document that does not get what every document must get; the message says what."""


def stand(document: bytes) -> tuple[bool, float]:
    """Judge a document twice: (whether nothing is said of it, seconds of processor time that judging takes).

    Raises BrokenError if it takes too long, or if the second judgment differs. A traceback goes its way.
    """
    began = time.process_time()
    said = judge(document)
    spent = time.process_time() - began
    if spent > MAX_SECONDS:
        raise BrokenError(f"takes {spent:.2f} s")
    if judge(document) != said:
        raise BrokenError("is judged in two ways")
    lines = [int(one.split(":", 2)[1]) for one in said]
    if lines != sorted(lines):
        raise BrokenError("is judged out of order")
    return not said, spent
