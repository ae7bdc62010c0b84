"""The table of the fields of spec files, which the parser and the JSON Schema share."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from tileops.manifest.language.dtypes import BITS
from tileops.manifest.language.names import NAME, RESERVED_NAMES

OP_NAME = re.compile(r"[A-Z][A-Za-z0-9]*(Fwd|Bwd)?Op")
# Rows write indices and parameters, and `__init__` takes parameters.
_RESERVED_INDICES = RESERVED_NAMES | dict.fromkeys(("label", "some", "dtype_cases"), "a field of a workload row")
_RESERVED_PARAMS = _RESERVED_INDICES | {"target": "the argument of __init__ that names an implementation"}
_RESERVED_FIELDS = RESERVED_NAMES | dict.fromkeys(
    ("kind", "value", "shape"), "what expressions read otherwise after a dot"
)
_RESERVED_TYPES = RESERVED_NAMES | dict.fromkeys(
    "int bool float str Number list tuple dict Dim Shape DType Seq Bool Int".split(), "a type or kind of the language"
)
FAMILY = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
QUALIFIED_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
DOTTED_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", re.ASCII)
LABEL = re.compile(r"[A-Za-z0-9._-]{1,80}")
STATUSES = ("implemented", "spec-only")
COMPOSITE = "composite"
BUFFER = "out"
DEVICE = "cpu"


class Holds:
    """Base of what a field can hold."""


@dataclasses.dataclass(frozen=True)
class Text(Holds):
    """Non-empty text, which matches the pattern or is one of the choices, if there are any. It may be null if so said."""

    pattern: re.Pattern[str] | None = None
    choices: tuple[str, ...] = ()
    nullable: bool = False


@dataclasses.dataclass(frozen=True)
class Flag(Holds):
    """True or false."""


@dataclasses.dataclass(frozen=True)
class Formula(Holds):
    """An expression. If `flag` is set, true or false is allowed too."""

    flag: bool = False


@dataclasses.dataclass(frozen=True)
class ShapeText(Holds):
    """`[axis, ...]`, or one application of a type family."""


@dataclasses.dataclass(frozen=True)
class GeneratorCall(Holds):
    """A call of a generator."""


@dataclasses.dataclass(frozen=True)
class PredicateCall(Holds):
    """A call of a predicate, its tensor left out."""


@dataclasses.dataclass(frozen=True)
class IndexKind(Holds):
    """A kind of `forall`."""


@dataclasses.dataclass(frozen=True)
class ParameterType(Holds):
    """A type of a construction parameter."""


@dataclasses.dataclass(frozen=True)
class FamilyKind(Holds):
    """A kind of a type family's parameter."""


@dataclasses.dataclass(frozen=True)
class FieldKind(Holds):
    """A kind of a constructor's field under `adts`: Dim, Int, Bool or words; or words with their enum class."""


@dataclasses.dataclass(frozen=True)
class Value(Holds):
    """A plain value, a list of such, or an algebraic literal `{constructor: {field: value}}`."""


@dataclasses.dataclass(frozen=True)
class CasePattern(Holds):
    """What selects a case of a type family: a component for each parameter in `match`."""


@dataclasses.dataclass(frozen=True)
class Either(Holds):
    """What any of several forms holds."""

    of: tuple[Holds, ...]


@dataclasses.dataclass(frozen=True)
class Items(Holds):
    """A sequence of at least so many items."""

    of: Holds
    least: int = 0


@dataclasses.dataclass(frozen=True)
class Members(Holds):
    """A mapping of at least so many names. All values have the same form.

    Attributes:
      names: what a name is; None: any key.
      reserved: the names that have a meaning of their own there, and that meaning.
      special: of reserved names that are allowed, the form of each value.
    """

    of: Holds
    least: int = 0
    names: re.Pattern[str] | None = NAME
    reserved: Mapping[str, str] = dataclasses.field(default_factory=lambda: RESERVED_NAMES)
    special: Mapping[str, Holds] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Form(Holds):
    """A mapping of these fields. If it is `open`, it may have other fields, which hold a Value."""

    name: str
    summary: str
    fields: Mapping[str, Field]
    open: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Returns the names of the fields, in the order in which an entry writes them."""
        return tuple(self.fields)

    @property
    def required(self) -> tuple[str, ...]:
        """Returns the names of the required fields."""
        return tuple(name for name, field in self.fields.items() if field.required)

    def reserved(self, field: str) -> Mapping[str, str]:
        """Returns the reserved names of a field that holds members, each with its meaning there."""
        holds = self.fields[field].holds
        assert isinstance(holds, Members), f"{field} holds no members"
        return holds.reserved


@dataclasses.dataclass(frozen=True)
class Field:
    """One field: what it holds, one line on its meaning, and whether it is required."""

    holds: Holds
    summary: str
    required: bool = False


_DTYPES = Members(Text(choices=tuple(BITS), nullable=True))
_ROW_DTYPES = Members(Text(NAME, choices=tuple(BITS)))
_DTYPE = Formula()

PARAM = Form(
    "param",
    "A construction parameter.",
    {
        "type": Field(
            ParameterType(),
            "What the parameter takes: Python types, dtype names, string literals, joined with |. A construction-time"
            " tensor may leave it out.",
        ),
        "default": Field(
            Value(), "The value of a parameter that the caller leaves out; without it the caller must pass one."
        ),
        "kw_only": Field(Flag(), "The parameter is passed by its name only."),
        "dtype": Field(_DTYPE, "Of a construction-time tensor: its dtype."),
        "shape": Field(ShapeText(), "Of a construction-time tensor: its shape."),
        "optional": Field(
            Formula(flag=True),
            "Of a construction-time tensor without `type`. true: it may be None. A condition: it is there exactly when"
            " that holds.",
        ),
        "values": Field(GeneratorCall(), "Of a construction-time tensor: what fills it in a workload row."),
        "requires": Field(Items(PredicateCall()), "Of a construction-time tensor: what its contents must satisfy."),
        "contiguous": Field(Flag(), "Of a construction-time tensor: it must be contiguous."),
        "device": Field(Text(choices=(DEVICE,)), "Of a construction-time tensor: it lives on the CPU."),
    },
)

# The fields of a parameter that only a construction-time tensor has.
TENSOR_FIELDS = ("dtype", "shape", "optional", "values", "requires", "contiguous", "device")

INPUT = Form(
    "input",
    "An input: one argument of a call.",
    {
        "dtype": Field(
            _DTYPE, "A dtype index, a dtype parameter, a dtype's name, or a primitive that gives a dtype.", True
        ),
        "shape": Field(ShapeText(), "The axes that PyTorch sees, or one application of a type family.", True),
        "optional": Field(
            Formula(flag=True), "true: the caller may leave it out. A condition: it is there exactly when that holds."
        ),
        "mutated": Field(Formula(flag=True), "It is read and written: always (true), or where a condition holds."),
        "write_only": Field(Flag(), "Beside `mutated`: its old contents are not read."),
        "values": Field(GeneratorCall(), "What fills a metadata tensor when a workload row is built."),
        "requires": Field(Items(PredicateCall()), "What the contents of a metadata tensor must satisfy."),
        "contiguous": Field(Flag(), "It must be contiguous."),
        "device": Field(Text(choices=(DEVICE,)), "It lives on the CPU, wherever the call's other tensors are."),
        "kw_only": Field(Flag(), "It is passed by its name only. It is optional and follows the positional inputs."),
    },
)

# The input `out`: a buffer that every call passes for the output with `alias: out`.
OUT = Form("out", "A buffer that every call passes as `out`, for the output with `alias: out`.", dict(INPUT.fields))

OUTPUT = Form(
    "output",
    "An output of every call.",
    {
        "dtype": INPUT.fields["dtype"],
        "shape": INPUT.fields["shape"],
        "nullable": Field(Formula(), "The output is there exactly when this condition holds, and None elsewhere."),
        "buffer": Field(Text(choices=(BUFFER,)), "The caller may pass the storage of the result as `out`."),
        "alias": Field(Text(), "The input that this output is, on the branch where that input is written."),
        "contiguous": INPUT.fields["contiguous"],
    },
)

FAMILY_CASE = Form(
    "family_case",
    "One case of a type family.",
    {
        "when": Field(
            CasePattern(),
            "A component for each parameter in `match`, in brackets if there are several: a literal, _ for any value,"
            " {constructor: _} or {constructor: {field: literal}}.",
            True,
        ),
        "is": Field(ShapeText(), "The shape there.", True),
    },
)

TYPE_FAMILY = Form(
    "type_family",
    "A shape that finite facts choose.",
    {
        "params": Field(Members(FamilyKind()), "The family's parameters and their kinds.", True),
        "match": Field(
            Either((Text(), Items(Text(), least=1))), "The parameters that choose the case, or the one that does.", True
        ),
        "cases": Field(
            Either((Members(ShapeText(), least=1, names=None), Items(FAMILY_CASE, least=1))),
            "A literal for each parameter in `match`, and the shape there; or a list of {when, is}.",
            True,
        ),
    },
)

SIGNATURE = Form(
    "signature",
    "What a call takes and gives.",
    {
        "forall": Field(
            Members(IndexKind(), reserved=_RESERVED_INDICES),
            "Indices that a call's tensors determine: Dim, Shape, DType[a | b], Seq[Int].",
        ),
        "params": Field(
            Members(PARAM, reserved=_RESERVED_PARAMS), "Construction parameters, in the order of `__init__`."
        ),
        "inputs": Field(Members(INPUT, special={BUFFER: OUT}), "Tensors that a call takes, in the order of `forward`."),
        "outputs": Field(
            Members(OUTPUT), "Tensors that a call gives, in order. An op that only writes inputs has none."
        ),
        "types": Field(Members(TYPE_FAMILY), "Type families: shapes that finite facts choose."),
        "let": Field(Members(Formula()), "Names for derived values."),
        "shape_rules": Field(Items(Formula()), "Conditions that every call fulfils, beyond its shapes and dtypes."),
        "dtype_combos": Field(
            Items(_DTYPES, least=1),
            "The combinations of dtype indices and dtype parameters that are accepted; left out: every one.",
        ),
    },
)

ROW = Form(
    "row",
    "One call, or one call for each dtype case. Beside these fields it writes parameters and indices.",
    {
        "label": Field(Text(LABEL), "Names the row; with the dtypes it is the case id.", True),
        "some": Field(Items(Text()), "The optional tensors that the call passes."),
        "dtype_cases": Field(
            Items(_ROW_DTYPES),
            "One assignment of the dtype indices for each case: a dtype, or the index whose dtype is taken.",
        ),
    },
    open=True,
)

ROOFLINE = Form(
    "roofline",
    "What a call costs: flops (and bytes), or func.",
    {
        "flops": Field(Formula(), "Arithmetic of a call, as an expression."),
        "bytes": Field(Formula(), "Traffic of a call, as an expression; left out, it follows from the signature."),
        "func": Field(Text(DOTTED_PATH), "Path of a function of the checked call that gives (flops, bytes)."),
    },
)

STAGE = Form(
    "stage",
    "One stage of a composite: run by an op or by a kernel.",
    {
        "name": Field(Text(NAME), "Names the stage.", True),
        "op": Field(Text(), "The op that runs it."),
        "kernel": Field(Text(), "The kernel that runs it."),
        "optional": Field(Flag(), "A call may leave the stage out."),
    },
)

COMPOSITION = Form(
    "composition",
    "The stages that an op runs as ops or kernels of their own.",
    {
        "kind": Field(Text(choices=(COMPOSITE,)), "Always composite.", True),
        "stages": Field(Items(STAGE, least=1), "The stages, in order.", True),
    },
)

ENTRY = Form(
    "entry",
    "One op.",
    {
        "family": Field(Text(FAMILY), "The module of the op, and the file's name up to a shard.", True),
        "status": Field(
            Text(choices=STATUSES), "implemented: a class stands behind it. spec-only: none does yet.", True
        ),
        "ref_api": Field(Text(QUALIFIED_NAME), "The API whose semantics the op follows."),
        "signature": Field(SIGNATURE, SIGNATURE.summary, True),
        "workloads": Field(Items(ROW, least=1), "Rows, each a call that is tested and timed.", True),
        "roofline": Field(ROOFLINE, ROOFLINE.summary),
        "composition": Field(COMPOSITION, COMPOSITION.summary),
    },
)

CONSTRUCTOR = Form(
    "constructor",
    "One constructor of an algebraic type.",
    {
        "class": Field(Text(DOTTED_PATH), "Path of the Python class, whose name is the constructor's.", True),
        "fields": Field(Members(ParameterType(), reserved=_RESERVED_FIELDS), "Its fields and their types."),
        "invariant": Field(Formula(), "A condition on its fields that every value fulfils."),
    },
)

ALGEBRAIC_TYPE = Form(
    "algebraic_type",
    "A sealed sum of constructors.",
    {"constructors": Field(Members(CONSTRUCTOR, least=1), "The constructors, by the name of their class.", True)},
)

ADTS = "adts"  # the one field of types.yaml in the other form
ALGEBRAIC_TYPES = Members(
    ALGEBRAIC_TYPE, reserved=_RESERVED_TYPES | {ADTS: "the field that holds algebraic types in their other form"}
)

ENUM_FIELD = Form(
    "enum_field",
    "A field whose words an object holds as members of an enum class.",
    {
        "type": Field(Text(), "The words, in quotes, joined with |.", True),
        "python": Field(Text(DOTTED_PATH), "Path of the enum class; the value of each member is its word.", True),
    },
)

SUM_CONSTRUCTOR = Form(
    "sum_constructor",
    "One constructor of a sum.",
    {
        "python": Field(
            Text(DOTTED_PATH), "Path of the class, whose objects name the constructor by their attribute `kind`.", True
        ),
        "fields": Field(Members(FieldKind(), reserved=_RESERVED_FIELDS), "Its fields and their kinds."),
        "invariant": CONSTRUCTOR.fields["invariant"],
    },
)

SUM = Form(
    "sum",
    "An algebraic type under `adts`.",
    {"sum": Field(Members(SUM_CONSTRUCTOR, least=1), "The constructors by name.", True)},
)

SUMS = Form(
    "sums",
    "types.yaml in its other form.",
    {ADTS: Field(Members(SUM, reserved=_RESERVED_TYPES), "Algebraic types by name.", True)},
)
