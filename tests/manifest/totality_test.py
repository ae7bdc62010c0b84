"""Any document gives diagnostics, never a traceback; the same ones under every order of hashing."""

from __future__ import annotations

import copy
import itertools
import json
import pathlib
import subprocess
import sys

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tileops.codegen.analysis import analyse
from tileops.codegen.emission import module_source
from tileops.manifest import source
from tileops.manifest.check import check_entry
from tileops.manifest.diagnostics import Diagnostics
from tileops.manifest.parse import parse_entry
from tileops.manifest.parse_types import parse_adts
from tileops.tests.manifest.entries import OP, VALID, variant
from tileops.tests.manifest.mutations import documents


def _paths(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _paths(item, (*path, key))


PATHS = [path for path in _paths(VALID) if path]
JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**30), 10**30), st.floats(), st.text(max_size=12),
    st.sampled_from(["N", "T", "[N]", "[*B]", "B", "x", "present(scale)", "N // 0", "N % N", "B[9]", "prod(B)", "Pair[flip, N, 3]",
                     "max(())", "flip", "not flip", "int | None", "DType[float16]", "topk_ids(4, 9, 8)", "inf", "dim.value", "ids",
                     "\u0421", "\u202e", "sum(i for i in B)", "all(i > 0 for i in B)", "(1, 2)", "'float16'", "float16"]),
    st.lists(st.integers(0, 3), max_size=3), st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


@st.composite
def mutated(draw):
    entry = copy.deepcopy(VALID)
    for _ in range(draw(st.integers(1, 4))):
        path = draw(st.sampled_from(PATHS))
        place = entry
        try:
            for part in path[:-1]:
                place = place[part]
            action = draw(st.sampled_from(["drop", "set", "rename"]))
            if action == "drop":
                del place[path[-1]]
            elif action == "set":
                place[path[-1]] = draw(JUNK)
            elif isinstance(place, dict):
                place[draw(st.text(min_size=1, max_size=4))] = place.pop(path[-1])
        except (KeyError, IndexError, TypeError):
            continue
    return entry


CORPUS = pathlib.Path(__file__).parent / "corpus"
ADTS = parse_adts(source.read(str(CORPUS / "types.yaml"), "types.yaml", Diagnostics()), "types.yaml", Diagnostics())


def valid_entries():
    """Entries to damage: the small one of this folder's tests, and those of the corpus."""
    entries = {OP: VALID}
    for path in sorted(CORPUS.glob("*.yaml")):
        if path.name != "types.yaml":
            entries.update(yaml.safe_load(path.read_text()))
    return entries


def judge(document: bytes) -> list[str]:
    """What is said of a document, which is never a traceback; nothing is said only of what can be emitted."""
    diagnostics = Diagnostics()
    root = source.parse(document, "demo.yaml", diagnostics)
    if isinstance(root, source.Mapping):
        for op, node in root.entries.items():
            entry = parse_entry(str(op), node, root.key_lines[op], "demo.yaml", diagnostics, ADTS)
            checked, analysis = check_entry(entry, diagnostics), analyse(entry, diagnostics)
            if not len(diagnostics):
                compile(module_source("demo", [(checked, analysis)]), "demo", "exec")
    return [str(found) for found in diagnostics]


@settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))
@given(mutated())
def test_a_mutated_entry_gives_diagnostics_or_code_that_compiles(entry):
    judge(yaml.safe_dump({OP: entry}, sort_keys=False).encode())


def test_three_thousand_damaged_documents_give_diagnostics_or_code_that_compiles():
    for document in itertools.islice(documents(valid_entries(), seed=20261130), 3000):
        judge(document)


@settings(max_examples=400, deadline=None)
@given(st.binary(max_size=80))
def test_any_bytes_give_diagnostics(document):
    judge(document)


@settings(max_examples=300, deadline=None)
@given(st.binary(min_size=1, max_size=4), st.integers(0, 10**6))
def test_damaged_text_gives_diagnostics(noise, position):
    text = yaml.safe_dump({OP: VALID}, sort_keys=False).encode()
    position %= len(text)
    judge(text[:position] + noise + text[position + len(noise):])


def test_diagnostics_do_not_depend_on_hashing():
    entry = variant("signature.let.L", "Q + Z")
    entry["roofline"]["flops"] = "M * W"
    entry["signature"]["forall"]["class"] = "Dim"
    document = yaml.safe_dump({OP: entry}, sort_keys=False)
    script = "import sys, json; from tileops.tests.manifest.totality_test import judge; print(json.dumps(judge(sys.stdin.buffer.read())))"
    outputs = set()
    for seed in ("0", "1", "4711"):
        done = subprocess.run(
            [sys.executable, "-c", script], input=document.encode(), capture_output=True, check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        )
        outputs.add(done.stdout)
    assert len(outputs) == 1 and len(json.loads(outputs.pop())) >= 3
