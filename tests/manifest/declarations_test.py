"""Declarations: every member is implemented, described and refuses what does not fit; kinds of results."""

from __future__ import annotations

import pytest

from tileops.manifest.language import declarations, generators, kinds, predicates
from tileops.manifest.language.kinds import (
    BOOL,
    DIM,
    INT,
    NONE,
    REAL,
    SHAPE,
    Adt,
    Constructor,
    DType,
    Enum,
    Maybe,
    Seq,
    Union,
)

_TABLES = {
    "generators": (declarations.GENERATORS, generators.REGISTRY),
    "predicates": (declarations.PREDICATES, predicates.PREDICATE_FUNCTIONS),
}


@pytest.mark.parametrize(("declared", "functions"), _TABLES.values(), ids=_TABLES.keys())
def test_every_declared_name_has_a_function_and_every_function_is_declared(declared, functions):
    assert list(declared) == list(functions)


@pytest.mark.parametrize(
    "name", [*declarations.PRIMITIVES, *(name for declared, _ in _TABLES.values() for name in declared)]
)
def test_every_member_says_in_one_sentence_what_it_gives(name):
    text = declarations.summary(name)
    assert text.endswith(".") and "\n" not in text and len(text) <= 120


@pytest.mark.parametrize(
    "name", ["len", "abs", "all", "prod", "sum", "valid_axes", "unique_axes", "category", "coalesce_dtype"]
)
def test_a_total_primitive_declares_no_domain(name):
    assert declarations.domain(name) == ""


@pytest.mark.parametrize(
    "name", ["ceil_div", "per_axis", "conv.out", "moe.capacity", "range", "repeat", "topk_ids", "mhc.expansion"]
)
def test_a_partial_member_declares_its_domain(name):
    assert declarations.domain(name).endswith(".")


def test_the_forms_of_a_generator_differ_in_their_number_of_arguments():
    for generator in declarations.GENERATORS.values():
        counts = [len(form.args) for form in generator.forms]
        assert len(set(counts)) == len(counts) > 0
        assert [generator.form(count) for count in counts] == list(generator.forms)
        assert generator.form(max(counts) + 1) is None


def test_a_dotted_name_is_a_function_with_an_underscore():
    functions = {name: one.function for name, one in declarations.PRIMITIVES.items()}
    for name, function in {**functions, **predicates.PREDICATE_FUNCTIONS}.items():
        assert function.__name__ == name.replace(".", "_")


_HALVES, _INTS = DType(("float16", "bfloat16")), DType(("int8", "uint8"))
_LAYOUT = Adt(
    "Layout",
    (Constructor("Nopad", "a.NoPad", ()), Constructor("Padded", "a.Padded", (("block", DIM), ("name", kinds.TEXT)))),
)

_PUBLISHED = Adt(
    "Buffer",
    (
        Constructor(
            "contiguous",
            "a.Contiguous",
            (("packing", Enum(("tight",))), ("metadata_kind", Enum(("per_row", "physical_psum"))), ("alignment", DIM)),
        ),
        Constructor("masked", "a.Masked", (("max_m", DIM),)),
    ),
)


@pytest.mark.parametrize(
    ("name", "args", "wanted"),
    [
        ("broadcast", [SHAPE, Seq(INT)], SHAPE),
        ("ceil_div", [DIM, INT], DIM),
        ("ceil_div", [INT, DIM], INT),
        ("sum", [SHAPE], DIM),
        ("prod", [Seq(INT)], INT),
        ("max", [SHAPE, DIM], DIM),
        ("max", [SHAPE, INT], INT),
        ("per_axis", [INT, INT, DIM], INT),
        ("per_axis", [Union((DIM, SHAPE)), INT, DIM], DIM),
        ("per_axis", [Maybe(DIM), INT, DIM, SHAPE], DIM),
        ("per_axis", [Maybe(DIM), INT, DIM, INT], INT),
        ("per_axis", [NONE, DIM, DIM, DIM], DIM),
        ("per_axis", [Maybe(INT), INT, INT], INT),
        ("per_axis", [Seq(Maybe(DIM)), INT, INT, DIM], DIM),
        ("per_axis", [Maybe(Union((INT, Seq(Maybe(INT))))), INT, INT], INT),
        ("conv.out", [INT] * 5, DIM),
        ("mhc.expansion", [INT], DIM),
        ("pool.out", [INT] * 5 + [BOOL], DIM),
        ("moe.capacity", [_LAYOUT, DIM, INT], DIM),
        ("moe.capacity", [_PUBLISHED, DIM, INT], DIM),
        ("category", [_HALVES], Enum(("float",))),
        ("category", [DType(("bool", "int8", "int16"))], Enum(("bool", "int"))),
        ("category", [INT], Enum(("int",))),
        ("category", [BOOL], Enum(("bool",))),
        ("category", [REAL], Enum(("int", "float"))),
        ("category", [kinds.NUMBER], Enum(("bool", "int", "float"))),
        ("category", [Union((INT, BOOL))], Enum(("int", "bool"))),
        ("representable", [kinds.NUMBER, _HALVES], BOOL),
        ("representable", [REAL, _HALVES], BOOL),
        ("representable", [Union((INT, BOOL)), _HALVES], BOOL),
        ("is_int", [REAL], BOOL),
        ("promote_int_to_float", [DType(("int8", "uint8", "float16"))], DType(("float32", "float16"))),
        ("coalesce_dtype", [Maybe(_INTS), _HALVES], DType(("int8", "uint8", "float16", "bfloat16"))),
        ("promote_types", [_HALVES, _HALVES], DType(("float16", "float32", "bfloat16"))),
        ("promote_types", [_INTS, _INTS], DType(("int8", "int16", "uint8"))),
        ("promote_types", [_HALVES, DType(("float8_e5m2", "int8"))], _HALVES),
        ("balanced_sizes", [INT, INT], Seq(DIM)),
        ("repeat", [DIM, INT], Seq(DIM)),
        ("repeat", [INT, DIM], Seq(INT)),
        ("range", [INT], Seq(DIM)),
    ],
)
def test_the_kind_of_a_result(name, args, wanted):
    assert declarations.check_call(name, args) == wanted


_OTHER = Adt("Other", (Constructor("ragged", "a.Ragged", ()),))
_OTHER_WORD = Adt(
    "Buffer",
    (
        Constructor(
            "contiguous",
            "a.C",
            (("packing", Enum(("loose",))), ("metadata_kind", Enum(("per_row",))), ("alignment", DIM)),
        ),
    ),
)
_NO_BLOCK = Adt("Layout", (Constructor("Padded", "a.Padded", ()),))
_TEXT_BLOCK = Adt("Layout", (Constructor("Padded", "a.Padded", (("block", kinds.TEXT),)),))


@pytest.mark.parametrize(
    ("name", "args", "words"),
    [
        ("ceil_div", [DIM], "takes 2 arguments, not 1"),
        ("max", [], "takes 1 to 2 arguments, not 0"),
        ("broadcast", [], "takes 1 or more arguments"),
        ("per_axis", [BOOL, INT, INT], "argument 1 of per_axis is Bool"),
        ("conv.out", [DIM] * 4 + [REAL], "argument 5 of conv.out is Float"),
        ("promote_types", [DType(("float8_e5m2",)), _HALVES], "promotes with"),
        ("moe.capacity", [_OTHER, DIM, DIM], "Padded{block: Int}"),
        ("moe.capacity", [_NO_BLOCK, DIM, DIM], "Padded{block: Int}"),
        ("moe.capacity", [_TEXT_BLOCK, DIM, DIM], "Padded{block: Int}"),
        ("moe.capacity", [_OTHER_WORD, DIM, DIM], "packing: 'tight' | 'aligned'"),
        ("moe.capacity", [DIM, DIM, DIM], "an algebraic type"),
        ("category", [kinds.TEXT], "argument 1"),
        ("mhc.expansion", [REAL], "argument 1"),
        ("per_axis", [INT, INT, INT, Maybe(INT)], "argument 4"),
        ("representable", [kinds.TEXT, _HALVES], "argument 1"),
        ("is_int", [kinds.TEXT], "argument 1"),
    ],
)
def test_a_call_that_does_not_fit_is_refused_in_words(name, args, words):
    found = declarations.check_call(name, args)
    assert isinstance(found, str) and words in found
