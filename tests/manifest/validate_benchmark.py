"""How fast the validator is, and how that grows: `python -m tileops.tests.manifest.validate_benchmark`.

There are three synthetic manifests: the corpus's entries under new names (entries), an entry with one shape that
depends on more and more flags (points), and an entry with more and more shapes that depend on one flag each (flags).
Compare how times grow; the times themselves are those of this machine.
"""

from __future__ import annotations

import pathlib
import tempfile
import time

import yaml

from tileops.codegen.pipeline import analyse_files
from tileops.manifest.reading import loader
from tileops.tests.manifest.totality import CORPUS, valid_entries


def _files(folder: pathlib.Path, count: int) -> list[str]:
    """Spec files of `count` entries, fifty a file."""
    entries = list(valid_entries().items())
    (folder / "types.yaml").write_text((CORPUS / "types.yaml").read_text())
    for first in range(0, count, 50):
        family = f"family{first}"
        made = {}
        for number in range(first, min(first + 50, count)):
            op, entry = entries[number % len(entries)]
            name = op if number < len(entries) else f"N{number}{op}"  # a composition names ops by their own names
            made[name] = {**entry, "family": family}
        (folder / f"{family}.yaml").write_text(yaml.safe_dump(made, sort_keys=False))
    return loader.spec_files(str(folder))


def _pointed(folder: pathlib.Path, flags: int, related: bool) -> list[str]:
    """One entry whose outputs depend on `flags` Bool parameters, together (2 ** flags points) or each on one."""
    names = [f"p{number}" for number in range(flags)]
    shapes = (
        [f"[N if {' and '.join(names) or 'True'} else M]"] if related else [f"[N if {name} else M]" for name in names]
    )
    entry = {
        "family": "pointed",
        "status": "spec-only",
        "signature": {
            "forall": {"N": "Dim", "M": "Dim"},
            "params": {name: {"type": "bool", "default": False} for name in names},
            "inputs": {"x": {"dtype": "float32", "shape": "[N, M]"}},
            "outputs": {f"y{at}": {"dtype": "float32", "shape": shape} for at, shape in enumerate(shapes)},
        },
        "workloads": [{"label": "row", "N": 4, "M": 2}],
        "roofline": {"flops": "N"},
    }
    (folder / "pointed.yaml").write_text(yaml.safe_dump({"PointedFwdOp": entry}, sort_keys=False))
    return loader.spec_files(str(folder))


def main() -> None:
    """Print a table of both series."""
    print(f"{'entries':>8} {'seconds':>8} {'a second':>9}")
    for count in (25, 50, 100, 200, 400):
        with tempfile.TemporaryDirectory() as folder:
            _report(count, _files(pathlib.Path(folder), count))
    print(f"{'points':>8} {'seconds':>8} {'a second':>9}")
    for flags in (0, 4, 8, 10, 12, 14, 16):
        with tempfile.TemporaryDirectory() as folder:
            _report(2**flags, _pointed(pathlib.Path(folder), flags, related=True))
    print(f"{'flags':>8} {'seconds':>8} {'a second':>9}")
    for flags in (8, 16, 32, 64, 128):
        with tempfile.TemporaryDirectory() as folder:
            _report(flags, _pointed(pathlib.Path(folder), flags, related=False))


def _report(count: int, files: list[str]) -> None:
    began = time.process_time()  # of this process, whatever else the machine does
    analysed = analyse_files(files)
    spent = time.process_time() - began
    if len(analysed.diagnostics):
        raise SystemExit(f"the benchmark's own manifest has defects: {next(iter(analysed.diagnostics))}")
    print(f"{count:>8} {spent:>8.2f} {count / spent:>9.0f}", flush=True)


if __name__ == "__main__":
    main()
