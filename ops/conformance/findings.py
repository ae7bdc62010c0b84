"""Findings of the conformance check under stable codes, and the table of those codes."""

from __future__ import annotations

import dataclasses

# Code -> its meaning in one line; docs/defect-codes.md explains each. C belongs to the code of ops.
CODES: dict[str, str] = {
    "C001": "a module of ops cannot be imported",
    "C002": "an implemented entry has no class of its own",
    "C003": "a class is no subclass of its entry's generated class",
    "C004": "a class is not exported under its entry's name",
    "C005": "`__init__` differs from the signature",
    "C006": "`forward` differs from the signature",
    "C007": "a class replaces what the manifest settles",
    "C008": "a func path is no function of the call",
    "C009": "an implemented entry has no implementation",
    "C010": "a spec-only entry has an implementation",
    "C011": "an implementation does not take the call",
    "C012": "the reference does not serve every call",
    "C013": "a `when` does not judge calls",
    "C014": "`roof_key()` gives no roof",
    "C015": "a part of the price is there before a call",
    "C016": "a row cannot be priced",
    "C017": "a read half is no part of the price",
    "C018": "data terms are no counts",
    "C019": "stages differ from the composition",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """One defect of an op's code.

    Attributes:
      place: `file:line` of the code (or of the manifest entry, if there is no code).
      op: the entry; "" for a module.
      member: the part of the class ("roof_key", "implementation triton").
      message: one sentence: what is wrong and what to do.
      code: a key of CODES.
    """

    place: str
    op: str
    member: str
    message: str
    code: str

    def __str__(self) -> str:
        where = ": ".join(part for part in (self.place, self.op, self.member) if part)
        return f"{where}: {self.message} [{self.code}]"


class Findings:
    """Collects findings in the order of the catalogue, each once."""

    def __init__(self) -> None:
        self._found: dict[Finding, None] = {}
        self._unreached: dict[str, None] = {}
        self._no_verdict: dict[str, None] = {}

    def add(self, place: str, op: str, member: str, code: str, message: str) -> None:
        """Records a defect. `code` is a key of CODES; the message becomes one printable line."""
        if code not in CODES:
            raise KeyError(f"unknown conformance code {code}")
        self._found[Finding(place=place, op=op, member=member, message=_line(message), code=code)] = None

    def not_reached(self, what: str) -> None:
        """Records a check that could not be made; `what` names the check and the missing fact."""
        self._unreached[_line(what)] = None

    def no_read_half(self, op: str) -> None:
        """Records an op that declares no read half: no defect, but NO-VERDICT in the bytes audit."""
        self._no_verdict[op] = None

    def __iter__(self):
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    @property
    def unreached(self) -> tuple[str, ...]:
        """Checks that were not made, each with the reason."""
        return tuple(self._unreached)

    @property
    def no_verdict(self) -> tuple[str, ...]:
        """Ops without a read half."""
        return tuple(self._no_verdict)


def describe(error: BaseException) -> str:
    """Returns an error as messages show it: its type and its text."""
    return f"{type(error).__name__}: {error}"


def _line(text: str) -> str:
    line = " ".join(text.split())
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in line)
