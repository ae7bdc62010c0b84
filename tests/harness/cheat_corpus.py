"""What the bench must say of each cheat, and of the honest implementations beside them."""

import re
from collections.abc import Iterable

from tileops.proto import benchmark_pb2

# By plugin: each cheat with the reason that its record gives.
CHEATS = {
    "cheats": {
        "half_the_width": "wrong result: .* relative error",
        "caches_by_address": "wrong result: in a timed call",
        "caches_by_value": "wrong result: in a timed call",
        "returns_last_output": "wrong result: in a timed call",
        "reuses_buffer": "wrong result: in a timed call",
        "lazy": "wrong result: .* may compute its contents later",
        "aliases": "in the storage of an input",
        "writes_input": "wrong result: input 'x' was written",
        "one_percent": "wrong result: .* relative error",
        "one_element": "wrong result: .* relative error",
        "half": "wrong result: .* relative error",
        "last_row_unwritten": "wrong result: .* relative error",
        "not_a_number": "wrong result: .* relative error of inf",
        "finishes_later": "wrong result: .* relative error",
        "finishes_when_priced": "wrong result: when the call returned, though not later: .* relative error",
        "raises_on_the_second_call": "RuntimeError: once is enough",
        "stops_the_clock": "not timed: time.monotonic, .* was replaced",
        "computes_when_its_input_is_filled": "wrong result: input 'x' .* hide a tensor's own .copy_.",
        "answers_for_its_contents": "wrong result: output 'output' .* hide a tensor's own .clone, detach.",
        "foresees": "wrong result: in a timed call",
        "sets_its_price": "eval_roofline was replaced",
        "replaces_the_comparison": "not timed: tileops.perf.harness.correctness.relative_error was replaced",
        "replaces_the_comparison_s_code": "not timed: tileops.perf.harness.correctness.relative_error was replaced",
        "replaces_the_comparison_s_arithmetic": "not timed: torch.Tensor.square was replaced",
        "replaces_the_checker": "not timed: tileops.perf.harness.timing.correctness was replaced",
        "loosens_the_tolerance": "not timed: tileops.perf.harness.correctness.TOLERANCE was replaced",
        "hides_a_builtin": "not timed: tileops.perf.harness.correctness.float was replaced",
        "replaces_the_statistics": "not timed: tileops.perf.clock.samples.summarize was replaced",
        "specifies_nothing": "not timed: ScaleFwdOp.specified_outputs was replaced",
        "specifies_nothing_this_time": "not timed: ScaleFwdOp.specified_outputs was replaced",
        "becomes_the_reference": "not timed: implementation 'torch' of ScaleFwdOp was replaced",
        "leaves_settings": "not timed: the number of threads was left at .* cuda's matmul was left at tf32",
        "leaves_a_mode": "not timed: the depth of torch function modes was left at 1, and was 0",
        "leaves_a_dtype_while_it_is_timed": "not timed: the default dtype was left at torch.float64",
        "computes_by_a_hook": "not timed: the profile hook was left at .*hook, and was NoneType",
        "computes_by_a_hook_that_comes_and_goes": "not timed: the profile hook was left at .*hook, and was NoneType",
        "leaves_a_thread_that_spins": "not timed: threads or processes that the call left behind are still computing .spins",
        "overwrites_the_reference": "wrong result: .* relative error",
        "blinds_the_guard": "not timed: .*harness.correctness.TOLERANCE, .*harness.fingerprint.Fingerprint.changed",
    },
    "gpu_cheats": {
        "side_stream": "wrong result: .* relative error",
        "background_thread": "not timed: .*(launched outside|another thread|other device work|no launch record)",
        "other_work_now_and_then": "not timed: .* ran other device work than discovery saw",
        "switches_recording_off": "not timed: .*(handed over its records|longer than the profiler reports|switched)",
        "leaves_recording_off": "not timed: .*(switched it off|ran no device work|other device work)",
        "waits_for_nothing": "not timed: torch.cuda.synchronize was replaced",
    },
    "controls": {},
    "statistics_cheats": {
        **dict.fromkeys(
            (
                "no_norm",
                "first_half_of_rows",
                "every_other_element_of_rows",
                "random_half_of_rows",
                "whole_matrix",
                "the_row_before",
                "no_eps",
                "another_eps",
                "ignores_the_weight",
                "weights_near_one_for_one",
                "half_of_the_batch",
                "variance_without_eps",
                "no_mean",
                "inference_without_eps",
                "twice_the_half",
                "no_normalizer",
                "one_normalizer_for_all_rows",
                "normalizer_of_half_the_keys",
                "half_precision",
            ),
            "wrong result: .*(relative error|off by|is too (large|small) by)",
        ),
        "one_percent_too_large": "wrong result: .* is too large by 0.0(0[89]|1)",
        "two_per_mille_too_large": "wrong result: .* is too large by 0.00(1[5-9]|2)",
    },
}
# Whose implementations they are, where not of the toy op.
OPS = {"statistics_cheats": ("RMSNormFwdOp", "BatchNormFwdOp", "SumFwdOp", "GQADenseFwdOp", "GEMMFwdOp", "ExpFwdOp")}


def judge(plugin: str, records: Iterable[benchmark_pb2.BenchmarkRecord]) -> list[str]:
    """What is wrong with a run of a plugin's implementations: cheats that passed, honest ones that did not."""
    found: dict[str, list[benchmark_pb2.BenchmarkRecord]] = {}
    for record in records:
        if record.op in OPS.get(plugin, ("ScaleFwdOp",)):
            found.setdefault(record.implementation, []).append(record)
    wrong = []
    for name, reason in CHEATS[plugin].items():
        if name not in found:
            wrong.append(f"{name}: has no record")
        for record in found.get(name, ()):
            status = benchmark_pb2.Status.Name(record.status)
            if record.status != benchmark_pb2.STATUS_ERROR or not re.search(reason, record.message):
                said = f"{status} {record.message!r}; an error is wanted, and {reason!r}"
                wrong.append(f"{name}: {said} ({record.case_id})")
            elif record.HasField("timing"):
                wrong.append(f"{name}: has a time ({record.case_id})")
    for name in sorted(found.keys() - CHEATS[plugin].keys()):
        for record in found[name]:
            if record.status != benchmark_pb2.STATUS_OK:
                status = benchmark_pb2.Status.Name(record.status)
                wrong.append(f"{name} is honest: {status} {record.message!r} ({record.case_id})")
    return wrong
