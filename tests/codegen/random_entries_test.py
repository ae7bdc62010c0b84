"""Random well-formed entries: emitted price = the generator's own value = a recount by tensor sizes.

`random_entries_run` does the same over tens of thousands of entries.
"""

from __future__ import annotations

import os
import random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tileops.tests.codegen.random_batch import Outcome, dump, run_batch

# What a few hundred entries must have used, or the generator has lost a part of the language.
FEATURES = (
    "Int for a Dim of a family",
    "None among items",
    "alias",
    "argument by name",
    "axis solved from a linear term",
    "axis that may be negative",
    "buffer out",
    "category of a number",
    "bytes(t)",
    "chained comparison",
    "comprehension with a condition",
    "conditional",
    "construction-time tensor without a type",
    "conv.out",
    "default of a comprehension",
    "domain restriction",
    "dtype coalesce",
    "dtype index of an optional tensor",
    "dtype of another index",
    "dtype promote_types",
    "dtype_combos",
    "dtype_combos of parameters",
    "family by a list of cases",
    "family case by a finite field",
    "family case that applies a family",
    "family case that matches anything",
    "family that determines indices",
    "formula made >= 0 by plus",
    "generator full",
    "generator key_windows",
    "generator moe.layout_metadata",
    "generator random_ids",
    "guard by constructor",
    "guard by dtype",
    "guard by enumeration",
    "guard carried through or",
    "index DType",
    "input out",
    "input passed by name",
    "index Shape",
    "index of a tensor that may be absent",
    "index of an optional tensor",
    "index of two optional tensors",
    "keyword parameter",
    "known run beside what is solved",
    "let boolean",
    "let sequence",
    "list as a call",
    "mhc.expansion",
    "moe.capacity",
    "mutated always",
    "mutated where a condition holds",
    "negative divisor",
    "no inputs",
    "no outputs",
    "nullable where an input is present",
    "parameter Maybe",
    "parameter adt",
    "parameter axes",
    "parameter joined",
    "parameter number",
    "parameter opaque",
    "parameter that says where a call is",
    "present(out) of a buffered output",
    "rank 0",
    "requirement exclusive_prefix_of",
    "requirement moe.layout_valid",
    "requirement prefix_offsets",
    "roofline bytes derived",
    "roofline bytes written",
    "algebraic types by class",
    "algebraic types under adts",
    "roofline func",
    "roofline func of another package",
    "shape rule",
    "tensor constant always",
    "tensor constant own",
    "tensor constant shared",
    "tensor input own",
    "tensor input shared",
    "tensor output shared",
    "unary sign",
    "union with words narrowed",
    "write_only always",
    "write_only where a condition holds",
)
CHECKS = (
    "calls with a passed buffer",
    "derived bytes recounted",
    "other calls accepted",
    "prices compared",
    "refused: a call that does not fit",
    "refused: a parameter of the wrong type",
)


def _told(outcome: Outcome) -> str:
    model, message = min(outcome.failures, key=lambda failure: len(dump({"op": failure[0].yaml})))
    text = dump({model.op: model.yaml})
    return f"{len(outcome.failures)} of {outcome.entries} entries; the shortest: {message}\n{text}"


@pytest.fixture(scope="module")
def seeded() -> Outcome:
    outcome = Outcome()
    for seed in range(60 if os.environ.get("TILEOPS_TEST_ALL") == "1" else 10):
        outcome.add(run_batch(random.Random(seed)))
    return outcome


def test_the_emitted_price_is_the_generators_own_and_that_of_the_tensors(seeded):
    assert not seeded.failures, _told(seeded)


@pytest.mark.parametrize("feature", FEATURES)
def test_the_entries_use(seeded, feature):
    assert seeded.features.get(feature), sorted(seeded.features)


@pytest.mark.parametrize("check", CHECKS)
def test_the_entries_are_held_against(seeded, check):
    assert seeded.checks.get(check), seeded.checks


def test_rows_that_do_not_fit_are_refused_in_many_ways(seeded):
    assert len([check for check in seeded.checks if check.startswith("row refused")]) >= 9, seeded.checks


# Shrinking an entry takes minutes and gives little: what failed is printed as a spec file, which a person shortens.
@settings(
    max_examples=20,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    derandomize=True,  # the long run draws anew
    suppress_health_check=list(HealthCheck),
)
@given(st.randoms(use_true_random=False))
def test_an_entry_that_hypothesis_draws_is_priced_as_its_model_says(source):
    outcome = run_batch(source, 1)
    assert not outcome.failures, _told(outcome)
