"""Generated modules of a manifest outside the project, made by `//codegen:emit` as a program of its own."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tileops.tools.cli import errors, paths

_MODULE = "tileops.codegen.emit"
# Type declarations that all spec files of a manifest share.
_TYPES_FILE = "types.yaml"


class EmitError(errors.UserError):
    """`//codegen:emit` is not there, or refused the manifest; the message holds what it said."""

    has_lines = True


def emit(
    spec_dirs: Sequence[pathlib.Path], out_dir: pathlib.Path, roots: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Emit the modules of all `spec_dirs` into `out_dir`: one manifest, in which files of one family are its shards.

    Args:
      spec_dirs: folders of spec files.
      out_dir: an existing folder.
      roots: the folder of each package of formulas, as --root names it.

    Raises:
      EmitError: the program is not among this one's files, it refused the manifest, or two directories define types.
    """
    files = [file for spec_dir in dict.fromkeys(spec_dirs) for file in spec_files(spec_dir)]
    types = [file for file in files if file.name == _TYPES_FILE]
    if len(types) > 1:
        raise EmitError(f"--spec_dir: a manifest has one {_TYPES_FILE}, but there are {' and '.join(map(str, types))}")
    done = subprocess.run(
        [
            *_program(),
            *(f"--spec={file}" for file in files),
            *(f"--root={name}={folder}" for name, folder in roots.items()),
            f"--out_dir={out_dir}",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip() or "no message"
        named = " ".join(f"--spec_dir={spec_dir}" for spec_dir in spec_dirs)
        raise EmitError(f"{named}: //codegen:emit failed ({done.returncode}):\n{said}")


def spec_files(spec_dir: pathlib.Path) -> list[pathlib.Path]:
    """Returns the spec files of a folder, sorted. Raises EmitError if the folder has no spec file or does not exist."""
    if why := paths.not_a_folder(spec_dir):
        raise EmitError(f"--spec_dir={spec_dir}: {why}")
    if files := sorted(spec_dir.glob("*.yaml")):
        return files
    raise EmitError(f"--spec_dir={spec_dir}: no spec file (*.yaml)")


def _program() -> list[str]:
    """In a build output a binary beside this program's files; in a plain checkout a module."""
    # Not resolved: in a runfiles tree each file is a link to somewhere else.
    binary = pathlib.Path(__file__).absolute().parents[1] / "codegen" / "emit"
    if binary.is_file() and os.access(binary, os.X_OK):
        return [str(binary)]
    if importlib.util.find_spec("tileops.codegen") is not None and importlib.util.find_spec(_MODULE) is not None:
        return [sys.executable, "-m", _MODULE]
    raise EmitError(
        "--spec_dir needs //codegen:emit, which is not among this program's files; emit where"
        " it is, and pass the result with --generated_dir"
    )
