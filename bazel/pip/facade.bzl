"""The labels through which targets name third-party distributions."""

load("//bazel:python.bzl", "py_library")
load(":install.bzl", "repository_name")

def pip_facade(distributions):
    """One public py_library a distribution, named as in absl_py: empty on a platform with :packages_of_its_own."""
    for distribution in distributions:
        py_library(
            name = distribution.replace("-", "_"),
            visibility = ["//visibility:public"],
            deps = select({
                ":packages_of_its_own": [],
                "//conditions:default": ["@%s//:lib" % repository_name(distribution)],
            }),
        )
