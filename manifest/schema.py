"""Writes the JSON Schema with which an editor completes and checks spec files.

Exit status: 0, or 2 if a flag is wrong or the file cannot be written.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from absl import flags

from tileops.manifest.reading.json_schema import spec_schema, types_schema
from tileops.tools.cli import command, output

_OF = flags.DEFINE_enum(
    "of", "spec", ["spec", "types"], "spec: the schema of spec files. types: the schema of types.yaml."
)
_OUT = flags.DEFINE_string("out", None, output.HELP)


def main(argv: Sequence[str]) -> None:
    """Writes one schema."""
    text = json.dumps(spec_schema() if _OF.value == "spec" else types_schema(), indent=2) + "\n"
    output.check(_OUT.value, ("schema", "json"))
    output.write(_OUT.value, lambda out: out.write(text))


if __name__ == "__main__":
    command.run(main)
