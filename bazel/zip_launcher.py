"""Runs the program of the zip that this file is the __main__ of.

The files are unpacked for the time of the run: data files and the sources that a compiler of kernels reads have to
be real files, and child processes import them too.
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import zipfile

if sys.version_info < (3, 11):
    sys.exit(f"this program needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}")


def main() -> int:
    """Returns the program's exit status (128 + N where signal N ended it)."""
    with tempfile.TemporaryDirectory(prefix="tileops-") as root:
        with zipfile.ZipFile(sys.path[0]) as archive:
            archive.extractall(root)
        module = pathlib.Path(root, "main_module.txt").read_text()
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        # -P: the user's directory is no place to import from.
        program = subprocess.Popen(
            [sys.executable, "-P", "-m", module, *sys.argv[1:]],
            env=os.environ | {"PYTHONPATH": path},
        )
        # Ctrl-C reaches the program by itself, and it says what becomes of the run.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda number, _: program.send_signal(number))
        status = program.wait()
        return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
