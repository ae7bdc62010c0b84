"""Reads the `signature` block: indices, parameters, tensors, lets and rules."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tileops.manifest.language import declarations, expr, expr_parser, kinds
from tileops.manifest.language.invariants import expect
from tileops.manifest.model import Expression, Param, Signature, Tensor
from tileops.manifest.reading import forms, values
from tileops.manifest.reading.fields import Fields
from tileops.manifest.reading.parse_types import parse_family, read_kind
from tileops.manifest.reading.source import Mapping as MappingNode
from tileops.manifest.reading.source import Node, Scalar, line_of


def parse_signature(fields: Fields, node: Node | None, adts: Mapping[str, kinds.Adt]) -> Signature:
    """Returns the signature. Reports what it could not read, and leaves it out."""
    return _SignatureParser(fields, adts).parse(node)


def expression(
    fields: Fields, node: Node | None, place: str, parse: Callable[[str], expr.Expr] = expr_parser.parse
) -> Expression | None:
    """Returns an expression field, or None if it is absent or reported."""
    found = fields.parsed(node, place, parse)
    return None if found is None else Expression(text=found[0], expr=found[1], line=line_of(node))


def _set_device(signature: Signature) -> None:
    """Takes the parameter that says where a call without tensors is out of all expressions, as an object."""
    if signature.device_param:
        param = signature.params[signature.device_param]
        members = (*param.kind.options, *[kinds.NONE] * isinstance(param.kind, kinds.Maybe))
        others = tuple(one for member in members for one in getattr(member, "others", (member,)))
        signature.params[param.name] = dataclasses.replace(param, kind=kinds.Opaque(param.type, others))


class _SignatureParser:
    def __init__(self, fields: Fields, adts: Mapping[str, kinds.Adt]) -> None:
        self._fields = fields
        self._adts = adts
        self._taken: dict[str, str] = {}
        self._twice: set[str] = set()
        self._loose: dict[str, Expression] = {}

    def parse(self, node: Node | None) -> Signature:
        body = self._fields.form(node, "signature", forms.SIGNATURE)
        get = body.entries.get
        constants: dict[str, Tensor] = {}
        signature = Signature(
            forall=self._members(get("forall"), "forall", self._index),
            params=self._members(get("params"), "params", partial(self._param, constants=constants)),
            inputs=self._members(get("inputs"), "inputs", self._input),
            outputs=self._members(get("outputs"), "outputs", self._output),
            families=self._members(
                get("types"),
                "types",
                lambda name, value, place: parse_family(self._fields, name, value, place, self._adts),
            ),
            lets=self._members(get("let"), "let", lambda name, value, place: expression(self._fields, value, place)),
            rules=self._expressions(get("shape_rules"), "signature.shape_rules"),
            constants=constants,
            combos=self._combos(get("dtype_combos")),
            loose=self._loose,
        )
        if not any(path.startswith(("signature.inputs", "signature.params")) for path in self._fields.malformed):
            _set_device(signature)
        self._check_outputs(body, signature)
        self._check_order(signature)
        for name in self._twice:  # it is not known which of the two is meant, so neither is used
            self._fields.malformed.add(f"{self._taken[name]}.{name}")
            for members in (
                signature.forall,
                signature.params,
                signature.inputs,
                signature.outputs,
                signature.families,
                signature.lets,
                constants,
            ):
                members.pop(name, None)
        return signature

    def _members(self, node: Node | None, section: str, build: Callable[[str, Node, str], Any]) -> dict[str, Any]:
        """Returns the members of one section by name. Names are distinct across all sections."""
        path = f"signature.{section}"
        found = self._fields.mapping(node, path)
        built = {}
        for name, value in found.entries.items():
            place = f"{path}.{name}"
            if not self._named(section, name, value, place):
                continue
            if name in self._taken:
                self._fields.report(place, "M014", f"{name!r} is declared in {self._taken[name]} already; rename one")
                self._twice.add(name)
                continue
            self._taken[name] = path
            made = build(name, value, place)
            if made is not None:
                built[name] = made
        return built

    def _named(self, section: str, name: str, node: Node, place: str) -> bool:
        """Returns whether a member may have its name, and reports it if not. An input `out` is a required buffer."""
        reserved = dict(forms.SIGNATURE.reserved(section))
        if section == "inputs" and name == forms.BUFFER and isinstance(node, MappingNode):
            given = {key: value.value for key, value in node.entries.items() if isinstance(value, Scalar)}
            optional = "optional" in node.entries and given.get("optional") is not False
            if not optional and all(given.get(key) is True for key in ("mutated", "write_only", "kw_only")):
                return True
            needs = "an input of this name is required, mutated: true, write_only: true and kw_only: true"
            reserved[name] = f"{reserved[name]}; {needs}"
        return self._fields.name(name, place, reserved)

    def _index(self, name: str, node: Node, place: str) -> kinds.Kind | None:
        text = self._fields.text(node, place)
        return None if text is None else read_kind(self._fields, kinds.index_kind(text), place)

    def _param(self, name: str, node: Node, place: str, constants: dict[str, Tensor]) -> Param | None:
        is_tensor = isinstance(node, MappingNode) and not node.entries.keys().isdisjoint(forms.TENSOR_FIELDS)
        body = self._fields.mapping(node, place, forms.PARAM.names, () if is_tensor else ("type",))
        get = body.entries.get
        optional, own = self._optional(body, place) if is_tensor else (None, False)
        text = self._fields.text(get("type"), f"{place}.type")
        if is_tensor and "type" not in body.entries and f"{place}.type" not in self._fields.malformed:
            text = "torch.Tensor" if optional is None else "torch.Tensor | None"
        if text is None:
            return None
        kind = read_kind(self._fields, kinds.parameter_kind(text, self._adts), f"{place}.type")
        if kind is None:
            return None
        if is_tensor:
            made = self._constant(name, text, body, place, optional, own)
            if made is not None:
                constants[name] = made
        elif isinstance(kind.given, kinds.Opaque) and not self._object(text, kind, get("default"), place):
            return None
        default = None
        if (default_node := get("default")) is not None:
            plain = self._fields.plain(default_node, f"{place}.default", mappings=isinstance(kind.given, kinds.Adt))
            default = values.as_algebraic(plain, kind)
            if not values.fits(default, kind):
                self._fields.report(f"{place}.default", "M012", values.misfit(default, kind, text))
        return Param(
            name=name,
            type=text,
            kind=kind,
            required=default_node is None and optional is None,
            default=default,
            line=node.line,
            kw_only=bool(self._fields.scalar(get("kw_only"), f"{place}.kw_only", bool)),
        )

    def _object(self, text: str, kind: kinds.Kind, default: Node | None, place: str) -> bool:
        """Reports a parameter that is an object, which no row can write, unless rows may write something else.

        Returns False if the type is unknown: a bare name is an object only as `Name | None` with `default: null`.
        """
        given = expect(kind.given, kinds.Opaque)
        left_out = isinstance(default, Scalar) and default.value is None
        if given.is_bare and not (isinstance(kind, kinds.Maybe) and left_out):
            self._fields.report(f"{place}.type", "M023", kinds.unknown_type(text, self._adts))
            return False
        if "torch.Tensor" in text:
            self._fields.report(
                f"{place}.type", "M012", "a construction-time tensor needs dtype and shape; write both beside the type"
            )
        elif not isinstance(kind, kinds.Maybe) and not given.others:
            self._fields.report(
                f"{place}.type", "M012", f"no row can write a {kind}; write {kind} | None, with `default: null`"
            )
        return True

    def _constant(
        self, name: str, text: str, body: MappingNode, place: str, optional: Expression | None, own: bool
    ) -> Tensor | None:
        """Returns a construction-time tensor: a parameter with dtype and shape, of type torch.Tensor."""
        if text not in ("torch.Tensor", "torch.Tensor | None") or not {"dtype", "shape"} <= body.entries.keys():
            self._fields.report(
                place,
                "M012",
                "a construction-time tensor has dtype and shape, and its type, if written, is torch.Tensor (or"
                " torch.Tensor | None)",
            )
            return None
        if {"type", "optional"} <= body.entries.keys():
            message = "`type` says already whether the tensor may be None; leave out `type` or `optional`"
            self._fields.report(f"{place}.optional", "M012", message)
            return None
        is_optional = own or (optional is None and text.endswith("None"))
        when = None if own else optional
        return self._tensor(name, body, place, optional=is_optional, when=when, **self._metadata(body, place))

    def _optional(self, body: MappingNode, place: str) -> tuple[Expression | None, bool]:
        """Returns the condition of `optional`, and whether it is `true`, a choice of the caller."""
        written = body.entries.get("optional")
        optional = self._condition(written, f"{place}.optional")
        return optional, optional is not None and isinstance(written, Scalar) and written.value is True

    def _metadata(self, body: MappingNode, place: str) -> dict[str, Any]:
        """Returns what a bound tensor says of its contents and its device."""
        fields, get = self._fields, body.entries.get
        if "requires" in body.entries and "values" not in body.entries:
            fields.report(f"{place}.requires", "M051", "requires needs `values`")
        return {
            "requires": self._expressions(get("requires"), f"{place}.requires"),
            "values": self._filling(get("values"), f"{place}.values"),
            "on_cpu": fields.text(get("device"), f"{place}.device", (forms.DEVICE,)) is not None,
        }

    def _input(self, name: str, node: Node, place: str) -> Tensor | None:
        fields = self._fields
        body = fields.form(node, place, forms.INPUT)
        get = body.entries.get
        optional, own = self._optional(body, place)
        write_only = bool(fields.scalar(get("write_only"), f"{place}.write_only", bool))
        return self._tensor(
            name,
            body,
            place,
            optional=own,
            when=None if own else optional,
            mutated=self._condition(get("mutated"), f"{place}.mutated"),
            write_only=write_only,
            kw_only=bool(fields.scalar(get("kw_only"), f"{place}.kw_only", bool)),
            **self._metadata(body, place),
        )

    def _output(self, name: str, node: Node, place: str) -> Tensor | None:
        fields = self._fields
        body = fields.form(node, place, forms.OUTPUT)
        get = body.entries.get
        buffer = fields.text(get("buffer"), f"{place}.buffer", (forms.BUFFER,))
        return self._tensor(
            name,
            body,
            place,
            when=expression(fields, get("nullable"), f"{place}.nullable"),
            buffer=buffer is not None,
            alias=fields.text(get("alias"), f"{place}.alias") or "",
        )

    def _tensor(self, name: str, body: MappingNode, place: str, **facts: Any) -> Tensor | None:
        dtype = expression(self._fields, body.entries.get("dtype"), f"{place}.dtype")
        shape = expression(self._fields, body.entries.get("shape"), f"{place}.shape", expr_parser.parse_shape)
        contiguous = bool(self._fields.scalar(body.entries.get("contiguous"), f"{place}.contiguous", bool))
        if dtype is None or shape is None:
            condition = "nullable" if place.startswith("signature.outputs.") else "optional"
            parts = {"dtype": dtype, "shape": shape, "mutated": facts.get("mutated"), condition: facts["when"]}
            self._loose.update((f"{place}.{field}", found) for field, found in parts.items() if found is not None)
            return None
        return Tensor(name=name, dtype=dtype, shape=shape, contiguous=contiguous, line=body.line, **facts)

    def _condition(self, node: Node | None, place: str) -> Expression | None:
        """Returns a condition, written as `true` or an expression; None if it is absent, `false` or reported."""
        if isinstance(node, Scalar) and isinstance(node.value, bool):
            return Expression(text="true", expr=expr.Literal(True), line=node.line) if node.value else None
        return expression(self._fields, node, place)

    def _filling(self, node: Node | None, place: str) -> Expression | None:
        """Returns a call of a generator, under its first name; None if it is absent or reported."""
        found = expression(self._fields, node, place)
        if found is None or not isinstance(found.expr, expr.Call):
            return found
        function = declarations.SYNONYMS.get(found.expr.function, found.expr.function)
        return dataclasses.replace(found, expr=dataclasses.replace(found.expr, function=function))

    def _expressions(self, node: Node | None, path: str) -> tuple[Expression, ...]:
        found = (
            expression(self._fields, item, f"{path}[{at}]") for at, item in enumerate(self._fields.sequence(node, path))
        )
        return tuple(one for one in found if one is not None)

    def _combos(self, node: Node | None) -> tuple[dict[str, str | None], ...]:
        path = "signature.dtype_combos"
        items = self._fields.sequence(node, path, least="combination; without this field every combination is accepted")
        return tuple(self._combo(item, f"{path}[{at}]") for at, item in enumerate(items))

    def _combo(self, node: Node, place: str) -> dict[str, str | None]:
        """Returns one combination: a dtype for each column, or null for a parameter that is None."""
        found: dict[str, str | None] = {}
        for name, value in self._fields.mapping(node, place).entries.items():
            is_null = isinstance(value, Scalar) and value.value is None
            text = None if is_null else self._fields.text(value, f"{place}.{name}")
            if is_null or text is not None:
                found[name] = text
        return found

    def _check_outputs(self, body: MappingNode, signature: Signature) -> None:
        """Reports a signature whose calls give nothing: without an output, and without an input that is written."""
        written = body.entries.get("outputs")
        if written is None or (isinstance(written, MappingNode) and not written.entries):
            unclear = any(
                path == "signature" or path.startswith(("signature.inputs", "signature.outputs"))
                for path in self._fields.malformed
            )
            if not unclear and not any(tensor.mutated is not None for tensor in signature.inputs.values()):
                message = "must name at least one tensor: the op gives nothing, and no input is `mutated`"
                self._fields.report("signature.outputs", "M010", message)

    def _check_order(self, signature: Signature) -> None:
        """Reports required inputs and positional parameters that follow optional ones, or those passed by name."""
        optional, named = None, None
        for tensor in signature.inputs.values():
            if tensor.kw_only:
                named = named or tensor.name
                if not tensor.may_be_absent and tensor.name != forms.BUFFER:
                    message = "a kw_only input is optional; write `optional`, or leave out kw_only"
                    self._fields.report(f"signature.inputs.{tensor.name}.kw_only", "M012", message)
                    continue
            elif named is not None:
                message = f"a positional input follows the kw_only {named!r}; put kw_only inputs last"
                self._fields.report(f"signature.inputs.{tensor.name}", "M012", message)
                continue
            if tensor.name == forms.BUFFER:
                continue
            if tensor.may_be_absent:
                optional = optional or tensor.name
            elif optional is not None:
                self._fields.report(
                    f"signature.inputs.{tensor.name}",
                    "M012",
                    f"a required input follows the optional {optional!r}; put optional inputs last",
                )
        defaulted = None
        for param in (param for param in signature.params.values() if not param.kw_only):
            if not param.required:
                defaulted = defaulted or param.name
            elif defaulted is not None:
                self._fields.report(
                    f"signature.params.{param.name}",
                    "M012",
                    f"has no default and follows {defaulted!r}, which has one; put it before, or make it kw_only",
                )
