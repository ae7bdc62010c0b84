"""From positioned YAML nodes to the model: one entry at a time, each defect reported once."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from tileops.manifest import expr, kinds
from tileops.manifest.diagnostics import Diagnostics
from tileops.manifest.fields import Fields
from tileops.manifest.model import (
    Entry, Expression, FamilyCase, Param, RooflineField, Row, Signature, Tensor, TypeFamily,
)
from tileops.manifest.source import Mapping, Node, Scalar

OP_NAME = re.compile(r"[A-Z][A-Za-z0-9]*(Fwd|Bwd)?Op")
QUALIFIED_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
LABEL = re.compile(r"[A-Za-z0-9._-]{1,80}")
STATUSES = ("implemented", "spec-only")
ENTRY_FIELDS = ("family", "status", "ref_api", "signature", "workloads", "roofline")
SIGNATURE_FIELDS = ("forall", "params", "inputs", "outputs", "types", "let", "shape_rules")
INPUT_FIELDS = ("dtype", "shape", "optional", "mutated", "write_only", "values")
OUTPUT_FIELDS = ("dtype", "shape")


def parse_entry(op: str, node: Node, line: int, file: str, diagnostics: Diagnostics) -> Entry:
    """The entry `op`; what could not be read is reported and listed in `Entry.malformed`."""
    fields = Fields(file, op, diagnostics)
    if not OP_NAME.fullmatch(op):
        fields.report("", line, "M013", f"{op!r} is no op name; write {{Pascal}}[Fwd|Bwd]Op")
    body = fields.mapping(node, "", ENTRY_FIELDS, ("family", "status", "signature", "workloads"))
    get = body.entries.get
    status = fields.text(get("status"), "status")
    if status is not None and status not in STATUSES:
        fields.report("status", get("status").line, "M012", f"must be one of {', '.join(STATUSES)}")
    block = get("roofline")
    roofline = None
    if block is not None:
        found = fields.mapping(block, "roofline")
        roofline = {
            name: RooflineField(value=fields.plain(value, f"roofline.{name}"), line=value.line)
            for name, value in found.entries.items()
        }
    ref_api = fields.text(get("ref_api"), "ref_api")
    if ref_api is not None and not QUALIFIED_NAME.fullmatch(ref_api):
        fields.report("ref_api", get("ref_api").line, "M012", f"{ref_api!r} is no qualified name such as torch.sum")
    signature = _signature(fields, get("signature"))
    return Entry(
        op=op, file=file, line=line,
        family=fields.text(get("family"), "family") or "",
        status=status or "",
        ref_api=ref_api or "",
        signature=signature,
        rows=_rows(fields, get("workloads"), signature),
        roofline=roofline, roofline_line=line if block is None else block.line,
        malformed=frozenset(fields.malformed),
    )


def _signature(fields: Fields, node: Node | None) -> Signature:
    body = fields.mapping(node, "signature", SIGNATURE_FIELDS, ("inputs", "outputs"))
    get = body.entries.get
    taken: dict[str, str] = {}

    def members(section: str, build: Callable[[str, Node, str], Any]) -> dict[str, Any]:
        path = f"signature.{section}"
        found = fields.mapping(get(section), path)
        built = {}
        for name, value in found.entries.items():
            place, line = f"{path}.{name}", found.key_lines[name]
            if not fields.name(name, place, line):
                continue
            if name in taken:
                fields.report(place, line, "M014", f"{name!r} is declared in {taken[name]} already")
                continue
            taken[name] = path
            made = build(name, value, place)
            if made is not None:
                built[name] = made
        return built

    def index(name: str, value: Node, place: str) -> kinds.Kind | None:
        text = fields.text(value, place)
        return None if text is None else _kind(fields, kinds.index_kind(text), place, value.line)

    signature = Signature(
        forall=members("forall", index),
        params=members("params", lambda name, value, place: _param(fields, name, value, place)),
        inputs=members("inputs", lambda name, value, place: _tensor(fields, name, value, place, INPUT_FIELDS)),
        outputs=members("outputs", lambda name, value, place: _tensor(fields, name, value, place, OUTPUT_FIELDS)),
        families=members("types", lambda name, value, place: _family(fields, name, value, place)),
        lets=members("let", lambda name, value, place: expression(fields, value, place)),
        rules=tuple(
            rule for position, item in enumerate(fields.sequence(get("shape_rules"), "signature.shape_rules"))
            if (rule := expression(fields, item, f"signature.shape_rules[{position}]")) is not None
        ),
    )
    _check_order(fields, signature)
    for section in ("inputs", "outputs"):
        tensors = get(section)
        if isinstance(tensors, Mapping) and not tensors.entries:
            fields.report(f"signature.{section}", tensors.line, "M010", "must name at least one tensor")
    return signature


def _check_order(fields: Fields, signature: Signature) -> None:
    """Optional inputs follow required ones; generated locals `<tensor>_shape` collide with nothing."""
    optional = None
    for tensor in signature.inputs.values():
        if tensor.optional:
            optional = optional or tensor.name
        elif optional is not None:
            fields.report(
                f"signature.inputs.{tensor.name}", tensor.line, "M012",
                f"a required input stands after the optional {optional!r}; put optional inputs last",
            )
    for name in (*signature.forall, *signature.params, *signature.lets):
        stem, _, suffix = name.rpartition("_")
        if suffix in ("shape", "dtype") and stem in signature.inputs:
            line = signature.inputs[stem].line
            fields.report(
                f"signature.inputs.{stem}", line, "M013", f"{name!r} is what generated code calls the {suffix} of {stem!r}"
            )


def _kind(fields: Fields, found: kinds.Kind | str, place: str, line: int) -> kinds.Kind | None:
    if isinstance(found, str):
        fields.report(place, line, "M024" if "dtype" in found else "M023", found)
        return None
    return found


def expression(fields: Fields, node: Node | None, place: str, parse: Callable[[str], expr.Expr] = expr.parse) -> Expression | None:
    """An expression field; None where absent or reported."""
    if node is None:
        return None
    text = fields.text(node, place)
    if text is None:
        return None
    try:
        return Expression(text=text, expr=parse(text), line=node.line)
    except expr.ExprError as error:
        fields.report(place, node.line, "M020", str(error))
        return None


def _param(fields: Fields, name: str, node: Node, place: str) -> Param | None:
    body = fields.mapping(node, place, ("type", "default", "kw_only"), ("type",))
    type_node = body.entries.get("type")
    text = fields.text(type_node, f"{place}.type")
    if text is None:
        return None
    kind = _kind(fields, kinds.parameter_kind(text), f"{place}.type", type_node.line)
    if kind is None:
        return None
    default_node = body.entries.get("default")
    default = None if default_node is None else fields.plain(default_node, f"{place}.default")
    if default_node is not None and not value_fits(default, kind):
        fields.report(f"{place}.default", default_node.line, "M012", f"{_shown(default)} is no {text}")
    return Param(
        name=name, type=text, kind=kind, required=default_node is None, default=default,
        kw_only=bool(fields.scalar(body.entries.get("kw_only"), f"{place}.kw_only", bool)), line=node.line,
    )


def _shown(value: Any) -> str:
    hint = " (YAML reads 1e-6 as text: write 1.0e-6)" if isinstance(value, str) and re.fullmatch(r"\d+e-?\d+", value) else ""
    return f"{value!r}{hint}"


def value_fits(value: Any, kind: kinds.Kind) -> bool:
    """Whether a plain value (as YAML gives it, lists as tuples) is of a kind."""
    if isinstance(kind, kinds.Maybe):
        return value is None or value_fits(value, kind.item)
    if isinstance(kind, kinds.Union):
        return any(value_fits(value, item) for item in kind.items)
    if isinstance(kind, kinds.Bool):
        return isinstance(value, bool)
    if isinstance(kind, kinds.Int):
        return type(value) is int and (value >= 0 or not isinstance(kind, kinds.Dim))
    if isinstance(kind, kinds.Real):
        return type(value) in (int, float) and not math.isnan(value)
    if isinstance(kind, kinds.Seq):
        return isinstance(value, tuple) and kind.length in (None, len(value)) and all(value_fits(v, kind.item) for v in value)
    if isinstance(kind, (kinds.Enum, kinds.DType)):
        return isinstance(value, str) and value in kind.values
    if isinstance(kind, kinds.Text):
        return isinstance(value, str)
    return value is None if isinstance(kind, kinds.NoneKind) else True


def _tensor(fields: Fields, name: str, node: Node, place: str, allowed: tuple[str, ...]) -> Tensor | None:
    body = fields.mapping(node, place, allowed, ("dtype", "shape"))
    get = body.entries.get
    dtype = expression(fields, get("dtype"), f"{place}.dtype")
    shape = expression(fields, get("shape"), f"{place}.shape", expr.parse_shape)
    mutated_node = get("mutated")
    mutated = None
    if isinstance(mutated_node, Scalar) and isinstance(mutated_node.value, bool):
        if mutated_node.value:
            mutated = Expression(text="True", expr=expr.Literal(True), line=mutated_node.line)
    else:
        mutated = expression(fields, mutated_node, f"{place}.mutated")
    write_only = bool(fields.scalar(get("write_only"), f"{place}.write_only", bool))
    if write_only and mutated_node is None:
        fields.report(f"{place}.write_only", get("write_only").line, "M050", "write_only needs `mutated`")
    if dtype is None or shape is None:
        return None
    return Tensor(
        name=name, dtype=dtype, shape=shape, line=node.line, mutated=mutated, write_only=write_only,
        optional=bool(fields.scalar(get("optional"), f"{place}.optional", bool)),
        values=expression(fields, get("values"), f"{place}.values"),
    )


def _family(fields: Fields, name: str, node: Node, place: str) -> TypeFamily | None:
    """`Mat: {params: {t: Bool, R: Dim, C: Dim}, match: [t], cases: {false: "[R, C]", true: "[C, R]"}}`."""
    body = fields.mapping(node, place, ("params", "match", "cases"), ("params", "match", "cases"))
    params: dict[str, kinds.Kind] = {}
    for param, value in fields.mapping(body.entries.get("params"), f"{place}.params").entries.items():
        text = fields.text(value, f"{place}.params.{param}")
        if text == "Bool":
            params[param] = kinds.BOOL
        elif text is not None and (kind := _kind(fields, kinds.index_kind(text), f"{place}.params.{param}", value.line)):
            params[param] = kind
    match = tuple(
        text for item in fields.sequence(body.entries.get("match"), f"{place}.match")
        if (text := fields.text(item, f"{place}.match")) is not None
    )
    for text in match:
        if not isinstance(params.get(text), kinds.Bool):
            fields.report(f"{place}.match", body.line, "M030", f"{text!r} is no Bool parameter of the family")
    cases_node = body.entries.get("cases")
    cases = []
    if isinstance(cases_node, Mapping):
        for key, value in cases_node.entries.items():
            pattern = key if isinstance(key, tuple) else (key,)
            shape = expression(fields, value, f"{place}.cases", expr.parse_shape)
            if shape is not None and isinstance(shape.expr, expr.ShapeTerm):
                cases.append(FamilyCase(pattern=pattern, shape=shape.expr, line=value.line))
    elif cases_node is not None:
        fields.report(f"{place}.cases", cases_node.line, "M012", "must be a mapping from literals to shapes")
    if any(path.startswith(place) for path in fields.malformed) or not params or not match:
        return None
    patterns = [case.pattern for case in cases]
    truths = all(type(value) is bool for pattern in patterns for value in pattern)
    if not truths or len(match) != 1 or len(patterns) != 2 or set(patterns) != {(False,), (True,)}:
        fields.report(f"{place}.cases", node.line, "M031", f"must be exactly `false` and `true`, the values of {match[0]!r}")
        return None
    return TypeFamily(name=name, params=params, match=match, cases=tuple(cases), line=node.line)


def _rows(fields: Fields, node: Node | None, signature: Signature) -> tuple[Row, ...]:
    rows = []
    for position, item in enumerate(fields.sequence(node, "workloads")):
        path = f"workloads[{position}]"
        body = fields.mapping(item, path, required=("label",))
        label = fields.text(body.entries.get("label"), f"{path}.label")
        if label is not None and not LABEL.fullmatch(label):
            fields.report(f"{path}.label", body.line, "M013", f"{label!r} is no label ([A-Za-z0-9._-], 1 to 80)")
            label = None
        some = tuple(
            text for part in fields.sequence(body.entries.get("some"), f"{path}.some")
            if (text := fields.text(part, f"{path}.some")) is not None
        )
        cases = tuple(
            {
                name: dtype for name, value in fields.mapping(part, f"{path}.dtype_cases").entries.items()
                if (dtype := fields.text(value, f"{path}.dtype_cases")) is not None
            }
            for part in fields.sequence(body.entries.get("dtype_cases"), f"{path}.dtype_cases")
        )
        bindings = {
            name: fields.plain(value, f"{path}.{name}")
            for name, value in body.entries.items() if name not in ("label", "some", "dtype_cases")
        }
        if label is not None:
            rows.append(Row(
                label=label, bindings=bindings, some=some, dtype_cases=cases or ({},), line=item.line,
            ))
    return tuple(rows)
