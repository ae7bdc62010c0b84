"""A generated module is built from its own family's manifest file, by whatever path."""

import pathlib


def test_gemm_is_built_from_its_own_file_alone():
    files = pathlib.Path("tests/layering/gemm_manifest_files").read_text().split()
    assert files == ["//manifest/spec:gemm.yaml"]
