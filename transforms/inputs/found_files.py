"""Batches of references to input files: their schema, their URIs and their sizes."""

import os
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import xxhash

from shardmill.data.features import Feature
from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.formats.format import KEY_PREFIX
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.local import LinksInside, stat_plain_file
from shardmill.transforms.stores.protocol import TIME_STAMP, FileStat, error_text, web_url_problem
from shardmill.transforms.stores.storage import raise_if_store_failed
from shardmill.transforms.stores.streams import combined_identity, file_identity

if TYPE_CHECKING:
    from shardmill.transforms.inputs.summary import InputSummary

_SUFFIX = "_file_name"  # of a column, which Hugging Face's imagefolder leaves out of the feature's name
# The paths of an image's companions, in the order of the flags or columns that name them
COMPANIONS = pa.field("companions", pa.list_(pa.string()))
# The sum of the hashes of the revisions of a file and its companions, null if one is unknown. Hashes do not compress:
# 16 bits find a change but for one in 65,536.
REVISION = pa.field("revision", pa.uint16())
# Odd numbers without a pattern, of size, time and inode; the upper bits of the sum of the products depend on all bits
_FACTORS = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_FACTORS_ARRAY = np.array(_FACTORS, np.uint64)


def hash_revision(file: FileStat) -> int | None:
    """Return the hash of a file's revision as the column REVISION has it; None if it is unknown."""
    if file.inode:
        return _hash_status(file.size_bytes, int(file.stamp[len(TIME_STAMP) :]), file.inode)
    return xxhash.xxh3_64_intdigest(file.revision.encode()) & 0xFFFF if file.stamp else None


def _hash_status(size: int, mtime_ns: int, inode: int) -> int:
    a, b, c = _FACTORS
    return ((size * a + mtime_ns * b + inode * c) & 0xFFFFFFFFFFFFFFFF) >> 48


def hash_statuses(statuses: np.ndarray) -> np.ndarray:
    """Return the hashes of files on a disk, given size, mtime in ns and inode of each: (n, 3) -> (n,), int64."""
    return ((statuses.view(np.uint64) @ _FACTORS_ARRAY) >> 48).astype(np.int64)


def add_revisions(hashes: Iterable[int | None]) -> int | None:
    """Return the hash of the revisions of several files; None if one is unknown."""
    known = list(hashes)
    return None if None in known else sum(filter(None, known)) & 0xFFFF


class CompanionCodec(Protocol):
    """The encoding of a kind of companion that is no image of its own, such as a mask, by an add-on."""

    def encode(self, data: bytes, picture: Any, settings: Any, max_pixels: int, decodes: bool) -> tuple[bytes, str]:
        """Return the companion of an image as stored, and the kind of file it was made of, "" if it is unchanged.

        `picture` is the image's Picture, and `settings` are its Reencode; see shardmill.transforms.files. Raise an
        ImageError if it cannot be stored.
        """

    def make_feature(self, name: str, classes: Sequence[tuple[int, str]] = ()) -> Feature:
        """Return the feature that holds such companions, given the (id, name) of classes in them; raises UserError."""

    def describe_conversion(self, source_kind: str, number: int) -> str:
        """Return a notice of the companions that were made of a kind of file, or, of `extremes`, of their values."""


@dataclass(frozen=True, slots=True)
class Companion:
    """A further image file that each example has, such as a mask or the right picture of a pair."""

    feature: str  # name of the feature that holds it
    column: str = ""  # manifest column that names it; "" if found in a folder
    codec: CompanionCodec | None = None  # how an add-on stores it; None for an image of its own
    flag: str = "--file_column"  # that names the column

    @property
    def display_name(self) -> str:
        """Name in messages."""
        return f"column {self.column!r}" if self.column else self.feature


FoundCompanion = tuple[str, int, int | None, int | None]  # path, size in bytes, identity, hash of its revision


_DRAWN = "data:application/json,"  # a URL that holds what it names: RFC 2397


def hold_companion(text: str) -> FoundCompanion:
    """Return a companion that is in no file, but is drawn from a text of JSON, as which it travels."""
    return f"{_DRAWN}{text}", len(text), xxhash.xxh3_64_intdigest(text.encode()), 0


def drawn_text(path: str) -> bytes | None:
    """Return the text that a companion is drawn from; None if it is a file."""
    return path[len(_DRAWN) :].encode() if path.startswith(_DRAWN) else None


class CompanionFinder(Protocol):
    """Finds the companions of images while these are listed."""

    def is_among_images(self, name: str) -> bool:
        """Return True if a file in the folder of the images is a companion."""

    def find(self, name: str, position: int | None) -> FoundCompanion | str:
        """Return the companion of an image, at a position in what lists it, or why it has none."""

    def finish(self) -> "InputSummary":
        """Return notices and classes of companions; raise a UserError if there are images and none has one."""


@dataclass(frozen=True, slots=True)
class AddedCompanions:
    """The companions that an add-on gives images."""

    flag: str = ""  # that gives them, for messages
    companions: tuple[Companion, ...] = ()
    folder: str | None = None  # folder or file where they are; None if a manifest or annotations have them
    # returns what finds them in the folder: given True for file identities, and True if annotations name the images
    open: Callable[[bool, bool], CompanionFinder] | None = None
    notices: tuple[str, ...] = ()  # about their values
    of_objects: bool = False  # True if they are drawn from the objects of annotations


def companion_feature(column: str) -> str:
    """Return the feature of a column of file names, as Hugging Face's imagefolder: `right` for `right_file_name`."""
    return column.removesuffix(_SUFFIX) or column


def file_name_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that end in _file_name, which name further files in Hugging Face's imagefolder."""
    return tuple(column for column in columns if column.endswith(_SUFFIX) and column != _SUFFIX)


def companion_paths(batch: pa.RecordBatch) -> list[list[str]]:
    """Return the paths of each row's companions; empty lists if the batch has none."""
    if COMPANIONS.name not in batch.schema.names:
        return [[]] * len(batch)
    found: list[list[str]] = batch[COMPANIONS.name].to_pylist()
    return found


STEM = "{stem}"


@dataclass(frozen=True, slots=True)
class MaskPattern:
    """The rule that makes a mask's name from the name of its image, both without suffix.

    `{stem}` is the same text in both. In a template without a slash it is part of a file's own name, and the
    folders are those of the image.
    """

    image: str = STEM  # template of images' names
    mask: str = STEM  # template of masks' names

    @classmethod
    def parse(cls, text: str) -> "MaskPattern":
        """Parse `{stem}_mask`, or `{stem}_left={stem}_mask` if images have a template, too; "" is the default."""
        image, separator, mask = text.partition("=")
        return cls(image, mask) if separator else cls(mask=text or STEM)

    def name_mask(self, name: str) -> str | None:
        """Return the name of an image's mask; None if the image's name does not fit its template."""
        found = _compile(self.image).fullmatch(name)
        return None if found is None else f"{found['folder']}{self.mask.replace(STEM, found['stem'])}"

    def is_mask(self, name: str) -> bool:
        """Return True if a name fits the template of masks."""
        return _compile(self.mask).fullmatch(name) is not None

    def __str__(self) -> str:
        return self.mask if self.image == STEM else f"{self.image}={self.mask}"


@lru_cache
def _compile(template: str) -> re.Pattern[str]:
    before, after = (re.escape(part) for part in template.split(STEM))
    if "/" in template:
        return re.compile(rf"(?P<folder>(?:.*/)??){before}(?P<stem>.+){after}", re.DOTALL)
    return re.compile(rf"(?P<folder>(?:.*/)?){before}(?P<stem>[^/]+){after}", re.DOTALL)


def remove_suffix(name: str) -> str:
    """Return a file's name without its suffix."""
    return posixpath.splitext(name)[0]


# A file as found: `name` relative to the input's root; `uri` only where the file is elsewhere; the rest from a
# manifest's row. Its further columns, if there are any, are the fields of COLUMNS in addition.
FOUND = pa.schema(
    {
        "name": pa.string(),
        "size": pa.int64(),
        "uri": pa.string(),
        "label": pa.string(),
        "split": pa.string(),
        "line": pa.int64(),
        # Changes with the file, see shardmill.transforms.stores.streams; null where nobody asked, or nobody knows
        "identity": pa.uint64(),
    }
)


COLUMNS = "columns"


def columns_of(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """Return the further columns of found files by name."""
    if COLUMNS not in batch.schema.names:
        return {}
    found = batch[COLUMNS]
    return dict(zip([field.name for field in found.type], found.flatten(), strict=True))


def with_columns(batch: pa.RecordBatch, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """Return found files with these further columns."""
    if COLUMNS in batch.schema.names:
        batch = batch.drop_columns([COLUMNS])
    if not columns:
        return batch
    return batch.append_column(COLUMNS, pa.StructArray.from_arrays(list(columns.values()), list(columns)))


def present_types(batch: pa.RecordBatch, types: Mapping[str, ColumnType]) -> dict[str, ColumnType]:
    """Return the types of the further columns that have a value, over these rows; others than `types` are plain."""
    found = {}
    for name, array in columns_of(batch).items():
        present = len(array) - array.null_count
        if present and not name.startswith(KEY_PREFIX):
            plain = ColumnType("int64" if pa.types.is_integer(array.type) else "bytes", None, 0)
            found[name] = replace(types.get(name, plain), present=present, empty=0, minority_types=())
    return found


# below the folder, and in its normal form
_PLAIN_NAME = re.compile(r"(?:[^/.:\0][^/:\0]*/)*[^/.:\0][^/:\0]*", re.DOTALL)


def resolve_name(
    name: str, folder: str, allow_outside: bool, folder_description: str = "the manifest's folder"
) -> tuple[str, str | None]:
    """Return (name, URI) of a file named relative to `folder`, the URI None if it is there; ValueError if invalid."""
    if _PLAIN_NAME.fullmatch(name):
        return name, None  # as all that follows would find
    if "\0" in name:
        raise ValueError("the file name holds a NUL byte")
    if problem := web_url_problem(name):
        raise ValueError(problem)
    local = storage.is_local(name)
    if local and name.startswith("/"):
        name = posixpath.normpath(name)
    root = os.path.abspath(folder) if local and storage.is_local(folder) else folder
    if name.startswith("/") or not local:
        name = name.removeprefix(f"{root.rstrip('/')}/")
    absolute = name.startswith("/") or not storage.is_local(name)
    relative = posixpath.normpath(name)
    if not absolute and relative != ".." and not relative.startswith("../"):
        return relative, None
    if not allow_outside:
        raise ValueError(f"lies outside {folder_description}; give --allow_outside if that is meant")
    return name, name if absolute else posixpath.normpath(storage.join(folder, name))


NO_SUCH_FILE = "no such file"
_FileStat = tuple[int, int | None, int | None]  # size in bytes, identity, hash of the revision


def measure_rows(
    batch: pa.RecordBatch,
    root: str,
    allow_outside: bool = False,
    map_: Callable[..., Iterable[_FileStat | str]] = map,
    identities: bool = False,
    companions: Sequence[Companion] = (),
) -> tuple[pa.RecordBatch, list[Reject]]:
    """Look up the sizes of the files in manifest rows; return the rows, and a Reject for each without a file.

    If companions come from a listed folder, the rows hold the companions' sizes, identities and revisions. A row's size
    is the sum of all its files.

    Args:
        allow_outside: True if symbolic links may lead out of `root`.
        map_: map function for look-ups that are requests to a store; local ones take microseconds.
    """
    paths = [uri or storage.join(root, name) for name, uri in zip(*(batch[i].to_pylist() for i in (0, 2)), strict=True)]
    inside = None if allow_outside or not storage.is_local(root) else LinksInside(root)
    size_of = partial(_look_up, identities=identities, inside=inside)
    companion_files = companion_paths(batch)
    in_folder = any(not item.column for item in companions)
    all_paths = paths if in_folder else [*paths, *(path for row in companion_files for path in row)]
    results = iter(list(map(size_of, all_paths) if all(map(storage.is_local, all_paths)) else map_(size_of, all_paths)))
    sizes = [next(results) for _ in paths]
    if companions:
        companion_stats: Iterable[list[_FileStat | str]]
        if in_folder:
            listed = zip(*(batch[name].to_pylist() for name in ("size", "identity", REVISION.name)), strict=True)
            companion_stats = ([known] for known in listed)
        else:
            companion_stats = ([next(results) for _ in row] for row in companion_files)
        rows = zip(sizes, companion_files, companion_stats, strict=True)
        sizes = [_combine_sizes(file_stat, companions, row, known, root) for file_stat, row, known in rows]
    rejects = [
        Reject(batch["name"][row].as_py(), batch["line"][row].as_py(), "index", problem)
        for row, problem in enumerate(sizes)
        if isinstance(problem, str)
    ]
    keep = [not isinstance(file_stat, str) for file_stat in sizes]
    known = [(0, None, None) if isinstance(file_stat, str) else file_stat for file_stat in sizes]
    batch = batch.set_column(1, FOUND.field("size"), pa.array([size for size, *_ in known], pa.int64()))
    if identities:
        identity_column = pa.array([identity for _, identity, _ in known], pa.uint64())
        batch = batch.set_column(FOUND.get_field_index("identity"), FOUND.field("identity"), identity_column)
    revisions = pa.array([revision for *_, revision in known], REVISION.type)
    if REVISION.name in batch.schema.names:  # that of a mask
        batch = batch.set_column(batch.schema.get_field_index(REVISION.name), REVISION, revisions)
    else:
        batch = batch.append_column(REVISION, revisions)
    return batch.filter(pa.array(keep, pa.bool_())), rejects


def _combine_sizes(
    file_stat: _FileStat | str,
    companions: Sequence[Companion],
    paths: Sequence[str],
    companion_stats: Sequence[_FileStat | str],
    root: str,
) -> _FileStat | str:
    found = []
    for item, path, companion_stat in zip(companions, paths, companion_stats, strict=True):
        if isinstance(companion_stat, str):
            suffix = f": {path.removeprefix(storage.join(root, ''))}" if companion_stat == NO_SUCH_FILE else ""
            return file_stat if isinstance(file_stat, str) else f"{item.display_name}: {companion_stat}{suffix}"
        found.append((path, *companion_stat))
    if isinstance(file_stat, str):
        return file_stat
    size, identity, revision = file_stat
    return (
        size + sum(companion_size for _, companion_size, *_ in found),
        combined_identity(identity, [(path, companion_identity) for path, _, companion_identity, _ in found]),
        add_revisions([revision, *(companion_revision for *_, companion_revision in found)]),
    )


def count_missing(rejects: Sequence[Reject], companions: Sequence[Companion]) -> dict[str, tuple[int, str]]:
    """Return, for each kind of file that rows name, the number of missing files and the first of them by name."""
    names = {NO_SUCH_FILE: [reject.source for reject in rejects if reject.reason == NO_SUCH_FILE]}
    for item in companions:
        prefix = f"{item.display_name}: {NO_SUCH_FILE}: "
        reasons = [reject.reason for reject in rejects if reject.reason.startswith(prefix)]
        names[item.display_name] = [reason.removeprefix(prefix) for reason in reasons]
    return {kind: (len(missing), min(missing)) for kind, missing in names.items() if missing}


def _look_up(path: str, inside: LinksInside | None, identities: bool) -> _FileStat | str:
    if storage.is_local(path) and (inside is None or inside.has_folder_of(path)):
        status = stat_plain_file(path)  # of most files; half the time of what follows
        if status is not None and status.st_ino:
            size, mtime_ns = status.st_size, status.st_mtime_ns
            identity = file_identity(size, f"{TIME_STAMP}{mtime_ns}", status.st_mtime) if identities else None
            return size, identity, _hash_status(size, mtime_ns, status.st_ino)
    if inside is not None and storage.is_local(path) and not inside(path):
        return "a symbolic link leads outside the manifest's folder; give --allow_outside if that is meant"
    try:
        file_stat = storage.stat_file(path)
        identity = file_identity(file_stat.size_bytes, file_stat.stamp, file_stat.modified) if identities else None
        return file_stat.size_bytes, identity, hash_revision(file_stat)
    except FileNotFoundError:
        return NO_SUCH_FILE
    except OSError as error:
        raise_if_store_failed(error, path)
        return f"cannot be read: {error_text(error)}"
