"""Rows of stacked arrays as examples: .npy, .npz and MNIST's idx files, with labels from a second array."""

import gzip
import io
import posixpath
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import apache_beam as beam
import numpy as np

from shardmill.errors import UserError
from shardmill.text import listed
from shardmill.transforms.columns.arrow import split_large_batch, to_batches
from shardmill.transforms.columns.types import format_shape
from shardmill.transforms.files.arrays import (
    ArrayEncoder,
    ArrayLayout,
    ArrayOptions,
    NpyError,
    check_array_type,
    make_array_layout,
    make_typed_layout,
)
from shardmill.transforms.files.encoding import Encoded
from shardmill.transforms.inputs.findings import FoundInput, IndexedFiles, combine_outputs, with_findings
from shardmill.transforms.inputs.folders import SPLIT_FOLDERS, FileKind
from shardmill.transforms.inputs.found_files import FOUND, REVISION, hash_revision
from shardmill.transforms.inputs.listing import Skipped, find_exclusion, find_names, input_root, list_input, list_singly
from shardmill.transforms.inputs.summary import InputSummary, summarize_batch
from shardmill.transforms.layout.options import FileLayoutOptions
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import FileStat, changed_error, error_text

_IDX_TYPES = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}  # the third byte of MNIST's format
_FILE = re.compile(r"(?:\.np[yz]|[-.]idx\d-ubyte)(?:\.gz)?\Z", re.IGNORECASE)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_DATA = frozenset(("x", "images", "image", "imgs", "img", "data", "features", "inputs", "input"))
_LABELS = frozenset(("y", "labels", "label", "targets", "target", "classes"))
_SPLITS = {**SPLIT_FOLDERS, "k": "test"}  # t10k is the test split of MNIST
_MOST_STACKED = 100  # files, with more they are taken for an example each
_MOST_CLASSES = 100_000  # of labels that are ids


class StackedKind(FileKind):
    """Files of stacked arrays, some of which have no suffix."""

    __slots__ = ()

    def accepts(self, name: str) -> bool:
        return _FILE.search(name) is not None


@dataclass(frozen=True, slots=True)
class Array:
    """An array in a file; the name is the file's, followed by the array's own name in a .npz file."""

    file: str  # relative to the input's root
    member: str  # "" except for .npz files
    shape: tuple[int, ...]
    dtype: "np.dtype[np.generic]"

    @property
    def name(self) -> str:
        """The name in messages and examples."""
        return posixpath.join(self.file, self.member) if self.member else self.file

    def __str__(self) -> str:
        return f"{self.name!r} ({self.dtype.name}, {format_shape(self.shape)})"

    @property
    def words(self) -> list[str]:
        """The words of the name, without folders and suffixes, in lower case."""
        stem = self.member or _FILE.sub("", posixpath.basename(self.file))
        return [word.lower() for word in _WORD.findall(stem)]

    @property
    def key(self) -> tuple[str, ...]:
        """The folder, and the words that an array and its labels have in common."""
        folder = self.file if self.member else posixpath.dirname(self.file)
        return (folder, *(word for word in self.words if word not in _DATA | _LABELS))

    @property
    def is_labels(self) -> bool:
        """True if the name says that the array holds labels."""
        return not _LABELS.isdisjoint(self.words)

    @property
    def split(self) -> str:
        """The split in the name, or that a folder is named after; "" for none."""
        folders = self.file.lower().split("/")[-2::-1]
        words = (*(word for word in self.words if word in _SPLITS), *(part for part in folders if part in _SPLITS))
        return next((_SPLITS[word] for word in words), "")


def pair_arrays(arrays: Sequence[Array]) -> list[tuple[Array, Array | None]]:
    """Return each array of examples with its labels or None; raise a UserError if labels do not fit one array."""
    pairs = []
    for array in (item for item in arrays if not item.is_labels):
        labels = [item for item in arrays if item.is_labels and item.key == array.key]
        if len(labels) > 1:
            raise UserError(f"{labels[0]} and {labels[1]} may both be the labels of {array}; --exclude one of them")
        if labels and labels[0].shape[:1] != array.shape[:1]:
            raise UserError(f"{labels[0]} has another first size than {array}, whose labels it is to be")
        pairs.append((array, labels[0] if labels else None))
    used = [labels.name for _, labels in pairs if labels is not None]
    for item in arrays:
        if item.is_labels and used.count(item.name) != 1:
            whose = "no array" if item.name not in used else "several arrays"
            raise UserError(
                f"{item} would be the labels of {whose}: labels and examples are called alike, such as X_train and"
                " y_train, or train-images and train-labels; --exclude leaves an array out"
            )
    return pairs


def make_unstacked_layout(summary: InputSummary, options: FileLayoutOptions, arrays: ArrayOptions) -> ArrayLayout:
    """Return the layout of arrays that are an example each; raise a UserError if they look stacked.

    Few files are, of which two are called as examples and labels and have one first size.
    """
    is_open = arrays.given is None and options.folders is None and not summary.labels
    if is_open and 1 < summary.records <= _MOST_STACKED and (pair := _find_stacked_pair(arrays.pattern, options.kind)):
        array, labels = pair
        raise UserError(
            f"{options.source}: {array} and {labels} look like {array.shape[0]:,} examples and their labels; --stacked"
            " makes each row an example; --folders any (or label) makes each file one"
        )
    return make_array_layout(summary, options, arrays)


def _find_stacked_pair(pattern: str, kind: FileKind) -> tuple[Array, Array] | None:
    names = find_names(list_input(pattern, kind))
    if not any(Array(name, "", (), np.dtype("u1")).is_labels for name in names):
        return None
    root = input_root(pattern)
    try:
        pairs = pair_arrays([array for name in names for array in _describe_file(storage.join(root, name), name)])
    except (NpyError, UserError, OSError) as error:
        if isinstance(error, OSError):
            storage.raise_if_store_failed(error, root)
        return None
    return next(((array, labels) for array, labels in pairs if labels is not None and array.shape), None)


def _describe_file(path: str, name: str) -> list[Array]:
    if re.search(r"\.npz\Z", name, re.IGNORECASE):
        data = storage.read_bytes(path)
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as archive:
                arrays = ((member, archive[member]) for member in archive.files)  # one of them in memory at a time
                return [Array(name, member, array.shape, array.dtype) for member, array in arrays]
        except (ValueError, OSError) as error:
            raise NpyError(f"not a .npz file of numbers: {error_text(error)}") from None
    array = open_array(path, "")
    return [Array(name, "", array.shape, array.dtype)]


def open_array(path: str, member: str) -> np.ndarray:
    """Return an array; raise an NpyError if it is none. Local .npy files are mapped to memory, others are read."""
    return _open_revision(path, member, storage.read_revision(path) if storage.is_local(path) else "")[0]


@lru_cache(maxsize=4)
def _open_revision(path: str, member: str, revision: str) -> tuple[np.ndarray, Mapping[str, FileStat]]:
    """Return an array of a local file that has this revision, or of an object in a store, which is noted by its URL."""
    with storage.note_objects() as objects:
        return _load_array(path, member), objects


def _load_array(path: str, member: str) -> np.ndarray:
    if storage.is_local(path) and path.lower().endswith(".npy"):
        source: Any = path
    else:
        data = storage.read_bytes(path)
        data = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
        if data[:2] == b"\0\0" and data[2] in _IDX_TYPES:
            shape = struct.unpack_from(f">{data[3]}I", data, 4)
            try:
                return np.frombuffer(data, _IDX_TYPES[data[2]], offset=4 + 4 * len(shape)).reshape(shape)
            except ValueError as error:
                raise NpyError(f"truncated: {error}") from None
        source = io.BytesIO(data)
    try:
        loaded = np.load(source, mmap_mode="r" if isinstance(source, str) else None, allow_pickle=False)
        if member or isinstance(loaded, np.ndarray):
            return loaded[member] if member else loaded
    except (ValueError, EOFError, KeyError) as error:
        raise NpyError(f"not an array of numbers: {error_text(error)[:100]}") from None
    raise NpyError("several arrays, as in a .npz file, but its name does not end in .npz")


def _class_texts(labels: Array, values: np.ndarray, names: Sequence[str]) -> list[str]:
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise UserError(
            f"{labels} has {format_shape(values.shape[1:])} numbers for each example; expected one class each:"
            " numpy.argmax(labels, axis=1) makes ids of one-hot labels"
        )
    if values.dtype.kind in "US":
        return [text.decode() if isinstance(text, bytes) else str(text) for text in values.tolist()]
    ids = values.astype(np.int64)
    if (ids != values).any() or ids.min(initial=0) < 0 or ids.max(initial=0) > _MOST_CLASSES:
        raise UserError(f"{labels} holds {values.min():g} to {values.max():g}, which are no ids of classes from 0")
    if names and len(ids) and ids.max() >= len(names):
        raise UserError(f"--labels_file names {len(names):,} classes, but {labels} has the id {ids.max()}")
    return [names[index] if names else str(index) for index in ids.tolist()]


@dataclass(eq=False)
class IndexStacked(beam.PTransform):
    """Find every row of stacked arrays: root -> IndexedFiles."""

    pattern: str  # folder, file or glob
    kind: FileKind  # of files
    names: tuple[str, ...] = ()  # of --labels_file
    temporary: str | None = None  # temporary directory of the job; None in a dry run

    def expand(self, pbegin: beam.pvalue.PBegin) -> Any:  # Indexed; Beam reads annotations as element types
        """List the rows on one worker."""
        list_ = beam.FlatMap(_list_rows, self.kind, self.names, self.temporary)
        outputs = pbegin | "Pattern" >> beam.Create([self.pattern]) | "List" >> with_findings(list_, "files")
        return IndexedFiles(outputs["files"], *combine_outputs(outputs))


def _list_rows(pattern: str, kind: FileKind, names: tuple[str, ...], temporary: str | None) -> Iterator[Any]:
    found, root, arrays = FoundInput(temporary), input_root(pattern), list[Array]()
    files, exclusions = dict[str, FileStat](), set[str]()
    _open_revision.cache_clear()  # an earlier job of this process may have read other files at these paths
    for item in list_singly(list_input(pattern, kind)):
        if isinstance(item, FileStat):
            files[item.path] = item
            try:
                described = _describe_file(storage.join(root, item.path), item.path)
            except (NpyError, OSError) as error:
                if isinstance(error, OSError):
                    storage.raise_if_store_failed(error, root)
                raise UserError(f"{item.path}: {error}") from None
            for array in described:
                if (exclusion := find_exclusion(array.name, kind.exclude)) is None:
                    arrays.append(array)
                else:
                    exclusions.add(exclusion)
                    found.leave_out(Skipped(array.name, f"array that --exclude {exclusion} leaves out"))
        elif not isinstance(item, Skipped) or item.name not in exclusions:  # patterns without a file come last
            found.leave_out(item)
    pairs = pair_arrays(arrays)
    _check_pairs(pairs)
    for array, labels in pairs:
        for batch in to_batches(_rows(root, array, labels, names, files), FOUND.append(REVISION)):
            yield from split_large_batch(batch)
            found.summary.merge(summarize_batch(batch))
        named = f", with the labels of {labels}" if labels is not None else ""
        found.summary.merge(InputSummary(notices=frozenset([f"each row of {array} is an example{named}"])))
    yield from found.outputs()


def _check_pairs(pairs: Sequence[tuple[Array, Array | None]]) -> None:
    for check, what in ((lambda array, _: array.split, "a split"), (lambda _, labels: labels, "labels")):
        with_it = [array.name for array, labels in pairs if check(array, labels)]
        if with_it and len(with_it) < len(pairs):
            without = next(array.name for array, labels in pairs if not check(array, labels))
            raise UserError(f"{with_it[0]!r} has {what} by its name, and {without!r} has none; rename or --exclude one")
    for array, _ in pairs:
        if not array.shape:
            raise UserError(f"{array} is a single number; --stacked needs a first axis of examples; --exclude it")
    kinds = {(array.dtype.name, array.shape[1:]): array for array, _ in pairs}
    if len(kinds) > 1:
        shown = listed([str(array) for array in kinds.values()], 3)
        raise UserError(f"rows of one type and shape are stacked, but there are {shown}; --exclude leaves arrays out")


def _rows(
    root: str, array: Array, labels: Array | None, names: Sequence[str], found: Mapping[str, FileStat]
) -> Iterator[tuple[Any, ...]]:
    size = int(np.prod(array.shape[1:], dtype=np.int64)) * array.dtype.itemsize
    texts: Sequence[str | None] = [None] * array.shape[0]
    if labels is not None:
        path = storage.join(root, labels.file)
        texts = _class_texts(labels, open_array(path, labels.member), names)
        if not storage.is_unchanged(path, found[labels.file].revision):
            raise changed_error(path)
    revision = hash_revision(found[array.file])
    for row, text in enumerate(texts):
        yield f"{array.name}/{row}", size, None, text, array.split or None, row + 1, None, revision


def _split_row_path(path: str) -> tuple[str, str, int]:
    name, _, row = path.rpartition("/")
    folder, _, member = name.rpartition("/")
    return (folder, member, int(row)) if folder.lower().endswith(".npz") else (name, "", int(row))


@dataclass(frozen=True)
class StackedEncoder(ArrayEncoder):
    """Encoder of the rows of stacked arrays."""

    def encode_file(self, path: str, data: bytes | None = None) -> Encoded:
        file, member, row = _split_row_path(path)
        value = np.ascontiguousarray(open_array(file, member)[row])
        return Encoded(value.astype(value.dtype.newbyteorder("<")).tobytes())

    def _read(self, paths: Sequence[str], stored_files: Sequence[Any]) -> tuple[list[bytes | None], np.ndarray]:
        return [None] * len(paths), np.full(len(paths), -1)  # rows are no files

    def _stat_read(self, path: str, objects: Mapping[str, FileStat]) -> int | None:
        file, member, _ = _split_row_path(path)
        return super()._stat_read(file, objects if storage.is_local(file) else _open_revision(file, member, "")[1])


def make_stacked_layout(summary: InputSummary, options: FileLayoutOptions, arrays: ArrayOptions) -> ArrayLayout:
    """Return the layout of rows; ids are their own classes unless --labels_file names them."""
    labels = summary.labels.keys() - {""}
    if labels and options.classes.labels is None and all(map(str.isdecimal, labels)):
        classes = tuple(map(str, range(max(map(int, labels)) + 1)))
        options = replace(options, classes=replace(options.classes, labels=classes))
    if summary.first_file is None:
        raise UserError(f"no arrays in {options.source}: --stacked reads .npy, .npz and idx files (MNIST's format)")
    name, _ = summary.first_file
    file, member, _ = _split_row_path(storage.join(arrays.root, name))
    array = open_array(file, member)
    try:
        return make_typed_layout(summary, options, check_array_type(array.dtype, array.shape[1:]))
    except NpyError as error:
        raise UserError(f"{posixpath.dirname(name)}: {error}") from None
