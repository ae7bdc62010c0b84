"""Shows text and values of a spec file in messages: odd characters by name, long values cut."""

from __future__ import annotations

import unicodedata
from typing import Any

from tileops.manifest.language.adt import literal

MAX_SHOWN = 80


def odd_character(text: str) -> str:
    """Returns a description of the first character outside ASCII, or ""."""
    for char in text:
        if not char.isascii():
            called = unicodedata.name(char, "a character without a name")
            looks = unicodedata.normalize("NFKD", char)[:1]
            instead = f", which looks like {looks!r}" if looks.isascii() and looks.isprintable() else ""
            return f"U+{ord(char):04X} ({called}{instead})"
    return ""


def shown(value: Any) -> str:
    """Returns a value as YAML writes it, cut in the middle if it is longer than MAX_SHOWN."""
    text = literal(value)
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 25]}...{text[-20:]}"
