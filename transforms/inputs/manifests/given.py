"""The manifests of an input: files and globs, each of a split or of none, and the folder that all names are relative
to. Pure but for listing."""

import os
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from shardmill.errors import UserError
from shardmill.transforms.inputs.file_kind import FileKind
from shardmill.transforms.inputs.folders import SPLIT_FOLDERS, split_name
from shardmill.transforms.inputs.listing import METADATA_NAMES, Found, input_root, is_glob, list_input
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.clients import object_store

_ANY = FileKind("manifests", "csv|jsonl|ndjson|parquet")
_FILE_BITS = 40  # of a line's number are of the line, the others of its manifest
_LINES = (1 << _FILE_BITS) - 1
_METADATA_BEGIN = "metadata."  # asked for at once


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A manifest.

    Attributes:
      path: of the file.
      split: of all that it lists; "" where its rows, or nobody, say it.
      inside: the folder that it lies in, as seen from that of all names: "" for that itself.
    """

    path: str
    split: str = ""
    inside: str = ""

    def name(self, relative: str) -> str:
        """A name relative to the manifest's folder, or one that leads out of it, as one relative to that of all
        names."""
        if not self.inside or relative.startswith("/") or not storage.is_local(relative):
            return relative
        return posixpath.normpath(posixpath.join(self.inside, relative))


def numbered(manifest: int, line: int) -> int:
    """The number of a line among those of several manifests: in their order, and that of a first one's line its own."""
    return manifest << _FILE_BITS | line


def manifest_of(number: int) -> int:
    """The place of the manifest whose line has a number."""
    return number >> _FILE_BITS


def line_of(number: int | None) -> int | None:
    """The line in its own manifest."""
    return None if number is None else number & _LINES


@dataclass(frozen=True, slots=True)
class LinesOf:
    """Which manifest a line is of, by its number: (path, line in it)."""

    paths: tuple[str, ...]

    def __call__(self, number: int) -> tuple[str, int]:
        """Of that number."""
        return self.paths[manifest_of(number)], number & _LINES


def find_manifests(given: Sequence[tuple[str, str]]) -> tuple[ManifestFile, ...]:
    """The manifests that files and globs name, with their splits.

    Raises:
      UserError: a glob matches nothing, or a file is there twice.
    """
    found = [(split, path) for split, pattern in given for path in _matches(pattern)]
    paths = [path for _, path in found]
    for path in paths:
        if paths.count(path) > 1:
            raise UserError(f"--manifest {path}: the file is there twice; give it once")
    folders = [posixpath.dirname(path) or "." for path in paths]
    root = common_folder(folders)
    return tuple(
        ManifestFile(path, split, _inside(folder, root)) for (split, path), folder in zip(found, folders, strict=True)
    )


def common_folder(folders: Sequence[str]) -> str:
    """The folder in which all others lie, or that is all of them."""
    if len(set(folders)) == 1:
        return folders[0]
    schemes = {path.partition("://")[0] if not storage.is_local(path) else "" for path in folders}
    if len(schemes) > 1:
        raise UserError(f"--manifest: {folders[0]} and {folders[1]} are of different stores; give those of one")
    if schemes == {""}:
        if len({os.path.isabs(folder) for folder in folders}) > 1:
            folders = [os.path.abspath(folder) for folder in folders]
        return os.path.commonpath(folders) or "."
    parts = list(takewhile(lambda level: len(set(level)) == 1, zip(*(folder.split("/") for folder in folders))))
    shared = "/".join(part for part, *_ in parts)
    if not shared.partition("://")[2].strip("/"):
        raise UserError(f"--manifest: {folders[0]} and {folders[1]} are of different buckets; give those of one")
    return shared


def _inside(folder: str, root: str) -> str:
    if folder == root:
        return ""
    if storage.is_local(folder):
        return os.path.relpath(folder, root)
    return folder.removeprefix(f"{root}/")


def _matches(pattern: str) -> Iterator[str]:
    if not is_glob(pattern):
        yield pattern
        return
    root = input_root(pattern)
    names = sorted(item.name for item in list_input(pattern, _ANY) if isinstance(item, Found))
    if not names:
        raise UserError(f"--manifest {pattern}: no file matches")
    yield from (storage.join(root, name) if root != "." or pattern.startswith("./") else name for name in names)


def metadata_of(folder: str) -> tuple[tuple[str, str], ...]:
    """The (split, path) of the metadata files of a folder as Hugging Face's imagefolder has it: in the folder itself,
    or in each of its split folders; nothing where they lie otherwise, or in the folder beside those of splits, whose
    files would all be of one, or where the folder cannot be listed: that is said where the input is checked."""
    try:
        own = _metadata_in(folder)
        inner = sorted(name for name in _folders_in(folder) if not name.startswith("."))
        are_splits = bool(inner) and all(name.lower() in SPLIT_FOLDERS for name in inner)
        if own:
            return (("", own[0]),) if len(own) == 1 and not are_splits else ()
        if not are_splits:
            return ()
        found = [(name, _metadata_in(storage.join(folder, name))) for name in inner]
    except (OSError, UserError):
        return ()
    if any(len(paths) != 1 for _, paths in found):
        return ()
    return tuple((split_name(name), paths[0]) for name, paths in found)


def _folders_in(folder: str) -> Iterable[str]:
    """The names of the folders in a folder, links to such too."""
    if not storage.is_local(folder):
        return storage.list_folders(folder)
    return [item.name for item in os.scandir(folder) if item.is_dir()]


def _metadata_in(folder: str) -> list[str]:
    """The metadata files in a folder."""
    paths = [storage.join(folder, name) for name in METADATA_NAMES]
    if storage.is_local(folder):
        return list(filter(os.path.isfile, paths))
    there = {url for url, _ in object_store(folder).list(storage.join(folder, _METADATA_BEGIN))}
    return [path for path in paths if path in there]
