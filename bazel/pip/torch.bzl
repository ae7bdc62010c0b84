"""torch, whose build differs by machine.

With an NVIDIA driver: a build with CUDA, beside the CUDA libraries it loads from its own site directory.
Without one: the CPU build, asked for as VERSION+cpu, which pip finds where its configuration names PyTorch's CPU
index or a directory with that wheel. Where it does not, any build of the version will do; one with CUDA brings
its libraries along, since torch cannot be imported without them.
"""

load(":install.bzl", "SITE", "finish", "has_nvidia_driver", "pip_install")

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
    for wish in wishes:
        error = pip_install(repository_ctx, [wish])
        if not error:
            break
    if error:
        fail("pip could not install %s:\n%s" % (wishes[-1], error))
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
    doc = "Installs torch, checked by version: its builds come from several registries, with different hashes.",
    attrs = {
        "cuda_requirements": attr.string_list(doc = "Requirement lines of the CUDA libraries, without triton."),
        "deps": attr.string_list(doc = "Distributions that torch imports."),
        "version": attr.string(mandatory = True),
    },
)
