"""A flag takes a fraction as 5% or as 0.05."""

import pytest
from absl import flags

from tileops.tools.cli import fraction

_SLOWER = fraction.define("slower_by", 0.05, "A change that counts.")
_SHARE = fraction.define_share("share_of", "A share.")


def _parsed(text):
    flags.FLAGS(["test", f"--slower_by={text}"])
    return _SLOWER.value


@pytest.mark.parametrize(("text", "value"), [("5%", 0.05), ("0.05", 0.05), ("150%", 1.5), ("0", 0.0), ("100%", 1.0)])
def test_both_spellings_mean_one_fraction(text, value):
    assert _parsed(text) == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("5", "write 5% or 0.05; 5 alone would be 500%"),
        ("1", "write 1% or 0.01; 1 alone would be 100%"),
        ("-1%", "not negative"),
        ("nan", "finite"),
        ("much", "write a fraction as 5% or as 0.05"),
    ],
)
def test_anything_else_is_refused_with_both_spellings(text, said):
    with pytest.raises(flags.IllegalFlagValueError, match=said):
        _parsed(text)


@pytest.mark.parametrize(("text", "value"), [("85%", 0.85), ("0.85", 0.85), ("1", 1.0), ("100%", 1.0)])
def test_a_share_is_at_most_1(text, value):
    flags.FLAGS(["test", f"--share_of={text}"])
    assert _SHARE.value == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "said"),
    [("85", "write 85% or 0.85"), ("0", "above 0%"), ("101%", "at most 100%"), ("1.01", "write 1.01%")],
)
def test_a_share_outside_is_refused_and_the_flag_named(text, said):
    with pytest.raises(flags.IllegalFlagValueError, match=f"--share_of={text}: .*{said}"):
        flags.FLAGS(["test", f"--share_of={text}"])


def test_the_flag_belongs_to_the_module_that_defines_it():
    assert "slower_by" in {flag.name for flag in flags.FLAGS.get_key_flags_for_module(__name__)}
