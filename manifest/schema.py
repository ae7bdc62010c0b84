"""//manifest:schema: writes the JSON Schema that lets an editor complete and check spec files."""

from __future__ import annotations

import json
from collections.abc import Sequence

from absl import app, flags

from tileops.manifest.reading.json_schema import spec_schema, types_schema
from tileops.tools.cli import command, paths

_OF = flags.DEFINE_enum("of", "spec", ["spec", "types"], "the schema of spec files, or of types.yaml")
_OUT = flags.DEFINE_string("out", None, "file to write (default: stdout)")


def main(argv: Sequence[str]) -> None:
    """Write one schema."""
    text = json.dumps(spec_schema() if _OF.value == "spec" else types_schema(), indent=2) + "\n"
    if _OUT.value is None:
        print(text, end="")
        return
    try:
        paths.user_path(_OUT.value).write_text(text, encoding="utf-8")
    except OSError as error:
        raise app.UsageError(f"{_OUT.value}: cannot be written: {error.strerror}") from None


if __name__ == "__main__":
    command.run(main)
