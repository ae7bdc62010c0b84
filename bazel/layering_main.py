"""Fails where a query for forbidden dependencies found one: layering_main RESULT_FILE... REASON."""

import pathlib
import sys


def _paths(result: pathlib.Path) -> list[list[str]]:
    """The one path of a query for paths; each label of a query for what has no place."""
    found = result.read_text().split()
    if result.name.endswith("_homeless"):
        return [[label] for label in found]
    return [found] if found else []


def main(*arguments: str) -> int:
    """Returns 1 if dependencies were found, with their paths, else 0."""
    *results, reason = arguments
    found = [path for result in results for path in _paths(pathlib.Path(result))]
    for path in found:
        if len(path) == 1:  # of `floors`: what has no place
            print(f"{path[0]} is in no place of the floors", file=sys.stderr)
            continue
        print(f"{path[0]} must not reach {path[-1]}, because {reason}. It does:", file=sys.stderr)
        print("\n".join(f"  -> {label}" for label in path), file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
