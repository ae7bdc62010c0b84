"""A plugin: ways to look faster or righter than one is. None may pass; the honest ones are in another plugin."""

from __future__ import annotations

import threading
import time

import tileops_generated_toy as generated
import torch

from tileops.ops.implementations import implementation


class _Lazy(torch.Tensor):
    """A tensor that would compute its contents when somebody looks."""


class ScaleFwdOp(generated.ScaleFwdOp):
    """Scale, wrongly."""

    _by_address: dict = {}
    _buffers: dict = {}

    @implementation("torch")
    def _torch(self, call, x):
        return x * self.params["factor"]

    @implementation("remembers")
    def _remembers(self, call, x):
        key = (x.data_ptr(), tuple(x.shape))
        if key not in self._by_address:
            self._by_address[key] = x * self.params["factor"]
        return self._by_address[key].clone()

    @implementation("reuses_buffer")
    def _reuses_buffer(self, call, x):
        buffer = self._buffers.setdefault((x.dtype, tuple(x.shape)), torch.empty_like(x))
        return torch.mul(x, self.params["factor"], out=buffer)

    @implementation("lazy")
    def _lazy(self, call, x):
        return (x * self.params["factor"]).as_subclass(_Lazy)

    @implementation("aliases")
    def _aliases(self, call, x):
        return x.mul_(self.params["factor"])

    @implementation("writes_input")
    def _writes_input(self, call, x):
        output = x * self.params["factor"]
        x.zero_()
        return output

    @implementation("one_percent")
    def _one_percent(self, call, x):
        output = x * self.params["factor"]
        output.view(-1)[::100] *= 1.2
        return output

    @implementation("one_element")
    def _one_element(self, call, x):
        output = x * self.params["factor"]
        output.view(-1)[7] = 0.5 * output.view(-1)[7] + 1
        return output

    @implementation("unwritten")
    def _unwritten(self, call, x):
        output = torch.empty_like(x)
        torch.mul(x[:-1], self.params["factor"], out=output[:-1])
        return output

    @implementation("not_a_number")
    def _not_a_number(self, call, x):
        output = x * self.params["factor"]
        output[0, 0] = float("nan")
        return output

    @implementation("finishes_later")
    def _finishes_later(self, call, x):
        output = torch.zeros_like(x)
        source = x.clone()

        def finish():
            time.sleep(0.02)
            torch.mul(source, self.params["factor"], out=output)

        threading.Thread(target=finish).start()
        return output

    @implementation("stops_the_clock")
    def _stops_the_clock(self, call, x):
        time.perf_counter_ns = time.monotonic_ns = lambda: 0
        time.perf_counter = time.monotonic = lambda: 0.0
        time.sleep(0.002)
        return x * self.params["factor"]


class ScatterCountFwdOp(generated.ScatterCountFwdOp):
    """Scatter, wrongly."""

    @implementation("torch")
    def _torch(self, call, total, ids, x):
        before = total.clone()
        total.index_add_(0, ids, x)
        return before

    @implementation("forgets_total")
    def _forgets_total(self, call, total, ids, x):
        return total.clone()
