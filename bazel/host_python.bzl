"""The Python of this machine: the one interpreter that installs packages and runs what is built."""

load("//bazel/pip:lock.bzl", "PYTHON_MINORS")

_OVERRIDE = "TILEOPS_PYTHON"

# Prints the version's minor, the interpreter's real path (a pyenv or asdf shim is not one) and whether it has pip.
_PROBE = """
import importlib.util, sys
pip = "pip" if importlib.util.find_spec("pip") else "no pip"
print("%d.%d" % sys.version_info[:2], sys.executable, pip, sep="\\n")
"""

_BUILD = """\
load("@bazel_tools//tools/python:toolchain.bzl", "py_runtime_pair")

package(default_visibility = ["//visibility:public"])

exports_files(["interpreter.txt"])

py_runtime(
    name = "runtime",
    interpreter = ":python3",
    python_version = "PY3",
    stub_shebang = "#!{path}",
)

py_runtime_pair(
    name = "runtime_pair",
    py3_runtime = ":runtime",
)

toolchain(
    name = "toolchain",
    toolchain = ":runtime_pair",
    toolchain_type = "@bazel_tools//tools/python:toolchain_type",
)
"""

# -S hides the interpreter's own site-packages, -P the folder of the main file: a target sees what is in its deps alone.
_INTERPRETER = """\
#!/bin/sh
exec {path} -P -S "$@"
"""

def _probe(repository_ctx, program):
    """Returns (minor, path, has_pip) of the Python that `program` starts, or None where it starts none."""
    path = program if "/" in program else repository_ctx.which(program)
    if not path:
        return None
    result = repository_ctx.execute([path, "-c", _PROBE])
    lines = result.stdout.splitlines()
    if result.return_code != 0 or len(lines) != 3:
        return None
    return (lines[0], lines[1], lines[2] == "pip")

def _host_python_impl(repository_ctx):
    chosen = repository_ctx.os.environ.get(_OVERRIDE)
    candidates = [chosen] if chosen else ["python3"] + ["python" + minor for minor in PYTHON_MINORS]
    seen = []
    for candidate in candidates:
        found = _probe(repository_ctx, candidate)
        if not found:
            if chosen:
                seen.append("%s=%s does not start a Python" % (_OVERRIDE, chosen))
            continue
        minor, path, has_pip = found
        if minor in PYTHON_MINORS and has_pip:
            repository_ctx.file("interpreter.txt", minor + "\n" + path + "\n", executable = False)
            repository_ctx.file("python3", _INTERPRETER.format(path = path))
            repository_ctx.file("BUILD.bazel", _BUILD.format(path = path), executable = False)
            return
        seen.append("%s is Python %s%s" % (path, minor, "" if has_pip else " without pip"))
    fail("\n".join([
        "tileops needs Python %s with pip; none of %s on the PATH is one." % (
            ", ".join(PYTHON_MINORS),
            ", ".join(candidates),
        ),
    ] + ["  found: " + line for line in seen] + [
        "Install one (Debian: apt-get install python3 python3-pip), or name one with %s=/path/to/python3." % _OVERRIDE,
    ]))

host_python = repository_rule(
    implementation = _host_python_impl,
    doc = "Finds the interpreter: $TILEOPS_PYTHON, or the first of python3, python3.11, ... with a fitting version " +
          "and pip. Gives a toolchain that runs it without its own site-packages.",
    environ = [_OVERRIDE, "PATH"],
)

def read_interpreter(repository_ctx):
    """Returns (minor, path) of the interpreter that `host_python` found, for another repository rule."""
    minor, path = repository_ctx.read(Label("@host_python//:interpreter.txt")).splitlines()
    return minor, path
