"""Checks the kinds in an expression, narrowed by the guards around each part, and reports every defect."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

from tileops.manifest.language import comparisons, declarations, dtypes, effort, expr, kinds
from tileops.manifest.language.evaluate import evaluate
from tileops.manifest.language.invariants import expect
from tileops.manifest.language.kinds import BOOL, DIM, INT, NONE, REAL, Adt, DType, Enum, Int, Kind, Maybe, Real, Seq
from tileops.manifest.language.names import may_be_variable
from tileops.manifest.language.narrowing import NOTHING, Facts, learn
from tileops.manifest.language.sum_terms import is_range_sum, range_of
from tileops.manifest.language.text import shown

# The sorts of defects of an expression. The roofline analysis has codes of its own for them.
FORM, NAME, KIND, PRESENCE, DTYPE = "form", "name", "kind", "presence", "dtype"
CODES = {FORM: "M020", NAME: "M021", KIND: "M022", PRESENCE: "M025", DTYPE: "M024"}  # outside the roofline block


@dataclasses.dataclass(frozen=True)
class Scope:
    """What an expression may read.

    Attributes:
      names: kind of each index, parameter and `let`.
      tensors: tensor name -> whether it may be absent.
      roofline: whether `bytes(t)` is allowed.
      dtypes: whether dtype names are values, as in a dtype term.
      lists: names of value lists, which may not be read here.
      buffered: `present(out)` asks whether the caller passed the storage of a result.
      broken: names whose declarations could not be read; what needs one is not reached, and not reported again.
    """

    names: Mapping[str, Kind]
    tensors: Mapping[str, bool]
    roofline: bool = False
    dtypes: bool = False
    broken: frozenset[str] = frozenset()
    lists: frozenset[str] = frozenset()
    buffered: bool = False

    def functions(self) -> list[str]:
        """Returns the functions that an expression may call here."""
        return sorted([*declarations.PRIMITIVES, "present", *(["bytes"] if self.roofline else [])])


Report = Callable[[str, str], None]


def check(node: expr.Expr, scope: Scope, report: Report, facts: Facts = NOTHING) -> Kind | None:
    """Returns the kind of the expression, or None if a defect was reported as (FORM, NAME, KIND, ..., message).

    Args:
      node: the expression.
      scope: what it may read.
      report: takes each defect.
      facts: what is known at its place.
    """
    return _Checker(scope, report).kind(node, facts)


class _Checker:
    """Checks one expression. `facts` hold what the guards around a part establish."""

    def __init__(self, scope: Scope, report: Report) -> None:
        self._scope = scope
        self._report = report
        self._variables: dict[str, Kind] = {}
        self._of_any_length: set[int] = set()
        self._unclear_guards = 0

    def kind(self, node: expr.Expr, facts: Facts) -> Kind | None:
        effort.spend()
        return getattr(self, f"_{type(node).__name__}")(node, facts)

    def _fail(self, what: str, message: str) -> Kind | None:
        """Reports a defect. Returns None: the kind is not known."""
        if what != PRESENCE or not self._unclear_guards:  # it is not known what a defective guard establishes
            self._report(what, message)
        return None

    def _Literal(self, node: expr.Literal, facts: Facts) -> Kind:
        value = node.value
        if value is None:
            return NONE
        if isinstance(value, bool):
            return BOOL
        if isinstance(value, int):
            return DIM if value >= 0 else INT
        return REAL if isinstance(value, float) else Enum((value,))

    def _Name(self, node: expr.Name, facts: Facts) -> Kind | None:
        name = node.id
        if name in self._variables:
            return self._variables[name]
        if name in self._scope.names:
            kind = self._scope.names[name]
            kind = kind.item if isinstance(kind, Maybe) and name in facts.shown else kind
            if self._unclear_guards and _has_words(kind):
                return None  # a guard that was reported may have been meant to exclude the words
            return _narrowed(name, kind, facts)
        if self._scope.dtypes and name in kinds.ALL_DTYPES.values:
            return DType((name,))
        if name in self._scope.broken:
            return None
        if name in self._scope.tensors:
            inside = "present(...) and bytes(...)" if self._scope.roofline else "present(...)"
            return self._fail(NAME, f"{name!r} is a tensor; a tensor may be read only inside {inside}")
        return self._unknown(name)

    def _unknown(self, name: str) -> Kind | None:
        """Reports an unknown name, with the name that was probably meant."""
        meant = dtypes.nearest(name) if self._scope.dtypes else ""
        if meant:
            return self._fail(DTYPE, f"{shown(name)} is no dtype; did you mean {meant}?")
        if name in self._scope.lists:
            return self._fail(NAME, f"{name!r} is a Seq[Int], which only rows have; only generators may read it")
        if name in dtypes.BITS:
            where = "which may be written without quotes only in the `dtype` of a tensor"
            return self._fail(NAME, f"{name!r} is a dtype, {where}; compare with {name!r} in quotes")
        hint = f"; did you mean {name.capitalize()}?" if name in ("true", "false") else ""
        known = ", ".join([*self._scope.names, *(["the dtypes"] if self._scope.dtypes else [])]) or "none"
        functions = ", ".join(self._scope.functions())
        return self._fail(NAME, f"unknown name {shown(name)}{hint}; allowed are {known} and the functions {functions}")

    def _Value(self, node: expr.Value, facts: Facts) -> Kind | None:
        kind = self._Name(expr.Name(node.name), NOTHING)
        if kind is None:
            return None
        if not isinstance(kind, Maybe):
            return self._fail(
                KIND, f"{node.name}.value: {node.name!r} is {kind}, which is never None; leave out .value"
            )
        if node.name not in facts.shown:
            return self._fail(
                PRESENCE, f"{node.name}.value is read without a guard; write `... if present({node.name}) else ...`"
            )
        return _narrowed(node.name, kind.item, facts)

    def _Field(self, node: expr.Field, facts: Facts) -> Kind | None:
        if self._scope.dtypes and node.name == "torch" and "torch" not in self._scope.names:
            return self._fail(
                DTYPE, f"torch.{node.field} is no dtype; did you mean {dtypes.nearest(node.field) or 'float32'}?"
            )
        whole = expr.Value(node.name) if node.unwrapped else expr.Name(node.name)
        kind = self.kind(whole, facts)
        if kind is None:
            return None
        if not isinstance(kind, Adt):
            return self._fail(KIND, f"{node.name}.{node.field}: {node.name!r} is {kind}, which has no fields")
        if node.field == "kind":
            return Enum(tuple(constructor.name for constructor in kind.constructors))
        found = [dict(one.fields)[node.field] for one in kind.constructors if node.field in dict(one.fields)]
        if len(found) < len(kind.constructors) or not found:
            constructors = expect(self._scope.names[node.name].given, Adt).constructors
            having = [one.name for one in constructors if node.field in dict(one.fields)]
            if not having:
                self._fail(NAME, f"{node.name}.{node.field}: no constructor of {kind} has the field {node.field!r}")
            else:
                self._fail(
                    PRESENCE,
                    f"{node.name}.{node.field} is read without a guard that {node.name}.kind is {' or '.join(having)}",
                )
            return None
        return functools.reduce(declarations.join, found)

    def _Unary(self, node: expr.Unary, facts: Facts) -> Kind | None:
        operand = self.kind(node.operand, facts)
        if operand is None:
            return None
        if node.op == "not":
            return self._wanted(operand, BOOL, "not")
        if isinstance(operand, Real):
            return REAL
        if not declarations.is_integer(operand):
            return self._fail(KIND, f"{node.op} takes an integer, not {operand}")
        return operand if node.op == "+" else INT

    def _Binary(self, node: expr.Binary, facts: Facts) -> Kind | None:
        left, right = self.kind(node.left, facts), self.kind(node.right, facts)
        if left is None or right is None:
            return None
        for side in (left, right):
            if isinstance(side, Real) and self._scope.roofline:
                continue
            if not declarations.is_integer(side):
                return self._fail(KIND, f"{node.op} takes integers, not {side}")
        if isinstance(left, Real) or isinstance(right, Real):
            return REAL
        if node.op in ("//", "%") and node.right == expr.Literal(0):
            return self._fail(KIND, f"{node.op} 0 is no number")
        if node.op in ("//", "%"):
            positive = isinstance(node.right, expr.Literal) and node.right.value > 0
            return DIM if isinstance(left, kinds.Dim) and (positive or isinstance(right, kinds.Dim)) else INT
        both = isinstance(left, kinds.Dim) and isinstance(right, kinds.Dim)
        return DIM if both and node.op in ("+", "*") else INT

    def _kinds(self, nodes: Sequence[expr.Expr], facts: Facts) -> list[Kind] | None:
        """Returns the kinds of all nodes, or None if a defect of some node was reported."""
        found = [self.kind(node, facts) for node in nodes]
        clear = [kind for kind in found if kind is not None]
        return clear if len(clear) == len(found) else None

    def _Compare(self, node: expr.Compare, facts: Facts) -> Kind | None:
        found = self._kinds(node.operands, facts)
        if found is None:
            return None
        said = comparisons.problem(node, found, lambda part: self.kind(part, facts))
        if said:
            return self._fail(KIND, said)
        return BOOL

    def _Logic(self, node: expr.Logic, facts: Facts) -> Kind | None:
        unclear = 0
        for operand in node.operands:
            kind = self.kind(operand, facts)
            sound = kind is not None and self._wanted(kind, BOOL, node.op) is not None
            unclear += not sound
            self._unclear_guards += not sound
            facts = facts.also(learn(operand, node.op == "and"))
        self._unclear_guards -= unclear
        return None if unclear else BOOL

    def _Conditional(self, node: expr.Conditional, facts: Facts) -> Kind | None:
        test = self.kind(node.test, facts)
        self._unclear_guards += test is None
        then = self.kind(node.then, facts.also(learn(node.test, True)))
        otherwise = self.kind(node.otherwise, facts.also(learn(node.test, False)))
        self._unclear_guards -= test is None
        if test is None or then is None or otherwise is None or self._wanted(test, BOOL, "if") is None:
            return None
        return declarations.join(then, otherwise)

    def _Subscript(self, node: expr.Subscript, facts: Facts) -> Kind | None:
        sequence, index = self.kind(node.sequence, facts), self.kind(node.index, facts)
        if sequence is None or index is None:
            return None
        if not isinstance(sequence, Seq):
            return self._fail(KIND, f"[...] takes a sequence, not {sequence}")
        if self._wanted(index, INT, "[...]") is None:
            return None
        place = _constant_index(node.index)
        if place is None or sequence.length is None:
            return sequence.item
        if not -sequence.length <= place < sequence.length:
            return self._fail(
                KIND, f"[{place}] is outside the {sequence.length} items of {expr.to_source(node.sequence)}"
            )
        return sequence.each[place] if sequence.each else sequence.item

    def _Slice(self, node: expr.Slice, facts: Facts) -> Kind | None:
        sequence = self.kind(node.sequence, facts)
        for bound in (node.start, node.stop):
            if bound is not None and (
                (kind := self.kind(bound, facts)) is None or self._wanted(kind, INT, "[:]") is None
            ):
                return None
        if sequence is not None and not isinstance(sequence, Seq):
            return self._fail(KIND, f"[...] takes a sequence, not {sequence}")
        return sequence

    def _Tuple(self, node: expr.Tuple, facts: Facts) -> Kind | None:
        items = self._kinds(node.items, facts)
        if items is None:
            return None
        if not items:
            return Seq(INT, 0)
        return Seq(functools.reduce(declarations.join, items), len(items))

    def _Call(self, node: expr.Call, facts: Facts) -> Kind | None:
        if node.function in ("present", "bytes"):
            return self._of_tensor(node, facts)
        if node.function not in declarations.PRIMITIVES:
            return self._fail(
                NAME, f"unknown function {shown(node.function)}; allowed are {', '.join(self._scope.functions())}"
            )
        if node.function == "range":
            return self._fail(FORM, "range may be used only as the sequence of a comprehension")
        if is_range_sum(node):
            self._of_any_length.add(id(range_of(node)))
        return self._primitive(node, facts)

    def _primitive(self, node: expr.Call, facts: Facts) -> Kind | None:
        args = self._kinds(node.args, facts)
        if args is None:
            return None
        result = declarations.check_call(node.function, args)
        if isinstance(result, str):
            return self._fail(KIND, result)
        if (
            node.args
            and all(isinstance(arg, expr.Literal) for arg in node.args)
            and id(node) not in self._of_any_length
        ):
            try:
                evaluate(node, {}, {})
            except (ValueError, ArithmeticError) as error:
                return self._fail(KIND, f"{expr.to_source(node)}: {error}")
        return result

    def _of_tensor(self, node: expr.Call, facts: Facts) -> Kind | None:
        if len(node.args) != 1 or not isinstance(node.args[0], expr.Name):
            return self._fail(FORM, f"{node.function} takes one name")
        name = node.args[0].id
        if name in self._scope.broken:
            return None
        if node.function == "present":
            if name in self._scope.tensors or isinstance(self._scope.names.get(name), Maybe):
                return BOOL
            if name == "out" and self._scope.buffered:
                return BOOL
            known = [*self._scope.tensors, *(one for one, kind in self._scope.names.items() if isinstance(kind, Maybe))]
            allowed = f"allowed are {', '.join(known)}" if known else "the entry has neither"
            return self._fail(
                NAME, f"present({name}): {name!r} is no tensor and no parameter that may be None; {allowed}"
            )
        if not self._scope.roofline:
            return self._fail(NAME, f"bytes({name}) may be used only in roofline")
        if name not in self._scope.tensors:
            return self._fail(
                NAME, f"bytes({name}): {name!r} is no tensor; the tensors are {', '.join(self._scope.tensors)}"
            )
        if self._scope.tensors[name] and name not in facts.shown:
            return self._fail(PRESENCE, f"bytes({name}) is read without a guard; write `... if present({name}) else 0`")
        return DIM

    def _Comprehension(self, node: expr.Comprehension, facts: Facts) -> Kind | None:
        runs_over = node.sequence
        is_range = isinstance(runs_over, expr.Call) and runs_over.function == "range"
        sequence = self._primitive(expect(runs_over, expr.Call), facts) if is_range else self.kind(runs_over, facts)
        if sequence is None:
            return None
        if not isinstance(sequence, Seq):
            return self._fail(KIND, f"a comprehension runs over a sequence, not {sequence}")
        hidden = (
            node.variable in self._scope.names
            or node.variable in self._scope.tensors
            or node.variable in self._variables
        )
        if hidden or not may_be_variable(node.variable):
            what = "hides a name of the entry; choose another name" if hidden else "is no valid name"
            return self._fail(NAME, f"the variable {shown(node.variable)} {what}")
        self._variables[node.variable] = sequence.item
        condition = BOOL if node.condition is None else self.kind(node.condition, facts)
        element = self.kind(node.element, facts)
        del self._variables[node.variable]
        if condition is None or element is None or self._wanted(condition, BOOL, "if") is None:
            return None
        return Seq(element)

    def _Splice(self, node: expr.Splice, facts: Facts) -> Kind | None:
        kind = self.kind(node.sequence, facts)
        if (
            kind is not None
            and kinds.fits(kind, Maybe(kinds.Union((INT, Seq(INT)))))
            and not isinstance(kind, (Int, Seq))
        ):
            text = expr.to_source(node.sequence)
            return self._fail(
                KIND, f"*{text} is {kind}, which may be a single number; write each axis as per_axis({text}, i, n)"
            )
        return None if kind is None else self._wanted(kind, Seq(INT), "*")

    def _wanted(self, found: Kind, wanted: Kind, where: str) -> Kind | None:
        if kinds.fits(found, wanted):
            return found
        return self._fail(KIND, f"{where} takes {wanted}, not {found}")


def _constant_index(node: expr.Expr) -> int | None:
    """Returns the number that an index is written as, with or without a sign; None if the index is no number."""
    if isinstance(node, expr.Unary) and node.op in ("+", "-") and isinstance(node.operand, expr.Literal):
        return -node.operand.value if node.op == "-" else node.operand.value
    return node.value if isinstance(node, expr.Literal) else None


def _narrowed(name: str, kind: Kind, facts: Facts) -> Kind:
    """Returns the kind without the values that guards exclude. If none is left, no call gets here: the kind itself."""
    if isinstance(kind, (Enum, DType)):
        left = tuple(value for value in kind.values if facts.allows(name, value))
        return type(kind)(left) if left else kind
    if isinstance(kind, Adt):
        kept = tuple(constructor for constructor in kind.constructors if facts.allows(name, constructor.name))
        return Adt(kind.name, kept) if kept else kind
    if isinstance(kind, kinds.Union):
        return _narrowed_union(name, kind, facts)
    if isinstance(kind, Maybe) and isinstance(kind.item, kinds.Union):
        return Maybe(_narrowed_union(name, kind.item, facts))
    return kind


def _has_words(kind: Kind) -> bool:
    """Returns whether a kind is a union of words and others, which guards take apart."""
    return isinstance(kind.given, kinds.Union) and any(isinstance(one, (Enum, DType)) for one in kind.options)


def _narrowed_union(name: str, kind: kinds.Union, facts: Facts) -> Kind:
    """Returns the union without the words that guards exclude, and without members of which no value is left."""
    left: list[Kind] = []
    for item in kind.items:
        if isinstance(item, (Enum, DType)):
            values = tuple(value for value in item.values if facts.allows(name, value))
            left += [type(item)(values)] if values else []
        elif name not in facts.only or any(comparisons.may_equal(value, item) for value in facts.only[name]):
            left.append(item)
    if not left:
        return kind
    return left[0] if len(left) == 1 else kinds.Union(tuple(left))
