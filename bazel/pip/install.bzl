"""Installs locked distributions with the machine's pip: what the repository rules of this package share."""

load("//bazel:host_python.bzl", "read_interpreter")

# Where a repository holds what it installed.
SITE = "site"

BUILD = """\
package(default_visibility = ["//visibility:public"])

py_library(
    name = "lib",
    # The directory as one source: a link in a sandbox, where its files would be thousands.
    data = ["{site}"],
    imports = ["{site}"],
    deps = {deps},
)
"""

def repository_name(distribution):
    """The external repository of a distribution, as in pip_absl_py."""
    return "pip_" + distribution.replace("-", "_")

def requirement_line(distribution, locked):
    """A line of pip's requirements format with the locked version and every hash it may have."""
    return " ".join(["%s==%s" % (distribution, locked.version)] + ["--hash=sha256:" + h for h in locked.sha256])

def has_nvidia_driver(repository_ctx):
    """True where the machine has an NVIDIA driver."""
    return repository_ctx.path("/proc/driver/nvidia").exists or repository_ctx.which("nvidia-smi") != None

def pip_install(repository_ctx, lines):
    """Installs requirement lines, and nothing that they lead to, into SITE.

    Returns:
      None, or what pip said where it failed.
    """
    _, python = read_interpreter(repository_ctx)
    repository_ctx.file("requirements.txt", "\n".join(lines) + "\n", executable = False)
    result = repository_ctx.execute(
        [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-input",
            "--disable-pip-version-check",
            "--no-deps",
            "--no-compile",
            "--only-binary=:all:",
            "--target=" + SITE,
            "--requirement=requirements.txt",
        ],
        # Registries, certificates and the like stay those of the user's own configuration.
        environment = {"PIP_USER": "0", "PYTHONPATH": ""},
        timeout = 3600,
    )
    return None if result.return_code == 0 else result.stderr + result.stdout

def finish(repository_ctx, deps):
    """Compiles what was installed and writes the BUILD file.

    Args:
      repository_ctx: the rule's context.
      deps: names of the distributions that this one imports.
    """
    _, python = read_interpreter(repository_ctx)

    # Checked by nothing at run time: the directory never changes, and is read-only in a sandbox. A file that is
    # not for this Python (templates, other versions' syntax) stays uncompiled.
    repository_ctx.execute([python, "-m", "compileall", "-q", "-j0", "--invalidation-mode=unchecked-hash", SITE])
    labels = ["@%s//:lib" % repository_name(dep) for dep in deps]
    repository_ctx.file("BUILD.bazel", BUILD.format(deps = repr(labels), site = SITE), executable = False)
