"""Runs the program of the zip that this file is the __main__ of.

The files are unpacked for the time of the run: data files and the sources that a compiler of kernels reads have to
be real files, and child processes import them too.
"""

import ast
import hashlib
import importlib.util
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import zipfile

if sys.version_info < (3, 11):
    sys.exit(f"this program needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}")


# Where a package is installed by another name than it is imported by.
PACKAGE_OF_IMPORT = {"absl": "absl-py", "google.protobuf": "protobuf", "yaml": "pyyaml"}


def source_of(root: pathlib.Path, module: str) -> pathlib.Path | None:
    """Returns the file of one of the program's own modules; None if it is no such."""
    path = root.joinpath(*module.split(".")).with_suffix(".py")
    return path if path.is_file() else None


def imports_at_start(source: pathlib.Path) -> set[str]:
    """Returns what a module imports when it is imported itself: not what its functions do, nor what it tries to."""
    names = set()
    for statement in ast.parse(source.read_bytes()).body:
        if isinstance(statement, ast.Import):
            names.update(alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom) and not statement.level:
            names.add(statement.module)
            names.update(f"{statement.module}.{alias.name}" for alias in statement.names)
    return names


def packages_at_start(root: pathlib.Path, main_module: str) -> dict[str, str]:
    """Returns the packages that the program cannot start without, each with a module of it to look for."""
    packages = {}
    todo, seen = {main_module}, set()
    while todo:
        name = todo.pop()
        seen.add(name)
        source = source_of(root, name)
        if source:
            todo |= imports_at_start(source) - seen
            continue
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and not (root / top).exists():
            module = next((known for known in PACKAGE_OF_IMPORT if f"{name}.".startswith(f"{known}.")), top)
            if module != "google":  # Nobody's own: packages share it.
                packages[PACKAGE_OF_IMPORT.get(module, module)] = module
    return packages


def is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # Not even what holds it.
        return False


def refuse_without_packages(root: pathlib.Path, main_module: str) -> None:
    """Ends the program with one line where this Python lacks a package."""
    packages = packages_at_start(root, main_module)
    missing = sorted(name for name, module in packages.items() if not is_installed(module))
    if missing:
        name = pathlib.Path(sys.argv[0]).stem
        print(
            f"{name}: needs the packages {', '.join(sorted(packages))}; {sys.executable} lacks {', '.join(missing)}",
            file=sys.stderr,
        )
        sys.exit(2)


def revision() -> str:
    """Returns what names the sources of this program where nobody says: the zip has no history, but a content."""
    return f"zip-{hashlib.sha256(pathlib.Path(sys.path[0]).read_bytes()).hexdigest()}"


def main() -> int:
    """Returns the program's exit status (128 + N where signal N ended it)."""
    with tempfile.TemporaryDirectory(prefix="tileops-") as root:
        with zipfile.ZipFile(sys.path[0]) as archive:
            archive.extractall(root)
        module = pathlib.Path(root, "main_module.txt").read_text()
        refuse_without_packages(pathlib.Path(root), module)
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        # -P: the user's directory is no place to import from.
        program = subprocess.Popen(
            [sys.executable, "-P", "-m", module, *sys.argv[1:]],
            env=os.environ | {"PYTHONPATH": path, "TILEOPS_REVISION": os.environ.get("TILEOPS_REVISION") or revision()},
        )
        # Ctrl-C reaches the program by itself, and it says what becomes of the run.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda number, _: program.send_signal(number))
        status = program.wait()
        return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
