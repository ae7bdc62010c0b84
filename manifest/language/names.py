"""The names that an entry may give: their form, and the reserved names."""

from __future__ import annotations

import keyword
import re

from tileops.manifest.language.dtypes import BITS

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,79}")
# Generated code begins its own names with an underscore, so only arguments that a caller passes by name are reserved.
RESERVED_NAMES: dict[str, str] = {
    "out": "the argument that passes the storage of a result",
    "self": "the op itself in its methods",
    "inf": "infinity",
    **dict.fromkeys(BITS, "a dtype"),
}


def may_be_variable(name: str) -> bool:
    """Returns whether a comprehension's variable may have this name. Unlike other names, it may hide a dtype."""
    return bool(NAME.fullmatch(name)) and not keyword.iskeyword(name) and (name in BITS or name not in RESERVED_NAMES)
