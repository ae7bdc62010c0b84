"""How fast the validator is, and how that grows: `python -m tileops.tests.manifest.validate_benchmark`.

Synthetic manifests are made of the corpus's entries under new names (entries), and of one entry whose shapes depend on
more and more flags (points). Times are of this machine; what carries over is how they grow.
"""

from __future__ import annotations

import pathlib
import tempfile
import time

import yaml

from tileops.codegen.pipeline import analyse_files
from tileops.manifest import loader
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
            made[f"N{number}{op}"] = {**entry, "family": family}
        (folder / f"{family}.yaml").write_text(yaml.safe_dump(made, sort_keys=False))
    return loader.spec_files(str(folder))


def _pointed(folder: pathlib.Path, flags: int) -> list[str]:
    """One entry whose output depends on `flags` Bool parameters: 2 ** flags points."""
    names = [f"p{number}" for number in range(flags)]
    entry = {
        "family": "pointed", "status": "spec-only",
        "signature": {
            "forall": {"N": "Dim"},
            "params": {name: {"type": "bool", "default": False} for name in names},
            "inputs": {"x": {"dtype": "float32", "shape": "[N]"}},
            "outputs": {"y": {"dtype": "float32", "shape": f"[N, {' + '.join(f'(1 if {name} else 2)' for name in names) or '1'}]"}},
        },
        "workloads": [{"label": "row", "N": 4}],
        "roofline": {"flops": "N"},
    }  # fmt: skip
    (folder / "pointed.yaml").write_text(yaml.safe_dump({"PointedFwdOp": entry}, sort_keys=False))
    return loader.spec_files(str(folder))


def main() -> None:
    """Print a table of both series."""
    print(f"{'entries':>8} {'seconds':>8} {'a second':>9}")
    for count in (25, 50, 100, 200, 400):
        with tempfile.TemporaryDirectory() as folder:
            _report(count, _files(pathlib.Path(folder), count))
    print(f"{'points':>8} {'seconds':>8} {'a second':>9}")
    for flags in (0, 4, 8, 10, 12):
        with tempfile.TemporaryDirectory() as folder:
            _report(2**flags, _pointed(pathlib.Path(folder), flags))


def _report(count: int, files: list[str]) -> None:
    began = time.perf_counter()
    analysed = analyse_files(files)
    spent = time.perf_counter() - began
    if len(analysed.diagnostics):
        raise SystemExit(f"the benchmark's own manifest has defects: {next(iter(analysed.diagnostics))}")
    print(f"{count:>8} {spent:>8.2f} {count / spent:>9.0f}", flush=True)


if __name__ == "__main__":
    main()
