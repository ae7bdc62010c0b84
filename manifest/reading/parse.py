"""Makes the model of one entry from YAML nodes, and reports each defect once."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tileops.manifest.diagnostics import Diagnostics
from tileops.manifest.language import kinds
from tileops.manifest.language.text import shown
from tileops.manifest.model import Entry, RooflineField, Row, Signature, Stage
from tileops.manifest.reading import forms, source
from tileops.manifest.reading.fields import MAX_ROWS, Fields
from tileops.manifest.reading.parse_signature import parse_signature
from tileops.manifest.reading.source import Mapping as MappingNode
from tileops.manifest.reading.source import Node
from tileops.manifest.reading.value_lists import MAX_LISTS, as_list
from tileops.manifest.reading.values import as_algebraic


def parse_entry(
    op: str,
    node: Node,
    line: int,
    file: str,
    diagnostics: Diagnostics,
    adts: Mapping[str, kinds.Adt] | None = MappingProxyType({}),
) -> Entry:
    """Returns the entry `op`. Reports what it could not read, and lists it in `Entry.malformed`.

    Args:
      op: the entry's name, the key under which it stands.
      node, line: the entry and the line of its key.
      file: the name under which defects are reported.
      diagnostics: takes the defects.
      adts: the algebraic types of types.yaml; None if the file could not be read.
    """
    lines = {"": line, **source.lines(node, 5)}
    fields = Fields(file, op, lines, diagnostics, types_readable=adts is not None)
    if not forms.OP_NAME.fullmatch(op):
        fields.report("", "M013", f"{shown(op)} is no op name; write {{Pascal}}[Fwd|Bwd]Op")
    named = not fields.malformed
    body = fields.form(node, "", forms.ENTRY) if named or isinstance(node, MappingNode) else MappingNode({}, {}, line)
    get = body.entries.get
    status = fields.text(get("status"), "status", forms.STATUSES)
    ref_api = fields.text(get("ref_api"), "ref_api")
    if ref_api is not None and not forms.QUALIFIED_NAME.fullmatch(ref_api):
        fields.report("ref_api", "M012", f"{shown(ref_api)} is no qualified name such as torch.sum")
    signature = parse_signature(fields, get("signature"), adts or {})
    block = get("roofline")
    return Entry(
        op=op,
        file=file,
        line=line,
        family=fields.text(get("family"), "family") or "",
        status=status or "",
        ref_api=ref_api or "",
        signature=signature,
        rows=_rows(fields, get("workloads"), signature),
        roofline=None if block is None else _roofline(fields, block),
        stages=_composition(fields, get("composition")),
        malformed=frozenset(fields.malformed),
        lines=lines,
    )


def _roofline(fields: Fields, block: Node) -> dict[str, RooflineField] | None:
    found = fields.mapping(block, "roofline")
    if "roofline" in fields.malformed:
        return None
    return {  # any value is read; the roofline analysis refuses what is no text
        name: RooflineField(value=fields.plain(value, f"roofline.{name}", mappings=True), line=value.line)
        for name, value in found.entries.items()
    }


def _rows(fields: Fields, node: Node | None, signature: Signature) -> tuple[Row, ...]:
    rows: list[Row] = []
    called = 0  # items of the lists that calls give
    for position, item in enumerate(fields.sequence(node, "workloads", MAX_ROWS, least="row")):
        path = f"workloads[{position}]"
        before = len(fields.malformed)
        body = fields.form(item, path, forms.ROW)
        label = fields.text(body.entries.get("label"), f"{path}.label")
        if label is not None and not forms.LABEL.fullmatch(label):
            fields.report(f"{path}.label", "M013", f"{shown(label)} is no label ([A-Za-z0-9._-], 1 to 80)")
            label = None
        some = fields.texts(body.entries.get("some"), f"{path}.some")
        cases = tuple(
            fields.words(part, f"{path}.dtype_cases[{at}]")
            for at, part in enumerate(fields.sequence(body.entries.get("dtype_cases"), f"{path}.dtype_cases"))
        )
        bindings = {}
        for name, value in body.entries.items():
            if name not in forms.ROW.fields:
                kind = signature.params[name].kind if name in signature.params else kinds.NONE
                mappings = name not in signature.params or isinstance(kind.given, kinds.Adt)
                plain = fields.plain(value, f"{path}.{name}", mappings=mappings)
                bindings[name] = as_list(as_algebraic(plain, kind), signature.forall.get(name))
                called += len(bindings[name]) if isinstance(plain, str) else 0
                if called > MAX_LISTS:
                    fields.report(path, "M003", f"lists of more than {MAX_LISTS} items in all, with those before")
                    return tuple(rows)
        if label is not None and len(fields.malformed) == before:
            rows.append(
                Row(
                    label=label,
                    bindings=bindings,
                    some=some,
                    dtype_cases=cases or ({},),
                    line=item.line,
                    position=position,
                )
            )
    return tuple(rows)


def _composition(fields: Fields, node: Node | None) -> tuple[Stage, ...]:
    if node is None:
        return ()
    body = fields.form(node, "composition", forms.COMPOSITION)
    fields.text(body.entries.get("kind"), "composition.kind", (forms.COMPOSITE,))
    stages: list[Stage] = []
    named: set[str] = set()
    stages_node = body.entries.get("stages")
    for position, item in enumerate(fields.sequence(stages_node, "composition.stages", least="stage")):
        path = f"composition.stages[{position}]"
        stage = fields.form(item, path, forms.STAGE)
        get = stage.entries.get
        name = fields.text(get("name"), f"{path}.name")
        runs = {key: fields.text(get(key), f"{path}.{key}") or "" for key in ("op", "kernel")}
        optional = bool(fields.scalar(get("optional"), f"{path}.optional", bool))
        if not {path, f"{path}.op", f"{path}.kernel"} & fields.malformed and ("op" in stage.entries) == (
            "kernel" in stage.entries
        ):
            fields.report(path, "M070", "a stage is run by an op or a kernel; name exactly one of them")
        if name is None or not fields.name(name, f"{path}.name"):
            continue
        if name in named:
            fields.report(f"{path}.name", "M014", f"another stage is called {name!r} already; rename one")
            continue
        named.add(name)
        if not (runs["op"] and runs["kernel"]):  # if both are named, it is not known which is meant
            stages.append(
                Stage(
                    name=name,
                    op=runs["op"],
                    kernel=runs["kernel"],
                    optional=optional,
                    line=stage.line,
                    position=position,
                )
            )
    return tuple(stages)
