"""Any document gives diagnostics, never a traceback; in little time, alike twice, and under every order of hashing."""

from __future__ import annotations

import collections
import itertools
import json
import os
import random
import subprocess
import sys

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tileops.tests.manifest import totality
from tileops.tests.manifest.entries import OP, VALID, variant
from tileops.tests.manifest.grammar import grown
from tileops.tests.manifest.mutations import to_yaml

SEED, DOCUMENTS = 20261130, 200_000 if os.environ.get("TILEOPS_TEST_ALL") == "1" else 1000


@pytest.mark.requirement("4.4.g")
def test_damaged_and_grown_documents_give_diagnostics_or_code_that_compiles():
    clean: collections.Counter[str] = collections.Counter()
    counts: collections.Counter[str] = collections.Counter()
    for kind, document in itertools.islice(totality.documents(SEED), DOCUMENTS):
        counts[kind] += 1
        clean[kind] += totality.stand(document)[0]
    assert counts.keys() == set(totality.KINDS) and min(counts.values()) > DOCUMENTS / len(totality.KINDS) / 2
    assert clean["grown"] > counts["grown"] / 10, (
        "growth without slips gives valid entries, or it reaches no late check"
    )
    assert sum(clean.values()) < DOCUMENTS / 3, "damage does damage"


def test_one_seed_gives_the_same_documents():
    first, second = (list(itertools.islice(totality.documents(3), 50)) for _ in range(2))
    assert first == second != list(itertools.islice(totality.documents(4), 50))


def test_growth_uses_the_whole_language():
    text = b"".join(to_yaml(grown(random.Random(seed))) for seed in range(300)).decode()
    for word in (
        "optional",
        "mutated",
        "write_only",
        "nullable",
        "alias",
        "buffer",
        "values",
        "requires",
        "types",
        "let",
        "shape_rules",
        "dtype_combos",
        "composition",
        "present(",
        "bytes(",
        " for i in ",
        "dtype_cases",
        "some",
        "coalesce_dtype",
        "Layout",
    ):
        assert word in text, word


@pytest.mark.parametrize(
    ("judged", "what"), [(["demo.yaml:2: a [M001]", "demo.yaml:1: b [M001]"], "out of order"), (None, "two ways")]
)
def test_a_judgment_out_of_order_or_of_two_minds_is_noticed(monkeypatch, judged, what):
    changing = itertools.count()
    monkeypatch.setattr(totality, "judge", lambda document: judged or [f"demo.yaml:{next(changing)}: a [M001]"])
    with pytest.raises(totality.BrokenError, match=what):
        totality.stand(b"")


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=80))
def test_any_bytes_give_diagnostics(document):
    totality.judge(document)


@settings(max_examples=300, deadline=None)
@given(st.binary(min_size=1, max_size=4), st.integers(0, 10**6))
def test_damaged_text_gives_diagnostics(noise, position):
    text = to_yaml({OP: VALID})
    position %= len(text)
    totality.judge(text[:position] + noise + text[position + len(noise) :])


def test_diagnostics_do_not_depend_on_hashing():
    entry = variant("signature.let.L", "Q + Z")
    entry["roofline"]["flops"] = "M * W"
    entry["signature"]["forall"]["class"] = "Dim"
    document = yaml.safe_dump({OP: entry}, sort_keys=False)
    script = (
        "import sys, json; from tileops.tests.manifest.totality import judge;"
        " print(json.dumps(judge(sys.stdin.buffer.read())))"
    )
    outputs = set()
    for seed in ("0", "1", "4711"):
        done = subprocess.run(
            [sys.executable, "-c", script],
            input=document.encode(),
            capture_output=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        )
        outputs.add(done.stdout)
    assert len(outputs) == 1 and len(json.loads(outputs.pop())) >= 3
