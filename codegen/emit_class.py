"""Emits the class of one entry: constants, `__init__`, `forward`, `check`, the price and the workload cases."""

from __future__ import annotations

import pathlib
from typing import Any

from tileops.codegen.analysis import Analysis
from tileops.codegen.branches import Branches
from tileops.codegen.call_decisions import CallDecisions
from tileops.codegen.emit_check import emit_check
from tileops.codegen.emit_construction import emit_construction
from tileops.codegen.emit_library import operator_schema, returned_names
from tileops.codegen.emit_price import emit_price
from tileops.codegen.imports import Outside, algebraic
from tileops.codegen.python_form import is_not_none, python_form
from tileops.codegen.source_text import Lines, call, declared, literal, plain, quoted
from tileops.manifest.check import Checked
from tileops.manifest.language import expr, kinds
from tileops.manifest.language.adt import AdtValue
from tileops.manifest.language.invariants import expect
from tileops.manifest.model import FamilyCase, Param, Signature, Stage, Tensor, TypeFamily
from tileops.manifest.reading.values import form_of
from tileops.manifest.rows.cases import CaseTensor


def emit_class(checked: Checked, analysis: Analysis, outside: Outside, lines: Lines) -> None:
    """Appends the class of one entry, which must be free of defects.

    Args:
      checked, analysis: what was found of the entry.
      outside: how the module writes what the entry refers to.
      lines: takes the class.
    """
    entry = checked.entry
    with lines.block(f"class {entry.op}(_Op, generated=True):"):
        _docstring(checked, lines)
        signature = entry.signature
        for name, value in (
            ("ENTRY", entry.op),
            ("SPEC", _place(checked)),
            ("FAMILY", entry.family),
            ("STATUS", entry.status),
            ("REF_API", entry.ref_api),
            ("INPUT_NAMES", tuple(signature.inputs)),
            ("OUTPUT_NAMES", tuple(signature.outputs)),
            ("MUTATED_NAMES", tuple(n for n, t in signature.inputs.items() if t.mutated is not None)),
            ("METADATA_NAMES", tuple(n for n, t in signature.bound.items() if t.values is not None)),
            ("CONSTANT_NAMES", tuple(signature.constants)),
            ("CPU_NAMES", tuple(n for n, t in signature.bound.items() if t.on_cpu)),
            ("DEVICE_PARAM", signature.device_param),
            ("CONTIGUOUS_NAMES", tuple(n for n, t in signature.outputs.items() if t.contiguous)),
            ("BUFFER_NAMES", tuple(n for n, t in signature.outputs.items() if t.buffer)),
            ("FUNC", analysis.func),
        ):
            if value:
                lines.add(f"{name} = {literal(value)}")
        if analysis.func and entry.status == "implemented":  # that of a spec-only entry may not be written yet
            place = f"{pathlib.PurePath(entry.file).name}:{analysis.func_line}"
            module, name = outside.function(analysis.func).split(".")
            lines.call("_checks.require_formula", ["ENTRY", literal(place), module, literal(name)])
        _operator(signature, lines)
        if entry.stages:
            lines.add("STAGES = (", *(f"    {_stage(stage)}," for stage in entry.stages), ")")
        branches, decided = expect(analysis.branches, Branches), expect(analysis.calls, CallDecisions)
        if len(branches.texts) == 1:
            lines.add(f"BRANCHES = {literal(branches.texts)}")
        else:
            lines.call("BRANCHES = ", ["\n".join(quoted("", text, lines.room - 5)) for text in branches.texts])
        lines.add("")
        _init(checked, decided, outside, lines)
        _forward(checked, lines)
        emit_check(checked, decided, lines)
        emit_price(entry, analysis, outside, lines)
        lines.add("")
        _cases(checked, branches, lines)


def _operator(signature: Signature, lines: Lines) -> None:
    returned = returned_names(signature)
    lines.add(*quoted("SCHEMA = ", operator_schema(signature), lines.room))
    lines.add(
        f"RETURNED_NAMES = {'OUTPUT_NAMES' if returned and returned == tuple(signature.outputs) else literal(returned)}"
    )


def _stage(stage: Stage) -> str:
    runs = f"op={literal(stage.op)}" if stage.op else f"kernel={literal(stage.kernel)}"
    return f"_Stage(name={literal(stage.name)}, {runs}{', optional=True' if stage.optional else ''})"


def _docstring(checked: Checked, lines: Lines) -> None:
    entry, signature = checked.entry, checked.entry.signature
    lines.add(f'"""{entry.ref_api or entry.op}, checked and priced as {_place(checked)} states.', "")
    if signature.inputs:
        lines.add("Inputs:", *(f"  {_declared(tensor)}" for tensor in signature.inputs.values()))
    if signature.outputs:
        lines.add("Outputs:", *(f"  {_declared(tensor)}" for tensor in signature.outputs.values()))
    if signature.params:
        lines.add("Parameters:")
        for param in signature.params.values():
            default = "" if param.required else f", default {plain(_default(param.default))}"
            lines.add(f"  {param.name}: {plain(param.type)}{default}")
    where = [f"  {name}: {kind}" for name, kind in signature.forall.items()]
    where += [f"  {name} = {plain(let.text)}" for name, let in signature.lets.items()]
    where += [
        f"  {family.name}[{', '.join(family.params)}] = "
        + ", ".join(f"{expr.to_source(case.shape)} {_where(family, case)}" for case in family.cases)
        for family in signature.families.values()
    ]
    if where:
        lines.add("Where:", *where)
    if signature.rules:
        lines.add("Rules:", *(f"  {plain(rule.text)}" for rule in signature.rules))
    lines.add('"""', "")


def _place(checked: Checked) -> str:
    """Returns the file's name and line of the entry, without the folder, which differs between machines."""
    return f"{pathlib.PurePath(checked.entry.file).name}:{checked.entry.line}"


def _default(value: Any) -> str:
    return str(value) if isinstance(value, AdtValue) else literal(value).replace("_math.inf", "inf")


def _where(family: TypeFamily, case: FamilyCase) -> str:
    found = [
        f"{name} is {pattern}"
        for name, pattern in zip(family.match, case.patterns, strict=True)
        if not pattern.anything
    ]
    return f"where {' and '.join(found)}" if found else "in every call"


def _declared(tensor: Tensor) -> str:
    notes = [plain(declared(tensor.dtype.text, tensor.shape.text))]
    if tensor.optional:
        notes.append("optional")
    if tensor.when is not None:
        notes.append(f"present where {plain(tensor.when.text)}")
    if tensor.alias:
        notes.append(f"the input {tensor.alias} itself where that is written")
    if tensor.buffer:
        notes.append("its storage may be passed as out")
    if tensor.contiguous:
        notes.append("contiguous")
    if tensor.on_cpu:
        notes.append("on the cpu")
    if tensor.mutated is not None:
        when = "" if tensor.mutated.expr == expr.Literal(True) else f" where {plain(tensor.mutated.text)}"
        notes.append(f"{'written' if tensor.write_only else 'read and written'}{when}")
    if tensor.values is not None:
        notes.append("its values decide the work")
    return f"{tensor.name}: {', '.join(notes)}"


def _init(checked: Checked, decided: CallDecisions, outside: Outside, lines: Lines) -> None:
    entry, params = checked.entry, checked.entry.signature.params
    positional = [param for param in params.values() if not param.kw_only]
    keyword = [param for param in params.values() if param.kw_only]
    arguments = ["self", *map(_argument, positional), "*", *map(_argument, keyword), "target=None"]
    header = call("def __init__", arguments, lines.room - len(" -> None:"))
    lines.add(*header[:-1], f"{header[-1]} -> None:")
    lines.indent(1)
    for param in params.values():
        if param.name not in entry.signature.constants:
            is_device = param.name == entry.signature.device_param
            _parameter_check(entry.op, param, is_device, outside, lines)
    emit_construction(checked, decided, lines)
    constants = checked.entry.signature.constants
    values = "{" + ", ".join(f'"{p.name}": {_stored(p)}' for p in params.values() if p.name not in constants) + "}"
    held = ["{" + ", ".join(f'"{name}": {name}' for name in constants) + "}"] if constants else []
    lines.call("_Op.__init__", ["self", values, "target", *held])
    lines.indent(-1)
    lines.add("")


def _argument(param: Param) -> str:
    return param.name if param.required else f"{param.name}={literal(param.default)}"


def _parameter_check(op: str, param: Param, is_device: bool, outside: Outside, lines: Lines) -> None:
    if any(isinstance(one, kinds.DType) for one in param.kind.options):
        lines.add(f"{param.name} = _checks.plain_dtype({param.name})")
    adt = algebraic(param.kind)
    if adt is not None:
        lines.call(
            f"{param.name} = _checks.algebraic", [literal(op), literal(param.name), param.name, outside.sum(adt)]
        )
    if is_device:
        arguments = [literal(op), literal(param.name), literal(param.type), param.name]
        lines.call("_checks.check_device", arguments)
        return
    test = _type_test(param.name, param.kind, outside)
    if test == "True":
        return  # an object that takes no part in the language
    with lines.block(f"if not ({test}):" if " " in test.replace(", ", ",") else f"if not {test}:"):
        lines.call("raise _checks.parameter_error", [literal(op), literal(param.name), literal(param.type), param.name])
    _constructor_checks(op, param, outside, lines)


def _constructor_checks(op: str, param: Param, outside: Outside, lines: Lines) -> None:
    """Emits the checks of an algebraic value's fields and invariant, which the caller's class may not check."""
    kind = algebraic(param.kind)
    for constructor in kind.constructors if kind is not None else ():
        types = [_type_test(f"{param.name}.{field}", found, outside) for field, found in constructor.fields]
        tests = [f"({test})" if " or " in test else test for test in types if test != "True"]
        if not tests:
            continue
        arguments = [literal(op), literal(param.name), literal(f"{param.type}, {form_of(constructor)}"), param.name]
        given = f"{param.name} is not None and " if isinstance(param.kind, kinds.Maybe) else ""
        with lines.block(f"if {given}{param.name}.kind == {literal(constructor.name)}:"):
            with lines.block(f"if not ({' and '.join(tests)}):"):
                lines.call("raise _checks.parameter_error", arguments)
            if constructor.invariant is not None:
                names = frozenset(field for field, _ in constructor.fields)
                term = python_form(_of_value(constructor.invariant[1], param.name, names), names, is_not_none)
                with lines.block("try:"):
                    lines.add(f"_holds = {expr.to_source(term)}")
                with lines.block("except _checks.DOMAIN_ERRORS:"):
                    lines.add("_holds = False")
                with lines.block("if not _holds:"):
                    lines.call("raise _checks.parameter_error", arguments)


def _of_value(node: expr.Expr, value: str, fields: frozenset[str]) -> expr.Expr:
    """Returns a constructor's invariant with its fields read from a value."""
    if isinstance(node, expr.Call) and node.function == "present":
        return expr.Verbatim(f"{value}.{expect(node.args[0], expr.Name).id} is not None", expr.COMPARISON)
    if isinstance(node, (expr.Name, expr.Value)):
        name = node.id if isinstance(node, expr.Name) else node.name
        return expr.Verbatim(f"{value}.{name}", expr.ATOM) if name in fields else node
    return expr.rebuild(node, lambda part: _of_value(part, value, fields))


def _stored(param: Param) -> str:
    options = [
        other for one in param.kind.options for other in (one.others if isinstance(one, kinds.Opaque) else (one,))
    ]
    holds_items = any(isinstance(one, kinds.Seq) for one in options)
    return f"_checks.plain({param.name})" if holds_items else param.name


def _type_test(name: str, kind: kinds.Kind, outside: Outside) -> str:
    """Returns the source of a test that a value has a kind."""
    if isinstance(kind, kinds.Maybe):
        test = _type_test(name, kind.item, outside)
        return test if test == "True" else f"{name} is None or {test}"
    if isinstance(kind, kinds.Union):
        return " or ".join(
            f"({test})" if " and " in (test := _type_test(name, item, outside)) else test for item in kind.items
        )
    if isinstance(kind, kinds.Bool):
        return f"_checks.is_bool({name})"
    if isinstance(kind, kinds.Dim):
        return f"_checks.is_int({name}) and {name} >= 0"
    if isinstance(kind, kinds.Int):
        return f"_checks.is_int({name})"
    if isinstance(kind, kinds.Real):
        return f"_checks.is_{'number' if isinstance(kind, kinds.Number) else 'float'}({name})"
    if isinstance(kind, kinds.Seq):
        return _sequence_test(name, kind, outside)
    if isinstance(kind, (kinds.Enum, kinds.DType)):
        return f"{name} in {literal(kind.values)}"
    if isinstance(kind, kinds.Adt):
        return f"{outside.sum(kind)}.holds({name})"
    return f"_checks.is_text({name})" if isinstance(kind, kinds.Text) else "True"


def _sequence_test(name: str, kind: kinds.Seq, outside: Outside) -> str:
    length = "" if kind.length is None else f" and _len({name}) == {kind.length}"
    length = f" and _len({name}) in {literal(kind.lengths)}" if kind.lengths else length
    whole = {kinds.BOOL: "_checks.is_bool_sequence", kinds.INT: "_checks.is_int_sequence"}.get(kind.item)
    if whole is not None:
        return f"{whole}({name}){length}"
    if kind.each:
        items = [f"({_type_test(f'{name}[{at}]', item, outside)})" for at, item in enumerate(kind.each)]
        return f"_checks.is_sequence({name}){length} and {' and '.join(items)}"
    return (
        f"_checks.is_sequence({name}){length} and _all({_type_test('_item', kind.item, outside)} for _item in {name})"
    )


def _forward(checked: Checked, lines: Lines) -> None:
    inputs = checked.entry.signature.inputs
    has_buffer = any(tensor.buffer for tensor in checked.entry.signature.outputs.values())
    passed_as = {name: f"{name}=None" if tensor.may_be_absent else name for name, tensor in inputs.items()}
    named = [passed_as[name] for name, tensor in inputs.items() if tensor.kw_only] + ["out=None"] * has_buffer
    positional = [passed_as[name] for name, tensor in inputs.items() if not tensor.kw_only]
    arguments = ["self", *positional, *(["*", *named] if named else [])]
    with lines.block(f"def forward({', '.join(arguments)}):"):
        passed = ", ".join(inputs)
        checks = ", ".join([*inputs, "out"] if has_buffer else inputs)
        lines.add('"""Check, run and record one call."""')
        with lines.block("if self._is_compiling():  # one operator of the graph that is being traced"):
            lines.call("return self._in_graph", [*inputs, *["out=out"] * has_buffer])
        both = [f"self.check({checks})", f"({passed}{',' if len(inputs) == 1 else ''})"]
        lines.call("return self._complete", both)
    lines.add("")


def _cases(checked: Checked, branches: Branches, lines: Lines) -> None:
    """Emits `CASES`, one line per case, without the fields that are empty."""
    if not checked.cases:
        return
    lines.add("CASES = (")
    for case, taken in zip(checked.cases, branches.taken, strict=True):
        bound = (*case.constants, *case.inputs)
        written = ", ".join(f"{literal(name)}: {literal(value)}" for name, value in case.written_params.items())
        tensors = [_tensor_case(tensor) for tensor in bound]
        arguments = [literal(case.case_id), literal(case.label)]
        arguments += [f"params={{{written}}}"] if written else []
        arguments += [f"indices={literal(case.written_indices)}"] if case.written_indices else []
        arguments += [f"dtypes={literal(case.dtypes)}"] if case.dtypes else []
        arguments += [f"tensors=({', '.join(tensors)}{',' if len(tensors) == 1 else ''})"] if tensors else []
        arguments += [f"input_bytes={sum(tensor.bytes for tensor in bound)}"]
        arguments += [f"output_bytes={sum(tensor.bytes for tensor in case.outputs)}"]
        arguments += [f"branches={literal(taken)}"]
        lines.add(f"    _WorkloadCase({', '.join(arguments)}),")
    lines.add(")")


def _tensor_case(tensor: CaseTensor) -> str:
    arguments = [literal(tensor.name), literal(tensor.dtype), literal(tensor.shape)]
    if tensor.values is not None:
        name, args = tensor.values
        arguments.append(f"_Generated({literal(name)}, {literal(args)})")
    return f"_TensorCase({', '.join(arguments)})"
