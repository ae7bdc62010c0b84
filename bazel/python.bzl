"""The Python rules that every BUILD file of this project loads, so that a move to other ones is one edit."""

def py_library(**kwargs):
    native.py_library(srcs_version = "PY3", **kwargs)

def py_binary(**kwargs):
    native.py_binary(python_version = "PY3", srcs_version = "PY3", **kwargs)

def py_test(**kwargs):
    native.py_test(python_version = "PY3", srcs_version = "PY3", **kwargs)
