"""One external repository for each locked Python distribution."""

load(":install.bzl", "finish", "has_nvidia_driver", "pip_install", "repository_name", "requirement_line")
load(":lock.bzl", "CUDA_DISTRIBUTIONS", "DISTRIBUTIONS")
load(":torch.bzl", "torch_distribution")

def _pip_distribution_impl(repository_ctx):
    line = repository_ctx.attr.requirement
    if repository_ctx.attr.gpu_requirement and has_nvidia_driver(repository_ctx):
        line = repository_ctx.attr.gpu_requirement
    error = pip_install(repository_ctx, [line])
    if error:
        fail("pip could not install %s:\n%s" % (line.split(" ")[0], error))
    finish(repository_ctx, repository_ctx.attr.deps)

_pip_distribution = repository_rule(
    implementation = _pip_distribution_impl,
    doc = "Installs one distribution into a directory of its own and gives it as the py_library :lib.",
    attrs = {
        "deps": attr.string_list(doc = "Distributions that this one imports."),
        "gpu_requirement": attr.string(doc = "Taken instead where the machine has an NVIDIA driver."),
        "requirement": attr.string(mandatory = True, doc = "Line of pip's requirements format, with hashes."),
    },
)

def pip_repositories():
    """Declares @pip_<distribution> for everything in lock.bzl; each is installed when a target needs it."""
    for distribution, locked in DISTRIBUTIONS.items():
        if distribution == "torch":
            torch_distribution(
                name = repository_name(distribution),
                cuda_requirements = [
                    requirement_line(name, cuda)
                    for name, cuda in CUDA_DISTRIBUTIONS.items()
                    if name not in DISTRIBUTIONS
                ],
                deps = locked.deps,
                sha256 = locked.sha256,
                version = locked.version,
            )
        else:
            cuda = CUDA_DISTRIBUTIONS.get(distribution)
            _pip_distribution(
                name = repository_name(distribution),
                gpu_requirement = requirement_line(distribution, cuda) if cuda else "",
                requirement = requirement_line(distribution, locked),
                deps = locked.deps,
            )
