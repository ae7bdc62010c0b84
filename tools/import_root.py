"""Lays out an import root for editors, type checkers and a bare Python: what `tileops.*` means without Bazel.

    ./bazelw run //tools:import_root

Makes build/sources/tileops, a link to the checkout, and build/generated/tileops, a copy of the modules that only the
build can make: the generated op modules and those of the protobuf messages. tileops is a namespace package, so that
Python finds it in both. pyproject.toml names both folders; for a shell:

    export PYTHONPATH=$PWD/build/sources:$PWD/build/generated
"""

import os
import pathlib
import shutil
import sys

# Made by Bazel below these folders of the runfiles, where no source file has such a name.
GENERATED = ("ops/generated/*.py", "ops/row_index_data.py", "proto/*_pb2.py", "proto/*_pb2.pyi")


def lay_out(checkout: pathlib.Path, runfiles: pathlib.Path, out: pathlib.Path) -> list[pathlib.Path]:
    """Makes `out`/sources and `out`/generated, and returns both.

    Args:
      checkout: the root of the source tree, to which sources/tileops links.
      runfiles: the tree that holds the generated modules; they are copied.
      out: an existing folder, or one to be made. Its sources/ is completed, its generated/ made anew.
    """
    sources = out / "sources"
    generated = out / "generated"
    sources.mkdir(parents=True, exist_ok=True)
    link = sources / "tileops"
    if link.is_symlink():
        link.unlink()
    link.symlink_to(checkout, target_is_directory=True)
    shutil.rmtree(generated, ignore_errors=True)
    for pattern in GENERATED:
        for made in sorted(runfiles.glob(pattern)):
            copy = generated / "tileops" / made.relative_to(runfiles)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(made, copy)
    return [sources, generated]


def main() -> int:
    checkout = os.environ.get("BUILD_WORKSPACE_DIRECTORY")
    if not checkout:
        print("import_root: run it with ./bazelw run //tools:import_root", file=sys.stderr)
        return 2
    root = pathlib.Path(checkout)
    for folder in lay_out(root, pathlib.Path(__file__).absolute().parents[1], root / "build"):
        print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
