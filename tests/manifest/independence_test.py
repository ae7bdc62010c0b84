"""Discriminants that no expression relates are enumerated apart: many of them cost little, and make little code."""

from __future__ import annotations

import pytest
import yaml

from tileops.codegen.emission import module_source
from tileops.manifest.language import expr_parser
from tileops.manifest.plans.domain import Domain
from tileops.manifest.plans.points import MAX_POINTS, Discriminant, Point, TooManyPointsError
from tileops.manifest.plans.trees import MAX_LEAVES, TooManyBranchesError, decide, leaves
from tileops.tests.manifest.entries import OP, check_text, small
from tileops.tests.manifest.independent import MANY, WAYS, flags, many, optionals


def checked(made: dict):
    """The entry judged, which must be clean, and the module that it makes."""
    found, analysis, said = check_text(yaml.safe_dump({OP: made}, sort_keys=False))
    assert [str(one) for one in said] == []
    return found, analysis, module_source("demo", [(found, analysis)])


def test_a_sum_of_independent_terms_is_decided_term_by_term():
    flops = " + ".join(["N", *(f"(N * {at + 1} if present(t{at}) else 0)" for at in range(MANY))])
    _, analysis, text = checked(small(inputs=optionals(), roofline={"flops": flops}))
    assert len(analysis.flops.trees) == MANY + 1
    assert text.count("_flops +=") == MANY and len(text) < 40_000
    assert 'if _call.present("t3"):\n            _flops += N * 4\n' in text


def test_bytes_of_many_optionals_are_one_term_each():
    nbytes = " + ".join(["bytes(x)", *(f"(bytes(t{at}) if present(t{at}) else 0)" for at in range(MANY))])
    _, analysis, text = checked(small(inputs=optionals(), roofline={"flops": "N", "bytes": nbytes}))
    assert len(analysis.bytes.trees) == MANY + 1 and text.count("_bytes +=") == MANY


def test_terms_that_one_name_relates_are_decided_together():
    flops = "(N if p0 and p1 else 0) + (N if p1 and p2 else 1) + " + " + ".join(
        f"(1 if p{at} else 2)" for at in range(3, MANY)
    )
    _, analysis, _ = checked(small(params=flags(), roofline={"flops": flops}))
    assert len(analysis.flops.trees) == MANY - 3 + 1


def test_what_is_subtracted_is_subtracted():
    flops = "100 * N - " + " - ".join(f"(1 if p{at} else 2)" for at in range(MANY))
    _, _, text = checked(small(params=flags(), roofline={"flops": flops}))
    assert "_flops += 0 - 2" in text or "_flops += -2" in text


def test_a_product_of_many_conditions_is_folded_at_each_combination():
    flops = " * ".join(["N", *(f"(2 if p{at} else 3)" for at in range(8))])
    _, analysis, text = checked(small(params=flags(8), roofline={"flops": flops}))
    (tree,) = analysis.flops.trees
    assert len([*leaves(tree)]) == 2**8 == text.count("_flops = N * ") and " else 3" not in text


def test_many_conditional_effects_are_charged_apart():
    inputs = {f"t{at}": {"dtype": "float32", "shape": "[N]", "mutated": f"p{at}"} for at in range(MANY)}
    _, analysis, text = checked(small(params=flags(), inputs={"x": {"dtype": "float32", "shape": "[N]"}, **inputs}))
    assert len(analysis.traffic) == MANY + 1 and text.count("_written +=") == 2 * MANY and len(text) < 60_000


@pytest.mark.parametrize("way", WAYS)
def test_many_facts_of_the_types_make_code_that_grows_with_their_number(way):
    found, _, text = checked(many(way))
    assert [case.label for case in found.cases] == ["row", "other"]
    assert len(text) < 2000 * MANY
    twice = len(checked(many(way, 2 * MANY))[2])
    assert twice < 2.2 * len(text)


@pytest.mark.parametrize("section", ["inputs", "outputs", "let"])
def test_conditions_that_choose_between_numbers_alone_need_no_points(section):
    size = " + ".join(["N", *(f"(1 if p{at} else 2)" for at in range(MANY))])
    made = small(params=flags(), workloads=[{"label": "row", "N": 3}])
    made["signature"] |= {"let": {"size": size}} if section == "let" else {}
    shape = "[size]" if section == "let" else f"[{size}]"
    if section == "inputs":
        made["signature"]["inputs"]["w"] = {"dtype": "float32", "shape": shape}
    else:
        made["signature"]["outputs"]["y"]["shape"] = shape
    found, _, text = checked(made)
    sizes = [tensor.shape for tensor in (*found.cases[0].inputs, *found.cases[0].outputs)]
    assert (3 + 2 * MANY,) in sizes and len(text) < 12_000 and "(1 if p16 else 2)" in text


def test_an_axis_that_a_condition_chooses_is_solved_either_way():
    made = many("a family applied to each input")
    made["signature"]["forall"]["K"] = "Dim"
    made["signature"]["inputs"]["w"] = {"dtype": "float32", "shape": "[2 * K if p0 else K]"}
    for row in made["workloads"]:
        row["K"] = 4
    found, _, text = checked(made)
    assert "K" in found.plan.solved.known and "_primitives.divided(_w_shape[0], 2, 0)" in text


def test_an_index_that_only_one_branch_solves_is_unsolved_on_the_other():
    made = many("an index that some inputs solve where they are there")
    made["signature"]["outputs"]["z3"]["shape"] = "[K3]"
    said = check_text(yaml.safe_dump({OP: made}, sort_keys=False))[2]
    assert [one.code for one in said] == ["M040"] and "'K3' is not solved by any input (p3 = False)" in said[0].message


def test_what_reads_an_index_that_some_branches_solve_is_planned_with_them():
    made = many("a family applied to each input")
    signature = made["signature"]
    signature["forall"]["K"] = "Dim"
    signature["inputs"] |= {
        "a": {"dtype": "float32", "shape": "[K if p0 else 1]"},
        "b": {"dtype": "float32", "shape": "[K if p1 else 2]"},
    }
    made["workloads"] = made["workloads"][:1]
    found, _, _ = checked(made)
    (partly,) = found.plan.solved.partly
    assert {one.name for point, _ in partly for one, _ in point.assigned} == {"p0", "p1"}
    assert sum("K" in names for _, names in partly) == 3


def test_a_dtype_that_two_tensors_merely_have_in_common_relates_nothing():
    made = many("a condition for each input", 3)
    found, _, text = checked(made)
    assert found.plan.solved.known == {"N", "M"} and text.count("if p1:") == 2


def test_what_decides_whether_an_input_is_written_has_to_be_solved():
    inputs = {
        "x": {"dtype": "float32", "shape": "[N]", "mutated": "T == 'float16'"},
        "w": {"dtype": "T", "shape": "[N]", "optional": "p"},
    }
    made = small(
        forall={"N": "Dim", "T": "DType[float16 | float32]"},
        params={"p": {"type": "bool", "default": False}},
        inputs=inputs,
    )
    said = check_text(yaml.safe_dump({OP: made}, sort_keys=False))[2]
    assert "M040" in [one.code for one in said] and "'T' is not solved by any input" in said[0].message


@pytest.mark.parametrize(("count", "kept"), [(3, 7), (13, 8191)])
def test_a_restriction_relates_what_it_reads(count, kept):
    rows = [{"label": "row", "N": 1000, "p0": True}]
    rules, flops = [" or ".join(flags(count))], {"flops": "N if p0 else 2 * N"}
    made = small(params=flags(count), shape_rules=rules, workloads=rows, roofline=flops)
    signature = checked(made)[0].entry.signature
    domain = Domain(signature)
    rule = signature.rules[0].expr
    assert len(domain.points([rule])) == kept
    reads_one = check_text(yaml.safe_dump({OP: made}))[1].flops
    assert len(reads_one.trees[0].branches) == 2


def test_points_leave_out_what_restrictions_reject_through_names_that_the_term_does_not_read():
    rules = ["not p0 or p1", "not p1 or p2", "not (p0 and p2)"]
    signature = checked(small(params=flags(3), shape_rules=rules))[0].entry.signature
    points = Domain(signature).points([expr_parser.parse("p0")])
    assert [point.values for point in points] == [{"p0": False}]


def test_more_points_than_there_may_be_are_told_by_their_number():
    signature = check_text(yaml.safe_dump({OP: small(params=flags())}))[0].entry.signature
    with pytest.raises(TooManyPointsError) as error:
        Domain(signature).points([expr_parser.parse(" and ".join(flags()))])
    assert error.value.args[0] == 2**MANY > MAX_POINTS


def test_more_branches_than_there_may_be_are_told_by_what_they_depend_on():
    one = Discriminant("mode", False, tuple(range(MAX_LEAVES + 1)))
    decisions = [(Point(((one, value),)), value) for value in one.values]
    assert len([*leaves(decide(decisions[:-1]))]) == MAX_LEAVES
    with pytest.raises(TooManyBranchesError, match="more than 1024 branches of generated code are too many: mode give"):
        decide(decisions)
