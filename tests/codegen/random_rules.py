"""Random lets, shape rules, domain restrictions and dtype combinations, all of which hold in every row's call."""

from __future__ import annotations

from tileops.tests.codegen import random_scope as sorts
from tileops.tests.codegen.random_build import Build
from tileops.tests.codegen.random_points import decidable, finite, varies
from tileops.tests.codegen.random_terms import COMPARE, Env, OutOfBoundsError, Term, literal

_SMALL = 10**6


def lets(build: Build) -> None:
    """Names for derived values: integers, sequences and Bools over what every call knows."""
    draw = build.draw
    for _ in range(draw.weighted({0: 4, 1: 3, 2: 2, 3: 1})):
        scope = build.scope()
        form = draw.weighted({"integer": 5, "sequence": 2, "boolean": 2})
        draw.use(f"let {form}")
        if form == "integer":
            term = build.accepted(
                lambda scope=scope: build.make.integer(scope, draw.integer(1, 3)),
                lambda value: abs(value) < _SMALL,
                lambda: literal(3),
            )
            sort: sorts.Sort = sorts.Integer(term.dim)
        elif form == "sequence":
            term = build.accepted(
                lambda scope=scope: build.make.sequence(scope, draw.integer(1, 2)),
                lambda value: len(value) < 6 and all(abs(item) < _SMALL for item in value),
                lambda: literal((1, 2)),
            )
            sort = sorts.Sequence(term.dim, derived=True)
        else:
            term = build.accepted(
                lambda scope=scope: build.make.conditions.boolean(scope, 2), lambda value: True, lambda: literal(True)
            )
            sort = sorts.Flag()
        found = build.name("l")
        build.model.lets[found] = term
        if isinstance(sort, sorts.Integer) and decidable(build.model, term):
            sort = sorts.Integer(term.dim, decided=True)
        build.known[found] = sort


def rules(build: Build) -> None:
    """Conditions that happen to hold in every row; other calls may well break them."""
    draw = build.draw
    for _ in range(draw.weighted({0: 4, 1: 3, 2: 2})):
        scope = build.scope(types=False)
        for _ in range(8):
            term = build.make.conditions.boolean(scope, draw.integer(1, 3))
            if not term.reads or _defines(term):
                continue
            truths = [_truth(term, env) for env in build.envs]
            if None in truths or (len(set(truths)) > 1):
                continue
            if not truths[0]:
                term = build.write.negation(term)
            decides = not finite(build.model, term) or varies(build.model, term, ())
            if decides and _leaves_choice(build, term):
                draw.use("shape rule")
                build.model.rules.append(term)
                break
    if draw.chance(20):
        _restriction(build)


def _bare(term: Term) -> str:
    """The term's text but for parentheses and quotes, which may be drawn otherwise the next time."""
    return "".join(char for char in term.text if char not in "()'\"")


def _defines(term: Term) -> bool:
    """Whether the language takes the rule for a definition that should stand in a shape: an equality at its top."""
    return term.level == COMPARE and "==" in term.text


def _truth(term: Term, env: Env) -> bool | None:
    try:
        return term.of(env)
    except (ArithmeticError, ValueError, IndexError, OutOfBoundsError):
        return None


def _leaves_choice(build: Build, *rules: Term) -> bool:
    """Returns whether these rules are new and leave every condition, and every tensor that may be absent, both ways."""
    if any(_bare(rule) in map(_bare, build.model.rules) for rule in rules):
        return False
    conditions = [
        condition
        for tensor in build.model.tensors.values()
        for condition in (tensor.presence, tensor.mutated)
        if isinstance(condition, Term) and condition.reads
    ] + [
        build.make.conditions.present(tensor.name)  # in no call, a tensor would leave its own indices unread
        for tensor in build.model.tensors.values()
        if tensor.presence == "own"
    ]
    return all(varies(build.model, condition, [*build.model.rules, *rules]) for condition in conditions)


def _restriction(build: Build) -> None:
    """A rule over discriminants alone: branches that it rejects need not be served."""
    for _ in range(4):
        term = build.make.conditions.discriminant(build.finite(), 2)
        holds = all(_truth(term, env) for env in build.envs)
        if holds and varies(build.model, term, ()) and _leaves_choice(build, term):
            build.draw.use("domain restriction")
            build.model.rules.append(term)
            return


def combos(build: Build) -> None:
    """The rows' dtypes, and at times others, as the combinations that the entry accepts."""
    draw, model = build.draw, build.model
    columns: dict[str, tuple[str | None, ...]] = dict(model.dtype_indices)
    for param in model.params:
        sort = param.sort.item if isinstance(param.sort, sorts.Maybe) else param.sort
        if isinstance(sort, sorts.DTypeName) and draw.chance(60):
            columns[param.name] = (*sort.values, *([None] if sort is not param.sort else []))
    if len(columns) < 2 or not draw.chance(40):
        return
    names = draw.shuffled(list(columns))
    found = [{name: env[name] if name in env else draw.choice(columns[name]) for name in names} for env in build.envs]
    found.append({name: draw.choice(columns[name]) for name in names})
    model.combos = [dict(pairs) for pairs in dict.fromkeys(tuple(combo.items()) for combo in found)]
    if not _leaves_choice(build):
        model.combos = []
    else:
        draw.use("dtype_combos")
        if columns.keys() != model.dtype_indices.keys():
            draw.use("dtype_combos of parameters")
