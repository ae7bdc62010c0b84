"""Emits a decision tree over discriminants as if / elif / else."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tileops.codegen.source_text import Lines, literal
from tileops.manifest.language.adt import AdtValue
from tileops.manifest.plans.points import Discriminant
from tileops.manifest.plans.trees import Leaf, Tree, leaves

T = TypeVar("T")


def emit_tree(
    tree: Tree[T],
    lines: Lines,
    leaf: Callable[[T], None],
    present_test: Callable[[str], str],
    silent: Callable[[T], bool] = lambda value: False,
) -> None:
    """Emits a decision tree as if / elif / else, without the branches that emit nothing.

    Args:
      tree: the tree.
      lines: takes the code.
      leaf: emits what is decided at a leaf.
      present_test: Python that says whether a tensor or parameter is there.
      silent: whether a leaf emits nothing.
    """
    if isinstance(tree, Leaf):
        if not silent(tree.value):
            leaf(tree.value)
        return
    said = [(value, branch) for value, branch in tree.branches if not all(map(silent, leaves(branch)))]
    for position, (value, branch) in enumerate(said):
        last = position == len(said) - 1 and position > 0 and len(said) == len(tree.branches)
        test = _test(tree.discriminant, value, present_test)
        with lines.block("else:" if last else f"{'elif' if position else 'if'} {test}:"):
            emit_tree(branch, lines, leaf, present_test, silent)


def _test(discriminant: Discriminant, value: object, present_test: Callable[[str], str]) -> str:
    """Returns the source of a test that a discriminant has a value."""
    name = discriminant.name
    if discriminant.presence:
        test = present_test(name)
        if value:
            return test
        return test.replace(" is not None", " is None") if " is not None" in test else f"not {test}"
    if isinstance(value, AdtValue):
        tests = [f"{name} is not None"] if None in discriminant.values else []
        tests.append(f"{name}.kind == {literal(value.kind)}")
        for field, wanted in value.fields:
            own = f"{name}.{field}"
            tests.append(
                (own if wanted else f"not {own}") if isinstance(wanted, bool) else f"{own} == {literal(wanted)}"
            )
        return " and ".join(tests)
    if value is None:
        return f"{name} is None"
    if isinstance(value, bool) and None not in discriminant.values:
        return name if value else f"not {name}"
    return f"{name} is {value}" if isinstance(value, bool) else f"{name} == {literal(value)}"
