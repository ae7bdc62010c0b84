"""Where a command's files are: the user's paths, and the project's own data.

`bazel run` starts a program in its runfiles and names the user's folder in `BUILD_WORKING_DIRECTORY`. Relative paths of
flags refer to that folder. The project's data (recorded runs, profiles) is beside the sources: in a checkout, a runfiles
tree, or the folder that a Python zip unpacks itself to.
"""

import os
import pathlib
import sys
from collections.abc import Sequence

from tileops.tools.cli import errors


def user_path(path: str | os.PathLike) -> pathlib.Path:
    """Returns a path of a flag: a relative path refers to the user's current folder."""
    base = os.environ.get("BUILD_WORKING_DIRECTORY") or os.getcwd()
    return pathlib.Path(base, os.path.expanduser(path))


def make_user_modules_importable(plugins: Sequence[str] = ()) -> None:
    """Makes modules beside plug-ins' files and in the user's folder importable, in this order.

    An installed module of the same name takes precedence.

    Args:
      plugins: As `plugin_path` names them.
    """
    folders = [os.path.dirname(plugin) for plugin in plugins if plugin.endswith(".py")]
    for folder in (*folders, str(user_path(".").absolute())):
        if folder not in sys.path:
            sys.path.append(folder)


def plugin_path(name: str) -> str:
    """Returns the absolute path of a plug-in's .py file, for processes in other folders; the name of a module as it is.

    Raises:
      UserError: there is no such file.
    """
    if not name.endswith(".py"):
        return name
    path = user_path(name).absolute()
    if not path.is_file():
        raise errors.UserError(f"--plugin={name}: there is no file {path}; name a .py file or a module")
    return str(path)


def not_a_folder(path: str | os.PathLike) -> str:
    """Returns why `path` cannot be read as a folder, for the end of an error message; '' if it is a folder."""
    if os.path.isdir(path):
        return ""
    return "it is a file; name its folder" if os.path.exists(path) else "there is no such folder"


def data_path(*parts: str) -> pathlib.Path:
    """Returns the path of a file or folder of the project.

    Args:
      *parts: Path components from the project's root, as in
        `data_path("perf", "recorded", "h200")`.

    Raises:
      FileNotFoundError: The file is missing: the Bazel target lacks it in `data`.
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
