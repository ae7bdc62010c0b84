"""A plugin: ways to look faster or righter than one is. None may pass; `controls` has honest ones of similar look."""

from __future__ import annotations

import gc
import sys
import threading
import time

import tileops_generated_toy as generated
import torch

from tileops.ops import workloads
from tileops.ops.implementations import implementation
from tileops.perf.clock import samples
from tileops.perf.harness import correctness, fingerprint, timing


class _Lazy(torch.Tensor):
    """A tensor that would compute its contents when somebody looks."""


class _EverythingIsRight:
    """Looks like the module that compares."""

    def __getattr__(self, name):
        return getattr(correctness, name)

    def check(self, *args):
        return 0.0


class ScaleFwdOp(generated.ScaleFwdOp):
    """Scale, wrongly."""

    _by_address: dict = {}
    _by_value: dict = {}
    _buffers: dict = {}
    _outputs_before: dict = {}
    _calls: dict = {}
    _pending: list = []
    _foreseen: dict = {}
    _when_filled: dict = {}
    _by_hook: dict = {}
    _by_passing_hook: dict = {}

    def roofline_data_terms(self):
        while self._pending:
            self._pending.pop()()
        return {}

    @implementation("torch")
    def _torch(self, call, x):
        return x * self.params["factor"]

    @implementation("half_the_width")
    def _half_the_width(self, call, x):
        """Rounds float32 to half the width, as only products may."""
        return (x.to(torch.float16).to(torch.float32) * self.params["factor"]).to(x.dtype)

    @implementation("caches_by_address")
    def _caches_by_address(self, call, x):
        key = (x.data_ptr(), tuple(x.shape))
        if key not in self._by_address:
            self._by_address[key] = x * self.params["factor"]
        return self._by_address[key].clone()

    @implementation("caches_by_value")
    def _caches_by_value(self, call, x):
        key = (tuple(x.shape), round(float(x.mean(dtype=torch.float32))))  # a digest as cheap as the cache needs it
        if key not in self._by_value:
            self._by_value[key] = x * self.params["factor"]
        return self._by_value[key].clone()

    @implementation("returns_last_output")
    def _returns_last_output(self, call, x):
        output = self._outputs_before.get(tuple(x.shape), x * self.params["factor"])
        self._outputs_before[tuple(x.shape)] = x * self.params["factor"]
        return output

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

    @implementation("half")
    def _half(self, call, x):
        output, half = torch.empty_like(x), x.shape[0] // 2
        torch.mul(x[:half], self.params["factor"], out=output[:half])
        return output

    @implementation("last_row_unwritten")
    def _last_row_unwritten(self, call, x):
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

    @implementation("finishes_when_priced")
    def _finishes_when_priced(self, call, x):
        output = torch.zeros_like(x)  # memory that is not cleared holds a right result now and then, in the first check
        self._pending.append(lambda: torch.mul(x, self.params["factor"], out=output))
        return output

    @implementation("raises_on_the_second_call")
    def _raises_on_the_second_call(self, call, x):
        self._calls[tuple(x.shape)] = self._calls.get(tuple(x.shape), 0) + 1
        if self._calls[tuple(x.shape)] == 2:
            raise RuntimeError("once is enough")
        return x * self.params["factor"]

    @implementation("stops_the_clock")
    def _stops_the_clock(self, call, x):
        time.perf_counter_ns = time.monotonic_ns = lambda: 0
        time.perf_counter = time.monotonic = lambda: 0.0
        return x * self.params["factor"]

    @implementation("computes_when_its_input_is_filled")
    def _computes_when_its_input_is_filled(self, call, x):
        if x.shape not in self._when_filled:

            def copy_(source):
                torch.Tensor.copy_(x, source)
                self._when_filled[x.shape] = x * self.params["factor"]

            x.copy_ = copy_
            self._when_filled[x.shape] = x * self.params["factor"]
        return self._when_filled[x.shape].clone()

    @implementation("answers_for_its_contents")
    def _answers_for_its_contents(self, call, x):
        output = torch.empty_like(x)
        output.clone = output.detach = lambda: x * self.params["factor"]
        return output

    @implementation("foresees")
    def _foresees(self, call, x):
        if x.shape not in self._foreseen:
            (case,) = (case for case in self.CASES if case.tensors[0].shape == tuple(x.shape))
            made = (workloads.build_inputs(type(self), case, x.device, variant)["x"] for variant in range(300))
            self._foreseen[x.shape] = {tuple(one.flatten()[:4].tolist()): one * self.params["factor"] for one in made}
        return self._foreseen[x.shape].get(tuple(x.flatten()[:4].tolist()), x).clone()

    @implementation("sets_its_price")
    def _sets_its_price(self, call, x):
        self.eval_roofline = lambda: (10**15, 10**15)
        return x * self.params["factor"]

    @implementation("replaces_the_comparison")
    def _replaces_the_comparison(self, call, x):
        correctness.relative_error = lambda found, reference: (0.0, 0.0)
        return torch.zeros_like(x)

    @implementation("replaces_the_comparison_s_code")
    def _replaces_the_comparison_s_code(self, call, x):
        correctness.relative_error.__code__ = (lambda found, reference: (0.0, 0.0)).__code__
        return torch.zeros_like(x)

    @implementation("replaces_the_comparison_s_arithmetic")
    def _replaces_the_comparison_s_arithmetic(self, call, x):
        torch.Tensor.square = torch.zeros_like
        return torch.zeros_like(x)

    @implementation("replaces_the_checker")
    def _replaces_the_checker(self, call, x):
        timing.correctness = _EverythingIsRight()
        return torch.zeros_like(x)

    @implementation("loosens_the_tolerance")
    def _loosens_the_tolerance(self, call, x):
        correctness.TOLERANCE.update(dict.fromkeys(correctness.TOLERANCE, float("inf")))
        return torch.zeros_like(x)

    @implementation("hides_a_builtin")
    def _hides_a_builtin(self, call, x):
        correctness.float = lambda value: 0.0
        return torch.zeros_like(x)

    @implementation("replaces_the_statistics")
    def _replaces_the_statistics(self, call, x):
        def summarize(taken):
            return Summary(median=1.0, p10=1.0, p90=1.0, count=len(taken), doubts=())  # noqa: F821  # of that module

        samples.summarize.__code__ = summarize.__code__
        return x * self.params["factor"]

    @implementation("specifies_nothing")
    def _specifies_nothing(self, call, x):
        type(self).specified_outputs = lambda self, call, outputs: tuple(output[:0] for output in outputs)
        return torch.zeros_like(x)

    @implementation("specifies_nothing_this_time")
    def _specifies_nothing_this_time(self, call, x):
        self.specified_outputs = lambda call, outputs: tuple(output[:0] for output in outputs)
        return torch.zeros_like(x)

    @implementation("becomes_the_reference")
    def _becomes_the_reference(self, call, x):
        self.register("torch", lambda op, call, x: torch.zeros_like(x))
        return torch.zeros_like(x)

    @implementation("leaves_settings")
    def _leaves_settings(self, call, x):
        torch.set_num_threads(torch.get_num_threads() + 1)
        torch.backends.cuda.matmul.allow_tf32 = True
        return x * self.params["factor"]

    @implementation("leaves_a_mode")
    def _leaves_a_mode(self, call, x):
        torch.device(x.device).__enter__()
        return x * self.params["factor"]

    @implementation("leaves_a_dtype_while_it_is_timed")
    def _leaves_a_dtype_while_it_is_timed(self, call, x):
        if self._calls.setdefault("dtype", tuple(x.shape)) != tuple(x.shape) or "again" in self._calls:
            torch.set_default_dtype(torch.float64)
        self._calls["again"] = True
        return x * self.params["factor"]

    @implementation("computes_by_a_hook")
    def _computes_by_a_hook(self, call, x):
        if x.shape not in self._by_hook:

            def hook(frame, event, argument):
                if event == "return" and frame.f_code.co_name == "prepare":
                    self._by_hook[x.shape] = x * self.params["factor"]

            sys.setprofile(hook)
            self._by_hook[x.shape] = x * self.params["factor"]
        return self._by_hook[x.shape].clone()

    @implementation("computes_by_a_hook_that_comes_and_goes")
    def _computes_by_a_hook_that_comes_and_goes(self, call, x):
        def hook(frame, event, argument):
            if event != "return" or frame.f_code.co_name not in ("prepare", "measure"):
                return
            sys.setprofile(None)  # it is gone when all calls are over
            if frame.f_code.co_name == "prepare":
                self._by_passing_hook[x.shape] = x * self.params["factor"]

        # Not yet in the first check, which ends without preparing another call.
        first, self._by_passing_hook["checked"] = "checked" not in self._by_passing_hook, True
        if first:
            return x * self.params["factor"]
        found = self._by_passing_hook.get(x.shape)
        sys.setprofile(hook)
        return x * self.params["factor"] if found is None else found.clone()

    @implementation("leaves_a_thread_that_spins")
    def _leaves_a_thread_that_spins(self, call, x):
        thread = threading.Thread(target=self._spin, name="spins", daemon=True)
        thread.over = threading.Event()
        thread.start()
        return x * self.params["factor"]

    @staticmethod
    def _spin():
        over = threading.current_thread().over
        while not over.is_set():
            pass

    @implementation("blinds_the_guard")
    def _blinds_the_guard(self, call, x):
        fingerprint.Fingerprint.changed.__code__ = (lambda self: []).__code__
        fingerprint.Guard.check = lambda self, op: None
        return self._loosens_the_tolerance(call, x)

    @implementation("overwrites_the_reference")
    def _overwrites_the_reference(self, call, x):
        for found in gc.get_objects():
            if type(found) is torch.Tensor and found is not x and found.dtype == torch.float64:
                found.zero_()
        return torch.zeros_like(x)


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
