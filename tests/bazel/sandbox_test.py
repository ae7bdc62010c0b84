"""What Bazel's sandbox keeps from an action, where there is one."""

import pathlib
import socket

import pytest

HERE = pathlib.Path(__file__).absolute()

pytestmark = pytest.mark.skipif(
    "/sandbox/linux-sandbox/" not in str(pathlib.Path.cwd()), reason="Bazel runs this test without its linux-sandbox"
)


def test_there_is_no_network():
    # A device is found by its name alone; no packet leaves, with a sandbox or without.
    assert [name for _, name in socket.if_nameindex()] == ["lo"]


def test_the_checkout_cannot_be_written():
    source = HERE.resolve()
    with pytest.raises(OSError):
        (source.parent / "written_by_a_test").write_text("")


def test_files_that_are_not_declared_are_not_there():
    assert (HERE.parent / "sandbox_test.py").exists()
    assert not (HERE.parent / "lock_test.py").exists()
