"""Random type families: a shape that finite facts choose, over Bools, words, algebraic values and presence."""

from __future__ import annotations

import ast
import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tileops.tests.codegen import random_primitives as primitives
from tileops.tests.codegen import random_scope as sorts
from tileops.tests.codegen.random_build import Build
from tileops.tests.codegen.random_model import Axis
from tileops.tests.codegen.random_terms import ATOM, Env, Term, literal, name

Chosen = tuple[str, Callable[[Env], tuple[Axis, ...]]]
Key = tuple[str, Callable[[Any], bool]]
_ANYTHING: Key = ("_", lambda value: True)


@dataclasses.dataclass(frozen=True)
class Match:
    """A parameter that chooses the case: its kind, the argument, each key with the test that selects it."""

    param: str
    kind: str
    argument: Term
    keys: tuple[Key, ...]
    constructors: Mapping[str, Mapping[str, sorts.Sort]] = dataclasses.field(default_factory=dict)


def _matches(build: Build) -> list[Match]:
    """One or two facts to choose by."""
    draw, scope = build.draw, build.finite(maybes=False)
    options: list[Callable[[str], Match]] = []
    for base, sort in scope.names.items():
        if isinstance(sort, sorts.Flag):
            options.append(lambda p, base=base: _flag(p, name(base)))
        elif isinstance(sort, sorts.Word):
            options.append(lambda p, base=base, sort=sort: _word(p, name(base), sort.values))
        elif isinstance(sort, sorts.Algebraic):
            options.append(lambda p, base=base, sort=sort: _algebraic(build, p, name(base), sort))
    if scope.tensors:
        options.append(lambda p: _flag(p, build.make.conditions.present(draw.choice(list(scope.tensors)))))
    if options and draw.chance(20):
        options.append(lambda p: _flag(p, build.make.conditions.discriminant(scope, 1)))
    options.append(lambda p: _flag(p, literal(draw.chance(50))))
    # Parameters of a family have names of their own, which may be those of the entry's indices.
    names = draw.shuffled([*build.known, "how", "which", "turn"])
    return [make(names[at]) for at, make in enumerate(draw.some(options, 1, min(2, len(options))))]


def _flag(param: str, argument: Term) -> Match:
    keys = (("False", lambda value: value is False), ("True", lambda value: value is True))
    return Match(param, "Bool", argument, keys)


def _word(param: str, argument: Term, values: Sequence[str]) -> Match:
    keys = tuple((f"'{word}'", lambda value, word=word: value == word) for word in values)
    return Match(param, " | ".join(f"'{word}'" for word in values), argument, keys)


def _algebraic(build: Build, param: str, argument: Term, sort: sorts.Algebraic) -> Match:
    """A case for each constructor; at times for each value of a finite field."""
    keys: list[tuple[str, Callable[[Any], bool]]] = []
    for constructor, fields in sort.constructors.items():
        finite = [
            (field, (False, True) if isinstance(one, sorts.Flag) else one.values)
            for field, one in fields.items()
            if isinstance(one, (sorts.Flag, sorts.Word))
        ]
        if finite and build.draw.chance(50):
            build.draw.use("family case by a finite field")
            field, values = finite[0]
            for value in values:
                keys.append(
                    (
                        f"{constructor}({field}={value!r})",
                        lambda v, c=constructor, f=field, w=value: type(v).__name__ == c and getattr(v, f) == w,
                    )
                )
        else:
            keys.append((constructor, lambda v, c=constructor: type(v).__name__ == c))
    return Match(param, sort.type, argument, tuple(keys), sort.constructors)


def hosting_family(build: Build, indices: Sequence[str]) -> Chosen | None:
    """A family whose every case determines the indices, applied to them."""
    build.draw.use("family that determines indices")
    return _family(build, [(index, name(index, True)) for index in indices], hosting=True)


def compared_family(build: Build, envs: Sequence[Env]) -> Chosen | None:
    """A family applied to terms that are known by now."""
    build.draw.use("family that is compared")
    sized = [build.axis(build.scope(), envs).term for _ in range(build.draw.integer(1, 2))]
    if not all(term.dim for term in sized):
        build.draw.use("Int for a Dim of a family")
    return _family(build, [("", term) for term in sized], hosting=False)


def _family(build: Build, arguments: Sequence[tuple[str, Term]], hosting: bool) -> Chosen | None:
    draw = build.draw
    matches = _matches(build)
    taken = {match.param for match in matches}
    pool = draw.shuffled([one for one in (*build.model.indices, *build.known, "p", "q", "r", "e") if one not in taken])
    params = {param: argument for param, (_, argument) in zip(dict.fromkeys(pool), arguments, strict=False)}
    if len(params) < len(arguments):
        return None
    hosts = dict(zip(params, (index for index, _ in arguments), strict=True)) if hosting else {}
    declared = {match.param: match.kind for match in matches} | dict.fromkeys(params, "Dim")
    cases: dict[Any, str] = {}
    tests: list[tuple[list[Callable[[Any], bool]], list[Axis]]] = []
    listed = draw.chance(50)
    combinations = list(itertools.product(*(match.keys for match in matches)))
    if listed and draw.chance(50):
        draw.use("family case that matches anything")
        # One parameter alone chooses: wholly, or where it has one of its values.
        first = matches[0].keys[0]
        if len(matches) > 1 and draw.chance(70):
            combinations = [(first, _ANYTHING), *(keys for keys in combinations if keys[0] is not first)]
        else:
            combinations = [(*keys, *[_ANYTHING] * (len(matches) - 1)) for keys in itertools.product(matches[0].keys)]
            combinations = combinations if len(matches) > 1 else [(_ANYTHING,)]
    for keys in combinations:
        axes = _case(build, matches, [key for key, _ in keys], params, hosts)
        text = build.text(axes)
        if not hosting and draw.chance(12):
            text, axes = _nested(build, next(iter(params)))
        cases[_key([key for key, _ in keys])] = text
        tests.append(([test for _, test in keys], axes))
    family = build.name("Family", plain=False)
    order = draw.shuffled(list(declared))
    names = [match.param for match in matches]
    if listed:
        draw.use("family by a list of cases")
    written = [{"when": _when(keys), "is": cases[_key([key for key, _ in keys])]} for keys in combinations]
    build.families[family] = {
        "params": {param: declared[param] for param in order},
        "match": names[0] if len(names) == 1 and draw.chance(50) else names,
        "cases": draw.shuffled(written) if listed else cases,
    }
    given = {match.param: match.argument for match in matches} | params
    text = f"{family}[{', '.join(given[param].text for param in order)}]"

    def axes_of(env: Env) -> tuple[Axis, ...]:
        values = [match.argument.of(env) for match in matches]
        for found, axes in tests:
            if all(test(value) for test, value in zip(found, values, strict=True)):
                return tuple(dataclasses.replace(axis, term=_applied(axis.term, given)) for axis in axes)
        raise AssertionError("the cases of a family are all there")

    return text, axes_of


def _applied(term: Term, given: Mapping[str, Term]) -> Term:
    """A case's axis over the family's arguments."""

    def value(env: Env) -> Any:
        return term.of(Env({read: given[read].of(env) for read in term.reads}, {}))

    return dataclasses.replace(term, of=value)


def _key(keys: Sequence[str]) -> Any:
    if len(keys) == 1:
        return {"True": True, "False": False}.get(keys[0], keys[0])
    return f"({', '.join(keys)})"


def _when(keys: Sequence[Key]) -> Any:
    """The keys of a case as its `when` has them."""
    found = [_component(key) for key, _ in keys]
    return found if len(found) > 1 else found[0]


def _component(key: str) -> Any:
    """`True`, `'word'`, `Padded` and `Padded(zeroed=True)` as components of `when`."""
    if key == "_" or key in ("True", "False"):
        return {"True": True, "False": False}.get(key, key)
    if key.startswith("'"):
        return ast.literal_eval(key)
    constructor, _, field = key.rstrip(")").partition("(")
    name_, _, value = field.partition("=")
    return {constructor: {name_: ast.literal_eval(value)} if field else "_"}


def _case(
    build: Build, matches: Sequence[Match], keys: Sequence[str], params: Mapping[str, Term], hosts: Mapping[str, str]
) -> list[Axis]:
    """Axes of one case over the family's parameters, none of which can be negative."""
    draw, write = build.draw, build.write
    names = [name(param, True) for param in params]
    axes = []
    for param, index in hosts.items():
        factor, offset = draw.choice(((1, 0), (1, 0), (1, 2), (2, 0), (3, 1)))
        term = name(param, True)
        if factor > 1:
            term = write.arithmetic("*", *draw.shuffled([term, literal(factor)]))
        if offset:
            term = write.arithmetic("+", *draw.shuffled([term, literal(offset)]))
        axes.append(Axis(term, solves=(index, factor, literal(offset))))
    for _ in range(draw.integer(0 if hosts else 1, 2)):
        one = draw.choice(names)
        form = draw.choice(("name", "literal", "times", "plus", "ceil_div", "comprehension"))
        if form == "literal":
            axes.append(Axis(literal(draw.integer(0, 3))))
        elif form == "ceil_div":
            axes.append(Axis(write.call("ceil_div", primitives.ceil_div, one, literal(draw.integer(1, 3)), dim=True)))
        elif form == "comprehension":
            # Its variable may be called as an index that stands in the argument: it is another.
            own = {*params, *(match.param for match in matches)}
            variable = draw.choice([one for one in (*build.model.indices, *build.known, "i") if one not in own])
            element = write.arithmetic("+", one, name(variable, True))
            run = write.call("range", primitives.indices_below, literal(2), dim=True)
            draw.use("family case with a comprehension")
            axes.append(Axis(write.comprehension("sum", sum, element, variable, run, None)))
        elif form == "name":
            axes.append(Axis(one))
        else:
            axes.append(Axis(write.arithmetic("*" if form == "times" else "+", one, literal(draw.integer(1, 2)))))
    for match, key in zip(matches, keys, strict=True):
        constructor = key.partition("(")[0]
        fields = match.constructors.get(constructor, {})
        numbers = [field for field, sort in fields.items() if isinstance(sort, sorts.Integer)]
        if numbers and draw.chance(60):
            draw.use("family case that reads a field")
            field = draw.choice(numbers)
            read = frozenset({match.param})
            axes.append(
                Axis(Term(f"{match.param}.{field}", ATOM, lambda env, p=match.param, f=field: getattr(env[p], f), read))
            )
        elif match.kind == "Layout" and draw.chance(40):
            build.draw.use("moe.capacity in a family case")
            arguments = name(match.param), names[0], literal(2)
            axes.append(Axis(write.call("moe.capacity", primitives.capacity, *arguments, dim=True)))
    return draw.shuffled(axes)


def _nested(build: Build, param: str) -> tuple[str, list[Axis]]:
    """A case that applies another family, its Bool given as a literal."""
    build.draw.use("family case that applies a family")
    family = build.name("Inner", plain=False)
    chosen = build.draw.chance(50)
    build.families[family] = {
        "params": {"n": "Dim", "swapped": "Bool"},
        "match": ["swapped"],
        "cases": {False: "[n, 2]", True: "[2, n + 1]"},
    }
    one = name(param, True)
    wide = build.write.arithmetic("+", one, literal(1))
    return f"{family}[{param}, {chosen}]", [Axis(literal(2)), Axis(wide)] if chosen else [Axis(one), Axis(literal(2))]
