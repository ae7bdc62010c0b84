"""Where the user's paths and the project's data are."""

import pathlib

import pytest

from tileops.tools.cli import paths


def test_user_paths_are_relative_to_where_the_user_stands(tmp_path, monkeypatch):
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(tmp_path))
    assert paths.user_path("a/b") == tmp_path / "a" / "b"
    assert paths.user_path("/a/b") == pathlib.Path("/a/b")


def test_without_bazel_that_is_the_current_directory(tmp_path, monkeypatch):
    monkeypatch.delenv("BUILD_WORKING_DIRECTORY", raising=False)
    monkeypatch.chdir(tmp_path)
    assert paths.user_path("a") == tmp_path / "a"


def test_a_users_home_is_understood(monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    assert paths.user_path("~/a") == pathlib.Path("/home/someone/a")


def test_data_lies_beside_the_sources():
    assert paths.data_path("profiles", "nvidia_h200.textproto").is_file()


def test_missing_data_is_named():
    with pytest.raises(FileNotFoundError, match="profiles/nix.textproto is not among"):
        paths.data_path("profiles", "nix.textproto")
