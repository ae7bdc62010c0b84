"""Tests under settings by which torch computes on the CPU as it would on another processor."""

load("//bazel:pytest.bzl", "pytest_test")

# What torch's own kernels may use, and what oneDNN's may; None is what the processor has.
_CAPABILITIES = [None, "default", "avx2", "avx512"]
_INSTRUCTIONS = [None, "SSE41", "AVX2", "AVX512_CORE"]

def processor_env(capability, instructions):
    """Returns the environment variables of one combination."""
    env = {}
    if capability:
        env["ATEN_CPU_CAPABILITY"] = capability
    if instructions:
        env["ONEDNN_MAX_CPU_ISA"] = instructions
    return env

def processor_tests(name, **kwargs):
    """Runs one pytest_test under every combination of settings, by hand: all of them are tagged manual.

    Expands to <name>_<capability>_<instructions>_test for each, "own" where nothing is set, and the test_suite <name>.
    Those of avx512 need a processor with AVX-512: torch does not look for it where the setting names it.

    Args:
      name: of the suite.
      **kwargs: anything else that pytest_test takes.
    """
    tests = []
    for capability in _CAPABILITIES:
        for instructions in _INSTRUCTIONS:
            test = "%s_%s_%s_test" % (name, capability or "own", (instructions or "own").lower())
            pytest_test(
                name = test,
                env = processor_env(capability, instructions),
                tags = ["manual"],
                **kwargs
            )
            tests.append(test)
    native.test_suite(
        name = name,
        tags = ["manual"],
        tests = tests,
    )
