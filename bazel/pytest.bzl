"""Tests written for pytest."""

load(":python.bzl", "py_test")

_MAIN = "//bazel:pytest_main.py"

def pytest_test(name, srcs, deps = [], data = [], args = [], size = "small", nightly = None, **kwargs):
    """Runs pytest on `srcs`; fails if pytest collects no test.

    Expands to one py_test whose main file is pytest_main.py, so --test_filter (pytest's -k), --test_output and the
    XML report work as for any Bazel test.

    Args:
      name: name of the test.
      srcs: files with tests, and conftest.py files beside them.
      deps: libraries they import; pytest itself is added.
      data: files they read.
      args: further options of pytest.
      size: as of py_test.
      nightly: the size of a second target, <name>_nightly: it is tagged manual and runs all tests of `srcs` with
        TILEOPS_TEST_ALL=1, those marked `nightly` among them. List it in //tests:nightly.
      **kwargs: anything else that py_test takes.
    """
    tests = [src for src in srcs if not src.endswith("conftest.py")]
    if not tests:
        fail("pytest_test %s: srcs names no file with tests" % name)
    shared = dict(
        srcs = srcs + [_MAIN],
        args = args + ["$(rootpath %s)" % src for src in tests],
        data = data,
        main = _MAIN,
        deps = deps + ["//bazel/pip:pytest"],
    )
    py_test(name = name, size = size, **dict(shared, **kwargs))
    if nightly:
        py_test(
            name = name + "_nightly",
            size = nightly,
            env = {"TILEOPS_TEST_ALL": "1"},
            tags = ["manual"],
            visibility = ["//tests:__subpackages__"],
            **shared
        )

def test_sources():
    """Makes :sources, what //docs:requirement reads of a folder of tests: its modules of tests and its BUILD file."""
    native.filegroup(
        name = "sources",
        srcs = native.glob(["*_test.py"]) + ["BUILD.bazel"],
        visibility = ["//tests:__pkg__"],
    )
