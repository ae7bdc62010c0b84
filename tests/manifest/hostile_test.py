"""A hostile document, however small, is refused within a second of work, with a code and a reason."""

from __future__ import annotations

import resource
import sys
from typing import Any

import pytest
import yaml

from tileops.manifest.diagnostics import Diagnostics
from tileops.manifest.language import effort
from tileops.manifest.reading import source
from tileops.tests.manifest.entries import OP, VALID, check, check_text, codes, small


def metadata(values: str, requires: tuple[str, ...] = (), **parts: Any) -> dict[str, Any]:
    """An entry whose input `x` is filled by a generator."""
    x = {
        "dtype": "int64",
        "shape": "[N]" if "table" not in values else "[N, K]",
        "values": values,
        "requires": [*requires],
    }
    return small(inputs={"x": x}, workloads=[{"label": "row"}], **parts)


def chain(count: int, first: str, link: str) -> dict[str, str]:
    """`count` lets, each written from the one before it."""
    return {f"v{at}": first if at == 0 else link.format(f"v{at - 1}") for at in range(count)}


def optional_chain(count: int) -> dict[str, Any]:
    """Inputs whose presence is a condition on that of the one before, written out four times."""
    inputs: dict[str, Any] = {"x": {"dtype": "float32", "shape": "[N]"}}
    for at in range(count):
        before = f"present(t{at - 1})" if at else "flag"
        inputs[f"t{at}"] = {
            "dtype": "float32",
            "shape": "[N]",
            "optional": f"({before} and not {before}) or ({before} and {before})",
        }
    return inputs


def family_chain(count: int) -> dict[str, Any]:
    """Type families that each hand twice their argument to the next."""
    last = {"params": {"b": "Bool", "P": "Dim"}, "match": ["b"], "cases": {True: "[P]", False: "[P]"}}
    made = {f"F{count}": last}
    for at in reversed(range(count)):
        case = f"F{at + 1}[b, P + P]"
        made[f"F{at}"] = {"params": {"b": "Bool", "P": "Dim"}, "match": ["b"], "cases": {True: case, False: case}}
    return made


def nested(depth: int) -> str:
    """A guard that asks of each part both what holds where it is true and where it is false."""
    text = "flag"
    for at in range(depth):
        text = f"not ({text} and flag)" if at % 2 else f"(flag or {text})"
    return text


def joined(operator: str, count: int) -> str:
    """Terms that depend on one flag each: no two combinations give the same."""
    return f" {operator} ".join(f"({at + 2} if p{at} else N + {at})" for at in range(count))


def parity(count: int) -> str:
    """Whether an odd number of flags is set: one of two results, and each flag decides it in every combination."""
    text = "p0"
    for at in range(1, count):
        text = f"(p{at} if not {text} else not p{at})"
    return text


FLAG = {"flag": {"type": "bool", "default": False}}
FLAGS = {f"p{at}": {"type": "bool", "default": False} for at in range(40)}

HOSTILE = {
    "comprehensions nested over a row's sizes": (
        small(
            let={"a": "sum(sum(sum(i // (j + 1) + k for i in range(N)) for j in range(N)) for k in range(N))"},
            outputs={"y": {"dtype": "float32", "shape": "[a]"}},
        ),
        "M004",
    ),
    "lets that square": (
        small(let=chain(200, "N", "{0} * {0}"), outputs={"y": {"dtype": "float32", "shape": "[v199]"}}),
        "M060",
    ),
    "a product of a long sequence": (
        small(
            let={"a": "prod(repeat(4611686018427387904, N * N))"}, outputs={"y": {"dtype": "float32", "shape": "[a]"}}
        ),
        "M060",
    ),
    "sums of sequences of sequences": (
        small(
            let={"a": "sum(sum(repeat(i, 1000000)) for i in range(1000000))"},
            outputs={"y": {"dtype": "float32", "shape": "[a]"}},
        ),
        "M004",
    ),
    "a list of more items than there are": (metadata("as_tensor(repeat(1, 100000000))"), "M022"),
    "a list that generated code would write out": (
        metadata("as_tensor(repeat(1, k))", params={"k": {"type": "int", "default": 2**20}}),
        "M060",
    ),
    "a page table of a huge pool": (
        metadata(
            "paged_block_table(1000, 1000, 268435456)", forall={"N": "Dim", "K": "Dim"}, requires=["in_range(0, 5)"]
        ),
        "M004",
    ),
    "presence conditions that quadruple": (small(params=FLAG, inputs=optional_chain(40)), "M004"),
    "type families that double": (
        small(
            params=FLAG,
            types=family_chain(60),
            inputs={"x": {"dtype": "float32", "shape": "[N]"}, "z": {"dtype": "float32", "shape": "F0[flag, N]"}},
        ),
        "M004",
    ),
    "40 flags that one expression relates": (
        small(params=FLAGS, outputs={"y": {"dtype": "float32", "shape": f"[N if {' and '.join(FLAGS)} else 2 * N]"}}),
        "M042",
    ),
    "40 flags that one rule relates": (
        small(
            params=FLAGS,
            outputs={"y": {"dtype": "float32", "shape": "[N if p0 else 2 * N]"}},
            shape_rules=[" or ".join(FLAGS)],
        ),
        "M042",
    ),
    "40 flags that one formula relates": (
        small(params=FLAGS, roofline={"flops": f"N if {' and '.join(FLAGS)} else 2 * N"}),
        "M042",
    ),
    "16 flags of which a product makes 65,536 formulas": (
        small(params=dict([*FLAGS.items()][:16]), roofline={"flops": joined("*", 16)}),
        "M042",
    ),
    "11 flags of which a let makes 2,048 branches": (
        small(params=dict([*FLAGS.items()][:11]), let={"v": joined("*", 11)}, roofline={"flops": "v"}),
        "M042",
    ),
    "11 flags of which a shape makes 2,048 branches": (
        small(
            params=dict([*FLAGS.items()][:11]),
            outputs={"y": {"dtype": "float32", "shape": "[" + joined("+", 11) + "]"}},
        ),
        "M042",
    ),
    "11 flags whose parity says what is written": (
        small(
            params=dict([*FLAGS.items()][:11]),
            inputs={"x": {"dtype": "float32", "shape": "[N]", "mutated": parity(11)}},
        ),
        "M042",
    ),
    "an expression of ten thousand terms": (small(roofline={"flops": "N" + " + N" * 10_000}), "R010"),
    "an expression of ten thousand brackets": (small(roofline={"flops": "(" * 10_000 + "N" + ")" * 10_000}), "R010"),
    "a number of ten thousand digits": (small(roofline={"flops": "9" * 10_000}), "R010"),
    "a row of huge extents": (small(workloads=[{"label": "row", "N": 2**62}]), "M060"),
    "a row of many huge extents": (
        small(
            forall={"S": "Shape"},
            inputs={"x": {"dtype": "float32", "shape": "[*S]"}},
            outputs={"y": {"dtype": "float32", "shape": "[*S]"}},
            workloads=[{"label": "row", "S": [2**62] * 20_000}],
            roofline={"flops": "prod(S)"},
        ),
        "M060",
    ),
    "many rows": (small(workloads=[{"label": f"row{at}", "N": at} for at in range(1001)]), "M003"),
    "many members": (small(let={f"v{at}": "N" for at in range(257)}), "M003"),
}


# A second of work on a slow core, counted in what does not depend on the machine: calls of Python functions.
MOST_CALLS = 3_000_000


def calls_of(function):
    """(Python calls that `function` makes, what it returns)."""
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        result = function()
    finally:
        sys.setprofile(None)
    return calls, result


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_entry_is_refused_with_one_code_after_little_work(name):
    made, code = HOSTILE[name]
    text = yaml.safe_dump({OP: made}, sort_keys=False)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    calls, (_, _, found) = calls_of(lambda: check_text(text))
    assert calls < MOST_CALLS
    assert {one.code for one in found} == {code}, [str(one) for one in found]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10, "more than 200 MiB"


def test_a_guard_nested_fifty_levels_deep_is_read_once():
    calls, found = calls_of(lambda: codes(small(params=FLAG, shape_rules=[nested(28)])))
    assert found == [] and calls < MOST_CALLS


def test_an_ordinary_entry_spends_a_small_part_of_its_effort():
    with effort.bounded() as spent:
        check(VALID)
    assert 100 < spent.spent < effort.LEAST_STEPS / 4


def test_what_is_spent_is_refused_from_then_on():
    with effort.bounded(10) as allowed:
        effort.spend(10)
        assert not allowed.exhausted
        for _ in range(2):
            with pytest.raises(effort.ExhaustedError, match="more than 10 steps"):
                effort.spend()
        assert allowed.exhausted


def test_a_bound_inside_another_is_the_outer_one():
    with effort.bounded(10) as outer, effort.bounded(1000) as inner:
        assert inner is outer


def test_after_one_entry_has_spent_its_effort_the_others_of_the_file_have_less():
    file = effort.FileEffort()
    with file.entry() as first:
        assert first.limit == effort.MAX_STEPS
    with file.entry() as second:
        with pytest.raises(effort.ExhaustedError):
            effort.spend(effort.MAX_STEPS + 1)
        assert second.limit == effort.MAX_STEPS
    with file.entry() as third:
        assert third.limit == effort.LEAST_STEPS


BOMBS = {
    "billion laughs": (
        "a: &a [x, x]\n"
        + "".join(f"{chr(98 + at)}: &{chr(98 + at)} [{', '.join([f'*{chr(97 + at)}'] * 9)}]\n" for at in range(12)),
        "M003",
    ),
    "an anchor inside itself": ("a: &a [1, *a]\n", "M003"),
    "mappings nested ten thousand deep": ("{a: " * 10_000 + "1" + "}" * 10_000, "M003"),
    "sequences nested ten thousand deep": ("[" * 10_000, "M003"),
    "a file of 5 MiB": ("a: 1\n" * (1 << 20), "M003"),
    "200,000 values": ("a: [" + "1, " * 200_000 + "1]", "M003"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_yaml_bomb_is_refused_after_little_work(name):
    text, code = BOMBS[name]
    diagnostics = Diagnostics()
    calls, parsed = calls_of(lambda: source.parse(text.encode(), "demo.yaml", diagnostics))
    assert parsed is None and calls < MOST_CALLS
    assert [one.code for one in diagnostics] == [code]
