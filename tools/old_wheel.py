"""Build the wheel of an earlier version that tests of an upgrade run: `python -m tools.old_wheel`.

The package is built from a git revision and stripped of every room that a consumer does not import.
The same revision gives the same bytes: names are sorted, dates fixed, RECORD is written anew.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import subprocess
import zipfile
from pathlib import Path

from tools.wheel import built
from tools.wheel_hook import write

from kafka_marshal.scratch import Scratch

ROOT = Path(__file__).parent.parent
WHEELS = ROOT / "tests" / "data" / "wheels"
REVISION = "5c7a222a72e1a20b700809408d8aef330cedef56"
"""Version 0.1.0."""
KEPT = (
    "__init__.py", "py.typed", "version.py", "codec.py", "capture.py", "trace.py",
    "markup.py", "base.css", "core/", "client/", "counterexample/", "validate/", "runtime/",
    "errors.py", "machines/",
)  # fmt: skip
"""What is kept of the package: what a consumer imports, of any version, and `trace`."""
LEFT_OUT = "entry_points.txt"
"""What is left out of the metadata: the command `marshal` lives in `cli`, which is not kept."""


def built_of(revision: str, folder: Path) -> Path:
    """The whole wheel of a git revision.

    Raises:
        subprocess.CalledProcessError: git does not know the revision, or it does not build.
    """
    source, archive = folder / "source", folder / "source.tar"
    source.mkdir()
    subprocess.run(["git", "-C", ROOT, "archive", "-o", archive, revision], check=True)
    subprocess.run(["tar", "-xf", archive, "-C", source], check=True)
    return built(source, folder)


def stripped(wheel: Path) -> dict[str, bytes]:
    """The kept files of a wheel by name, with a RECORD that lists them."""
    kept = tuple(f"kafka_marshal/{each}" for each in KEPT)
    with zipfile.ZipFile(wheel) as whole:
        files = {
            name: whole.read(name)
            for name in sorted(whole.namelist())
            if name.startswith(kept) or (".dist-info/" in name and not name.endswith(LEFT_OUT))
        }
    [record] = [name for name in files if name.endswith(".dist-info/RECORD")]
    lines = [f"{name},sha256={_digest(files[name])},{len(files[name])}" for name in files]
    lines[list(files).index(record)] = f"{record},,"
    files[record] = "".join(f"{line}\n" for line in lines).encode()
    return files


def _digest(content: bytes) -> str:
    """As RECORD writes it."""
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def main() -> None:
    """Write the wheel; print its size and hash."""
    parser = argparse.ArgumentParser(prog="python -m tools.old_wheel", description=__doc__)
    parser.add_argument("revision", nargs="?", default=REVISION)
    parser.add_argument("--into", type=Path, default=WHEELS, help="a folder")
    options = parser.parse_args()
    with Scratch("wheel") as folder:
        wheel = built_of(options.revision, folder)
        path = options.into / wheel.name
        write(stripped(wheel), path)
    content = path.read_bytes()
    print(f"{path}: {len(content):,} bytes, sha256 {hashlib.sha256(content).hexdigest()}")


if __name__ == "__main__":
    main()
