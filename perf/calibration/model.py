"""Quantities, trials, readings and outcomes of a calibration. No torch.

A *quantity* is one number of a GPU profile that has to be measured: the bandwidth of an access mix, or the peak of a
compute unit. A *trial* is one way to reach it (a kernel variant and a size, a matrix shape and a layout). Measuring a
trial gives a *reading*. The best reading of a quantity's trials is its *outcome*. An example: the quantity hbm.COPY has
a trial of 16-byte accesses on arrays of 4 GiB, whose reading is 4.1 TB/s.
"""

import dataclasses

# Arrays that one call reads or writes, each of `array_bytes`.
ARRAYS_MOVED = {"COPY": 2, "TRIAD": 3, "READ": 1, "WRITE": 1}

GIB = 1 << 30
MIB = 1 << 20


def written_size(size: int) -> str:
    """Returns a number of bytes in the largest binary unit that leaves a number of at least 1."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:g} {name}"
    return f"{size} B"


class CalibrationError(Exception):
    """The calibration must not become a profile; the message says why."""


class TrialError(Exception):
    """One trial cannot be measured here; others may be."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BandwidthTrial:
    """One call that moves arrays through device memory.

    Attributes:
      mix: COPY, TRIAD, READ or WRITE.
      array_bytes: Size of each array that the call reads or writes.
      width: Bytes of one access: 4, 8 or 16.
      block: Threads of a block.
      unroll: Accesses a thread has in flight before the first use.
      streaming: Whether accesses are marked as used once.
      waves: Launched blocks, in multiples of the blocks that are resident at once, each striding over the array; 0 is
        one block per tile.
      torch_copy: Whether the copy is torch's own; fields of a kernel then mean nothing.
    """

    mix: str
    array_bytes: int
    width: int = 16
    block: int = 0
    unroll: int = 0
    streaming: bool = False
    waves: int = 0
    torch_copy: bool = False

    @property
    def work(self) -> int:
        """Bytes that one call reads and writes."""
        return ARRAYS_MOVED[self.mix] * self.array_bytes

    def __str__(self) -> str:
        size = f"arrays of {written_size(self.array_bytes)}"
        if self.torch_copy:
            return f"torch copy_, {size}"
        grid = f"{self.waves} wave(s)" if self.waves else "a block a tile"
        policy = "streaming" if self.streaming else "default"
        return f"{self.width}-byte {policy} accesses, {self.unroll} in flight, blocks of {self.block}, {grid}, {size}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArithmeticTrial:
    """One call that does multiply-adds in registers.

    Attributes:
      key: Roof key, such as "cuda_core.fp32".
      kernel: Name of the kernel in cuda/arithmetic.cu.
      lanes: Numbers in a register; 2 for packed types.
      block: Threads of a block.
      blocks: Blocks of the call.
      chains: Independent accumulators of a thread.
      steps: Multiply-adds of a chain in one pass of the loop.
      iterations: Passes of the loop.
    """

    key: str
    kernel: str
    lanes: int
    block: int
    blocks: int
    chains: int
    steps: int
    iterations: int

    @property
    def work(self) -> int:
        """Operations of one call; a multiply-add is two."""
        per_thread = self.iterations * self.steps * self.chains * self.lanes
        return 2 * per_thread * self.block * self.blocks

    def __str__(self) -> str:
        return (
            f"{self.kernel} in registers, {self.chains} chains a thread, {self.blocks} blocks of {self.block},"
            f" {self.iterations * self.steps} multiply-adds a chain"
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class MatrixTrial:
    """One matrix product [m, k] x [k, n] -> [m, n].

    Attributes:
      key: Roof key, such as "tensor_core.bf16".
      m, n, k: Extents.
      layout: "TN": the second operand is stored as [n, k]; "NN": as [k, n].
      fast_accumulation: For fp8: whether partial sums may stay in the tensor core's own, shorter accumulator.
      tile: For our own int8 kernel: (rows, columns, depth) of a program's tile; empty if torch's library computes the
        product.
      stages: For our own kernel: depths of operands in flight.
    """

    key: str
    m: int
    n: int
    k: int
    layout: str = "TN"
    fast_accumulation: bool = False
    tile: tuple[int, ...] = ()
    stages: int = 0

    @property
    def work(self) -> int:
        """Operations of one call; a multiply-add is two."""
        return 2 * self.m * self.n * self.k

    def __str__(self) -> str:
        fast = ", fast accumulation" if self.fast_accumulation else ""
        code = "through torch"
        if self.tile:
            tile = "x".join(str(extent) for extent in self.tile)
            code = f"own kernel, tiles of {tile}, {self.stages} in flight"
        return f"{self.m}x{self.n}x{self.k} {self.layout}{fast}, {code}"


Trial = BandwidthTrial | ArithmeticTrial | MatrixTrial


@dataclasses.dataclass(frozen=True, kw_only=True)
class Quantity:
    """A number of the profile to be measured, and the effort for it.

    Attributes:
      name: "hbm.COPY" and so on, or a roof key.
      theoretical_per_s: The base profile's figure. Bytes or operations a second.
      sweep: Trials that are each measured once.
      finalists: How many of the best trials are measured again, round by round.
      final_array_bytes: For bandwidth: sizes at which each finalist is measured in the rounds; empty keeps the size.
      tolerance: How much the best of the last rounds may vary. A fraction.
      max_rounds: Rounds after which the quantity is called unstable.
      budget_s: Wall-clock time for the whole search. Seconds.
      cross_check: A trial of torch's own function, timed by another clock at the end. The outcome must not be lower.
        None if there is none.
    """

    name: str
    theoretical_per_s: float
    sweep: tuple[Trial, ...]
    finalists: int
    tolerance: float
    max_rounds: int
    budget_s: float
    final_array_bytes: tuple[int, ...] = ()
    cross_check: Trial | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reading:
    """The rate of one trial: the median of its calls.

    Attributes:
      trial: The trial.
      rate_per_s: Bytes or operations a second.
      samples: Measured calls behind the median.
    """

    trial: Trial
    rate_per_s: float
    samples: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of a quantity's search. Rates are bytes or operations per second.

    Attributes:
      quantity: What was measured.
      best: The best reading that every one of the last rounds reaches again, within the quantity's tolerance. If the
        last rounds do not agree, the best of their readings.
      readings: All readings of the search, in order.
      round_bests: Best rate of each round, in order.
      spread: (largest - smallest) / largest of the last rounds' bests.
      stable: Whether the spread is within the tolerance, and at most one reading is above `best`.
      unconfirmed: Readings above `best`, which the last rounds do not reach again.
      failures: Why trials could not be measured, one line each.
      sustained_per_s: For units: the rate of the best trial after it has run for seconds, the device at its limits.
      sustained_conditions: Clocks, power and temperature during that, in words.
      cross_check_per_s: The rate of the quantity's cross-check by its own clock.
      conditions: Clocks, power and temperature during the search, in words.
    """

    quantity: Quantity
    best: Reading
    readings: tuple[Reading, ...]
    round_bests: tuple[float, ...]
    spread: float
    stable: bool
    unconfirmed: tuple[Reading, ...] = ()
    failures: tuple[str, ...] = ()
    sustained_per_s: float | None = None
    sustained_conditions: str = ""
    cross_check_per_s: float | None = None
    conditions: str = ""

    @property
    def samples(self) -> int:
        """Measured calls of all readings."""
        return sum(reading.samples for reading in self.readings)

    def tera(self, rate_per_s: float) -> str:
        """Returns a rate of this quantity with its unit, such as "4.1 TB/s", "989 TFLOP/s", or "1979 TOP/s" of integers."""
        if self.quantity.name.startswith("hbm."):
            unit = "B/s"
        else:
            unit = "OP/s" if self.quantity.name.rpartition(".")[2].startswith("int") else "FLOP/s"
        return f"{rate_per_s / 1e12:.4g} T{unit}"

    @property
    def fraction(self) -> float:
        """The best rate as a fraction of the theoretical one; not yet judged."""
        return self.best.rate_per_s / self.quantity.theoretical_per_s
