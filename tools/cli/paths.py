"""Where a command's files are: the user's paths, and the project's own data.

`bazel run` starts a program inside its runfiles and names the directory that
the user stands in by `BUILD_WORKING_DIRECTORY`; relative paths on a command
line mean that one. The project's data (recorded runs, profiles) lies beside the
sources wherever these were put: a checkout, a runfiles tree, or the directory
that a Python zip unpacks itself to.
"""

import os
import pathlib
import sys
from collections.abc import Sequence


def user_path(path: str | os.PathLike) -> pathlib.Path:
    """Returns `path` as the user meant it: relative to where they stand."""
    base = os.environ.get("BUILD_WORKING_DIRECTORY") or os.getcwd()
    return pathlib.Path(base, os.path.expanduser(path))


def make_user_modules_importable(plugins: Sequence[str] = ()) -> None:
    """Lets modules beside plugins' files, then those where the user stands, be imported.

    An installed module of the same name comes before either.

    Args:
      plugins: As `plugin_path` names them.
    """
    folders = [os.path.dirname(plugin) for plugin in plugins if plugin.endswith(".py")]
    for folder in (*folders, str(user_path(".").absolute())):
        if folder not in sys.path:
            sys.path.append(folder)


def plugin_path(name: str) -> str:
    """A plugin's .py file by its absolute path, since other processes stand elsewhere; a module by its name."""
    return str(user_path(name).absolute()) if name.endswith(".py") else name


def data_path(*parts: str) -> pathlib.Path:
    """Returns the path of a file or folder of the project.

    Args:
      *parts: Path components from the project's root, as in
        `data_path("perf", "recorded", "h200")`.

    Raises:
      FileNotFoundError: It is not there; the target that runs lacks it in
        `data`.
    """
    # Not resolved: in a runfiles tree each file is a link to somewhere else.
    root = pathlib.Path(__file__).absolute().parents[2]
    found = root.joinpath(*parts)
    if not found.exists():
        raise FileNotFoundError(
            f"{'/'.join(parts)} is not among this program's files (looked in"
            f" {root}); its target has to name it in `data`"
        )
    return found
