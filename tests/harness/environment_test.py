"""How a run names its machine."""

from tileops.perf.harness import environment


def test_machines_of_one_host_name_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.setattr("platform.node", lambda: "vm")
    found = []
    for name, text in (("a", "0123\n"), ("b", "4567\n")):
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(environment, "_MACHINE_ID", tmp_path / name)
        found.append(environment.describe("cpu").hostname_hash)
    monkeypatch.setattr(environment, "_MACHINE_ID", tmp_path / "missing")
    found.append(environment.describe("cpu").hostname_hash)
    monkeypatch.setattr("platform.node", lambda: "other")
    found.append(environment.describe("cpu").hostname_hash)
    assert len(set(found)) == 4 and all(len(hashed) == 12 for hashed in found)
