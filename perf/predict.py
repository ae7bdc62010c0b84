"""What the project's ops would cost at best on a GPU: a bound for every workload row.

`//perf:predict -- --profile="NVIDIA B200"` is //perf:roofline with --predict, on the
prices of every row instead of a measured run; it takes the same flags.
"""

from absl import flags

from tileops.perf import command
from tileops.perf import paths
from tileops.perf import roofline


def _set_defaults() -> None:
    """Makes the priced rows what is read, unless the user names a run."""
    flags.FLAGS.set_default("predict", True)
    flags.FLAGS.set_default("run", [str(paths.data_path("perf", "price_run.binpb"))])


if __name__ == "__main__":
    _set_defaults()
    command.run(roofline.main)
