"""Kernels run in Triton's interpreter here, which has to be chosen before a kernel is defined."""

import os

os.environ["TRITON_INTERPRET"] = "1"
