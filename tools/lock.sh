#!/usr/bin/env bash
# Write all lock files anew: every release with the hashes of all its files, and no addresses.
#
# uv resolves for Linux, macOS and Windows and every Python from 3.11 at once. It is needed only
# here: set-up reads the result with plain pip.
set -euo pipefail
cd "$(dirname "$0")/.."

uv="${UV:-uv}"
command -v "$uv" >/dev/null || { echo "make lock needs uv: pip install uv, or UV=path" >&2; exit 2; }

# A machine's own pip and uv settings (mirrors, local wheel folders) must not leak into the lock.
unset PIP_FIND_LINKS UV_FIND_LINKS UV_INDEX UV_INDEX_URL UV_EXTRA_INDEX_URL

lock() {
  "$uv" pip compile --no-config --quiet --universal --python-version 3.11 --generate-hashes \
    --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" "$@"
}

# What builds wheels: ours, and those of dependencies that ship source only (PySpark).
lock requirements-build.in --output-file requirements-build.lock
# What runs: the core, all extras.
lock pyproject.toml --all-extras --output-file requirements.lock
# What builds the site, in an environment of its own.
lock requirements-site.in --output-file requirements-site.lock
# What examines all of these, likewise.
lock requirements-audit.in --output-file requirements-audit.lock
# What a test of the night has instead of Amazon's S3, likewise.
lock requirements-s3.in --output-file requirements-s3.lock
