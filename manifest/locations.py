"""Where spec files are: the project's own, or a folder that the user names."""

from __future__ import annotations

import os
import pathlib


def user_path(path: str) -> str:
    """A path as the user wrote it, relative to the folder the user stands in (which `bazel run` leaves)."""
    return os.path.join(os.environ.get("BUILD_WORKING_DIRECTORY", ""), path)


def spec_dir(chosen: str | None) -> str:
    """The folder of spec files: `chosen`, else the project's own beside this module."""
    return str(pathlib.Path(__file__).parent / "spec") if chosen is None else user_path(chosen)
