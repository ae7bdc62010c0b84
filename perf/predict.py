"""What the project's ops would cost at best on a GPU: a bound for every workload row.

`//perf:predict -- --profile="NVIDIA B200"` is //perf:roofline with --predict, on the
prices of every row instead of a measured run; it takes the same flags. A profile that
was never calibrated needs --assume_calibration=0.85, too, or the like.
"""

from collections.abc import Sequence

from absl import flags

from tileops.perf import roofline
from tileops.tools.cli import command, errors, paths

# --help lists them.
flags.adopt_module_key_flags(roofline)


def main(argv: Sequence[str]) -> int:
    """Makes the report, of the priced rows unless the user names a run; returns the exit status."""
    if not flags.FLAGS["run"].present:
        try:
            flags.FLAGS.run = [str(paths.data_path("perf", "price_run.binpb"))]
        except FileNotFoundError as error:
            raise errors.UserError(f"{error}; name a run with --run") from error
    return roofline.main(argv)


if __name__ == "__main__":
    flags.FLAGS.set_default("predict", True)
    flags.FLAGS["run"].help = "Run file, .binpb or .jsonl; repeatable. Default: the prices of every workload row."
    command.run(main)
