"""Zip archives of folders, tar files of samples, and what TarFormat makes of these."""

import io
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.formats.format import BlockRef, FileRef, Rows
from shardmill.transforms.formats.tar import TarFormat

Member = tuple[str, bytes]


def tar(members: Iterable[Member | tarfile.TarInfo], kind: int = tarfile.USTAR_FORMAT, mtime: float = 0) -> bytes:
    """A tar file; a member that is a TarInfo has no data."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=kind) as file:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                file.addfile(member)
                continue
            name, data = member
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), mtime  # a float makes an extended header
            file.addfile(info, io.BytesIO(data))
    return out.getvalue()


def link(name: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    """A member that has no data of its own."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, "elsewhere"
    return info


def file_ref(folder: Path, content: bytes, name: str = "file.tar") -> FileRef:
    """A file of this content."""
    path = folder / name
    path.write_bytes(content)
    return FileRef(name, str(path), len(content))


def read(
    file: FileRef, types: Mapping[str, ColumnType], block_size: int = 1 << 20
) -> tuple[list[dict[str, object]], list[Reject]]:
    """The rows of a file, and what is rejected."""
    found = TarFormat(block_size)
    rows: list[dict[str, object]] = []
    rejects: list[Reject] = []
    for block in found.index(file):
        if isinstance(block, Reject):
            rejects.append(block)
        elif isinstance(block, BlockRef):
            for part in found.read(block, types):
                rows += _numbered(part)
                rejects += part.rejects
    return rows, rejects


def _numbered(part: Rows) -> list[dict[str, object]]:
    return [{"number": int(number), **row} for number, row in zip(part.lines, part.batch.to_pylist(), strict=True)]


def zipped(files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """An archive with these members, and one for each of their folders, as archivers write them."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for folder in sorted({f"{name.rpartition('/')[0]}/" for name in files if "/" in name}):
            archive.writestr(folder, b"")
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()
