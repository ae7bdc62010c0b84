"""The roofline document, sections 4.4 and 4.4.5 as seen from outside: what is imported, and when.

Each test asks a Python process of its own. Issue 4: emission is deterministic, generated modules of all families
import in under a second, and torch is not loaded for analysis.
"""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys

import pytest

from tileops.tests.codegen.small_entries import OP, demo, text_of
from tileops.tools.cli import paths

# What only the build may load: the reader of YAML, the language's parser and checks, the analysis, the emission.
BUILD_TIME = ("yaml", "tileops.codegen", "tileops.manifest")
RUN_TIME = {
    "tileops.manifest",
    "tileops.manifest.language",
    "tileops.manifest.language.primitives",
    "tileops.manifest.language.dtypes",
    "tileops.manifest.language.adt",
    "tileops.manifest.language.generators",
    "tileops.manifest.language.extents",
    "tileops.manifest.language.sampling",  # what the seeded generators draw
    "tileops.manifest.foreign",  # where formulas of another package run
    "tileops.manifest.foreign.interpreter",
    "tileops.manifest.foreign.roots",
    "tileops.manifest.language.range_sums",  # a primitive: generated code calls range_sum
}


def python(code: str, *path: str, **environment: str) -> str:
    """What a program prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join([*path, *sys.path]), **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def emit(spec_dir: str, out_dir: str) -> str:
    """Returns a program that emits the modules of a folder of spec files in a process of its own."""
    command = ["-m", "tileops.codegen.emit", f"--spec_dir={spec_dir}", f"--out_dir={out_dir}"]
    return f"import subprocess, sys\nsubprocess.run([sys.executable, *{command}], check=True)"


def loaded(code: str, *path: str) -> set[str]:
    """The modules that a program has loaded at its end."""
    return set(python(f"{code}\nimport sys\nprint(*sys.modules, sep='\\n')", *path).split())


# ---- 4.4: no op instance, no tensor library, no device


@pytest.mark.parametrize("module", ["tileops.codegen.validate", "tileops.codegen.emit", "tileops.codegen.explain"])
def test_4_4_the_commands_that_analyse_import_no_tensor_library(module):
    found = loaded(f"import {module}")
    assert not {"torch", "triton", "tileops.ops.op", "tileops.perf.formulas"} & found


@pytest.mark.requirement("4.4.b")
def test_4_4_analysing_and_emitting_the_whole_manifest_loads_no_tensor_library_no_op_and_no_formula():
    found = loaded(
        "from tileops.codegen import pipeline\n"
        "analysed = pipeline.analyse_files(pipeline.chosen_spec_files())\n"
        "assert analysed.entries and not len(analysed.diagnostics)\n"
        "assert analysed.modules()"
    )
    assert not {"torch", "triton"} & found
    assert not [name for name in found if name.startswith(("tileops.ops", "tileops.perf.formulas"))]


@pytest.mark.requirement("4.4.c")
def test_4_4_the_validator_imports_a_func_path_for_an_implemented_entry_alone(tmp_path):
    (tmp_path / "noisy_formulas.py").write_text("print('imported')\ndef price(call):\n    return 0, 0\n")
    (tmp_path / "spec").mkdir()
    said = {}
    for status in ("spec-only", "implemented"):
        (tmp_path / "spec" / "demo.yaml").write_text(text_of(demo({"func": "noisy_formulas.price"}, status=status)))
        done = subprocess.run(
            [sys.executable, "-m", "tileops.codegen.validate", f"--spec_dir={tmp_path}/spec"],
            capture_output=True,
            text=True,
            env={"PYTHONPATH": ":".join([str(tmp_path), *sys.path])},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        said[status] = "imported" in done.stderr
    assert said == {"spec-only": False, "implemented": True}


def test_4_4_emission_imports_a_func_path_when_the_entrys_class_is_created(tmp_path):
    (tmp_path / "noisy_formulas.py").write_text("print('imported')\ndef price(call):\n    return 0, 0\n")
    (tmp_path / "spec").mkdir()
    (tmp_path / "spec" / "demo.yaml").write_text(text_of(demo({"func": "noisy_formulas.price"}, status="spec-only")))
    assert python(emit(f"{tmp_path}/spec", f"{tmp_path}/made"), str(tmp_path)) == ""
    assert python("import demo", f"{tmp_path}/made", str(tmp_path)) == "imported\n"


@pytest.mark.requirement("4.4.d")
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def other(call):\n    return 0, 0\n", "demo_formulas has no function 'price'"),
        ("price = 3\n", "demo_formulas.price is no function but a int"),
        ("raise SystemExit(3)\n", "demo_formulas cannot be imported: SystemExit: 3"),
        (None, "demo_formulas cannot be imported: ModuleNotFoundError: No module named 'demo_formulas'"),
    ],
)
def test_4_4_a_func_that_is_missing_is_told_when_the_class_is_created_with_its_line(tmp_path, code, said):
    if code is not None:
        (tmp_path / "demo_formulas.py").write_text(code)
    (tmp_path / "spec").mkdir()
    entry = text_of(demo({"func": "demo_formulas.price"}))
    (tmp_path / "spec" / "demo.yaml").write_text(entry)
    line = entry.splitlines().index("    func: demo_formulas.price") + 1
    python(emit(f"{tmp_path}/spec", f"{tmp_path}/made"))
    told = python(
        "from tileops.ops.errors import OpFormulaError\ntry: import demo\nexcept OpFormulaError as error: print(error)",
        f"{tmp_path}/made",
        str(tmp_path),
    )
    assert told == f"demo.yaml:{line}: {OP}: func: {said}\n"


def test_4_4_a_spec_only_entry_whose_func_is_not_written_yet_lacks_its_price_alone(tmp_path):
    (tmp_path / "spec").mkdir()
    (tmp_path / "spec" / "demo.yaml").write_text(text_of(demo({"func": "nowhere.price"}, status="spec-only")))
    python(emit(f"{tmp_path}/spec", f"{tmp_path}/made"))
    told = python(
        "import demo, torch\nop = demo.DemoFwdOp()\nop(torch.empty(3, 5, dtype=torch.float16, device='meta'))\n"
        "try: op.eval_roofline()\nexcept Exception as error: print(type(error).__name__, error)",
        f"{tmp_path}/made",
    )
    assert told.startswith(
        "OpNotAvailableError nowhere.price cannot be used: nowhere cannot be imported: ModuleNotFound"
    )


# ---- 4.4.5: nothing parses, analyses or evaluates a formula at run time


@pytest.mark.requirement("4.4.5a", "4.4.5d")
def test_4_4_5_importing_every_op_module_loads_no_parser_and_no_analysis():
    """Everything that the modules load, directly or through others, generated and hand-written alike."""
    found = loaded("from tileops.ops import catalogue\nassert catalogue.load()")
    assert "torch" in found and "tileops.ops.generated.gemm" in found and "tileops.ops.families.gemm" in found
    assert {name for name in found if name.startswith(BUILD_TIME)} <= RUN_TIME


@pytest.mark.requirement("4.4.5d")
def test_4_4_5_calling_and_pricing_every_row_loads_no_parser_and_no_analysis():
    found = loaded(
        "from tileops.ops import catalogue, workloads\n"
        "for made in catalogue.load().values():\n"
        "    for case in made.CASES:\n"
        "        op = workloads.construct(made, case, device='meta')\n"
        "        op(**workloads.build_inputs(made, case, 'meta'))\n"
        "        op.eval_roofline(), op.eval_roofline_read_bytes(), op.roof_key(), op.roofline_data_terms()"
    )
    assert {name for name in found if name.startswith(BUILD_TIME)} <= RUN_TIME


def test_4_4_5_formulas_that_need_python_import_no_tensor_library():
    found = loaded("import tileops.perf.formulas")
    assert "torch" not in found and not [name for name in found if name.startswith("tileops.codegen")]


# ---- Deterministic


def test_emission_is_the_same_in_two_directories_and_under_every_order_of_hashing(tmp_path):
    spec = paths.data_path("manifest", "spec")
    made = set()
    for seed, place in (("0", "a"), ("1", "a/deeper/b"), ("4242", "c")):
        folder = tmp_path / place
        shutil.copytree(spec, folder / "spec")
        python(emit(f"{folder}/spec", f"{folder}/out"), PYTHONHASHSEED=seed)
        made.add(tuple((path.name, path.read_bytes()) for path in sorted(pathlib.Path(folder, "out").iterdir())))
    assert len(made) == 1


def test_verdicts_are_the_same_under_every_order_of_hashing(tmp_path):
    entry = demo({"flops": "Q + Z ** 2 + bytes(w)", "bytes": "bytes(a) + bytes(b) + R"})
    (tmp_path / "demo.yaml").write_text(text_of(entry, demo({"flops": "P"}), names=(OP, "BFwdOp")))
    said = {
        python(
            "from tileops.codegen import pipeline\n"
            f"print(*pipeline.analyse_files(['{tmp_path}/demo.yaml']).diagnostics, sep='\\n')",
            PYTHONHASHSEED=seed,
        )
        for seed in ("0", "1", "7", "4242")
    }
    assert len(said) == 1 and "[R010]" in next(iter(said))


# ---- Fast


def test_generated_modules_of_all_families_import_in_under_a_second_once_torch_is_there():
    """Processor time, so that other load on the machine counts little; torch, which they check, is loaded before."""
    seconds = float(
        python(
            "import importlib, time\nimport torch\n"
            "before = time.process_time()\n"
            "from tileops.ops.generated.families import FAMILIES\n"
            "for family in FAMILIES: importlib.import_module(f'tileops.ops.generated.{family}')\n"
            "print(time.process_time() - before)"
        )
    )
    assert seconds < 1
