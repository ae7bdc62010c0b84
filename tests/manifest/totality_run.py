"""A long run of damaged and grown documents.

    python -m tileops.tests.manifest.totality_run --documents=200000 --seed=1

Each document must give diagnostics, or code that compiles, in less than a second, and the same when judged again. The
run writes a document that fails to a file of its own and goes on. It ends with a table of the kinds, and with status 1
if a document failed.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import sys
import time
import traceback

from tileops.tests.manifest.totality import documents, stand


def main() -> int:
    """Judge documents and report how many, how fast, the slowest, and what broke."""
    flags = argparse.ArgumentParser()
    flags.add_argument("--documents", type=int, default=200_000)
    flags.add_argument("--seed", type=int, default=1)
    chosen = flags.parse_args()
    began, slowest = time.perf_counter(), (0.0, "", b"")
    counts: collections.Counter[str] = collections.Counter()
    clean: collections.Counter[str] = collections.Counter()
    broken: collections.Counter[str] = collections.Counter()
    for number, (kind, document) in enumerate(itertools.islice(documents(chosen.seed), chosen.documents), 1):
        counts[kind] += 1
        try:
            silent, spent = stand(document)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            what = f"{type(error).__name__} at {place.filename.rpartition('/')[2]}:{place.lineno}: {str(error)[:80]}"
            broken[what] += 1
            if broken[what] == 1:
                name = f"totality_failure_{len(broken)}.yaml"
                with open(name, "wb") as stream:
                    stream.write(document)
                print(f"document {number} of seed {chosen.seed} ({kind}): {what}; it is in {name}", flush=True)
            continue
        clean[kind] += silent
        slowest = max(slowest, (spent, kind, document))
        if number % 20_000 == 0 or number == chosen.documents:
            rate = number / (time.perf_counter() - began)
            print(
                f"{number} documents, {clean.total()} clean, {rate:.0f} a second, slowest {slowest[0]:.2f} s",
                flush=True,
            )
    for kind, count in sorted(counts.items()):
        print(f"{kind:>20}: {count:>7} documents, {clean[kind]:>6} clean")
    with open("totality_slowest.yaml", "wb") as stream:
        stream.write(slowest[2])
    print(f"slowest: {slowest[0]:.2f} s ({slowest[1]}); broken: {broken.total()} in {len(broken)} ways")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
