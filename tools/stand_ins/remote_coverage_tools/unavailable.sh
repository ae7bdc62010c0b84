#!/bin/sh
echo "bazel coverage needs Bazel's coverage tools, which Debian does not package" >&2
exit 1
