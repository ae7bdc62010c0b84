"""Imported by the server that children are forked from, and by nothing else: it ends with the run's parent.

By itself it ends when nobody holds its pipe any more; a child that hangs does hold it, and both would outlive a parent
that was killed, with the child still on the device.
"""

from tileops.perf.harness import parent_death

parent_death.follow()
