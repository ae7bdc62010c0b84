"""Sensor readings in words, and a watch that ends."""

import time

from tileops.perf.calibration import conditions
from tileops.perf.clock.measurement import DeviceReading


def test_ranges_and_reasons():
    text = conditions.describe(
        [
            DeviceReading(sm_clock_mhz=1980, memory_clock_mhz=3201, power_w=412.3, temperature_c=48),
            DeviceReading(
                sm_clock_mhz=1755,
                memory_clock_mhz=3201,
                power_w=699.6,
                temperature_c=61,
                throttle_reasons=("sw_power_cap",),
                other_processes=1,
            ),
        ]
    )
    assert text == (
        "SM 1755-1980 (median 1755) MHz, memory 3201 MHz, 412-700 W, 48-61 C, sw_power_cap,"
        " 1 other process(es) on the device"
    )


def test_absent_sensors_are_left_out():
    assert conditions.describe([DeviceReading(power_w=100.0)]) == "100 W"
    assert conditions.describe([DeviceReading()]) == ""
    assert conditions.describe([]) == ""


def test_a_watch_reads_until_it_is_left():
    reads = []

    def read():
        reads.append(1)
        return DeviceReading(temperature_c=40 + len(reads))

    with conditions.Watch(read) as watch:
        deadline = time.monotonic() + 10
        while watch.mark() < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert watch.since(1).startswith("42")
    count = len(reads)
    time.sleep(0.3)
    assert len(reads) == count
