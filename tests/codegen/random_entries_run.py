"""A long run of random entries: `python -m tileops.tests.codegen.random_entries_run --entries=20000 --seed=1`.

Reports entries a second, how often each feature and each check occurred, and every entry that failed, which it also
writes to a file. Exit status 1 where one did.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback

from tileops.tests.codegen.random_batch import BATCH, Outcome, dump, run_batch


def main() -> int:
    """Run batches of entries until there are enough of them."""
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--entries", type=int, default=20_000)
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--failures", default="random_entries_failed.yaml", help="where entries that failed are written")
    chosen = flags.parse_args()
    total, broken, began = Outcome(), 0, time.perf_counter()
    for batch in range(-(-chosen.entries // BATCH)):
        before = len(total.failures)
        try:
            total.add(run_batch(random.Random(f"{chosen.seed}/{batch}")))
        except Exception:  # noqa: BLE001  # whatever broke costs its batch, is reported, and fails the run
            broken += 1
            print(f"batch {batch} broke:\n{traceback.format_exc()}", flush=True)
        for model, message in total.failures[before:]:
            print(f"batch {batch}: {model.op}: {message}", flush=True)
        if (batch + 1) % 25 == 0:
            _progress(total, time.perf_counter() - began)
    _progress(total, time.perf_counter() - began)
    for title, counts in (("checks", total.checks), ("features", total.features)):
        print(f"{title}:")
        for name in sorted(counts):
            print(f"  {counts[name]:8d}  {name}")
    if total.failures:
        with open(chosen.failures, "w", encoding="utf-8") as stream:
            for position, (model, message) in enumerate(total.failures):
                stream.write(f"# {message.splitlines()[0]}\n{dump({f'{position}-{model.op}': model.yaml})}\n")
        print(f"the entries that failed are in {chosen.failures}", file=sys.stderr)
    return 1 if total.failures or broken else 0


def _progress(total: Outcome, spent: float) -> None:
    print(f"{total.entries} entries, {len(total.failures)} failed, {total.entries / spent:.1f} a second", flush=True)


if __name__ == "__main__":
    sys.exit(main())
