"""Entries given as plain data, as the classes that emission writes of them."""

from __future__ import annotations

import itertools
import pathlib

import yaml

from tileops.codegen import pipeline
from tileops.manifest.reading import loader
from tileops.ops import catalogue
from tileops.ops.op import Op

_NUMBER = itertools.count()


def build(folder: pathlib.Path, entries: dict, types: str = "") -> dict[str, type[Op]]:
    """The classes of entries of the family `demo`, by name; `types` is the text of their types.yaml.

    Raises:
      AssertionError: they have defects, which it lists.
    """
    spec = folder / "spec"
    spec.mkdir()
    (spec / "demo.yaml").write_text(yaml.safe_dump(entries, sort_keys=False))
    if types:
        (spec / "types.yaml").write_text(types)
    analysed = pipeline.analyse_files(loader.spec_files(str(spec)))
    if analysed.diagnostics:
        raise AssertionError("\n".join(map(str, analysed.diagnostics)))
    for family, source in analysed.modules().items():
        # A process imports a module once, and knows it by its file's name.
        (folder / f"{family}_{next(_NUMBER)}.py").write_text(source)
    return catalogue.load(str(folder))
