"""A long run of damaged documents: `python -m tileops.tests.manifest.totality_run --documents=200000 --seed=1`.

Each must give diagnostics, or code that compiles. A traceback ends the run and leaves the document behind.
"""

from __future__ import annotations

import argparse
import time

from tileops.tests.manifest.mutations import documents
from tileops.tests.manifest.totality_test import judge, valid_entries


def main() -> None:
    """Judge documents and report how many, how fast, and the slowest."""
    flags = argparse.ArgumentParser()
    flags.add_argument("--documents", type=int, default=200_000)
    flags.add_argument("--seed", type=int, default=1)
    chosen = flags.parse_args()
    began, slowest, clean = time.perf_counter(), (0.0, b""), 0
    for count, document in enumerate(documents(valid_entries(), chosen.seed), 1):
        started = time.perf_counter()
        try:
            clean += not judge(document)
        except BaseException:
            with open("totality_failure.yaml", "wb") as stream:
                stream.write(document)
            print(f"document {count} of seed {chosen.seed} broke the validator; it is in totality_failure.yaml")
            raise
        slowest = max(slowest, (time.perf_counter() - started, document))
        if count % 20_000 == 0 or count == chosen.documents:
            spent = time.perf_counter() - began
            print(f"{count} documents, {clean} of them clean, {count / spent:.0f} a second, slowest {slowest[0]:.2f} s", flush=True)
        if count == chosen.documents:
            break
    with open("totality_slowest.yaml", "wb") as stream:
        stream.write(slowest[1])


if __name__ == "__main__":
    main()
