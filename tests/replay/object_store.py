"""An S3 on this machine: moto's server, a process in an environment of its own."""

from __future__ import annotations

import os
import re
import subprocess
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Final

import pyarrow.fs as fs
from attrs import frozen

ROOT: Final = Path(__file__).parents[2]
KEY: Final = "test"
_GUARDED: Final = {"INITIAL_NO_AUTH_ACTION_COUNT": "0"}
"""Makes moto look at keys, and it knows none."""


@frozen
class ObjectStore:
    """A store that runs, and a bucket in it."""

    endpoint: str
    bucket: str = "lake"

    @property
    def environment(self) -> Mapping[str, str]:
        """What a process needs to find it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": KEY,
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def uri(self, name: str) -> str:
        """Of an object or a folder in the bucket."""
        return f"s3a://{self.bucket}/{name}"

    @property
    def arrow(self) -> fs.FileSystem:
        """The store as Arrow has it, to fill it and to look at it."""
        return fs.S3FileSystem(
            access_key=KEY,
            secret_key=KEY,
            endpoint_override=self.endpoint,
            region="us-east-1",
            allow_bucket_creation=True,
        )

    def put(self, path: Path, name: str) -> str:
        """Copy a file or a folder into the bucket, and return its URI."""
        to = f"{self.bucket}/{name}"
        if path.is_dir():
            fs.copy_files(str(path), to, destination_filesystem=self.arrow)
        else:
            with self.arrow.open_output_stream(to) as file:
                file.write(path.read_bytes())
        return self.uri(name)

    def get(self, name: str, folder: Path) -> Path:
        """Copy a folder of the bucket here."""
        fs.copy_files(f"{self.bucket}/{name}", str(folder), source_filesystem=self.arrow)
        return folder

    def names(self, name: str = "") -> list[str]:
        """Of all objects in a folder of the bucket."""
        below = f"{self.bucket}/{name}"
        chosen = fs.FileSelector(below, recursive=True, allow_not_found=True)
        found = self.arrow.get_file_info(chosen)
        return sorted(info.path.removeprefix(f"{below}/") for info in found if info.is_file)


@contextmanager
def object_store(*, guarded: bool = False) -> Iterator[ObjectStore]:
    """Start it with an empty bucket, or refusing everybody; it is killed at the end."""
    subprocess.run(["make", "-s", "-C", str(ROOT), "build/s3-venv/.stamp"], check=True)
    python = ROOT / "build" / "s3-venv" / "bin" / "python"
    with subprocess.Popen(
        [str(python), "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"],
        env={
            "PATH": os.environ["PATH"],
            **({"INITIAL_NO_AUTH_ACTION_COUNT": "0"} if guarded else {}),
        },
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            said = iter(process.stderr.readline, "")
            found = next(filter(None, (re.search(r"http://[\d.]+:\d+", line) for line in said)))
            # What it logs from now on is read, or it would stand still.
            Thread(target=deque, args=(said, 1), daemon=True).start()
            store = ObjectStore(found[0])
            if not guarded:
                store.arrow.create_dir(store.bucket)
            yield store
        finally:
            process.kill()
