"""Reads type families and algebraic types."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from tileops.manifest.diagnostics import Diagnostics
from tileops.manifest.language import expr, kind_check, kinds
from tileops.manifest.language.names import NAME
from tileops.manifest.language.text import shown
from tileops.manifest.model import TypeFamily
from tileops.manifest.reading import forms, source
from tileops.manifest.reading.family_cases import read_cases
from tileops.manifest.reading.fields import Fields
from tileops.manifest.reading.python_paths import path_problem
from tileops.manifest.reading.source import Mapping as MappingNode
from tileops.manifest.reading.source import Node, Scalar


def read_kind(fields: Fields, found: kinds.Kind | str, place: str) -> kinds.Kind | None:
    """Returns the kind. Returns None if the text is no kind or names an unreadable algebraic type; reports both."""
    is_unknown = isinstance(found, kinds.UnknownType) or isinstance(found, kinds.Kind) and _is_bare(found)
    if is_unknown and not fields.types_readable:
        fields.malformed.add(place)  # it may be an algebraic type of the file that could not be read, which is reported
        return None
    if isinstance(found, str):
        fields.report(place, "M024" if isinstance(found, kinds.BadDType) else "M023", found)
        return None
    if isinstance(found.given, kinds.Adt) and not found.given.constructors:
        fields.malformed.add(place)
        return None
    return found


def _is_bare(kind: kinds.Kind) -> bool:
    return isinstance(kind.given, kinds.Opaque) and kind.given.is_bare


def family_param_kind(text: str, adts: Mapping[str, kinds.Adt]) -> kinds.Kind | str:
    """Returns the kind of a family's parameter: of an index, Bool, Int, an enumeration or an algebraic type.

    A Bool, an enumeration and an algebraic type may be followed by `| None`.
    """
    named = {"Bool": kinds.BOOL, "Int": kinds.INT, **adts}
    if text in named:
        return named[text]
    item, bar, rest = text.rpartition("|")
    if bar and rest.strip() == "None" and isinstance(named.get(item.strip()), (kinds.Bool, kinds.Adt)):
        return kinds.Maybe(named[item.strip()])
    if text[:1] in "'\"":
        return kinds.parameter_kind(text, adts)
    found = kinds.index_kind(text)
    if isinstance(found, str) and not isinstance(found, kinds.BadDType):
        known = ", ".join(["Bool", "Int", *kinds.INDEX_KINDS, "DType[a | b]", "'words'", *adts])
        return kinds.UnknownType(f"{shown(text)} is no kind of a family's parameter; the kinds are {known}")
    return found


def _match(fields: Fields, node: Node | None, place: str) -> tuple[str, ...]:
    """Returns the parameters that choose the case. One may be written without brackets."""
    if not isinstance(node, Scalar):
        return fields.texts(node, place, least="parameter")
    text = fields.text(node, place)
    return () if text is None else (text,)


def parse_family(fields: Fields, name: str, node: Node, place: str, adts: Mapping[str, kinds.Adt]) -> TypeFamily | None:
    """Returns a type family, `{params, match, cases}`, or None if a part of it was reported."""
    before = len(fields.malformed)
    body = fields.form(node, place, forms.TYPE_FAMILY)
    params: dict[str, kinds.Kind] = {}
    for param, value in fields.mapping(body.entries.get("params"), f"{place}.params").entries.items():
        text = fields.text(value, f"{place}.params.{param}")
        if text is not None and fields.name(param, f"{place}.params.{param}"):
            kind = read_kind(fields, family_param_kind(text, adts), f"{place}.params.{param}")
            if kind is not None:
                params[param] = kind
    match = _match(fields, body.entries.get("match"), f"{place}.match")
    for position, text in enumerate(match):
        if text in match[:position]:
            fields.report(f"{place}.match", "M030", f"{shown(text)} is there twice", body.line)
        elif text in params and not isinstance(params[text].given, (kinds.Bool, kinds.Enum, kinds.Adt)):
            fields.report(f"{place}.match", "M030", f"{text!r} is {params[text]}, which has no finite set of values")
        elif text not in params and not {f"{place}.params", f"{place}.params.{text}"} & fields.malformed:
            hint = (
                ""
                if NAME.fullmatch(text)
                else "; `match` takes names, so write an expression as an argument of the family"
            )
            fields.report(f"{place}.match", "M030", f"{shown(text)} is no parameter of the family{hint}")
    is_clear = f"{place}.match" not in fields.malformed
    cases = read_cases(fields, body.entries.get("cases"), f"{place}.cases", match if is_clear else None, params)
    if len(fields.malformed) > before:
        return None
    return TypeFamily(name=name, params=params, match=match, cases=cases, line=node.line)


def parse_adts(root: Node | None, file: str, diagnostics: Diagnostics) -> dict[str, kinds.Adt] | None:
    """Returns the algebraic types of types.yaml, in one form whichever of these it has.

    - `{Name: {constructors: {C: {class, fields, invariant}}}}`
    - `{adts: {Name: {sum: {C: {python, fields, invariant}}}}}`

    One with defects has no constructors. None where the document could not be read, so that no name of a type is known.
    """
    fields = Fields(file, "", {} if root is None else source.lines(root, 6), diagnostics)
    if isinstance(root, MappingNode) and forms.ADTS in root.entries:
        for name in root.entries:
            if name != forms.ADTS:
                fields.report(str(name), "M012", f"stands beside `{forms.ADTS}`; write all types of a file in one form")
        adts = fields.mapping(root.entries[forms.ADTS], forms.ADTS).entries
        return None if forms.ADTS in fields.malformed and not adts else _types(fields, adts, forms.ADTS, _SUMS)
    types = fields.mapping(root, "").entries
    if root is None or "" in fields.malformed and not types:
        return None
    return _types(fields, types, "", _CLASSES)


@dataclasses.dataclass(frozen=True)
class _Form:
    """One form of types.yaml: those of a type and of a constructor, the fields that differ, and what a class may be."""

    type: forms.Form
    members: str
    constructor: forms.Form
    path: str
    by_kind: bool


_CLASSES = _Form(forms.ALGEBRAIC_TYPE, "constructors", forms.CONSTRUCTOR, "class", by_kind=False)
_SUMS = _Form(forms.SUM, "sum", forms.SUM_CONSTRUCTOR, "python", by_kind=True)


def _types(fields: Fields, types: Mapping[str, Node], above: str, form: _Form) -> dict[str, kinds.Adt]:
    adts: dict[str, kinds.Adt] = {}
    for name, node in types.items():
        place = f"{above}.{name}" if above else name
        if not fields.name(name, place, forms.ALGEBRAIC_TYPES.reserved):
            adts[name] = kinds.Adt(name, ())
            continue
        before = len(fields.malformed)
        body = fields.form(node, place, form.type)
        constructors = []
        members = f"{place}.{form.members}"
        found = fields.mapping(body.entries.get(form.members), members)
        for constructor, value in found.entries.items():
            made = _constructor(fields, constructor, value, f"{members}.{constructor}", types, form)
            if made is not None:
                constructors.append(made)
        sound = len(fields.malformed) == before
        if sound and not constructors:
            fields.report(place, "M010", "must have at least one constructor")
        adts[name] = kinds.Adt(name, tuple(constructors) if sound else ())
    return adts


def _field_kind(text: str, types: Collection[str]) -> kinds.Kind | str:
    """Returns the kind of a constructor's field, which has a form in YAML, or a string that says what is wrong."""
    found = kinds.parameter_kind(text)
    if text in types or isinstance(found, kinds.Kind) and isinstance(found.given, (kinds.Opaque, kinds.DType)):
        return (
            f"{shown(text)} is no type of a field: it is int, bool, float, str, words, a list or tuple of these, or may"
            " be None"
        )
    return found


def _constructor(
    fields: Fields, name: str, node: Node, place: str, names: Collection[str], form: _Form
) -> kinds.Constructor | None:
    if not fields.name(name, place):
        return None
    body = fields.form(node, place, form.constructor)
    path = fields.text(body.entries.get(form.path), f"{place}.{form.path}")
    problem = "" if path is None else path_problem(path, last_may_be_private=form.by_kind)
    if path is not None and not problem and not form.by_kind and path.rpartition(".")[2] != name:
        problem = f"{shown(path)} must be the path of a Python class named {name}"
    if problem:
        fields.report(f"{place}.{form.path}", "M012", problem)
        path = None
    members, enums = [], []
    reserved = form.constructor.reserved("fields")
    for field, value in fields.mapping(body.entries.get("fields"), f"{place}.fields").entries.items():
        if form.by_kind and isinstance(value, MappingNode):
            text, enum = _enum_field(fields, value, f"{place}.fields.{field}")
            if enum is not None:
                enums.append((field, enum))
        else:
            text = fields.text(value, f"{place}.fields.{field}")
        if text is None or not fields.name(field, f"{place}.fields.{field}", reserved):
            continue
        found = _sum_kind(text, isinstance(value, MappingNode)) if form.by_kind else _field_kind(text, names)
        kind = read_kind(fields, found, f"{place}.fields.{field}")
        if kind is not None:
            members.append((field, kind))
    invariant = _invariant(
        fields, body.entries.get("invariant"), f"{place}.invariant", dict(members), f"{place}.fields"
    )
    if path is None:
        return None
    return kinds.Constructor(name, path, tuple(members), invariant, form.by_kind, tuple(enums))


def _enum_field(fields: Fields, node: MappingNode, place: str) -> tuple[str | None, str | None]:
    """Returns the words of a field and the path of their enum class, each None if reported."""
    body = fields.form(node, place, forms.ENUM_FIELD)
    text, path = (fields.text(body.entries.get(name), f"{place}.{name}") for name in ("type", "python"))
    problem = "" if path is None else path_problem(path, last_may_be_private=True)
    if problem:
        fields.report(f"{place}.python", "M012", problem)
        return text, None
    return text, path


def _sum_kind(text: str, only_words: bool) -> kinds.Kind | str:
    """Returns the kind of a field under `adts`, or a string that says what is wrong."""
    if text in kinds.FIELD_KINDS and not only_words:
        return kinds.FIELD_KINDS[text]
    found = kinds.parameter_kind(text)
    if isinstance(found, kinds.Enum) or isinstance(found, str) and not isinstance(found, kinds.UnknownType):
        return found
    known = "'words'" if only_words else f"{', '.join(kinds.FIELD_KINDS)} or 'words'"
    return f"{shown(text)} is no kind of a field under `{forms.ADTS}`: it is {known}"


def _invariant(
    fields: Fields, node: Node | None, place: str, members: Mapping[str, kinds.Kind], above: str
) -> tuple[str, expr.Expr] | None:
    """Returns the condition on the fields of a constructor, or None if it is absent or reported."""
    written = fields.parsed(node, place)
    if written is None:
        return None
    text, found = written
    if any(path.startswith(above) for path in fields.malformed):
        return None  # what it reads is not known
    scope = kind_check.Scope(members, {})
    kind = kind_check.check(found, scope, lambda what, message: fields.report(place, kind_check.CODES[what], message))
    if kind is not None and not isinstance(kind, kinds.Bool):
        fields.report(place, "M022", f"must be Bool, and is {kind}")
    elif kind is not None and not expr.names(found):
        fields.report(place, "M027", f"{shown(text)} reads no field; write a condition on the fields, or remove it")
    return written
