"""Fails where a query for forbidden dependencies found one: layering_main RESULT_FILE REASON."""

import pathlib
import sys


def main(result: str, reason: str) -> int:
    """Returns 1, with the path of dependencies that was found, or 0 where there is none."""
    path = pathlib.Path(result).read_text().split()
    if not path:
        return 0
    print(f"{path[0]} must not reach {path[-1]}, because {reason}. It does:", file=sys.stderr)
    print("\n".join(f"  -> {label}" for label in path), file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
