"""A plugin: honest implementations that look like those of `cheats`. All must pass."""

from __future__ import annotations

import concurrent.futures
import sys
import threading
import time

import tileops_generated_toy as generated
import torch
import torch._dynamo

from tileops.ops.implementations import implementation


class _Noted(torch.Tensor):
    """A tensor of a class of one's own, for one's own use."""


class ScaleFwdOp(generated.ScaleFwdOp):
    """Scale, in roundabout ways."""

    _factors: dict = {}
    _by_value: dict = {}
    _scratch: dict = {}
    _pools: dict = {}
    _outputs_before: dict = {}

    @implementation("torch")
    def _torch(self, call, x):
        return x * self.params["factor"]

    @implementation("honest_workspace")
    def _workspace(self, call, x):
        """Keeps a buffer by shape, for what is in between."""
        key = (x.dtype, x.device, tuple(x.shape))
        scratch = self._scratch.setdefault(key, torch.empty_like(x))
        return torch.mul(x, self.params["factor"], out=scratch).clone()

    @implementation("honest_constants")
    def _constants(self, call, x):
        """Caches by value what depends on parameters alone."""
        key = (self.params["factor"], x.dtype, x.device)
        if key not in self._factors:
            self._factors[key] = torch.tensor(self.params["factor"], dtype=x.dtype, device=x.device)
        return x * self._factors[key]

    @implementation("honest_cache_of_all_values")
    def _cache_of_all_values(self, call, x):
        """Would give a right result again for the very same values, and never sees them twice."""
        key = x.cpu().numpy().tobytes()
        if key not in self._by_value:
            self._by_value.clear()
            self._by_value[key] = x * self.params["factor"]
        return self._by_value[key].clone()

    @implementation("honest_keeps_last_output")
    def _keeps_last_output(self, call, x):
        self._outputs_before[tuple(x.shape)] = output = x * self.params["factor"]
        return output

    @implementation("honest_attributes")
    def _attributes(self, call, x):
        """Keeps notes on tensors of its own, and PyTorch's compiler one on an input."""
        torch._dynamo.maybe_mark_dynamic(x, 0)
        output = torch.mul(x, self.params["factor"])
        output.clones = self._outputs_before.get(tuple(x.shape))
        return output.clone()

    @implementation("honest_subclass")
    def _subclass(self, call, x):
        return (x.as_subclass(_Noted) * self.params["factor"]).as_subclass(torch.Tensor)

    @implementation("honest_copy")
    def _copy(self, call, x):
        """Works in place, on a copy of its own."""
        return x.clone().mul_(self.params["factor"])

    @implementation("honest_rounding")
    def _rounding(self, call, x):
        """Rounds three times instead of once."""
        return x * (self.params["factor"] / 3) * 1.5 * 2

    @implementation("honest_parts")
    def _parts(self, call, x):
        """Writes one half, then the other."""
        output, half = torch.empty_like(x), x.shape[0] // 2
        torch.mul(x[:half], self.params["factor"], out=output[:half])
        torch.mul(x[half:], self.params["factor"], out=output[half:])
        return output

    @implementation("honest_thread")
    def _thread(self, call, x):
        """Works in a thread, and waits for it."""
        output = torch.empty_like(x)
        thread = threading.Thread(target=lambda: torch.mul(x, self.params["factor"], out=output))
        thread.start()
        thread.join()
        return output

    @implementation("honest_pool")
    def _pool(self, call, x):
        """Keeps a thread that waits for more work."""
        if "pool" not in self._pools:
            self._pools["pool"] = concurrent.futures.ThreadPoolExecutor(max_workers=1)
        return self._pools["pool"].submit(torch.mul, x, self.params["factor"]).result()

    @implementation("honest_profile")
    def _profile(self, call, x):
        """Profiles itself, and stops that."""
        called = []
        sys.setprofile(lambda frame, event, argument: called.append(event))
        try:
            return x * self.params["factor"]
        finally:
            sys.setprofile(None)

    @implementation("honest_tries_again")
    def _tries_again(self, call, x):
        """Runs into an error of its own each time, and knows another way."""
        try:
            return torch.mul(x, torch.empty(7, 7, 7, device=x.device)[0])
        except RuntimeError:
            return x * self.params["factor"]

    @implementation("honest_reads_the_clock")
    def _reads_the_clock(self, call, x):
        began = time.perf_counter_ns()
        output = x * self.params["factor"]
        assert time.perf_counter_ns() >= began
        return output

    @implementation("honest_talks")
    def _talks(self, call, x):
        print("scaling")
        return x * self.params["factor"]

    @implementation("honest_settings")
    def _settings(self, call, x):
        """Sets what it needs, and resets it."""
        threads, matmul = torch.get_num_threads(), torch.backends.cuda.matmul
        before = matmul.allow_tf32
        torch.set_num_threads(threads + 1)
        matmul.allow_tf32 = True
        try:
            with torch.inference_mode():
                return (x * self.params["factor"]).clone()
        finally:
            torch.set_num_threads(threads)
            matmul.allow_tf32 = before

    @implementation("honest_draws")
    def _draws(self, call, x):
        """Uses and seeds the common random generator."""
        torch.manual_seed(7)
        return x * self.params["factor"] + torch.rand((), device=x.device, dtype=x.dtype) * 0
