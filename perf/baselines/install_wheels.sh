#!/bin/bash
# install_wheels.sh [TARGET]: installs the wheels of its own folder into the folder TARGET (default: site, beside this
# file), without a network and without dependencies, and prints the PYTHONPATH that they need.
# Of a wheel that came in parts it keeps each part in TARGET/.parts until the last one is there.
set -e
here=$(cd "$(dirname "$0")" && pwd)
target=${1:-$here/site}
mkdir -p "$target/.parts"
target=$(cd "$target" && pwd)
shopt -s nullglob
wheels=("$here"/*.whl)
for part in "$here"/*.whl.part*of*; do
  cp "$part" "${part%.part*}.sha256" "$target/.parts/"
done
for sum in "$target"/.parts/*.sha256; do
  wheel=${sum%.sha256}
  parts=("$wheel".part*of*)
  count=${parts[0]##*of}
  if [ ${#parts[@]} != "$count" ]; then
    echo "$(basename "$wheel"): ${#parts[@]} of $count parts are here; install the folders of the others too" >&2
    continue
  fi
  for ((number = 1; number <= count; number++)); do cat "$wheel.part${number}of$count"; done > "$wheel"
  (cd "$target/.parts" && sha256sum --check --quiet "$(basename "$sum")")
  rm "${parts[@]}" "$sum"
  wheels+=("$wheel")
done
if [ ${#wheels[@]} -gt 0 ]; then
  # By way of a new folder: pip replaces a folder that wheels of an earlier call share with these.
  new=$(mktemp -d)
  python3 -m pip install --quiet --root-user-action=ignore --no-index --no-deps --no-compile --target "$new" "${wheels[@]}"
  cp -a "$new"/. "$target"/
  rm -r "$new"
  rm -f "$target"/.parts/*.whl
fi
# A .pth file can name further folders, but PYTHONPATH does not read it.
python3 - "$target" <<'END'
import os, site, sys
before = set(sys.path)
site.addsitedir(sys.argv[1])
added = [folder for folder in sys.path if folder not in before and folder != sys.argv[1]]
print("export PYTHONPATH=" + os.pathsep.join([sys.argv[1], *added]))
END
