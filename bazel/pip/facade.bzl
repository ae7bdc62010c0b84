"""The labels through which targets name third-party distributions, and the setting that empties them."""

load("//bazel:python.bzl", "py_library")
load(":install.bzl", "repository_name")

def _bool_setting_impl(_ctx):
    return []

bool_setting = rule(
    implementation = _bool_setting_impl,
    doc = "A build setting that is on or off.",
    build_setting = config.bool(flag = True),
)

def pip_facade(distributions):
    """One public py_library a distribution, named as in absl_py: empty where :provided_by_machine holds."""
    for distribution in distributions:
        py_library(
            name = distribution.replace("-", "_"),
            visibility = ["//visibility:public"],
            deps = select({
                ":provided_by_machine": [],
                "//conditions:default": ["@%s//:lib" % repository_name(distribution)],
            }),
        )
