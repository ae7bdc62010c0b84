"""A plugin: cheats that need a GPU, and honest implementations of similar look. Loaded beside no other plugin."""

from __future__ import annotations

import threading
import time

import tileops_generated_toy as generated
import torch

from tileops.ops.implementations import implementation, on_cuda

# Long enough to be seen unfinished. Clock cycles.
_LONG = 20_000_000


class ScaleFwdOp(generated.ScaleFwdOp):
    """Scale, on streams and in threads."""

    _calls: dict = {}

    @implementation("torch")
    def _torch(self, call, x):
        return x * self.params["factor"]

    def _on_a_side_stream(self, x):
        """Starts the work on a stream of its own, after what the caller's stream holds; (output, stream)."""
        output, side = torch.empty_like(x), torch.cuda.Stream(x.device)
        side.wait_stream(torch.cuda.current_stream(x.device))
        with torch.cuda.stream(side):
            torch.cuda._sleep(_LONG)
            torch.mul(x, self.params["factor"], out=output)
        return output, side

    @implementation("side_stream", when=on_cuda)
    def _side_stream(self, call, x):
        """Nobody who goes on working on the caller's stream waits for it."""
        return self._on_a_side_stream(x)[0]

    @implementation("honest_side_stream", when=on_cuda)
    def _honest_side_stream(self, call, x):
        output, side = self._on_a_side_stream(x)
        torch.cuda.current_stream(x.device).wait_stream(side)
        output.record_stream(side)
        return output

    @implementation("background_thread", when=on_cuda)
    def _background_thread(self, call, x):
        """Launches its kernel when the call's window has closed."""
        output = x * self.params["factor"]

        def late():
            time.sleep(0.005)
            torch.mul(x, self.params["factor"])

        threading.Thread(target=late).start()
        return output

    @implementation("honest_thread", when=on_cuda)
    def _honest_thread(self, call, x):
        output = torch.empty_like(x)
        thread = threading.Thread(target=lambda: torch.mul(x, self.params["factor"], out=output))
        thread.start()
        thread.join()
        return output

    @implementation("other_work_now_and_then", when=on_cuda)
    def _other_work_now_and_then(self, call, x):
        """Skips part of its work in most calls: the device's own record of each call must be the same."""
        count = self._calls["other"] = self._calls.get("other", 0) + 1
        output = x * self.params["factor"]
        return output if count % 7 else output + 0

    @implementation("honest_two_kernels", when=on_cuda)
    def _honest_two_kernels(self, call, x):
        return (x + 0) * self.params["factor"]

    @implementation("switches_recording_off", when=on_cuda)
    def _switches_recording_off(self, call, x):
        """Does its work while the profiler records none."""
        device_work = {torch.profiler.ProfilerActivity.CUDA}
        torch._C._autograd._toggle_collection_dynamic(False, device_work)
        output = x * self.params["factor"]
        torch._C._autograd._toggle_collection_dynamic(True, device_work)
        output[:1].add_(0)
        return output

    @implementation("leaves_recording_off", when=on_cuda)
    def _leaves_recording_off(self, call, x):
        output = x * self.params["factor"]
        torch._C._autograd._toggle_collection_dynamic(False, {torch.profiler.ProfilerActivity.CUDA})
        return output

    @implementation("waits_for_nothing", when=on_cuda)
    def _waits_for_nothing(self, call, x):
        torch.cuda.synchronize = lambda device=None: None
        return x * self.params["factor"]

    @implementation("honest_waits", when=on_cuda)
    def _honest_waits(self, call, x):
        output = x * self.params["factor"]
        torch.cuda.synchronize(x.device)
        return output
