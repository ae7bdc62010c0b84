"""What commands share: counts with their nouns, and the globs of flags."""

from __future__ import annotations

import pytest

from tileops.tools.cli import globs, words


@pytest.mark.parametrize(
    ("count", "noun", "plural", "said"),
    [
        (0, "row", "", "0 rows"),
        (1, "row", "", "1 row"),
        (2, "row", "", "2 rows"),
        (1, "entry", "entries", "1 entry"),
        (2, "entry", "entries", "2 entries"),
    ],
)
def test_a_noun_takes_its_plural_unless_there_is_one(count, noun, plural, said):
    assert words.counted(count, noun, plural) == said


def test_a_flag_holds_several_globs_and_an_empty_one_stays():
    assert globs.of_flag(["GEMM*, SiLU*", "x"]) == ("GEMM*", "SiLU*", "x")
    assert globs.of_flag([""]) == ("",)
    assert globs.of_flag([]) == ()


def test_a_name_fits_if_one_of_the_globs_fits():
    assert globs.fits("GEMMFwdOp", "Moe*", "GEMM*")
    assert globs.fits("GEMMFwdOp", "GEMM[FB]wdO?")
    assert not globs.fits("GEMMFwdOp", "gemm*")
    assert not globs.fits("GEMMFwdOp", "GEMM")
    assert globs.fits("GEMMFwdOp")  # without globs, every name fits
