"""Generated code for entries that use every feature: checks, prices and storage, against recounts from the rows."""

from __future__ import annotations

import dataclasses
import re
import sys
import types

import pytest
import torch

from tileops.codegen import pipeline
from tileops.manifest.language import expr, expr_parser
from tileops.manifest.language.dtypes import BITS
from tileops.manifest.language.evaluate import evaluate
from tileops.manifest.plans.points import discriminants
from tileops.manifest.reading import loader
from tileops.ops import catalogue, workloads
from tileops.ops.dtypes import BY_NAME
from tileops.ops.errors import OpCallError, OpConstructionError
from tileops.tools.cli import paths


def _acme() -> None:
    """The Python side of the corpus: the classes of its algebraic types, and its func formulas."""

    def constructor(name: str, *fields: str) -> type:
        return dataclasses.make_dataclass(name, fields, frozen=True)

    layouts, formulas = types.ModuleType("acme.layouts"), types.ModuleType("acme.formulas")
    for name, fields in (
        ("Nopad", ()),
        ("Padded", ("block", "zeroed")),
        ("Masked", ("capacity",)),
        ("PerTensor", ()),
        ("PerRow", ()),
        ("PerBlock", ("rows", "columns", "order")),
    ):
        setattr(layouts, name, constructor(name, *fields))

    def formula(name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda call: (len(call.tensors), call.bytes_of(*call.tensors))

    formulas.__getattr__ = formula
    for module in (types.ModuleType("acme"), layouts, formulas):
        sys.modules[module.__name__] = module
    sys.modules["acme"].layouts, sys.modules["acme"].formulas = layouts, formulas
    sys.modules["acme.scaling"] = layouts


_acme()
FILES = loader.spec_files(str(paths.data_path("tests", "manifest", "corpus")))
ANALYSED = pipeline.analyse_files(FILES)


@pytest.fixture(scope="module")
def ops(tmp_path_factory):
    """The corpus's classes, through the very files that emission writes."""
    assert [str(found) for found in ANALYSED.diagnostics] == []
    folder = tmp_path_factory.mktemp("generated")
    for family, source in ANALYSED.modules().items():
        (folder / f"{family}.py").write_text(source)
    return catalogue.load(str(folder))


CASES = [
    pytest.param(op, position, id=f"{op}-{case.case_id}")
    for op, (checked, _) in ANALYSED.entries.items()
    for position, case in enumerate(checked.cases)
]


def _call(ops, op, position, device="meta", **changed):
    op_class = ops[op]
    case = op_class.CASES[position]
    instance = workloads.construct(op_class, case, device=device)
    inputs = workloads.build_inputs(op_class, case, device) | changed
    return instance, inputs


@pytest.mark.parametrize(("op", "position"), CASES)
def test_a_row_on_meta_binds_what_it_says_and_is_priced_as_its_formula(ops, op, position):
    checked, analysis = ANALYSED.entries[op]
    case = checked.cases[position]
    instance, inputs = _call(ops, op, position)
    with workloads.calls_on("meta", inputs):
        instance(**inputs)
    call = instance.last_call
    for name, value in call.indices.items():
        assert value == case.values[name], name
    bound = {tensor.name: (tensor.shape, tensor.dtype) for tensor in (*case.constants, *case.inputs, *case.outputs)}
    assert {name: tuple(record) for name, record in call.tensors.items()} == bound
    if analysis.func:
        return
    flops, nbytes = instance.eval_roofline()
    sizes = {name: torch.Size(shape).numel() * BITS[dtype] // 8 for name, (shape, dtype) in bound.items()}
    assert flops == _priced(checked.entry.roofline["flops"].value, case, sizes)
    if analysis.bytes is not None:
        assert nbytes == _priced(checked.entry.roofline["bytes"].value, case, sizes)
    else:
        assert nbytes == _recounted(checked.entry.signature, case, sizes)


def _priced(text, case, sizes) -> int:
    """What a formula gives for a row, its bytes(t) written as numbers."""
    written = re.sub(r"\bbytes\((\w+)\)", lambda found: str(sizes.get(found[1], 0)), text)
    return evaluate(expr_parser.parse(written), case.values, case.present)


def _recounted(signature, case, sizes) -> int:
    """Bytes by the effect rules, from the row's own tensors."""
    read, written_bytes = sum(sizes[tensor.name] for tensor in case.constants), 0
    written = set()
    for tensor in signature.inputs.values():
        if not case.present[tensor.name]:
            continue
        mutated = tensor.mutated is not None and evaluate(tensor.mutated.expr, case.values, case.present)
        read += sizes[tensor.name] * (not (mutated and tensor.write_only))
        written_bytes += sizes[tensor.name] * bool(mutated)
        written |= {tensor.name} if mutated else set()
    for tensor in signature.outputs.values():
        if case.present[tensor.name] and tensor.alias not in written:
            written_bytes += sizes[tensor.name]
    return read + written_bytes if written_bytes else 0


def _honest(op, call, *arguments):
    """Returns what the signature promises: the aliased input, the passed buffer, or a new tensor."""
    outputs = []
    for name in op.OUTPUT_NAMES:
        if name not in call.outputs:
            outputs.append(None)
        elif name in call.aliases or name in call.buffers:
            outputs.append(call.aliases.get(name, call.buffers.get(name)))
        else:
            record = call.outputs[name]
            outputs.append(torch.zeros(record.shape, dtype=BY_NAME[record.dtype]))
    return outputs[0] if len(outputs) == 1 else tuple(outputs) or None


@pytest.mark.parametrize(("op", "position"), CASES)
def test_a_row_on_the_cpu_takes_what_the_signature_promises(ops, op, position):
    instance, inputs = _call(ops, op, position, "cpu")
    mine = type("Mine", (type(instance),), {})
    mine.register("honest", _honest)
    honest = workloads.construct(mine, mine.CASES[position])
    result = honest(**inputs)
    returned = result if isinstance(result, tuple) else (result,) if mine.OUTPUT_NAMES else ()
    assert result is None or mine.OUTPUT_NAMES
    case = ANALYSED.entries[op][0].cases[position]
    assert [tensor is not None for tensor in returned] == [case.present[name] for name in mine.OUTPUT_NAMES]


def _with(ops, op, position, function, device="cpu", **changed):
    mine = type("Mine", (ops[op],), {})
    mine.register("mine", function)
    instance = workloads.construct(mine, mine.CASES[position], device=device)
    return instance(**(workloads.build_inputs(mine, mine.CASES[position], device) | changed))


def position_of(op, label):
    return next(at for at, case in enumerate(ANALYSED.entries[op][0].cases) if case.label == label)


def test_an_alias_must_be_the_written_input_itself_on_its_branch_alone(ops):
    at = position_of("ResidualNormFwdOp", "inplace")

    def copies(op, call, *arguments):
        normed, summed = _honest(op, call, *arguments)
        return normed, summed.clone()

    with pytest.raises(OpCallError, match="'summed' as a new tensor, not as the input that this call writes"):
        _with(ops, "ResidualNormFwdOp", at, copies)
    _with(ops, "ResidualNormFwdOp", position_of("ResidualNormFwdOp", "rows"), copies)


def test_an_argument_of_a_family_tells_apart_only_what_names_it():
    signature = ANALYSED.entries["GroupedGEMMFwdOp"][0].entry.signature
    found = {
        name: [one.name for one in discriminants(signature, [tensor.shape.expr])]
        for name, tensor in signature.inputs.items()
    }
    assert found["a"] == ["layout"] and found["b"] == ["trans_b"] and found["rows"] == []


def test_a_passed_buffer_is_checked_and_must_be_returned(ops):
    op, at = "GroupedGEMMFwdOp", position_of("GroupedGEMMFwdOp", "dense")
    buffer = torch.empty(96, 32, dtype=torch.float16)
    assert _with(ops, op, at, _honest, out=buffer) is buffer
    with pytest.raises(
        OpCallError, match=r"buffer for 'd' is float16\[96, 31\] on cpu, but the output is float16\[96, 32\]"
    ):
        _with(ops, op, at, _honest, out=buffer[:, 1:].contiguous())
    with pytest.raises(OpCallError, match="share memory"):
        _with(ops, op, at, _honest, out=torch.empty(1, 32, dtype=torch.float16).expand(96, 32))
    with pytest.raises(OpCallError, match="not as the buffer that was passed"):
        _with(ops, op, at, lambda op, call, *arguments: torch.zeros(96, 32, dtype=torch.float16), out=buffer)
    seen = []
    _with(ops, op, at, lambda op, call, *arguments: seen.append(arguments[-1]) or arguments[-1], out=buffer)
    assert seen[0] is buffer


def test_a_contiguous_input_or_output_must_be_contiguous(ops):
    op, at = "GroupedGEMMFwdOp", position_of("GroupedGEMMFwdOp", "dense")
    with pytest.raises(OpCallError, match="'rows' is declared contiguous"):
        _with(ops, op, at, _honest, rows=torch.zeros(192, dtype=torch.int64)[::2])
    with pytest.raises(OpCallError, match="'d' is declared contiguous"):
        _with(ops, op, at, lambda op, call, *arguments: torch.zeros(32, 96, dtype=torch.float16).t())


def test_a_tensor_with_a_shared_tag_is_passed_exactly_where_its_condition_holds(ops):
    softmax, sigmoid = (position_of("RouterFwdOp", label) for label in ("softmax", "sigmoid"))
    with pytest.raises(
        OpCallError, match="'correction' must be given if and only if .* holds; it does not, but a tensor was passed"
    ):
        _with(ops, "RouterFwdOp", softmax, _honest, correction=torch.zeros(8))
    with pytest.raises(OpCallError, match="it does, but None was passed"):
        _with(ops, "RouterFwdOp", sigmoid, _honest, correction=None)


def test_an_absent_output_must_be_none(ops):
    at = position_of("GroupNormFwdOp", "eval")
    with pytest.raises(OpCallError, match="returned 'saved', which this call lacks"):
        _with(ops, "GroupNormFwdOp", at, lambda op, call, *arguments: (_honest(op, call)[0], torch.zeros(2, 4, 2)))


def test_a_tensor_that_lives_on_the_cpu_does_so_wherever_the_call_is(ops):
    at = position_of("GroupNormFwdOp", "train")
    with pytest.raises(OpCallError, match="'seed' is on meta, but must be on the cpu"):
        _with(ops, "GroupNormFwdOp", at, _honest, seed=torch.empty((), dtype=torch.int64, device="meta"))


def test_a_rejected_choice_names_the_rule_before_any_call(ops):
    with pytest.raises(OpConstructionError, match="the rule \"?'?not \\(mode == 'frozen' and track\\)"):
        ops["GroupNormFwdOp"](2, torch.zeros(8), "frozen", True)


def _combined(signature) -> bool:
    """Whether the entry lists combinations of dtype indices alone."""
    return bool(signature.combos) and signature.combos[0].keys() <= signature.forall.keys()


def test_dtypes_outside_the_combinations_are_refused(ops):
    op = next(op for op, (checked, _) in ANALYSED.entries.items() if _combined(checked.entry.signature))
    signature = ANALYSED.entries[op][0].entry.signature
    instance, inputs = _call(ops, op, 0)
    names = list(signature.combos[0])
    allowed = {tuple(combo[name] for name in names) for combo in signature.combos}
    kinds = [signature.forall[name].values for name in names]
    rejected = next(c for c in __import__("itertools").product(*kinds) if c not in allowed)
    for name, tensor in inputs.items():
        term = signature.inputs[name].dtype.expr
        if tensor is not None and isinstance(term, expr.Name) and term.id in names:
            inputs[name] = tensor.to(BY_NAME[rejected[names.index(term.id)]])
    with pytest.raises(OpCallError, match="is not an accepted combination"):
        instance(**inputs)


def test_a_value_of_another_algebraic_type_is_refused_at_construction(ops):
    with pytest.raises(OpConstructionError, match="'layout' is declared Layout"):
        ops["GroupedGEMMFwdOp"](4, layout="Nopad")
