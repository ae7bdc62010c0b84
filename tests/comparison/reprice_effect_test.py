"""What a changed formula makes of measured rows, in numbers and in words."""

import pytest

from tileops.perf.comparison import reprice_effect
from tileops.tests.report import builders


@pytest.fixture
def profile(tmp_path):
    return builders.profile(tmp_path)


def found(profile, *pairs):
    recorded, repriced = zip(*pairs)
    return reprice_effect.effects(recorded, repriced, profile)


def test_an_unchanged_price_has_no_effect(profile):
    assert found(profile, (builders.record(), builders.record())) == []
    # Nor has one that moves no reading: FLOPs of a row bound by memory.
    assert found(profile, (builders.record(), builders.record(flops=7))) == []


def test_a_moved_row_says_by_how_much(profile):
    pairs = [
        (builders.record(), builders.record(bytes=60_000_000)),
        (builders.record(case_id="b"), builders.record(case_id="b", bytes=20_000_000)),
    ]
    (line,) = reprice_effect.describe(found(profile, *pairs))
    assert line == (
        "SiLUFwdOp: 2 rows changed: efficiency 0.5 to 1.5 times the recorded one, for example b torch: 50.0% -> 25.0%"
    )


def test_a_row_that_became_impossible_names_the_ceiling(profile):
    effects = found(profile, (builders.record(), builders.record(bytes=200_000_000)))
    assert [effect.is_impossible for effect in effects] == [True]
    moved, impossible = reprice_effect.describe(effects)
    assert "efficiency 5 times the recorded one" in moved
    assert impossible == (
        "SiLUFwdOp a-float16 torch: impossible at today's price: implies 2 TB/s of hbm,"
        " whose theoretical ceiling is 1 TB/s"
    )


def test_a_row_that_was_impossible_before_is_not_blamed_on_today(profile):
    was = builders.record(bytes=200_000_000)
    (effect,) = found(profile, (was, builders.record(bytes=300_000_000)))
    assert not effect.is_impossible
    (effect,) = found(profile, (was, builders.record()))
    assert not effect.is_impossible


def test_a_row_that_lost_its_reading_says_so(profile):
    effects = found(profile, (builders.record(), builders.record(bytes=0)))
    assert reprice_effect.describe(effects) == [
        "SiLUFwdOp: 1 row changed (below -> blank: zero_bytes): a-float16 torch"
    ]
    assert [effect.is_lost for effect in effects] == [True]


def test_rows_that_lost_their_reading_are_named_beside_those_that_moved(profile):
    pairs = [
        (builders.record(), builders.record(bytes=44_000_000)),
        *[
            (builders.record(case_id=f"c{place}"), builders.record(case_id=f"c{place}", roof_key=""))
            for place in range(7)
        ],
    ]
    effects = found(profile, *pairs)
    (line,) = reprice_effect.describe(effects)
    assert "1 row changed: efficiency 1.1 times the recorded one, for example a-float16 torch" in line
    assert line.endswith(
        "; 7 rows changed (below -> blank: no_roof): c0 torch, c1 torch, c2 torch, c3 torch, c4 torch and 2 more"
    )
    assert [effect.is_lost for effect in effects] == [False] + [True] * 7


def test_without_a_profile_only_words_about_prices_remain():
    assert found(None, (builders.record(), builders.record(bytes=7))) == []
