"""Checks that the code of ops keeps what the manifest promises.

//manifest:validate checks the manifest itself, without torch. This module checks the code behind its entries: classes,
signatures, implementations, roofs, func formulas, read halves and stages. A defect of one op hides no defect of another,
and a check that cannot be made is reported with the reason.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Sequence

from tileops.manifest.foreign import roots
from tileops.ops.conformance.calls import check_calls
from tileops.ops.conformance.classes import Subject, check_class, import_modules, place_of, subjects
from tileops.ops.conformance.findings import Finding, Findings, describe
from tileops.ops.conformance.signature import check_implementation, check_signatures
from tileops.tools.cli import errors, globs, nearest


class NoSuchOpError(errors.UserError):
    """A glob matches no entry; the message suggests entries."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report:
    """What a check found.

    Attributes:
      findings: the defects, in the order of the manifest; defects of modules come first.
      unreached: checks that could not be made, each with the missing fact.
      no_verdict: ops that declare no read half. That is no defect, but NO-VERDICT in the bytes audit.
      entries: names of the checked entries.
    """

    findings: tuple[Finding, ...]
    unreached: tuple[str, ...]
    no_verdict: tuple[str, ...]
    entries: tuple[str, ...]


def check(
    generated_dir: str | None = None, plugins: Sequence[str] = (), op: str = "*", listed_by: str = nearest.ROWS
) -> Report:
    """Checks the code of every entry that matches a glob.

    Args:
      generated_dir: folder of modules that //codegen:emit wrote for a manifest outside the project; None: the project.
      plugins: modules by dotted name, or absolute paths of .py files, which bring classes and implementations.
      op: a glob of entry names.
      listed_by: the command that lists the entries, for messages.

    Raises:
      NoSuchOpError: no entry matches `op`, though every module could be imported.
    """
    found = Findings()
    modules = import_modules(generated_dir, plugins, found)
    complete = not len(found)
    everything = subjects(modules, found)
    chosen = {subject.entry: subject for subject in everything if globs.fits(subject.entry, op)}
    if not chosen and complete:
        known = (subject.entry for subject in everything)
        raise NoSuchOpError(f"--op={op} fits no op; {nearest.instead(op, known, listed_by)}")
    for subject in chosen.values():
        check_subject(subject, found)
    order = {name: position for position, name in enumerate(("", *chosen))}
    return Report(
        findings=tuple(sorted((one for one in found if one.op in order), key=lambda one: order[one.op])),
        unreached=found.unreached,
        no_verdict=found.no_verdict,
        entries=tuple(chosen),
    )


def check_subject(subject: Subject, findings: Findings) -> None:
    """Checks one entry whose classes are known."""
    problem = _func_problem(subject.generated.FUNC)
    if problem and subject.generated.STATUS == "implemented":
        findings.add(subject.generated.SPEC, subject.entry, "roofline.func", "C008", problem)
    if subject.public is None:
        return
    check_class(subject, findings)
    check_signatures(subject, findings)
    if _check_implementations(subject, findings):
        check_calls(subject, f"its func has no formula: {problem}" if problem else "", findings)


def _func_problem(path: str) -> str:
    """Returns why the path of a func formula names no module-level function of a call; "" if it names one or is empty."""
    if not path:
        return ""
    interpreter = roots.interpreter_of(path)
    if interpreter is not None:
        return interpreter.problem(path)
    module_name, _, name = path.rpartition(".")
    try:
        function = getattr(importlib.import_module(module_name), name, None)
    except (Exception, SystemExit) as error:  # whatever a formula module does on import is this entry's defect
        return f"{module_name} cannot be imported: {describe(error)}"
    if not inspect.isfunction(function):
        return f"{path} is not a function: write `def {name}(call) -> tuple[int, int]` at the top of {module_name}"
    try:
        inspect.signature(function).bind("call")
    except TypeError as error:
        return f"{path} cannot be called as {name}(call): {error}"
    return ""


def _check_implementations(subject: Subject, findings: Findings) -> bool:
    """Checks that the implementations are there, in order, and take the call; returns False if a defect prevents calls."""
    entry, status = subject.entry, subject.generated.STATUS
    assert subject.public is not None  # the caller checked
    implementations = subject.public.implementations()
    if not implementations:
        if status == "implemented":
            message = (
                "the entry is implemented, but its class has no implementation: mark one, or make the entry spec-only"
            )
            findings.add(subject.place, entry, "class", "C009", message)
        return False
    if status != "implemented":
        names = ", ".join(one.name for one in implementations)
        message = f"the entry is {status}, but its class has the implementation {names}: make the entry implemented"
        findings.add(subject.place, entry, "class", "C010", message)
    reference = implementations[0]
    if reference.when is not None:
        message = (
            "comes first, so it is the reference, but has a `when`: the reference must serve every call on any device"
        )
        place = place_of(reference.function) or subject.place
        findings.add(place, entry, f"implementation {reference.name}", "C012", message)
    before = len(findings)
    for implementation in implementations:
        check_implementation(subject, implementation, findings)
    return len(findings) == before
