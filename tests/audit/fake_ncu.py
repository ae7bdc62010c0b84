#!/usr/bin/env python3
"""Stands in for Nsight Compute in tests: runs the program for real, on the CPU, and makes the counters up.

FAKE_NCU says how, as JSON: `read` and `write` bytes of the one kernel; `errors` instead of counters, with `status`;
`sleep` seconds before anything else; `cut` is where the CSV ends, as of a slice.
"""

import json
import os
import pathlib
import subprocess
import sys
import time

from tileops.tests.audit import ncu_output

settings = json.loads(os.environ["FAKE_NCU"])
flags = sys.argv[1:]
if flags == ["--version"]:
    print("NVIDIA (R) Nsight Compute Command Line Profiler\nVersion 2099.1.0.0 (build 1) (public-release)")
    sys.exit(0)
time.sleep(settings.get("sleep", 0))
log = pathlib.Path(flags[flags.index("--log-file") + 1])
if "errors" in settings:
    log.write_text("".join(f"==ERROR== {error}\n" for error in settings["errors"]))
    sys.exit(settings["status"])
target = flags[flags.index("-P") - 1 :]
done = subprocess.run([flag.replace("--device=cuda:0", "--device=cpu") for flag in target], check=False)
if done.returncode:
    log.write_text(f"==ERROR== The application returned an error code ({done.returncode}).\n")
    sys.exit(done.returncode)
kernels = [("scale_kernel", str(settings["read"]), str(settings["write"]))]
text = ncu_output.PROLOGUE + ncu_output.raw(kernels, ranges=[ncu_output.INSIDE])
log.write_text(text[: settings.get("cut", len(text))])
