"""Compares the bytes that each op's formula declares to read with DRAM counters, under NVIDIA Nsight Compute.

Without flags it audits every op on the first GPU, with the fewest rows that take every branch of the op's price.

Exit status: 0 if no row fails; 1 if a formula claims reads that the call did not make (FAIL); 2 if a flag or file is wrong,
or no row fails but a row gave no usable measurement or no verdict (its op declares no read half).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from absl import flags

from tileops.audit import choose
from tileops.ops import row_index
from tileops.perf.harness import rows as bench_rows
from tileops.tools.cli import command, errors, globs, nearest, output, paths

_OP = flags.DEFINE_multi_string("op", [], "Globs of op names, comma-separated")
_FAMILY = flags.DEFINE_multi_string("family", [], "Globs of families, comma-separated")
_LABEL = flags.DEFINE_multi_string("label", [], "Globs of workload labels, comma-separated")
_CASE = flags.DEFINE_multi_string(
    "case", [], "Globs of case ids (a label and its dtypes, as --list prints them), comma-separated"
)
_ROWS = flags.DEFINE_enum(
    "rows", "cover", ["cover", "all"], "cover: the fewest rows that take every branch of an op's price."
)
_IMPLEMENTATION = flags.DEFINE_string(
    "implementation", "", "Name of the implementation to audit. Default: the implementation that the op chooses."
)
_DEVICE = flags.DEFINE_string("device", "cuda", "The GPU: cuda or cuda:N.")
_FORMAT = flags.DEFINE_enum("format", None, ["table", "json"], "Form of the report. Default: table, or json for .json.")
_OUT = flags.DEFINE_string(
    "out",
    None,
    "Report to write, or with .binpb the audit as protobuf. Default: stdout, and tileops-audit.binpb for a measurement.",
)
_FROM_CSV = flags.DEFINE_multi_string(
    "from_csv", [], "Judge saved counters without a GPU: a file of --save_csv, or the CSV of one ncu run"
)
_SAVE_CSV = flags.DEFINE_string("save_csv", None, "File that keeps what ncu printed for each row, for --from_csv.")
_NCU = flags.DEFINE_string("ncu", "ncu", "Name or path of the Nsight Compute program.")
_ROW_TIMEOUT_S = flags.DEFINE_float("row_timeout_s", 180.0, "Stop a row after this many seconds.", lower_bound=0.1)
_GENERATED_DIR = flags.DEFINE_string(
    "generated_dir", None, "Folder of modules that //codegen:emit --out_dir wrote for a manifest outside the project."
)
_PLUGIN = flags.DEFINE_multi_string("plugin", [], "Module or .py file that registers implementations")
_LIST = flags.DEFINE_bool("list", False, "Print the rows and the branches that each takes, and measure nothing.")


def main(argv: Sequence[str]) -> int:
    """Audits what the flags say; returns the exit status."""
    del argv
    if not re.fullmatch(r"cuda(:\d+)?", _DEVICE.value):
        raise errors.UserError(f"--device={_DEVICE.value}: only a GPU has DRAM counters; write cuda or cuda:N")
    generated = [_GENERATED_DIR.value] if _GENERATED_DIR.value else []
    choice = choose.Choice(
        selection=bench_rows.Selection(
            ops=globs.of_flag(_OP.value), families=globs.of_flag(_FAMILY.value), labels=globs.of_flag(_LABEL.value)
        ),
        case_ids=globs.of_flag(_CASE.value),
        implementation=_IMPLEMENTATION.value,
        every_row=_ROWS.value == "all",
        listed_by=nearest.rows(generated_dir=generated, plugin=_PLUGIN.value),
    )
    files = [paths.user_path(name) for name in _FROM_CSV.value]
    # A .binpb file is the report as protobuf, beside the form of what is printed.
    endings = {".txt": "table", ".json": "json", ".binpb": _FORMAT.value or "table"}
    form = output.form(_OUT.value, _FORMAT.value, endings)
    if not (_PLUGIN.value or _GENERATED_DIR.value):
        by_op = choice.by_op(row_index.load())
        if _LIST.value and not files:
            choose.print_rows(choice.to_measure(row_index.load(), by_op))
            return command.EXIT_OK

    from tileops.audit import session  # imports torch: that takes seconds

    request = session.Request(
        choice=choice,
        generated_dir=_GENERATED_DIR.value,
        plugins=_PLUGIN.value,
        device=_DEVICE.value,
        form=form,
        out=_OUT.value,
        from_csv=files,
        save_csv=_SAVE_CSV.value,
        ncu=_NCU.value,
        row_timeout_s=_ROW_TIMEOUT_S.value,
        lists_only=_LIST.value,
    )
    return session.perform(request)


if __name__ == "__main__":
    command.run(main)
