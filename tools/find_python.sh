#!/usr/bin/env bash
# Print the path of a Python that this project runs on: PYTHON, python3, or a versioned one.
#
# Each candidate is started and asked: a pyenv shim of an absent version is on PATH too, and fails.
# PySpark 4.0 sets the upper end: it does not run on 3.14.
set -euo pipefail

asks='import sys, venv, ensurepip; print(sys.executable if (3, 11) <= sys.version_info[:2] <= (3, 13) else "")'
for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
  found="$("$candidate" -c "$asks" 2>/dev/null || true)"
  if [ -n "$found" ]; then
    echo "$found"
    exit 0
  fi
done
{
  echo "kafka-marshal needs Python 3.11, 3.12 or 3.13 with its venv module; found:"
  for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
    echo "  $candidate: $("$candidate" --version 2>&1 | head -n 1 || true)"
  done
  echo "Install one of them (on Debian also python3-venv), or name it: make setup PYTHON=/path/to/python3.12"
} >&2
exit 2
