"""Reports what the project's ops would cost at best on a GPU: a bound for every workload row.

`//perf:predict -- --profile="NVIDIA B200"` does what //perf:roofline does with --predict, for the prices of all rows
instead of a measured run. It takes the same flags. A profile without calibration also needs --assume_calibration=0.85 or
the like.

Exit status: 0, or 2 if a flag or file is wrong.
"""

from collections.abc import Sequence

from absl import flags

from tileops.perf import roofline
from tileops.tools.cli import command, errors, paths

# --help lists them.
flags.adopt_module_key_flags(roofline)


def main(argv: Sequence[str]) -> int:
    """Reports the priced rows, or the run that the user names; returns the exit status."""
    if not flags.FLAGS["run"].present:
        try:
            flags.FLAGS.run = [str(paths.data_path("perf", "price_run.binpb"))]
        except FileNotFoundError as error:
            raise errors.UserError(f"{error}; name a run with --run") from error
    return roofline.main(argv)


if __name__ == "__main__":
    flags.FLAGS.set_default("predict", True)
    flags.FLAGS["profile"].help = (
        "GPU to predict for: a device name or a .textproto file. Needed unless --run names a measured run, whose device is"
        " the default."
    )
    flags.FLAGS["run"].help = "Run file, .binpb or .jsonl. Default: the prices of every workload row"
    command.run(main)
