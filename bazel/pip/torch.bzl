"""torch, whose build differs by machine.

With an NVIDIA driver: a build with CUDA, beside the CUDA libraries it loads from its own site directory.
Without one: the CPU build, asked for as VERSION+cpu, which pip finds where its configuration names PyTorch's CPU
index or a directory with that wheel. Where it does not, the default registry's build of the version is taken; one with CUDA brings
its libraries along, since torch cannot be imported without them.

Every build must have a hash of lock.bzl, or the one that TILEOPS_TORCH_SHA256 names: CPU builds come from several
places, and lock.py sees those alone that pip finds where it runs.
"""

load(":install.bzl", "SITE", "finish", "has_nvidia_driver", "pip_install")

_TRUSTED = "TILEOPS_TORCH_SHA256"

def _has_cuda(repository_ctx):
    """True where the installed torch was built with CUDA, by its own word (version.py: `cuda = '13.0'` or None)."""
    for line in repository_ctx.read(SITE + "/torch/version.py").splitlines():
        if line.startswith("cuda") and "=" in line:
            return "None" not in line.split("=")[1]
    fail("torch/version.py of the installed torch does not say whether it was built with CUDA")

def _torch_distribution_impl(repository_ctx):
    version = repository_ctx.attr.version
    gpu = has_nvidia_driver(repository_ctx)
    if gpu:
        # A CPU build, where pip finds one, would be preferred: its version counts as newer.
        wishes = ["torch==%s,!=%s+cpu" % (version, version)]
    else:
        wishes = ["torch==%s+cpu" % version, "torch==%s" % version]
    trusted = repository_ctx.os.environ.get(_TRUSTED)
    hashes = repository_ctx.attr.sha256 + ([trusted] if trusted else [])
    for wish in wishes:
        error = pip_install(repository_ctx, [" ".join([wish] + ["--hash=sha256:" + h for h in hashes])])
        if not error:
            break
    if error:
        fail(("pip could not install %s:\n%sIf its hash is not in bazel/pip/lock.bzl and you trust the file, name it " +
              "by %s.") % (wishes[-1], error, _TRUSTED))
    with_cuda = _has_cuda(repository_ctx)
    if gpu and not with_cuda:
        fail("this machine has an NVIDIA driver, but pip's torch %s is a CPU build" % version)
    if with_cuda:
        error = pip_install(repository_ctx, repository_ctx.attr.cuda_requirements)
        if error:
            fail("pip could not install the CUDA libraries of torch %s:\n%s" % (version, error))
    finish(repository_ctx, repository_ctx.attr.deps + (["triton"] if gpu else []))

torch_distribution = repository_rule(
    implementation = _torch_distribution_impl,
    doc = "Installs torch: the build that fits this machine, of a locked version and hash.",
    environ = [_TRUSTED],
    attrs = {
        "cuda_requirements": attr.string_list(doc = "Requirement lines of the CUDA libraries, without triton."),
        "deps": attr.string_list(doc = "Distributions that torch imports."),
        "sha256": attr.string_list(mandatory = True, doc = "Hashes of the builds that may be installed."),
        "version": attr.string(mandatory = True),
    },
)
