"""Checks one entry's signature: kinds, effects, and the inference plan at every discriminant point."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tileops.manifest.checks import effects, metadata, rules
from tileops.manifest.checks import families as check_families
from tileops.manifest.diagnostics import Diagnostics
from tileops.manifest.language import expr, kind_check, kinds
from tileops.manifest.language.kind_check import CODES, Scope
from tileops.manifest.language.kinds import BOOL, Kind, Maybe
from tileops.manifest.model import Entry, Expression, Signature, Tensor
from tileops.manifest.plans import plan, presence
from tileops.manifest.plans.domain import Domain
from tileops.manifest.plans.planner import present_at
from tileops.manifest.plans.points import Point, TooManyPointsError, discriminants, domain_restrictions, holder
from tileops.manifest.plans.shapes import NoCaseError, shape_at


def scope(entry: Entry, roofline: bool = False, dtypes: bool = False, lists: bool = False) -> Scope:
    """Returns what an expression of the entry may read. Lets have the kinds of their expressions.

    Args:
      entry: the entry.
      roofline: `bytes(t)` may be read.
      dtypes: dtype names are values.
      lists: value lists of `forall` may be read, as generator arguments do.
    """
    signature = entry.signature
    names: dict[str, Kind] = {
        **{name: kind for name, kind in signature.forall.items() if lists or not kinds.is_value_list(kind)},
        **{name: param.kind for name, param in signature.params.items() if name not in signature.constants},
    }
    tensors = {name: tensor.optional for name, tensor in signature.tensors.items()}
    for name in let_order(signature):
        inside = Scope(names, tensors, buffered=signature.takes_out)
        kind = kind_check.check(signature.lets[name].expr, inside, lambda what, message: None)
        if kind is not None:
            names[name] = kind
    unclear = signature.lets.keys() - names.keys()  # in a cycle, or with defects of their own
    hidden = frozenset(name for name, kind in signature.forall.items() if name not in names)
    broken = broken_names(entry) | unclear
    return Scope(names, tensors, roofline, dtypes, broken, hidden, signature.takes_out)


def broken_names(entry: Entry) -> frozenset[str]:
    """Returns the names whose declarations could not be read; all names mentioned, if a whole section could not be."""
    parts = [path.split(".") for path in entry.malformed if path.split(".")[0] == "signature"]
    broken = {part[2] for part in parts if len(part) > 2 and not part[1].startswith("dtype_combos")}
    if any(part[1:] in ([], ["forall"], ["params"], ["inputs"], ["outputs"], ["types"], ["let"]) for part in parts):
        broken.update(name for term in _all_terms(entry.signature) for name in _mentioned(term))
        broken.update(name for combo in entry.signature.combos for name in combo)
    return frozenset(broken)


def _all_terms(signature: Signature) -> Iterator[expr.Expr]:
    for expression in (*signature.lets.values(), *signature.rules):
        yield expression.expr
    for tensor in signature.tensors.values():
        for found in (tensor.dtype, tensor.shape, tensor.when, tensor.mutated, tensor.values, *tensor.requires):
            if found is not None:
                yield found.expr


def _names_of(tensor: Tensor) -> list[str]:
    return [name for term in (tensor.dtype, tensor.shape) if term is not None for name in expr.names(term.expr)]


def _mentioned(term: expr.Expr) -> list[str]:
    return expr.names(term) + [part.family for part in expr.walk(term) if isinstance(part, expr.FamilyTerm)]


def let_order(signature: Signature) -> list[str]:
    """Returns the lets, each after the lets that it reads, without lets in a cycle."""
    readers: dict[str, list[str]] = {name: [] for name in signature.lets}
    waits: dict[str, int] = {}
    for name, let in signature.lets.items():
        read = [other for other in expr.names(let.expr) if other in signature.lets]
        waits[name] = len(read)
        for other in read:
            readers[other].append(name)
    order = [name for name, count in waits.items() if count == 0]
    for name in order:  # grows while it is walked
        for reader in readers[name]:
            waits[reader] -= 1
            if waits[reader] == 0:
                order.append(reader)
    return order


def values_read(node: expr.Expr, lets: Mapping[str, Expression]) -> list[str]:
    """Returns the names whose values an expression reads, directly or through lets. A presence is no value."""
    found: dict[str, None] = {}
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, expr.Call) and part.function == "present":
            continue
        if isinstance(part, (expr.Name, expr.Value, expr.Field)):
            name = part.id if isinstance(part, expr.Name) else part.name
            if name in lets and name not in found:
                waiting.append(lets[name].expr)
            found[name] = None
        waiting.extend(expr.children(part))
    return list(found)


def type_terms(signature: Signature) -> list[expr.Expr]:
    """Returns the expressions that decide the types of a call: shapes, dtypes, conditions and aliases of tensors."""
    terms = []
    for tensor in signature.tensors.values():
        terms += [tensor.shape.expr, tensor.dtype.expr]
        if tensor.when is not None:
            terms.append(tensor.when.expr)
        aliased = presence.is_its_input(signature, tensor)
        if aliased is not None:
            terms.append(aliased)
    return terms


class SignatureCheck:
    """Checks one signature.

    Attributes:
      resolved: the entry with its presence conditions replaced.
      plan: the inference plan; None if there is a defect.
    """

    def __init__(self, entry: Entry, diagnostics: Diagnostics) -> None:
        self._entry = entry
        self.resolved = presence.resolve(entry)
        self._signature = entry.signature
        self._diagnostics = diagnostics
        self._failed = False
        self._told: set[str] = set()
        self._unclear: set[str] = set()
        self.plan: plan.Plan | None = None

    def run(self) -> bool:
        """Reports every defect. Returns whether the signature has none and can be called."""
        for name in check_families.cycles(
            {name: set(expr.names(let.expr)) for name, let in self._signature.lets.items()}
        ):
            self._report(f"signature.let.{name}", "M041", "refers to itself")
        if self._failed:
            return False
        names = scope(self._entry)
        for path, expression, wanted in self._expressions():
            self._kind(path, expression, names, wanted)
        rules.definitions(self._entry, self._told, self._report)
        for section, tensors in self._signature.sections.items():
            for tensor in tensors.values():
                self._tensor(f"signature.{section}.{tensor.name}", tensor)
        for path, expression in self._signature.loose.items():
            field = path.rpartition(".")[2]
            if field in ("dtype", "shape"):
                self._dtype(path, expression) if field == "dtype" else self._shape(path, expression)
            else:
                self._kind(path, expression, names, BOOL)
        effects.aliases(self._entry, self._unclear, self._report)
        rules.combos(self._entry, broken_names(self._entry), self._report)
        families = check_families.FamilyCheck(self._entry, broken_names(self._entry), self._report, scope(self._entry))
        families.run()
        # Kinds are checked on the text as written; branches on the entry with its presence conditions replaced.
        self._entry = self.resolved
        self._signature = self._entry.signature
        if not self._failed and not self._entry.signature_gaps:
            effects.conditions(self._entry, self._report)
        if not self._failed and not self._entry.signature_gaps:
            rules.constants(self._entry, self._report)
            metadata.ranks(self._signature, self._report)
            metadata.presence(self._signature, self._report)
        if not self._failed and not self._entry.signature_gaps:
            self._plan()
        return not self._failed and not self._entry.signature_gaps

    def _report(self, path: str, code: str, message: str, line: int = 0) -> None:
        self._failed = True
        self._told.add(path)
        self._unclear.add(path.rpartition(".")[0])
        self._entry.report(self._diagnostics, path, code, message, line)

    def _reporter(self, path: str) -> Callable[[str, str], None]:
        return lambda what, message: self._report(path, CODES[what], message)

    def _expressions(self) -> Iterator[tuple[str, Expression, Kind | None]]:
        for name, let in self._signature.lets.items():
            yield f"signature.let.{name}", let, None
        for position, rule in enumerate(self._signature.rules):
            yield f"signature.shape_rules[{position}]", rule, BOOL
        for section, tensors in self._signature.sections.items():
            for tensor in tensors.values():
                field = "nullable" if section == "outputs" else "optional"
                for name, found in (("mutated", tensor.mutated), (field, tensor.when)):
                    if found is not None:
                        yield f"signature.{section}.{tensor.name}.{name}", found, BOOL

    def _kind(self, path: str, expression: Expression, names: Scope, wanted: Kind | None) -> None:
        kind = kind_check.check(expression.expr, names, self._reporter(path))
        if kind is not None and wanted is not None and not kinds.fits(kind, wanted):
            self._report(path, "M022", f"must be {wanted}, and is {kind}")

    def _parts(self, path: str, expression: Expression) -> None:
        """Reports floats, strings and objects used in a shape or dtype, directly or through a let."""
        lets = self._signature.lets
        for name in values_read(expression.expr, lets):
            param = self._signature.params.get(name)
            kind = None if param is None else param.kind.given
            if isinstance(kind, (kinds.Real, kinds.Text, kinds.Opaque)):
                self._report(path, "M022", f"{name!r} is {kind}, which a shape or dtype cannot read")

    def _tensor(self, path: str, tensor: Tensor) -> None:
        dtype = self._dtype(f"{path}.dtype", tensor.dtype)
        self._shape(f"{path}.shape", tensor.shape)
        if tensor.values is not None:
            names = scope(self._entry, lists=True)
            metadata.contents(self._signature, tensor, path, dtype, names, self._report)

    def _dtype(self, path: str, expression: Expression) -> Kind | None:
        self._parts(path, expression)
        dtype = kind_check.check(expression.expr, scope(self._entry, dtypes=True), self._reporter(path))
        if dtype is not None and not isinstance(dtype.given, kinds.DType):
            self._report(path, "M022", f"must be a dtype, and is {dtype}")
        elif isinstance(dtype, Maybe):
            self._report(path, "M025", f"{expression.text} may be None; write coalesce_dtype(x, dtype)")
        return dtype

    def _shape(self, path: str, expression: Expression) -> None:
        self._parts(path, expression)
        if isinstance(expression.expr, expr.ShapeTerm):
            report = self._reporter(path)
            check_families.check_axes(expression.expr, scope(self._entry), report, families=self._signature.families)

    def _plan(self) -> None:
        told = self._undecided()
        try:
            self._planned(told)
        except TooManyPointsError as error:
            self._report("signature", "M042", str(error))

    def _undecided(self) -> set[str]:
        """Reports and returns the dtype indices that decide a branch but are not known before the branch."""
        signature, found = self._signature, set()
        for one in discriminants(signature, [*type_terms(signature), *domain_restrictions(signature)]):
            if one.name in signature.forall and holder(signature, one.name) is None:
                found.add(one.name)
                path = f"signature.forall.{one.name}"
                self._report(
                    path,
                    "M040",
                    f"{one.name!r} decides which tensors or axes a call has, but no input of every call has"
                    f" dtype {one.name}; give one that dtype, or let a parameter decide",
                )
        return found

    def _planned(self, told: set[str]) -> None:
        """Plans the calls. Reports unsolved and unread indices, except those `told`. Raises TooManyPointsError."""
        signature = self._signature
        domain = Domain(signature)
        read: set[str] = set()
        missing = {
            str(error): error.family
            for tensor in signature.tensors.values()
            if isinstance(tensor.shape.expr, expr.FamilyTerm)
            for point in domain.points(plan.item_terms(signature, tensor.name))
            for error in _without_case(signature, tensor, point)
        }
        for message, family in missing.items():
            path = f"signature.types.{family}"
            self._report(path, "M031", message)
        if missing:
            return
        built = plan.build(signature, domain)
        for segment in built.segments:
            segment.tree  # noqa: B018  # kept by the segment; raises if it has too many branches
        self.plan = built
        for found, point, unsolved in plan.needs(signature, domain, self.plan):
            read |= found
            names = [name for name in signature.forall if name in unsolved - told]
            if names:
                told.update(names)
                path = f"signature.forall.{names[0]}"
                self._report(path, "M040", self._unsolved(names, point))
        self._unread(read, told)

    def _unread(self, read: set[str], told: set[str]) -> None:
        """Reports the indices that nothing reads, except those `told`."""
        lets, bound = self._signature.lets, self._signature.bound.values()
        filling = {name for tensor in bound if tensor.values for name in values_read(tensor.values.expr, lets)}
        required = {name for tensor in bound for one in tensor.requires for name in values_read(one.expr, lets)}
        lists = filling | {name for let in lets.values() for name in expr.names(let.expr)}
        for name, kind in self._signature.forall.items():
            path = f"signature.forall.{name}"
            if name in told:
                continue
            if kinds.is_value_list(kind) and name not in lists:
                self._report(path, "M040", f"{name!r} is read by no generator; let a generator read it or remove it")
            elif not kinds.is_value_list(kind) and name not in read | filling | required:
                self._report(path, "M040", f"{name!r} is {self._nowhere(name)}; use it or remove it")

    def _nowhere(self, name: str) -> str:
        """Returns where an index is missing: no tensor names it, or tensors do and every call leaves that out."""
        told = [one.name for one in self._signature.tensors.values() if name in _names_of(one)]
        if not told:
            return "in no shape, dtype, rule or generator"
        return f"read by no call that the rules accept, though {' and '.join(map(repr, told))} would need it"

    def _unsolved(self, names: list[str], point: Point) -> str:
        """Returns the message that indices are not solved at a point, and what would solve the first."""
        name, kind = names[0], self._signature.forall[names[0]]
        if isinstance(kind, kinds.DType):
            wanted = f"the dtype of an input must be {name}"
        elif isinstance(kind, kinds.Shape):
            wanted = f"an input must have *{name}, and no other unknown run beside it"
        else:
            wanted = f"an input axis must be {name}, or a constant times {name} plus known terms"
        return (
            f"{' and '.join(map(repr, names))} {'is' if len(names) == 1 else 'are'} not solved by any input ({point});"
            f" {wanted}"
        )


def _without_case(signature: Signature, tensor: Tensor, point: Point) -> Iterator[NoCaseError]:
    try:
        if present_at(tensor, point):
            shape_at(signature, tensor, point)
    except NoCaseError as error:
        yield error
