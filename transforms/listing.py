"""Files below a folder or matching a glob, with what was passed over and why. Pure of Beam but for object stores."""

import glob
import os
import posixpath
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from transforms import storage
from transforms.refs import Reject

# What a folder is searched for. A glob takes what it matches, whatever it is called.
IMAGE_SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".gif", ".bmp", ".dib", ".webp", ".tif", ".tiff"}
    | {".jp2", ".ppm", ".pgm", ".pbm", ".pnm", ".tga", ".ico", ".avif", ".heic", ".heif"}
)
_WILDCARDS = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Found:
    """A file to convert: its name relative to the root of the input (`/` between parts), and its size in bytes."""

    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file or folder that is not part of the input, and the kind of thing it is."""

    name: str
    kind: str


Listed = Found | Skipped | Reject


def is_glob(pattern: str) -> bool:
    """Whether `pattern` has wildcards and no file or folder bears it as its name."""
    if not _WILDCARDS & set(pattern):
        return False
    return not (storage.is_local(pattern) and os.path.exists(pattern))


def input_root(pattern: str) -> str:
    """The folder that names are relative to: `pattern` itself, or the part of a glob before its first wildcard."""
    if not is_glob(pattern):
        if storage.is_local(pattern) and os.path.isfile(pattern):
            return os.path.dirname(pattern) or "."
        return pattern.rstrip("/") or "/"
    parts = pattern.split("/")
    first = next(index for index, part in enumerate(parts) if _WILDCARDS & set(part))
    return "/".join(parts[:first]) or ("/" if pattern.startswith("/") else ".")


def list_input(pattern: str) -> Iterator[Listed]:
    """Everything that `pattern`, a folder or a glob, holds."""
    root = input_root(pattern)
    if not storage.is_local(pattern):
        yield from _list_remote(pattern, root)
    elif is_glob(pattern) or os.path.isfile(pattern):
        matches = glob.iglob(pattern, recursive=True) if is_glob(pattern) else iter([pattern])
        for path in matches:
            if not os.path.isdir(path):
                yield _stat(os.path.relpath(path, root) if root != "." else os.path.normpath(path), path)
    else:
        yield from _walk(root, "", frozenset())


def _list_remote(pattern: str, root: str) -> Iterator[Listed]:
    listed = storage.match(pattern) if is_glob(pattern) else storage.match(f"{root}/**")
    for path, size in listed:
        name = path[len(root) + 1 :]
        if name and not name.endswith("/"):
            yield Found(name, size) if is_glob(pattern) or _is_image(name) else _skipped(name)


def _walk(folder: str, prefix: str, ancestors: frozenset[tuple[int, int]]) -> Iterator[Listed]:
    """Files below `folder`, following links; a link to a folder that it lies in is passed over."""
    try:
        status = os.stat(folder)
        entries = list(os.scandir(folder))
    except OSError as error:
        yield Reject(_printable(prefix or folder), None, "index", f"cannot list the folder: {error.strerror}")
        return
    here = (status.st_dev, status.st_ino)
    if here in ancestors:
        yield Skipped(_printable(prefix), "symbolic link loop")
        return
    for item in entries:
        name = f"{prefix}{item.name}"
        if item.name.startswith("."):
            yield Skipped(_printable(name), "hidden file")
        elif item.is_dir():
            yield from _walk(item.path, f"{name}/", ancestors | {here})
        elif _is_image(item.name):
            yield _stat(name, item.path)
        else:
            yield _skipped(_printable(name))


def _stat(name: str, path: str) -> Listed:
    try:
        name.encode()
    except UnicodeEncodeError:
        return Reject(_printable(name), None, "index", "the file name is not UTF-8; rename the file")
    try:
        status = os.stat(path)
    except OSError as error:
        link = "dangling or looping symbolic link: " if os.path.islink(path) else ""
        return Reject(name, None, "index", f"{link}{error.strerror}")
    if not stat.S_ISREG(status.st_mode):
        return Skipped(name, "not a regular file")
    return Found(name, status.st_size)


def _is_image(name: str) -> bool:
    return posixpath.splitext(name)[1].lower() in IMAGE_SUFFIXES


def _skipped(name: str) -> Skipped:
    suffix = posixpath.splitext(name)[1]
    return Skipped(name, f"{suffix} file" if suffix else "file without a suffix")


def _printable(name: str) -> str:
    """`name` with the bytes that are not UTF-8 written as \\xNN."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
