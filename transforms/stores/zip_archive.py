"""Zip archives as read-only stores: `zip://PATH/NAME` is the member NAME of the archive at PATH, on a disk or a store.

zipfile reads the directory at an archive's end once per process, which takes some hundred bytes of memory per member.
Reading a member is one range request, and threads may read concurrently. The format is PKWARE's APPNOTE.TXT 6.3.10.
"""

import bisect
import bz2
import errno
import io
import os
import re
import struct
import threading
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

from shardmill.errors import UserError
from shardmill.transforms.stores import local, protocol
from shardmill.transforms.stores.prefetch import RangeReader
from shardmill.transforms.stores.protocol import FileStat, NotAFileError, ObjectStore, Rename, changed_error, error_text

SCHEME = "zip://"
Stores = Callable[[str], ObjectStore]  # that of a URL
_SUFFIX = re.compile(r"(?<=.)\.zip(?=/|\Z)", re.IGNORECASE | re.DOTALL)
_SCHEME_AND_BUCKET = re.compile(r"\w+://[^/]*")
_HEADER = struct.Struct("<4s22xHH")  # before a member: signature, …, lengths of its name and of what follows that
_SIGNATURE = b"PK\x03\x04"
_RANGE_BYTES = 8 << 20  # of the directory, asked for at once
_EXTRA = 256  # bytes behind a name that are read with it; more are another read
_WINDOWS = 0  # or DOS: the system that an archive says it comes from
_ENCRYPTED = 1  # bit of a member's flags
_JUNK = ("__MACOSX/",)  # files that archivers add


class MemberError(NotAFileError):
    """A member that can never be read."""

    def __init__(self, reason: str, url: str) -> None:
        super().__init__(errno.EIO, reason, url)


class _Member(NamedTuple):
    offset: int
    compressed_size: int
    size: int
    crc: int
    method: int
    is_encrypted: bool


def archive_path(path: str) -> str:
    """Return the path of the archive that holds a member; return any other path unchanged."""
    return _split_url(path)[0] if path.startswith(SCHEME) else path


def content_folder(path: str, stores: Stores) -> str:
    """Return the URL of an archive's contents, or of its only folder if that is called as it; raises UserError."""
    found = _archive(path, stores, fresh=True)
    stem = f"{path.rpartition('/')[2].rpartition('.')[0]}/"
    names = [name for name in found.names if not name.startswith((".", *_JUNK))]
    return f"{SCHEME}{path}/{stem}".rstrip("/") if all(name.startswith(stem) for name in names) else f"{SCHEME}{path}"


def _split_url(url: str, stores: Stores | None = None) -> tuple[str, str]:
    """Split a URL into archive path and member name, "" for none; raises UserError."""
    path = url.removeprefix(SCHEME)
    bucket = _SCHEME_AND_BUCKET.match(path)
    ends = [match.end() for match in _SUFFIX.finditer(path) if bucket is None or match.end() > bucket.end()]
    if not ends:
        raise UserError(f"{url}: there is no archive in it; expected {SCHEME}FILE.zip/NAME")
    end = next((end for end in ends if not _is_folder(path[:end], stores)), ends[0]) if len(ends) > 1 else ends[0]
    return path[:end], path[end + 1 :]


def _is_folder(path: str, stores: Stores | None) -> bool:
    if "://" not in path:
        return os.path.isdir(path)
    if path in _known or stores is None:
        return False
    try:
        stores(path).stat(path)
    except FileNotFoundError:
        return True
    return False


class _Archive:
    def __init__(self, stat: FileStat, stores: Stores) -> None:
        self.stat, self._stores = stat, stores
        try:
            with (
                io.BufferedReader(RangeReader(self._read_range, stat.size_bytes), _RANGE_BYTES) as file,
                zipfile.ZipFile(file) as opened,
            ):
                self._end = opened.start_dir
                listed = opened.infolist()
                if any(info.header_offset < 0 for info in listed):
                    raise ValueError("its directory is not where its end says")
        except (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError) as error:
            raise UserError(f"{stat.path} is no zip archive that can be read: {error_text(error)}") from None
        infos = {_normalize_name(info): info for info in listed}
        for name, times in Counter(map(_normalize_name, listed)).items():
            if times > 1 and not name.endswith("/"):
                raise UserError(
                    f"{stat.path} has {times} members called {name!r}, of which tools take the first or the last;"
                    " pack it anew with one of them"
                )
        self.names = sorted(infos)
        self._members = {
            name: _Member(
                info.header_offset,
                info.compress_size,
                info.file_size,
                info.CRC,
                info.compress_type,
                bool(info.flag_bits & _ENCRYPTED),
            )
            for name, info in infos.items()
        }

    def names_below(self, begin: str) -> Iterator[str]:
        for name in self.names[bisect.bisect_left(self.names, begin) :]:
            if not name.startswith(begin):
                return
            if not name.endswith("/") and not name.startswith(_JUNK):
                yield name

    def member(self, name: str) -> _Member:
        if not name or name.endswith("/") or name not in self._members:
            raise FileNotFoundError(errno.ENOENT, "no such member", f"{SCHEME}{self.stat.path}/{name}")
        return self._members[name]

    def read(self, name: str) -> bytes:
        member, url = self.member(name), f"{SCHEME}{self.stat.path}/{name}"
        if member.is_encrypted:
            raise MemberError("it is encrypted", url)
        expand = _METHODS.get(member.method)
        if expand is None:
            raise MemberError(f"it is compressed by method {member.method}, which is not read", url)
        packed = self._read_compressed(name, member, url)
        try:
            data = expand(packed, member.size)
        except (zlib.error, OSError, EOFError, ValueError) as error:  # OSError is what bz2 raises
            raise MemberError("it is damaged", url) from error
        if len(data) != member.size or zlib.crc32(data) != member.crc:
            raise MemberError("it is damaged: its checksum is another", url)
        return data

    def _read_range(self, offset: int, length: int) -> bytes:
        path = self.stat.path
        try:
            return (local.read_range if "://" not in path else self._stores(path).read_range)(path, offset, length)
        except EOFError:  # it is smaller than it was
            return b""

    def _read_compressed(self, name: str, member: _Member, url: str) -> bytes:
        likely = _HEADER.size + len(name.encode()) + _EXTRA + member.compressed_size
        found = self._read_range(member.offset, max(min(likely, self._end - member.offset), 0))
        if len(found) < _HEADER.size:
            raise MemberError("it is damaged", url)
        signature, of_name, of_extra = _HEADER.unpack_from(found)
        if signature != _SIGNATURE:
            raise MemberError("it is damaged, or the archive has changed", url)
        start = _HEADER.size + of_name + of_extra
        if start + member.compressed_size > len(found):
            return self._read_range(member.offset + start, member.compressed_size)
        return found[start : start + member.compressed_size]


def _normalize_name(info: zipfile.ZipInfo) -> str:
    is_of_windows = info.create_system == _WINDOWS and "/" not in info.filename
    return info.filename.replace("\\", "/") if is_of_windows else info.filename


_PIECE_BYTES = 16 << 20  # of a member that is unpacked at once


def _inflate(data: bytes, size: int) -> bytes:
    """Unpack a member, in pieces if it is large: zlib joins what it makes at the end, in twice the memory."""
    expander = zlib.decompressobj(-zlib.MAX_WBITS)
    if size <= _PIECE_BYTES:
        return expander.decompress(data, size + 1)
    out = io.BytesIO()
    while (left := size + 1 - out.tell()) > 0 and (piece := expander.decompress(data, min(_PIECE_BYTES, left))):
        out.write(piece)
        data = expander.unconsumed_tail
    return out.getvalue()


# By the number of the method; never more than a byte beyond the declared size
_METHODS: dict[int, Callable[[bytes, int], bytes]] = {
    zipfile.ZIP_STORED: lambda data, size: data,
    zipfile.ZIP_DEFLATED: _inflate,
    zipfile.ZIP_BZIP2: lambda data, size: bz2.BZ2Decompressor().decompress(data, size + 1),
}
_MAX_ARCHIVES = 4  # archives
_known: dict[str, _Archive] = {}
_lock = threading.Lock()
_last = threading.local()  # the member that was read last in parts


def _archive(path: str, stores: Stores, fresh: bool = False) -> _Archive:
    with _lock:
        protocol.forget_at_new_options["archives"] = forget_archives
        found = _known.get(path)
        if found is None or fresh:
            stat = _stat_archive(path, stores)
            if found is None or found.stat.revision != stat.revision:
                found = _Archive(stat, stores)
            _known.pop(path, None)
            _known[path] = found
            while len(_known) > _MAX_ARCHIVES:
                del _known[next(iter(_known))]
        return found


def forget_archives() -> None:
    """Forget the listings of archives: a job that begins finds them as they are then."""
    with _lock:
        _known.clear()


def _stat_archive(path: str, stores: Stores) -> FileStat:
    return local.stat_file(path) if "://" not in path else stores(path).stat(path)


def _stamp(member: _Member) -> str:
    return f"crc32:{member.crc:08x}"


class ZipArchives(ObjectStore):
    """A read-only ObjectStore for zip:// URLs."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def _archive(self, url: str, fresh: bool = False) -> tuple[_Archive, str]:
        path, name = _split_url(url, self._stores)
        return _archive(path, self._stores, fresh), name

    def read_with_stamp(self, url: str) -> tuple[bytes, str]:
        """Read a member, with its checksum; raises MemberError if it is damaged."""
        archive, name = self._archive(url)
        try:
            return archive.read(name), _stamp(archive.member(name))
        except MemberError:
            if _stat_archive(archive.stat.path, self._stores).revision != archive.stat.revision:
                raise changed_error(archive.stat.path) from None
            raise

    def read_range(self, url: str, offset: int, length: int) -> bytes:
        """Read part of a member, which is unpacked once for consecutive ranges read by the same thread."""
        archive, _ = self._archive(url)
        if getattr(_last, "of", None) != (url, archive.stat):
            _last.data, _last.of = self.read(url), (url, archive.stat)
        found: bytes = _last.data[offset : offset + length]
        if not found:
            raise EOFError(f"{url}: it has no byte {offset:,}")
        return found

    def size(self, url: str) -> int:
        archive, name = self._archive(url)
        return archive.member(name).size

    def stat(self, url: str) -> FileStat:
        """Return the metadata of a member, with its checksum as the stamp."""
        return self._stat(*self._archive(url))

    def stats(self, prefix: str) -> Iterator[FileStat]:
        archive, begin = self._archive(prefix, fresh=True)
        return (self._stat(archive, name) for name in archive.names_below(begin))

    def folders(self, prefix: str) -> Sequence[str]:
        archive, begin = self._archive(prefix, fresh=True)
        inner = (name[len(begin) :].partition("/") for name in archive.names_below(begin))
        return sorted({folder for folder, slash, _ in inner if slash})

    def _stat(self, archive: _Archive, name: str) -> FileStat:
        member = archive.member(name)
        return FileStat(f"{SCHEME}{archive.stat.path}/{name}", member.size, _stamp(member), archive.stat.modified)

    def _refuse(self, *arguments: Any, **_: Any) -> NoReturn:
        raise UserError(f"{arguments[0]}: nothing is written to a zip archive")

    write = upload = create = read_with_revision = replace = delete_unchanged = _refuse

    def delete(self, urls: Sequence[str]) -> None:
        self._refuse(urls[0])

    def rename(self, moves: Sequence[Rename]) -> None:
        self._refuse(moves[0].destination)
