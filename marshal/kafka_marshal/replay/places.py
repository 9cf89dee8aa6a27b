"""Where a replay reads and writes: local files, and objects of a store, by URI.

A `UriPath` is a `Path` with the methods that a replay needs, so hardly any code distinguishes them.
Arrow reads and writes the objects, in this process as on an executor, and needs no jar. Each
process finds its own credentials.
"""

from __future__ import annotations

import functools
import io
import os
import re
import shutil
import stat
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path, PosixPath
from typing import IO, TYPE_CHECKING, Any, Final, NoReturn, cast

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_marshal.errors import empty_path, naming
from kafka_marshal.replay.errors import InvalidOption
from kafka_marshal.scratch import Scratch

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/(/*)(.*)", re.DOTALL)
"""At least two letters: one letter is a drive on Windows."""
_S3: Final = ("s3", "s3a")
SCHEMES: Final = (*_S3, "hdfs")
_READ_BYTES: Final = 4 << 20
"""The minimum size of a request, in bytes."""
_FOOTER_END: Final = 8
"""The length of a footer, and `PAR1`."""
_REASONS: Final = {
    "NO_SUCH_BUCKET": "there is no such bucket",
    "NETWORK_CONNECTION": "the store cannot be reached ({reason}); AWS_ENDPOINT_URL says where one "
    "is that is not Amazon's",
}
_REFUSED: Final = (
    "access is refused ({reason}); credentials are looked for in AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY, in ~/.aws, and where the machine has a role"
)
_SAID: Final = re.compile(r"AWS Error ([A-Z_]+(?: \(HTTP status \d+\))?)[^:]*: (.*)", re.DOTALL)
_SIGNS_OF_REFUSAL: Final = ("ACCESS", "SIGNATURE", "TOKEN", "status 400", "status 401", "403")
"""In messages of refused access; a store that gives no reason only returns a status."""
_TRANSLATED: Final = re.compile(r"\*\*/|\*\*|\*|\?|\[[^\]]+\]")


def place_of(place: str | Path, option: str = "SOURCE") -> Path:
    """Convert a path or a URI.

    >>> place_of("s3a://bucket/a/b").parent
    UriPath('s3a://bucket/a')
    >>> place_of("file:///a/b")
    PosixPath('/a/b')

    Raises:
        InvalidOption: it is empty, there is no such scheme, or the URI names no bucket or host.
    """
    if isinstance(place, UriPath):
        return place
    if place == "":
        raise empty_path(option)
    found = _SCHEME.fullmatch(str(place))
    if found is None:
        return Path(place)
    scheme, rest = found[1].lower(), found[3]
    if scheme == "file":
        return Path("/", rest)
    if scheme not in SCHEMES and not found[2]:
        return Path(place)  # `Path` makes one slash of two, so of what is known one is enough
    if scheme not in SCHEMES:
        raise InvalidOption(
            f"{option} {place}: {scheme} is no scheme that is known: give a path, file:///PATH, "
            "s3a://BUCKET/KEY or hdfs://HOST:PORT/PATH"
        )
    if not rest.strip("/"):
        raise InvalidOption(f"{option} {place}: the URI names no {_root_of(scheme)}")
    return UriPath(f"{scheme}:/{rest}")


class UriPath(PosixPath):
    """An object, or a folder of objects, of a store.

    A folder of S3 is a common prefix of names: it is never created, and disappears with its last
    object. All other methods of `Path` are for local files, and raise TypeError.

    All methods raise OSError, with the URI and a short reason.
    """

    _known: FileInfo | None = None
    """Size and kind, from a listing."""

    def __str__(self) -> str:
        return super().__str__().replace(":/", "://", 1)

    def __fspath__(self) -> NoReturn:
        raise TypeError(f"{self} is no file of this machine")

    @property
    def arrow(self) -> tuple[str, FileSystem]:
        """Arrow's name of the object, and its file system."""
        scheme, root, *names = self.parts
        scheme = scheme[:-1]
        inside = "/".join(names)
        if scheme not in _S3:
            return f"/{inside}", _hadoop(root)
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        return f"{root}/{inside}", _s3(root, endpoint)

    def absolute(self) -> UriPath:
        """Returns itself."""
        return self

    def resolve(self, strict: bool = False) -> UriPath:
        """Returns itself: a store has no links."""
        return self

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Size in bytes, time of the last change, and whether it is a folder."""
        info = self._info()
        if not _is_there(info):
            raise FileNotFoundError(2, f"no such file or folder: {self._absent()}", str(self))
        mode = stat.S_IFREG if info.is_file else stat.S_IFDIR
        changed = int((info.mtime_ns or 0) // 1_000_000_000)
        return os.stat_result((mode, 0, 0, 0, 0, 0, info.size or 0, changed, changed, changed))

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        """Whether an object has this name, or begins with it and a slash."""
        return _is_there(self._info())

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether an object has this name."""
        return bool(self._info().is_file)

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether objects begin with this name and a slash."""
        info = self._info()
        return _is_there(info) and not info.is_file

    def is_symlink(self) -> bool:
        """Returns False: a store has no links."""
        return False

    def rglob(self, pattern: str, **_: Any) -> Generator[UriPath, None, None]:
        """Yield the objects below that match the pattern, at any depth."""
        yield from self.glob(f"**/{pattern}")

    def glob(self, pattern: str, **_: Any) -> Generator[UriPath, None, None]:
        """Yield the objects and folders below whose relative path matches the pattern."""
        wanted = re.compile(_TRANSLATED.sub(_expression, _escaped(pattern)), re.DOTALL)
        begin, store = self.arrow
        from pyarrow.fs import FileSelector

        deep = "/" in pattern or "**" in pattern
        with self._plainly():
            chosen = FileSelector(begin, recursive=deep, allow_not_found=True)
            infos = store.get_file_info(chosen)
        for info in infos:
            below = info.path[len(begin) :].strip("/")
            if wanted.fullmatch(below):
                found = self / below
                found._known = info
                yield found

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Create the folder, if the store has folders."""
        name, store = self.arrow
        if store.type_name == "hdfs":
            with self._plainly():
                store.create_dir(name, recursive=True)

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the object."""
        name, store = self.arrow
        if not missing_ok or self.is_file():
            with self._plainly():
                store.delete_file(name)

    def remove_tree(self) -> None:
        """Remove all objects below."""
        name, store = self.arrow
        if self.is_dir():
            with self._plainly():
                store.delete_dir(name)

    def open(self, mode: str = "r", *_: Any, **__: Any) -> IO[Any]:  # type: ignore[override]
        """Open the object for reading bytes; the mode must be `rb`."""
        assert mode == "rb", mode
        name, store = self.arrow
        with self._plainly():
            return cast("IO[Any]", io.BufferedReader(store.open_input_file(name), _READ_BYTES))

    def read_bytes(self) -> bytes:
        """Read the whole object."""
        name, store = self.arrow
        with self._plainly(), store.open_input_file(name) as file:
            return bytes(file.read())

    def read_text(self, encoding: str | None = None, errors: str | None = None, **_: Any) -> str:
        """Read the whole object, as UTF-8."""
        return self.read_bytes().decode(encoding or "utf-8", errors or "strict")

    def write_bytes(self, data: Any) -> int:
        """Replace the object as a whole; until this returns, it has its former content."""
        name, store = self.arrow
        with self._plainly(), store.open_output_stream(name) as file:
            return int(file.write(data))

    def write_text(self, data: str, encoding: str | None = None, *_: Any, **__: Any) -> int:
        """Replace the object as a whole, with text in UTF-8."""
        return self.write_bytes(data.encode(encoding or "utf-8"))

    def check_root(self) -> None:
        """Raise OSError if the bucket does not exist, or cannot be accessed."""
        scheme, root, *_ = self.parts
        if not UriPath(scheme, root).exists():
            raise FileNotFoundError(2, self._absent(), str(self))

    def _absent(self) -> str:
        scheme, root, *_ = self.parts
        if scheme[:-1] in _S3 and not UriPath(scheme, root).exists():
            return _REASONS["NO_SUCH_BUCKET"]
        return "the store has no object of that name"

    def _info(self) -> FileInfo:
        if self._known is not None:
            return self._known
        name, store = self.arrow
        with self._plainly():
            return store.get_file_info(name)

    @contextmanager
    def _plainly(self) -> Iterator[None]:
        """Shorten Arrow's error messages."""
        try:
            yield
        except OSError as error:
            raise OSError(error.errno or 5, reason_of(error), str(self)) from None
        except (pa.ArrowException, ValueError) as error:
            raise OSError(5, str(error), str(self)) from None


def reason_of(error: OSError) -> str:
    """A short reason for a store's error.

    >>> reason_of(OSError("When listing ...: AWS Error NO_SUCH_BUCKET during ...: it is not"))
    'there is no such bucket'
    """
    text = str(error)
    said = _SAID.search(text)
    if said is None:
        return " ".join((error.strerror or text).split())
    kind, words = said[1], " ".join(said[2].split())
    refused = any(sign in f"{kind} {words}" for sign in _SIGNS_OF_REFUSAL)
    sentence = _REFUSED if refused else _REASONS.get(kind, "{reason}")
    return sentence.format(reason=f"{kind}: {words}" if words else kind)


def parquet_file(path: Path) -> pq.ParquetFile:
    """Open one of our own Parquet files; open foreign ones from a `local_copy`."""
    if isinstance(path, UriPath):
        name, store = path.arrow
        return pq.ParquetFile(name, filesystem=store, pre_buffer=True)
    return pq.ParquetFile(path)


def parquet_writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """Create a Parquet file; close it. Its errors are OSErrors that name the file."""
    return _NamedParquet(path, schema)


class _NamedParquet(pq.ParquetWriter):  # type: ignore[misc]
    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        name, store = path.arrow if isinstance(path, UriPath) else (path, None)
        with self._naming():
            super().__init__(name, schema, filesystem=store)

    def write_table(self, *table: Any, **options: Any) -> None:
        with self._naming():
            super().write_table(*table, **options)

    def close(self) -> None:
        with self._naming():
            super().close()

    def _naming(self) -> AbstractContextManager[None]:
        return self._path._plainly() if isinstance(self._path, UriPath) else naming(self._path)


@contextmanager
def local_copy(
    path: Path, wanted: Callable[[pq.FileMetaData], Iterable[tuple[int, int]]] | None = None
) -> Iterator[Path]:
    """A Parquet file on this machine; for an object a copy, which is removed after the block.

    `wanted` returns, from the footer, the bytes (begin, end) that the copy needs in addition. The
    rest is a hole. None: all bytes.
    """
    if not isinstance(path, UriPath):
        yield path
        return
    size = path.stat().st_size
    with Scratch("fetched") as folder, path.open("rb") as source:
        copy = folder / path.name
        with copy.open("wb") as file:
            file.truncate(size)

            def fetch(begin: int, end: int) -> bytes:
                source.seek(begin)
                data: bytes = source.read(end - begin)
                file.seek(begin)
                file.write(data)
                file.flush()
                return data

            if wanted is None or size <= _READ_BYTES:
                for begin in range(0, size, _READ_BYTES):
                    fetch(begin, min(begin + _READ_BYTES, size))
            else:
                tail = fetch(size - _READ_BYTES, size)
                footer = size - _FOOTER_END - int.from_bytes(tail[-_FOOTER_END:-4], "little")
                if 0 < footer < size - _READ_BYTES:
                    fetch(footer, size)
                for begin, end in wanted(pq.read_metadata(copy)):
                    fetch(max(0, begin), min(end, size))
        yield copy


def remove_tree(folder: Path) -> None:
    """Remove a folder with its content, as far as possible."""
    if isinstance(folder, UriPath):
        try:
            folder.remove_tree()
        except OSError:
            return
    else:
        shutil.rmtree(folder, ignore_errors=True)


def _root_of(scheme: str) -> str:
    return "bucket" if scheme in _S3 else "host"


@functools.cache
def _s3(bucket: str, endpoint: str | None) -> FileSystem:
    """The file system of a bucket, cached per process."""
    from pyarrow import fs

    if endpoint:
        return fs.S3FileSystem(endpoint_override=endpoint)
    try:
        return fs.S3FileSystem(region=fs.resolve_s3_region(bucket))
    except (OSError, ValueError):  # the first request to the bucket raises it again
        return fs.S3FileSystem()


@functools.cache
def _hadoop(host: str) -> FileSystem:
    """The file system of a name node, cached per process.

    Raises:
        OSError: it cannot be reached, or its library is missing.
    """
    from pyarrow import fs

    name, _, port = host.partition(":")
    try:
        return fs.HadoopFileSystem(name, int(port or 0))
    except (OSError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise OSError(5, f"HDFS cannot be reached: {reason}", f"hdfs://{host}") from None


def _is_there(info: FileInfo) -> bool:
    from pyarrow.fs import FileType

    return bool(info.type != FileType.NotFound)


def _escaped(pattern: str) -> str:
    """Escape a pattern, except for its wildcards."""
    return re.sub(r"[.^$+{}()|\\]", r"\\\g<0>", pattern)


def _expression(found: re.Match[str]) -> str:
    known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return known.get(found[0], found[0].replace("[!", "[^"))
