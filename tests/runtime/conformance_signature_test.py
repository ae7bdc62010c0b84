"""Signatures of implementations and classes are compared with what the manifest declares, item by item."""

from __future__ import annotations

import importlib
import inspect
import types

import pytest

from tileops.manifest.reading import loader
from tileops.ops.conformance import signature as conformance_signature
from tileops.ops.conformance.findings import Findings
from tileops.tools.cli import paths


def test_a_signature_that_python_cannot_read_is_not_reached_and_named():
    findings = Findings()
    subject = types.SimpleNamespace(entry="ScaleFwdOp", generated=None)
    unreadable = types.SimpleNamespace(name="c", function=type)
    conformance_signature.check_implementation(subject, unreadable, findings)
    assert not len(findings)
    assert findings.unreached == ("ScaleFwdOp: arguments of implementation c: Python cannot read its signature",)


def _differences(declared: str, found: str) -> list[str]:
    space: dict = {}
    exec(f"def declared({declared}): pass\ndef found({found}): pass", space)
    return conformance_signature.differences(inspect.signature(space["declared"]), inspect.signature(space["found"]))


@pytest.mark.parametrize(
    ("declared", "found", "message"),
    [
        ("x, w=None", "x, w=None", None),
        ("x, w", "x", "lacks 'w', which the signature declares"),
        ("x", "x, w=None", "takes 'w', which the signature does not declare"),
        ("x, w", "w, x", "takes w, x in this order, but the signature declares x, w"),
        ("x, *, k=1", "x, k=1", "takes 'k' as positional, but the signature declares it keyword-only"),
        ("x, k=1", "x, k=True", "has the default True for 'k', but the signature declares has the default 1"),
        ("x, k=1", "x, k=1.0", "has the default 1.0 for 'k', but the signature declares has the default 1"),
        ("x, k", "x, k=None", "has the default None for 'k', but the signature declares has no default"),
        ("x, w", "*args", "takes 'args', which the signature does not declare"),
    ],
)
def test_signatures_are_compared_by_names_order_kinds_and_defaults(declared, found, message):
    assert (message is None and not _differences(declared, found)) or message in _differences(declared, found)


def test_init_and_forward_of_every_project_op_are_the_manifests_item_by_item():
    """Conformance compares with the generated class; here both are held against the manifest's own model."""
    manifest = loader.load(loader.spec_files(str(paths.data_path("manifest", "spec"))))
    for op, entry in manifest.entries.items():
        signature = entry.signature
        op_class = getattr(importlib.import_module(f"tileops.ops.families.{entry.family}"), op)
        init = list(inspect.signature(op_class).parameters.values())
        params = [param for param in signature.params.values() if not param.kw_only]
        params += [param for param in signature.params.values() if param.kw_only]
        assert [one.name for one in init] == [*(param.name for param in params), "target"], op
        for one, param in zip(init, params, strict=False):
            assert one.kind is (one.KEYWORD_ONLY if param.kw_only else one.POSITIONAL_OR_KEYWORD), (op, one.name)
            assert one.default == (one.empty if param.required else param.default), (op, one.name)
        forward = list(inspect.signature(op_class.forward).parameters.values())[1:]
        buffers = ["out"] if any(tensor.buffer for tensor in signature.outputs.values()) else []
        assert [one.name for one in forward] == [*signature.inputs, *buffers], op
        for one, tensor in zip(forward, signature.inputs.values(), strict=False):
            assert one.default is (None if tensor.optional or tensor.when is not None else one.empty), (op, one.name)
