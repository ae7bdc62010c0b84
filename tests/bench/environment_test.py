"""How a run names its machine, and where it says that a report is made."""

import pathlib

from tileops.perf import bench, bench_environment


def test_machines_of_one_host_name_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.setattr("platform.node", lambda: "vm")
    found = []
    for name, text in (("a", "0123\n"), ("b", "4567\n")):
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(bench_environment, "_MACHINE_ID", tmp_path / name)
        found.append(bench_environment.describe("cpu").hostname_hash)
    monkeypatch.setattr(bench_environment, "_MACHINE_ID", tmp_path / "missing")
    found.append(bench_environment.describe("cpu").hostname_hash)
    monkeypatch.setattr("platform.node", lambda: "other")
    found.append(bench_environment.describe("cpu").hostname_hash)
    assert len(set(found)) == 4 and all(len(hashed) == 12 for hashed in found)


def test_a_program_without_the_repository_sends_the_run_to_one(tmp_path, monkeypatch, capsys):
    run = pathlib.Path("/somewhere/my run.binpb")
    monkeypatch.delenv("BUILD_WORKING_DIRECTORY", raising=False)
    monkeypatch.setattr(bench, "__file__", str(tmp_path / "perf" / "bench.py"))
    bench._say_next(run)
    said = capsys.readouterr().err
    assert "copy /somewhere/my run.binpb to a machine with the repository" in said
    assert "./bazelw run //perf:roofline -- --run='my run.binpb'\n" in said
    (tmp_path / "bazelw").touch()
    bench._say_next(run)
    said = capsys.readouterr().err
    assert "copy" not in said and "--run='/somewhere/my run.binpb'\n" in said
