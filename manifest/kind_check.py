"""Checks an expression against the kinds of what it names, narrowing by guards; collects every defect."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from tileops.manifest import declarations, expr, kinds
from tileops.manifest.kinds import BOOL, DIM, INT, NONE, REAL, TEXT, Bool, Dim, DType, Enum, Int, Kind, Maybe, Opaque, Real, Seq

# What a checker calls a defect; the manifest and the roofline analysis map each to a code of their own.
FORM, NAME, KIND, PRESENCE = "form", "name", "kind", "presence"


@dataclasses.dataclass(frozen=True)
class Scope:
    """What an expression may read.

    Attributes:
      names: kind of each index, parameter and `let`.
      tensors: tensor name -> whether it may be absent.
      roofline: whether `bytes(t)` is allowed.
      dtypes: whether dtype names stand for themselves (a dtype term).
      broken: names whose declarations could not be read; what needs one is not reached, and not reported again.
    """

    names: Mapping[str, Kind]
    tensors: Mapping[str, bool]
    roofline: bool = False
    dtypes: bool = False
    broken: frozenset[str] = frozenset()

    def functions(self) -> list[str]:
        """The functions that may be called here."""
        return sorted([*declarations.PRIMITIVES, "present", *(["bytes"] if self.roofline else [])])


Report = Callable[[str, str], None]


def check(node: expr.Expr, scope: Scope, report: Report) -> Kind | None:
    """Kind of the expression; None where a defect was reported as (FORM | NAME | KIND | PRESENCE, message)."""
    return _Checker(scope, report).kind(node, frozenset())


class _Checker:
    """`shown` holds the tensors and Maybes that guards around an expression show present."""

    def __init__(self, scope: Scope, report: Report) -> None:
        self._scope = scope
        self._report = report
        self._variables: dict[str, Kind] = {}

    def kind(self, node: expr.Expr, shown: frozenset[str]) -> Kind | None:
        return getattr(self, f"_{type(node).__name__}")(node, shown)

    def _fail(self, what: str, message: str) -> None:
        self._report(what, message)

    def _Literal(self, node: expr.Literal, shown: frozenset[str]) -> Kind:
        value = node.value
        if value is None:
            return NONE
        if isinstance(value, bool):
            return BOOL
        if isinstance(value, int):
            return DIM if value >= 0 else INT
        return REAL if isinstance(value, float) else Enum((value,))

    def _Name(self, node: expr.Name, shown: frozenset[str]) -> Kind | None:
        name = node.id
        if name in self._variables:
            return self._variables[name]
        if name in self._scope.names:
            kind = self._scope.names[name]
            return kind.item if isinstance(kind, Maybe) and name in shown else kind
        if self._scope.dtypes and name in kinds.ALL_DTYPES.values:
            return DType((name,))
        if name in self._scope.broken:
            return None
        if name in self._scope.tensors:
            self._fail(NAME, f"{name!r} is a tensor; it may stand only inside present(...)"
                       f"{' and bytes(...)' if self._scope.roofline else ''}")
        else:
            self._fail(NAME, f"unknown name {name!r}; allowed are {', '.join(self._scope.names) or 'none'}"
                       f" and the functions {', '.join(self._scope.functions())}")
        return None

    def _Value(self, node: expr.Value, shown: frozenset[str]) -> Kind | None:
        kind = self._Name(expr.Name(node.name), frozenset())
        if kind is None:
            return None
        if not isinstance(kind, Maybe):
            self._fail(KIND, f"{node.name}.value: {node.name!r} is {kind}, which is never absent")
            return None
        if node.name not in shown:
            self._fail(PRESENCE, f"{node.name}.value is read where present({node.name}) is not known to hold")
            return None
        return kind.item

    def _Unary(self, node: expr.Unary, shown: frozenset[str]) -> Kind | None:
        operand = self.kind(node.operand, shown)
        if operand is None:
            return None
        if node.op == "not":
            return self._wanted(operand, BOOL, "not")
        if isinstance(operand, Real):
            return REAL
        if not declarations.is_integer(operand):
            self._fail(KIND, f"{node.op} takes an integer, not {operand}")
            return None
        return operand if node.op == "+" else INT

    def _Binary(self, node: expr.Binary, shown: frozenset[str]) -> Kind | None:
        left, right = self.kind(node.left, shown), self.kind(node.right, shown)
        if left is None or right is None:
            return None
        for side in (left, right):
            if isinstance(side, Real) and self._scope.roofline:
                continue
            if not declarations.is_integer(side):
                self._fail(KIND, f"{node.op} takes integers, not {side}")
                return None
        if isinstance(left, Real) or isinstance(right, Real):
            return REAL
        if node.op in ("//", "%") and node.right == expr.Literal(0):
            self._fail(KIND, f"{node.op} 0 is no number")
            return None
        if node.op in ("//", "%"):
            positive = isinstance(node.right, expr.Literal) and node.right.value > 0
            return DIM if isinstance(left, Dim) and (positive or isinstance(right, Dim)) else INT
        both = isinstance(left, Dim) and isinstance(right, Dim)
        return DIM if both and node.op in ("+", "*") else INT

    def _Compare(self, node: expr.Compare, shown: frozenset[str]) -> Kind | None:
        found = [self.kind(operand, shown) for operand in node.operands]
        if any(kind is None for kind in found):
            return None
        for op, left, right in zip(node.ops, found, found[1:], strict=False):
            if op in ("in", "not in"):
                fine = isinstance(right, Seq) and _comparable(left, right.item)
            elif op in ("==", "!="):
                fine = _comparable(left, right)
            else:
                fine = all(isinstance(side, (Int, Real)) for side in (left, right))
            if not fine:
                self._fail(KIND, f"{left} {op} {right} compares what can never be equal or ordered")
                return None
        return BOOL

    def _Logic(self, node: expr.Logic, shown: frozenset[str]) -> Kind | None:
        fine = True
        for operand in node.operands:
            kind = self.kind(operand, shown)
            fine = fine and kind is not None and self._wanted(kind, BOOL, node.op) is not None
            shown = shown | shows(operand, node.op == "and")
        return BOOL if fine else None

    def _Conditional(self, node: expr.Conditional, shown: frozenset[str]) -> Kind | None:
        test = self.kind(node.test, shown)
        then = self.kind(node.then, shown | shows(node.test, True))
        otherwise = self.kind(node.otherwise, shown | shows(node.test, False))
        if test is None or then is None or otherwise is None or self._wanted(test, BOOL, "if") is None:
            return None
        return declarations.join(then, otherwise)

    def _Subscript(self, node: expr.Subscript, shown: frozenset[str]) -> Kind | None:
        sequence, index = self.kind(node.sequence, shown), self.kind(node.index, shown)
        if sequence is None or index is None:
            return None
        if not isinstance(sequence, Seq):
            self._fail(KIND, f"[...] takes a sequence, not {sequence}")
            return None
        return sequence.item if self._wanted(index, INT, "[...]") is not None else None

    def _Slice(self, node: expr.Slice, shown: frozenset[str]) -> Kind | None:
        sequence = self.kind(node.sequence, shown)
        for bound in (node.start, node.stop):
            if bound is not None and ((kind := self.kind(bound, shown)) is None or self._wanted(kind, INT, "[:]") is None):
                return None
        if sequence is not None and not isinstance(sequence, Seq):
            self._fail(KIND, f"[...] takes a sequence, not {sequence}")
            return None
        return sequence

    def _Tuple(self, node: expr.Tuple, shown: frozenset[str]) -> Kind | None:
        items = [self.kind(item, shown) for item in node.items]
        if any(kind is None for kind in items):
            return None
        if not items:
            return Seq(INT, 0)
        joined = items[0]
        for kind in items[1:]:
            joined = declarations.join(joined, kind)
        return Seq(joined, len(items))

    def _Call(self, node: expr.Call, shown: frozenset[str]) -> Kind | None:
        if node.function in ("present", "bytes"):
            return self._of_tensor(node, shown)
        if node.function not in declarations.PRIMITIVES:
            self._fail(NAME, f"unknown function {node.function!r}; allowed are {', '.join(self._scope.functions())}")
            return None
        args = [self.kind(arg, shown) for arg in node.args]
        if any(kind is None for kind in args):
            return None
        result = declarations.check_call(node.function, args)
        if isinstance(result, str):
            self._fail(KIND, result)
            return None
        return result

    def _of_tensor(self, node: expr.Call, shown: frozenset[str]) -> Kind | None:
        if len(node.args) != 1 or not isinstance(node.args[0], expr.Name):
            self._fail(FORM, f"{node.function} takes one name")
            return None
        name = node.args[0].id
        if name in self._scope.broken:
            return None
        if node.function == "present":
            if name in self._scope.tensors or isinstance(self._scope.names.get(name), Maybe):
                return BOOL
            self._fail(NAME, f"present({name}): {name!r} is no tensor and no parameter that may be None")
            return None
        if not self._scope.roofline:
            self._fail(NAME, f"bytes({name}) may stand only in roofline")
            return None
        if name not in self._scope.tensors:
            self._fail(NAME, f"bytes({name}): {name!r} is no tensor; the tensors are {', '.join(self._scope.tensors)}")
            return None
        if self._scope.tensors[name] and name not in shown:
            self._fail(PRESENCE, f"bytes({name}) is read where present({name}) is not known to hold")
            return None
        return DIM

    def _Comprehension(self, node: expr.Comprehension, shown: frozenset[str]) -> Kind | None:
        sequence = self.kind(node.sequence, shown)
        if sequence is None:
            return None
        if not isinstance(sequence, Seq):
            self._fail(KIND, f"a comprehension runs over a sequence, not {sequence}")
            return None
        if node.variable in self._scope.names or node.variable in self._variables:
            self._fail(NAME, f"the variable {node.variable!r} hides a name of the entry")
            return None
        self._variables[node.variable] = sequence.item
        condition = BOOL if node.condition is None else self.kind(node.condition, shown)
        element = self.kind(node.element, shown)
        del self._variables[node.variable]
        if condition is None or element is None or self._wanted(condition, BOOL, "if") is None:
            return None
        return Seq(element)

    def _Splice(self, node: expr.Splice, shown: frozenset[str]) -> Kind | None:
        kind = self.kind(node.sequence, shown)
        return None if kind is None else self._wanted(kind, Seq(INT), "*")

    def _wanted(self, found: Kind, wanted: Kind, where: str) -> Kind | None:
        if kinds.fits(found, wanted):
            return found
        self._fail(KIND, f"{where} takes {wanted}, not {found}")
        return None


def _comparable(left: Kind, right: Kind) -> bool:
    """Whether some value of the one may equal some value of the other."""
    if isinstance(left, Maybe) or isinstance(right, Maybe):
        first = left.item if isinstance(left, Maybe) else left
        second = right.item if isinstance(right, Maybe) else right
        return NONE in (left, right) or _comparable(first, second)
    if isinstance(left, kinds.Union) or isinstance(right, kinds.Union):
        lefts = left.items if isinstance(left, kinds.Union) else (left,)
        rights = right.items if isinstance(right, kinds.Union) else (right,)
        return any(_comparable(a, b) for a in lefts for b in rights)
    names = (Enum, DType)
    if isinstance(left, names) and isinstance(right, names):
        return bool(set(left.values) & set(right.values))
    if isinstance(left, Seq) and isinstance(right, Seq):
        return _comparable(left.item, right.item)
    numbers = (Int, Real)
    if isinstance(left, numbers) and isinstance(right, numbers):
        return True
    if isinstance(left, (kinds.Text, Enum)) and isinstance(right, (kinds.Text, Enum)):
        return True
    return type(left) is type(right) and not isinstance(left, Opaque) and isinstance(left, (Bool, type(TEXT)))


def shows(node: expr.Expr, holds: bool) -> frozenset[str]:
    """Names shown present where `node` is true (`holds`) or false."""
    if isinstance(node, expr.Call) and node.function == "present" and holds:
        return frozenset(arg.id for arg in node.args if isinstance(arg, expr.Name))
    if isinstance(node, expr.Unary) and node.op == "not":
        return shows(node.operand, not holds)
    if isinstance(node, expr.Logic) and (node.op == "and") == holds:
        return frozenset().union(*(shows(operand, holds) for operand in node.operands))
    return frozenset()
