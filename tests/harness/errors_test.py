"""An error of a user's code is told with the line of theirs that it came from, and with no other's."""

import functools
import sys

import pytest
import torch

from tileops.ops import catalogue
from tileops.perf.harness import errors

KERNELS = """\
import json
import torch


def lookup(x):
    return [][x]


def multiply(x):
    return x @ x


def parse(x):
    return json.loads("{")


def call(function):
    function()


def twolines():
    raise ValueError("one\\ntwo" + " and more" * 200)
"""


@pytest.fixture
def kernels(tmp_path):
    (tmp_path / "my_kernels.py").write_text(KERNELS)
    yield catalogue.import_file(tmp_path / "my_kernels.py", f"tileops_plugin_{tmp_path.name}")
    del sys.modules[f"tileops_plugin_{tmp_path.name}"]


def described(function, *args):
    with pytest.raises(Exception) as caught:  # noqa: PT011
        function(*args)
    return errors.describe(caught.value.with_traceback(caught.value.__traceback__.tb_next))  # without this frame


def test_the_user_s_line_stands_behind_the_message(kernels):
    assert described(kernels.lookup, 3) == "IndexError: list index out of range (my_kernels.py:6, in lookup)"


def test_it_is_the_innermost_of_theirs_where_torch_or_the_library_raised(kernels):
    assert described(kernels.multiply, torch.ones(2, 3)).endswith("(my_kernels.py:10, in multiply)")
    assert described(kernels.parse, 0).endswith("(my_kernels.py:14, in parse)")


def test_what_the_project_raised_below_their_line_is_told_with_their_line(kernels):
    found = described(kernels.call, functools.partial(catalogue.generated_files, "/nowhere"))
    assert found.startswith("OpError: /nowhere: no generated module") and found.endswith("(my_kernels.py:18, in call)")


def test_without_a_line_of_theirs_nothing_is_added():
    assert described(catalogue.generated_files, "/nowhere").endswith("--out_dir=/nowhere")
    assert described(eval, "1 // 0") == "ZeroDivisionError: integer division or modulo by zero"
    assert errors.describe(KeyError()) == "KeyError"


def test_an_installed_package_is_not_theirs_wherever_pip_put_it(tmp_path):
    (tmp_path / "quick").mkdir()
    (tmp_path / "quick" / "__init__.py").write_text("def go():\n    raise ValueError('no')\n")
    (tmp_path / "quick-1.0.dist-info").mkdir()
    module = catalogue.import_file(tmp_path / "quick" / "__init__.py", "quick")
    try:
        assert described(module.go) == "ValueError: no"
    finally:
        del sys.modules["quick"]


def test_a_long_message_leaves_room_for_the_line(kernels):
    found = described(kernels.twolines)
    assert found.endswith("... (my_kernels.py:22, in twolines)") and len(found) < 500


def test_on_import_the_line_is_told_without_a_function(tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("x = {}\nx['RmsNorm']\n")
    assert described(catalogue.import_file, path, f"tileops_plugin_broken_{tmp_path.name}").endswith(
        "KeyError: 'RmsNorm' (broken.py:2)"
    )
