"""The parser of the closed expression language, which refuses everything that is not in it.

Python's own parser reads the text and this module admits only the forms that the language lists; no expression is ever
evaluated by Python from its text.
"""

from __future__ import annotations

import ast
import math
import re
import warnings

from tileops.manifest.language import declarations
from tileops.manifest.language.expr import (
    MAX_DEPTH,
    MAX_TERMS,
    Binary,
    Call,
    Compare,
    Comprehension,
    Conditional,
    Expr,
    FamilyTerm,
    Field,
    Literal,
    Logic,
    Name,
    ShapeTerm,
    Slice,
    Splice,
    Subscript,
    Tuple,
    Unary,
    Value,
)
from tileops.manifest.language.text import odd_character, shown

MAX_CHARS = 4_000
MAX_INT = 2**63 - 1  # what a tensor library can index


class ExprError(Exception):
    """Text outside the language; the message says which form and what is allowed.

    Attributes:
      is_kind: the form is in the language, but arguments do not fit what is called.
    """

    is_kind = False


class ArgumentError(ExprError):
    """Arguments by name do not fit what is called."""

    is_kind = True


FORMS = (
    "literals, names, present(x), x.value, fields of algebraic values, + - * // %, comparisons, and/or/not, in,"
    " a if c else b, subscripts and slices, calls of built-in primitives, and comprehensions inside all, sum, max and"
    " min"
)

_BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%"}
_COMPARE = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.In: "in",
    ast.NotIn: "not in",
}
_UNARY = {ast.USub: "-", ast.UAdd: "+", ast.Not: "not"}
COMPREHENSION_CALLS = ("all", "sum", "max", "min")
_CALLED = {*declarations.PRIMITIVES, *declarations.GENERATORS, *declarations.PREDICATES, "present", "bytes"}


def parse(text: str) -> Expr:
    """Returns the parsed expression. Raises ExprError."""
    return _Parser(text).expression(_python(text), 0)


def parse_shape(text: str) -> Expr:
    """Returns the parsed shape of a tensor: a ShapeTerm or a FamilyTerm. Raises ExprError."""
    tree, parser = _python(text), _Parser(text)
    if isinstance(tree, ast.List):
        return ShapeTerm(
            tuple(
                Splice(parser.expression(axis.value, 1))
                if isinstance(axis, ast.Starred)
                else parser.expression(axis, 1)
                for axis in tree.elts
            )
        )
    if isinstance(tree, ast.Subscript) and isinstance(tree.value, ast.Name):
        args = tree.slice.elts if isinstance(tree.slice, ast.Tuple) else [tree.slice]
        return FamilyTerm(tree.value.id, tuple(parser.expression(arg, 1) for arg in args))
    raise ExprError(f'{shown(text)} is no shape; write "[axis, ...]" or one type-family application "Family[...]"')


_STRINGS = re.compile(r"""'(\\.|[^'\\])*'|"(\\.|[^"\\])*\"""", re.DOTALL)


def _python(text: str) -> ast.expr:
    if len(text) > MAX_CHARS:
        raise ExprError(f"longer than {MAX_CHARS} characters")
    odd = odd_character(_STRINGS.sub("", text))
    if odd:  # Python would fold it into another letter, and read a name that nobody wrote
        raise ExprError(f"{odd} is outside a string; write names and operators in ASCII")
    if "#" in _STRINGS.sub("", text):  # Python would drop the rest of the line, and with it a part of the formula
        raise ExprError("'#' starts no comment inside an expression; write comments on lines of their own in YAML")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Python finds odd in a formula is judged here, not printed
            return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise ExprError(f"{shown(text)} is no expression: {reason}") from None
    except (RecursionError, MemoryError):
        raise ExprError("nested too deeply") from None


class _Parser:
    """Translates Python's tree form by form; counts terms and depth."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._terms = 0

    def expression(self, node: ast.expr, depth: int) -> Expr:
        self._terms += 1
        if self._terms > MAX_TERMS:
            raise ExprError(f"more than {MAX_TERMS} terms")
        if depth > MAX_DEPTH:
            raise ExprError(f"nested deeper than {MAX_DEPTH} levels")
        translate = getattr(self, f"_{type(node).__name__}", None)
        if translate is None:
            raise self._refused(node)
        return translate(node, depth + 1)

    def _refused(self, node: ast.AST) -> ExprError:
        part = ast.get_source_segment(self._text.strip(), node) if hasattr(node, "lineno") else None
        return ExprError(f"{shown(part or self._text)} is not in the language; allowed are {FORMS}")

    def _Constant(self, node: ast.Constant, depth: int) -> Expr:
        value = node.value
        if isinstance(value, float) and not math.isfinite(value):
            raise ExprError("a float literal must be finite; write inf for infinity")
        if isinstance(value, int) and value > MAX_INT:
            raise ExprError(f"an integer literal is at most {MAX_INT}")
        if value is None or isinstance(value, (bool, int, float, str)):
            return Literal(value)
        raise self._refused(node)

    def _Name(self, node: ast.Name, depth: int) -> Expr:
        return Literal(math.inf) if node.id == "inf" else Name(node.id)

    def _Attribute(self, node: ast.Attribute, depth: int) -> Expr:
        of = node.value
        if isinstance(of, ast.Attribute) and of.attr == "value" and isinstance(of.value, ast.Name):
            if node.attr in ("value", "shape") or node.attr.startswith("_"):
                raise self._refused(node)
            return Field(of.value.id, node.attr, unwrapped=True)
        if not isinstance(node.value, ast.Name) or node.attr.startswith("_"):
            raise self._refused(node)
        if node.attr == "shape":
            raise ExprError(f"{node.value.id}.shape is not in the language; write the shape's indices")
        return Value(node.value.id) if node.attr == "value" else Field(node.value.id, node.attr)

    def _UnaryOp(self, node: ast.UnaryOp, depth: int) -> Expr:
        if type(node.op) not in _UNARY:
            raise self._refused(node)
        return Unary(_UNARY[type(node.op)], self.expression(node.operand, depth))

    def _BinOp(self, node: ast.BinOp, depth: int) -> Expr:
        if isinstance(node.op, ast.Div):
            raise ExprError("/ is not in the language; write // for a quotient rounded down, or ceil_div(a, b)")
        if isinstance(node.op, ast.Pow):
            raise ExprError("** is not in the language; write a product, such as n * n")
        if type(node.op) not in _BINARY:
            raise self._refused(node)
        return Binary(_BINARY[type(node.op)], self.expression(node.left, depth), self.expression(node.right, depth))

    def _Compare(self, node: ast.Compare, depth: int) -> Expr:
        if any(type(op) not in _COMPARE for op in node.ops):
            raise ExprError("`is` is not in the language; write present(t) or not present(t), or ==")
        operands = tuple(self.expression(part, depth) for part in (node.left, *node.comparators))
        return Compare(tuple(_COMPARE[type(op)] for op in node.ops), operands)

    def _BoolOp(self, node: ast.BoolOp, depth: int) -> Expr:
        op = "and" if isinstance(node.op, ast.And) else "or"
        return Logic(op, tuple(self.expression(part, depth) for part in node.values))

    def _IfExp(self, node: ast.IfExp, depth: int) -> Expr:
        return Conditional(*(self.expression(part, depth) for part in (node.test, node.body, node.orelse)))

    def _Subscript(self, node: ast.Subscript, depth: int) -> Expr:
        sequence = self.expression(node.value, depth)
        if not isinstance(node.slice, ast.Slice):
            return Subscript(sequence, self.expression(node.slice, depth))
        if node.slice.step is not None:
            raise ExprError("a slice has no step; write [start:stop], and take items one by one with a comprehension")
        bounds = (
            None if part is None else self.expression(part, depth) for part in (node.slice.lower, node.slice.upper)
        )
        return Slice(sequence, *bounds)

    def _SetComp(self, node: ast.SetComp, depth: int) -> Expr:
        raise ExprError("a set comprehension is not in the language; write unique_axes(dim, rank)")

    def _Tuple(self, node: ast.Tuple, depth: int) -> Expr:
        return Tuple(tuple(self.expression(item, depth) for item in node.elts))

    def _Call(self, node: ast.Call, depth: int) -> Expr:
        if any(isinstance(arg, ast.Starred) for arg in node.args) or any(key.arg is None for key in node.keywords):
            raise ExprError("a call takes its arguments without *")
        function = _dotted(node.func)
        if function is None:
            raise self._refused(node)
        if function == "isinstance":
            raise ExprError("isinstance is not in the language; write present(x), or compare x.kind with a constructor")
        arguments = _by_position(function, node)
        first: tuple[Expr, ...] = ()
        if arguments and isinstance(runs := arguments[0], ast.GeneratorExp):
            if function not in COMPREHENSION_CALLS:
                raise ExprError(f"a comprehension may only be the argument of {', '.join(COMPREHENSION_CALLS)}")
            first = (self._comprehension(runs, depth),)
        return Call(function, first + tuple(self.expression(arg, depth) for arg in arguments[len(first) :]))

    def _comprehension(self, node: ast.GeneratorExp, depth: int) -> Expr:
        loop = node.generators[0]
        if len(node.generators) != 1 or loop.is_async or not isinstance(loop.target, ast.Name) or len(loop.ifs) > 1:
            raise ExprError("a comprehension has one loop over one variable and at most one condition")
        return Comprehension(
            self.expression(node.elt, depth),
            loop.target.id,
            self.expression(loop.iter, depth),
            self.expression(loop.ifs[0], depth) if loop.ifs else None,
        )


def _by_position(function: str, node: ast.Call) -> list[ast.expr]:
    """Returns the arguments of a call, those by name at their positions. Raises ArgumentError."""
    by_name: dict[str, ast.expr] = {}
    for key in node.keywords:
        name = str(key.arg)
        if name in by_name:
            raise ArgumentError(f"{function} has the argument {name!r} twice")
        by_name[name] = key.value
    if not by_name or function not in _CALLED:
        return [*node.args, *by_name.values()]  # that an unknown function is unknown is found where names are checked
    optional = declarations.optional_names(function) if function in declarations.PRIMITIVES else ()
    for name in by_name:
        if name not in optional:
            allowed = f"only {', '.join(optional)} may be written by name" if optional else "write all by position"
            raise ArgumentError(f"{function} has no optional argument {shown(name)}; {allowed}")
    least = len(declarations.PRIMITIVES[function].args) - len(optional)
    if len(node.args) < least:
        raise ArgumentError(f"{function} takes {least} arguments by position, not {len(node.args)}")
    arguments = list(node.args)
    for position, name in enumerate(optional, least):
        if name in by_name:
            if position != len(arguments):
                raise ArgumentError(
                    f"{function} has the argument {name!r} twice"
                    if position < len(arguments)
                    else f"{function} has {name!r}, but not the argument before it"
                )
            arguments.append(by_name[name])
    return arguments


def _dotted(node: ast.expr) -> str | None:
    """Returns a name such as `prod` or `conv.out`; None for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return None
