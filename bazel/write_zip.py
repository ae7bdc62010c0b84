"""Writes the zip of a Python program; the same inputs give the same bytes.

write_zip --out=FILE --main=MODULE --launcher=FILE PATH_IN_ZIP=FILE...
"""

import argparse
import pathlib
import zipfile

# The launcher runs first because of its name, and reads the module to run from the second file.
LAUNCHER_ENTRY = "__main__.py"
MAIN_ENTRY = "main_module.txt"


def add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    """Adds one entry, with nothing in it of this machine or day."""
    entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o100644 << 16
    archive.writestr(entry, content)


def main() -> None:
    parser = argparse.ArgumentParser(fromfile_prefix_chars="@")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--main", required=True)
    parser.add_argument("--launcher", type=pathlib.Path, required=True)
    parser.add_argument("files", nargs="*")
    flags = parser.parse_args()
    with zipfile.ZipFile(flags.out, "w") as archive:
        add(archive, LAUNCHER_ENTRY, flags.launcher.read_bytes())
        add(archive, MAIN_ENTRY, flags.main.encode())
        for line in sorted(flags.files):
            name, _, path = line.partition("=")
            add(archive, name, pathlib.Path(path).read_bytes())


if __name__ == "__main__":
    main()
