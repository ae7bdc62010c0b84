"""//perf:measured_report chains a run of the bench on this machine's device into its report, by build targets."""

from tileops.tools.cli import paths


def labels(name: str) -> list[str]:
    return paths.data_path("tests", "end_to_end", name).read_text().split()


def test_the_report_is_made_from_a_run_of_the_bench_and_by_the_roofline_tool():
    assert {"//perf:bench", "//perf:roofline"} <= set(labels("measured_tools"))


def test_it_measures_only_when_it_is_asked_for_and_never_from_a_cache():
    assert labels("measured_here") == ["//perf:measured_report"]
