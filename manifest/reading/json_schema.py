"""Writes the JSON Schema (draft 2020-12) of spec files and of types.yaml from the parser's table of fields.

A schema is for editors: it completes fields and refuses what the parser refuses for its form only. What needs to read
an expression, or two places together, is the validator's. Keywords are those that a reader of draft 7 knows too.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from typing import Any

from tileops.manifest.language import declarations, expr_parser, kinds, names
from tileops.manifest.language.dtypes import BITS
from tileops.manifest.reading import forms

Json = dict[str, Any]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_NON_EMPTY = {"type": "string", "pattern": r"\S"}
_TENSOR_TYPES = ["torch.Tensor", "torch.Tensor | None"]


def spec_schema() -> Json:
    """Returns the schema of a spec file."""
    return _Writer().document(
        "A spec file of the manifest: ops by name", forms.Members(forms.ENTRY, least=1, names=forms.OP_NAME)
    )


def types_schema() -> Json:
    """Returns the schema of types.yaml."""
    return _Writer().types("types.yaml of the manifest: algebraic types by name")


class _Writer:
    """Writes one document. Each form and each sort of text is in its `$defs` once."""

    def __init__(self) -> None:
        self._defs: dict[str, Json] = {}

    def document(self, title: str, root: forms.Members) -> Json:
        body = self._held(root)
        return {"$schema": _DIALECT, "title": title, **body, "$defs": dict(sorted(self._defs.items()))}

    def types(self, title: str) -> Json:
        """Returns the document of types.yaml, in either of its forms."""
        other = {
            "if": {"required": [forms.ADTS]},
            "then": self._held(forms.SUMS),
            "else": self._held(forms.ALGEBRAIC_TYPES),
        }
        return {
            "$schema": _DIALECT,
            "title": title,
            "type": "object",
            **other,
            "$defs": dict(sorted(self._defs.items())),
        }

    def _held(self, holds: forms.Holds) -> Json:
        return getattr(self, f"_{type(holds).__name__}")(holds)

    def _shared(self, name: str, body: Json) -> Json:
        self._defs.setdefault(name, body)
        return {"$ref": f"#/$defs/{name}"}

    def _Text(self, text: forms.Text) -> Json:
        patterned = _NON_EMPTY if text.pattern is None else {"type": "string", "pattern": _whole(text.pattern)}
        if text.choices:
            choices: Json = {"enum": [*text.choices, *([None] if text.nullable else [])]}
            return choices if text.pattern is None else {"anyOf": [choices, patterned]}
        return patterned

    def _Flag(self, flag: forms.Flag) -> Json:
        return {"type": "boolean"}

    def _Formula(self, formula: forms.Formula) -> Json:
        calls = ", ".join(f"{name}()" for name in declarations.PRIMITIVES)
        text = self._shared(
            "expression",
            {
                **_NON_EMPTY,
                "maxLength": expr_parser.MAX_CHARS,
                "description": f"An expression. Primitives: {calls}, present().",
            },
        )
        return {"anyOf": [{"type": "boolean"}, text]} if formula.flag else text

    def _ShapeText(self, shape: forms.ShapeText) -> Json:
        return self._shared(
            "shape",
            {
                "type": "string",
                "maxLength": expr_parser.MAX_CHARS,
                "pattern": r"^[\s(]*([A-Za-z_][A-Za-z0-9_]*\s*)?\[",
                "description": "[axis, *Run, ...], or one application of a type family, Family[argument, ...].",
            },
        )

    def _GeneratorCall(self, call: forms.GeneratorCall) -> Json:
        return self._shared(
            "generator", _call("A call of a generator", [*declarations.GENERATORS, *declarations.SYNONYMS])
        )

    def _PredicateCall(self, call: forms.PredicateCall) -> Json:
        return self._shared(
            "predicate", _call("A call of a predicate, its tensor left out", [*declarations.PREDICATES])
        )

    def _IndexKind(self, kind: forms.IndexKind) -> Json:
        plain, dtype = list(kinds.INDEX_KINDS), f"({'|'.join(BITS)})"
        one = "|".join(r"\s+".join(re.escape(part) for part in name.split()) for name in plain)
        return self._shared(
            "kind",
            {
                "anyOf": [
                    {"enum": plain},
                    {"type": "string", "pattern": rf"^\s*({one}|DType\[\s*{dtype}(\s*\|\s*{dtype})*\s*\])\s*$"},
                ],
                "description": "Dim: an axis length. Shape: a run of axes. DType[a | b]: one of some dtypes. "
                "Seq[Int]: a row's list.",
            },
        )

    def _ParameterType(self, kind: forms.ParameterType) -> Json:
        known = [*(name for name in kinds.SIMPLE_TYPES if name != "None"), *_TENSOR_TYPES]
        return self._shared(
            "type",
            {
                "anyOf": [{"enum": [*known, *(name for name in BITS if name not in known)]}, _NON_EMPTY],
                "description": "Types joined with |: int, bool, float, str, 'literal', dtypes, list[X], tuple[X, ...], "
                "None, ...",
            },
        )

    def _FieldKind(self, kind: forms.FieldKind) -> Json:
        words = {"type": "string", "pattern": "['\"]"}
        return self._shared(
            "field_kind", {"anyOf": [{"enum": list(kinds.FIELD_KINDS)}, words, self._held(forms.ENUM_FIELD)]}
        )

    def _FamilyKind(self, kind: forms.FamilyKind) -> Json:
        return self._shared(
            "family_kind",
            {
                "anyOf": [{"enum": ["Bool", "Int", *kinds.INDEX_KINDS]}, _NON_EMPTY],
                "description": "Bool, Int, an index kind, string literals joined with |, or an algebraic type.",
            },
        )

    def _Value(self, value: forms.Value) -> Json:
        plain = self._shared(
            "plain",
            {
                "anyOf": [
                    {"type": ["string", "number", "boolean", "null"]},
                    {"type": "array", "items": {"$ref": "#/$defs/plain"}},
                ]
            },
        )
        fields = {"type": "object", "additionalProperties": plain}
        literal = {"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": fields}
        return self._shared(
            "value",
            {
                "anyOf": [plain, literal],
                "description": "A plain value, a list, or {constructor: {field: value}}. Of a Seq[Int] index also a call"
                " such as repeat(96, 3).",
            },
        )

    def _CasePattern(self, pattern: forms.CasePattern) -> Json:
        literal = {"type": ["string", "number", "boolean", "null"]}
        fields = {"anyOf": [{"const": "_"}, {"type": "object", "additionalProperties": literal}]}
        matched = {"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": fields}
        one = {"anyOf": [literal, matched]}
        return self._shared("case_pattern", {"anyOf": [one, {"type": "array", "items": one, "minItems": 2}]})

    def _Either(self, either: forms.Either) -> Json:
        return {"anyOf": [self._held(one) for one in either.of]}

    def _Items(self, items: forms.Items) -> Json:
        body = {"type": "array", "items": self._held(items.of)}
        return {**body, "minItems": items.least} if items.least else body

    def _Members(self, members: forms.Members) -> Json:
        body: Json = {"type": "object"}
        if members.least:
            body["minProperties"] = members.least
        if members.names is names.NAME:
            body["propertyNames"] = self._name(members.reserved)
        if members.special:
            body["propertyNames"] = {"anyOf": [{"enum": [*members.special]}, body["propertyNames"]]}
            body["properties"] = {name: self._held(special) for name, special in members.special.items()}
        if members.names in (None, names.NAME):
            return {**body, "additionalProperties": self._held(members.of)}
        return {
            **body,
            "patternProperties": {_whole(members.names): self._held(members.of)},
            "additionalProperties": False,
        }

    def _name(self, reserved: Mapping[str, str]) -> Json:
        """Returns the schema of a name that is not reserved."""
        everywhere = self._shared(
            "name",
            {"pattern": f"^{names.NAME.pattern}$", "not": {"enum": sorted({*keyword.kwlist, *names.RESERVED_NAMES})}},
        )
        besides = sorted(reserved.keys() - names.RESERVED_NAMES.keys())
        return {"allOf": [everywhere, {"not": {"enum": besides}}]} if besides else everywhere

    def _Form(self, form: forms.Form) -> Json:
        body: Json = {
            "type": "object",
            "description": form.summary,
            "properties": {key: self._field(field) for key, field in form.fields.items()},
            "additionalProperties": self._held(forms.Value()) if form.open else False,
        }
        if form.required:
            body["required"] = list(form.required)
        return self._shared(form.name, body | _ACROSS.get(form.name, {}))

    def _field(self, field: forms.Field) -> Json:
        return {**self._held(field.holds), "description": field.summary}


def _whole(pattern: re.Pattern[str]) -> str:
    """Returns the pattern of a whole text, for readers whose \\w is not Python's."""
    return f"^{pattern.pattern.replace(chr(92) + 'w', '[A-Za-z0-9_]')}$"


def _call(summary: str, declared: list[str]) -> Json:
    names = "|".join(r"\s*\.\s*".join(name.split(".")) for name in declared)
    described = "; ".join(f"{name}: {declarations.summary(declarations.SYNONYMS.get(name, name))}" for name in declared)
    return {
        "type": "string",
        "maxLength": expr_parser.MAX_CHARS,
        "pattern": rf"^[\s(]*({names})\s*\(",
        "description": f"{summary}. {described}",
    }


def _together(field: str, needs: str) -> Json:
    return {"if": {"required": [field]}, "then": {"required": [needs]}}


# What the fields of one form require of each other.
_ACROSS: dict[str, Json] = {
    "param": {
        "if": {"anyOf": [{"required": [field]} for field in forms.TENSOR_FIELDS]},
        "then": {
            "required": ["dtype", "shape"],
            "properties": {"type": {"enum": _TENSOR_TYPES}},
            "not": {"required": ["type", "optional"]},
            "allOf": [_together("requires", "values")],
        },
        "else": {"required": ["type"]},
    },
    "input": {
        "allOf": [
            _together("requires", "values"),
            {
                "if": {"required": ["write_only"], "properties": {"write_only": {"const": True}}},
                "then": {"required": ["mutated"]},
            },
            {
                "if": {"required": ["kw_only"], "properties": {"kw_only": {"const": True}}},
                "then": {"required": ["optional"], "properties": {"optional": {"not": {"const": False}}}},
            },
        ]
    },
    "out": {
        "required": ["dtype", "shape", "mutated", "write_only", "kw_only"],
        "allOf": [
            {"properties": dict.fromkeys(("mutated", "write_only", "kw_only"), {"const": True})},
            {"properties": {"optional": {"const": False}}},
        ],
    },
    "signature": {
        "anyOf": [
            {"required": ["outputs"], "properties": {"outputs": {"minProperties": 1}}},
            # Without outputs some input is mutated: not every input is another one.
            {
                "required": ["inputs"],
                "properties": {
                    "inputs": {
                        "not": {
                            "additionalProperties": {
                                "not": {"required": ["mutated"], "properties": {"mutated": {"not": {"const": False}}}}
                            }
                        }
                    }
                },
            },
        ]
    },
    "roofline": {"oneOf": [{"required": ["flops"]}, {"required": ["func"]}], "not": {"required": ["func", "bytes"]}},
    "stage": {"oneOf": [{"required": ["op"]}, {"required": ["kernel"]}]},
}
