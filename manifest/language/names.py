"""Names that an entry gives: their form, and those that mean something already wherever such a name may stand."""

from __future__ import annotations

import keyword
import re

from tileops.manifest.language.dtypes import BITS

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,79}")
# Generated code begins every name of its own with an underscore, so none is kept for it but the arguments that a caller
# passes by name.
RESERVED_NAMES: dict[str, str] = {
    "out": "the argument that passes the storage of a result",
    "self": "the op itself in its methods",
    "inf": "infinity",
    **dict.fromkeys(BITS, "a dtype"),
}


def may_be_variable(name: str) -> bool:
    """Whether a comprehension may call its variable so: as an entry's names, save that it may hide a dtype."""
    return bool(NAME.fullmatch(name)) and not keyword.iskeyword(name) and (name in BITS or name not in RESERVED_NAMES)
