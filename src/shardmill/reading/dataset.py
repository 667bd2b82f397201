"""Open a version of a data set, select its splits and features, and read its shards."""

import hashlib
import os
import posixpath
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import google_crc32c

from shardmill.addons.registry import find_or_open
from shardmill.data.example import FeatureValue, decode_example
from shardmill.data.features import Feature, Features, translated_features
from shardmill.data.kinds import kind_of
from shardmill.data.spans import RecordBlock
from shardmill.errors import CorruptDataError, UserError
from shardmill.filesystem import (
    ChecksummedFile,
    Files,
    FolderLister,
    GFiles,
    LocalFiles,
    Paths,
    read_if_exists,
    read_small_file,
)
from shardmill.metadata import file_names
from shardmill.metadata.manifest import Manifest, ShardEntry, SplitEntry, crc32c_hex, success_text
from shardmill.metadata.tfds_metadata import supervised_keys
from shardmill.metadata.versions import (
    describe_published_versions,
    find_interrupted_publications,
    read_latest,
    resolve_version,
)
from shardmill.quality.stats_file import StatsFile
from shardmill.text import html_table, listed, to_printable

if TYPE_CHECKING:
    from shardmill.reading.slices import ShardSlice

_SHOWN = 60  # letters of what a file should not hold


@dataclass(frozen=True, slots=True)
class Dataset:
    """A published dataset."""

    directory: str  # folder of the version
    manifest: Manifest
    files: Files  # to read through
    manifest_crc32c: str = ""  # of the manifest's file as opened; "" if not computed
    sha256: str = ""  # of the manifest's file as opened; "" without a manifest

    def path(self, shard: ShardEntry) -> str:
        """Return the full path of a shard."""
        return posixpath.join(self.directory, shard.file)

    def metadata(self, name: str) -> bytes:
        """Return the bytes of a metadata file.

        Raise a FileNotFoundError if it is missing. Raise a CorruptDataError if it differs from what was written.
        """
        data = read_small_file(self.files, posixpath.join(self.directory, name))
        self._check_file(name, crc32c_hex(data))
        return data

    def _check_file(self, name: str, crc32c: str) -> None:
        if crc32c != (expected := self.manifest.files.get(name, crc32c)):
            raise CorruptDataError(
                f"{posixpath.join(self.directory, name)} is not the file that was written: its crc32c is {crc32c}, the"
                f" manifest says {expected}"
            )

    def lines(self, name: str) -> Iterator[str]:
        """Yield the lines, without line ends, of a metadata file that may be too large for memory.

        Raises:
            FileNotFoundError: if it is missing.
            UnicodeDecodeError: if it is not UTF-8.
            CorruptDataError: after the last line, if it differs from what was written.
        """
        checksum = 0
        with self.files.open(posixpath.join(self.directory, name)) as file:
            for line in file:
                checksum = google_crc32c.extend(checksum, line)
                yield line.removesuffix(b"\n").decode()
        self._check_file(name, f"{checksum:08x}")

    def stats(self) -> StatsFile:
        """Return the content of stats.json.

        Raise a FileNotFoundError if it is missing. Raise a CorruptDataError if it differs from what was written, or is
        invalid.
        """
        return StatsFile.from_json(self.metadata(file_names.STATS), posixpath.join(self.directory, file_names.STATS))

    def records(self, shard: ShardEntry) -> Iterator[bytes]:
        """Yield the serialized examples of a shard, and verify every checksum and their number.

        Raise a CorruptDataError if the shard is missing or differs from what was written.
        """
        for block in read_shard(self, shard):
            yield from block


def open_shard(dataset: Dataset, shard: ShardEntry, open_file: Callable[[str], BinaryIO] | None = None) -> BinaryIO:
    """Open a shard, with the data set's files or `open_file`.

    Raises:
        CorruptDataError: if it is missing.
        UserError: if it may not be read.
    """
    try:
        return (open_file or dataset.files.open)(dataset.path(shard))
    except FileNotFoundError as error:
        raise CorruptDataError(f"{shard.file} is missing") from error
    except PermissionError as error:
        raise UserError(f"{shard.file} cannot be read: {error.strerror or error}") from None


_EMULATOR = "STORAGE_EMULATOR_HOST"  # of Google's client; TensorFlow's does not know it


def has_tensorflow_files(path: str | os.PathLike[str]) -> bool:
    """Return True if TensorFlow itself opens files at `path`; False if only the client of its store does."""
    scheme, separator, _ = os.fspath(path).partition("://")
    if separator and scheme == "gs":
        return not os.environ.get(_EMULATOR)
    return not separator or scheme not in ("s3", "az") or "tensorflow_io" in sys.modules


def files_for(path: str | os.PathLike[str]) -> Files:
    """Return the files to read `path` through: local ones, TensorFlow's, or those of the store's own client.

    Clients find endpoint and credentials in the environment, as they do without shardmill.
    """
    if "://" not in os.fspath(path):
        return LocalFiles()
    if has_tensorflow_files(path) and (find_spec("tensorflow") or not os.fspath(path).startswith("gs://")):
        return GFiles()
    from shardmill.transforms.stores.storage import StorageFiles  # late: its clients import Beam

    return StorageFiles()


def open_dataset(
    path: str | os.PathLike[str], files: Files | None = None, version: str | None = None, sha256: str | None = None
) -> Dataset:
    """Open the dataset in `path`: a version's folder, or its parent, whose LATEST or tags name a `version`.

    A manifest with another SHA-256 than `sha256` is not even parsed; None opens any.

    Raises:
        UserError: if there is no dataset, version or tag, or it is unpublished (no _SUCCESS); the message lists the
            published versions.
        CorruptDataError: if the manifest is unreadable or differs from what was written, or LATEST or a tag is invalid.
    """
    files = files or LocalFiles()
    above = os.fspath(path).rstrip("/") or "/"
    if version is not None:
        manifest = posixpath.join(above, file_names.MANIFEST)
        if file_names.is_version(posixpath.basename(above)) and files.exists(manifest):
            raise UserError(f"version={version!r}: {above} is a version; give the folder above it, or no version")
    try:
        return _find_and_open(files, above, version, sha256)
    except PermissionError as error:
        what = f"{error.strerror}: {error.filename}" if error.strerror else error  # of a store, which has no strerror
        raise UserError(f"{above} cannot be read: {what}") from None


def check_sha256(text: bytes, path: str, expected: str | None) -> str:
    """Return the SHA-256 of a manifest's `text`, the file `path`; None expects any.

    Raises:
        UserError: if `expected` is not 64 hex digits.
        CorruptDataError: if the manifest has another one.
    """
    if expected is not None and not re.fullmatch("[0-9a-fA-F]{64}", str(expected)):
        raise UserError(f"sha256={str(expected)[:_SHOWN]!r}: expected 64 hex digits, which `shardmill verify` prints")
    found = hashlib.sha256(text).hexdigest()
    if expected is not None and found != expected.lower():
        raise CorruptDataError(f"{path} is not the one that was asked for: its sha256 is {found}, not {expected}")
    return found


def open_for_reading(
    path: Paths, files: Files | None = None, version: str | None = None, sha256: str | None = None
) -> Dataset:
    """Open a data set as `open_dataset` does, or without `sha256` record files that have no manifest."""
    if version is not None or sha256 is not None:
        return open_dataset(cast(str, path), files or files_for(cast(str, path)), version, sha256)
    found = find_or_open(path, lambda path: open_dataset(path, files or files_for(path)), files)
    return found if isinstance(found, Dataset) else cast(Dataset, found.open())


def _find_and_open(files: Files, above: str, version: str | None, sha256: str | None) -> Dataset:
    directory, naming_file = _find_version_folder(files, above, version)
    while True:
        try:
            return _open_version(files, directory, naming_file, sha256)
        except (UserError, CorruptDataError):
            named = _find_version_folder(files, above, version)
            if named == (directory, naming_file):
                raise
            directory, naming_file = named  # it names another by now, and what it named may have been deleted


def _find_version_folder(files: Files, above: str, version: str | None) -> tuple[str, str]:
    if version is not None:
        found, naming_file = resolve_version(files, above, version)
    elif named := read_latest(files, above):
        found, naming_file = named
    else:
        return above, ""
    return posixpath.join(above, found), naming_file


def _open_version(files: Files, directory: str, naming_file: str, sha256: str | None) -> Dataset:
    success, manifest = (posixpath.join(directory, name) for name in (file_names.SUCCESS, file_names.MANIFEST))
    sealed = read_if_exists(files, success)
    if sealed is None:
        what = f"{naming_file} names {posixpath.basename(directory)}, but " if naming_file else ""
        raise UserError(
            f"{what}{_explain_unpublished(files, directory)}{describe_published_versions(files, directory)}"
        )
    text = read_if_exists(files, manifest)
    if text is None:
        raise CorruptDataError(f"{manifest} is missing")
    found = check_sha256(text, manifest, sha256)
    content = Manifest.from_json(text, manifest)
    if sealed and sealed != success_text(text).encode():  # empty in data sets made before it held anything
        raise CorruptDataError(
            f"{manifest} is not the file that was written: its crc32c is {crc32c_hex(text)}, but {file_names.SUCCESS}"
            f" says {sealed[:_SHOWN].decode(errors='replace').strip()!r}; one of the two was changed"
        )
    return Dataset(directory, content, files, crc32c_hex(text), found)


_LOOKED_AT, _NAMED = 50, 8  # folders in one that is no data set; in a store each is a request


def _explain_unpublished(files: Files, directory: str) -> str:
    if files.exists(posixpath.join(directory, file_names.PUBLISHING)):
        return (
            f"{directory} has no _SUCCESS: its job was interrupted while it published; run it again, or "
            f"`shardmill verify --repair {directory}`, which completes it"
        )
    if files.exists(posixpath.join(directory, file_names.MANIFEST)):
        return f"{directory} has no _SUCCESS: its job did not finish, and it is not a data set; run it again"
    if unended := find_interrupted_publications(files, directory):
        return (
            f"{directory} is not a data set yet: the job of its version {unended[0]} was interrupted while it"
            f" published; run it again, or `shardmill verify --repair {directory}`, which completes it"
        )
    return f"{directory} is not a data set: {_describe_folder(files, directory)}"


def _describe_folder(files: Files, directory: str) -> str:
    if isinstance(files, FolderLister):
        try:
            names = sorted(files.folders(directory))
        except FileNotFoundError:
            return "there is no such folder"
        except NotADirectoryError:
            return "it is a file; give the folder that its manifest.json is in, or the one above"
        except OSError:
            names = []
        paths = [posixpath.join(directory, name) for name in names[:_LOOKED_AT]]
        if held := [path for path in paths if files.exists(posixpath.join(path, file_names.LATEST))]:
            return f"it holds data sets; give one of them: {listed(held, _NAMED, ', …')}"
    return "there is no _SUCCESS and no manifest.json in it"


@dataclass(frozen=True, slots=True)
class Columns:
    """The features for a model: inputs, and labels if there are any."""

    inputs: Features
    labels: Features = ()

    @property
    def all_features(self) -> Features:
        """Return inputs and labels, each once."""
        return (*self.inputs, *(label for label in self.labels if label not in self.inputs))


RAW_RECORD = "record"  # what the bytes of an unparsed record are called


def decode_record(manifest: Manifest, record: bytes) -> dict[str, FeatureValue]:
    """Return a record's values by feature name; those of an unparsed record are its bytes, called `record`.

    Raises:
        ValueError: if the record is not a serialized Example, and should be.
    """
    return {RAW_RECORD: [record]} if manifest.has_raw_records else decode_example(record)


def check_is_parsed(manifest: Manifest) -> None:
    """Check that the records have features; raise UserError otherwise."""
    if manifest.has_raw_records:
        raise UserError(
            f"{manifest.name} {manifest.version} has records without features: --record_type raw passed them through"
            f" unparsed; shardmill.examples yields the bytes of each as {RAW_RECORD!r}"
            f"{', and tf.data.TFRecordDataset reads the shards' if manifest.codec.is_read_by_tensorflow else ''}"
        )


def find_features(manifest: Manifest, names: Sequence[str]) -> Features:
    """Return the features called `names`, in that order; raise UserError if one does not exist."""
    check_is_parsed(manifest)
    known = {feature.name: feature for feature in manifest.features}
    for name in names:
        if name not in known:
            raise UserError(f"{manifest.name} has no feature {name!r}; it has {', '.join(known)}")
    return tuple(known[name] for name in names)


def labels_of(manifest: Manifest) -> Features:
    """Return the features with the role `label`."""
    return tuple(feature for feature in manifest.features if feature.role == "label")


def supervised_pair(manifest: Manifest) -> tuple[str, str] | None:
    """Return input and target of TFDS's `as_supervised=True`, or two languages without a label; None without either."""
    label = next(iter(labels_of(manifest)), None)
    if label is not None:
        return supervised_keys(manifest.features, label.name)
    languages = translated_features(manifest.configuration)
    return (languages[0], languages[1]) if len(languages) == 2 else None


def choose_columns(
    manifest: Manifest, names: Sequence[str] | None, label: str | Sequence[str] | None, supervised: bool
) -> Columns:
    """Return inputs and labels, or no labels if it is not `supervised`.

    None as `names` means all features except labels and `filename`, `height`, `width` and `line_number`, which
    shardmill added. None as `label` means those that the dataset was built with.

    Raise a UserError if a name is unknown or there are no inputs; the message lists the features.
    """
    check_is_parsed(manifest)
    found: Features = ()
    if supervised:
        given = [label] if isinstance(label, str) else label
        found = find_features(manifest, given) if given is not None else labels_of(manifest)
    elif label is not None:
        raise UserError(f"label={label!r} makes no sense with supervised=False, which asks for no label")
    if isinstance(names, str):
        raise UserError(f"features={names!r} is one string; expected a list of names: [{names!r}]")
    if names is not None:
        inputs = find_features(manifest, names)
    else:
        inputs = tuple(feature for feature in manifest.features if feature not in found and feature.role != "source")
    if not inputs:
        raise UserError(
            f"{manifest.name} has no input except the label {', '.join(repr(label.name) for label in found) or None};"
            " give features=[…]"
        )
    return Columns(inputs, found)


@dataclass(frozen=True, slots=True, repr=False)
class DatasetInfo:
    """A dataset's description; it prints as a short table.

    Attributes:
        name: name of the dataset.
        version: version that was opened.
        directory: folder of that version.
        compression: compression of the shards, "" or "gzip".
        splits: splits by name; each has `examples`, `size_bytes` and `shards`.
        features: features by name; each has `dtype`, `kind`, `shape`, `required`, `class_names` and `element`.
        label: first feature to predict, or None.
        file_format: format of the shards, "tfrecord" or "array_record".
    """

    name: str
    version: str
    directory: str
    compression: str
    splits: Mapping[str, SplitEntry]
    features: Mapping[str, Feature]
    label: str | None
    file_format: str

    @property
    def class_names(self) -> tuple[str, ...]:
        """Return the class names, by id, of the label, or of the one feature with classes, as of objects; else none."""
        named = [feature.class_names for feature in self.features.values() if feature.class_names]
        return self.features[self.label].class_names if self.label else named[0] if len(named) == 1 else ()

    def __repr__(self) -> str:
        lines = [f"{self.name} {self.version} in {self.directory}"]
        for split in self.splits.values():
            amount = f"{split.examples:,} examples in {len(split.shards):,} shards, {split.size_bytes:,} bytes"
            lines.append(f"  split {split.name}: {amount}")
        for feature in self.features.values():
            lines.append(
                f"  feature {feature.name}: {_describe(feature)}{', the label' if feature.role == 'label' else ''}"
            )
        return "\n".join(map(to_printable, lines))

    def _repr_html_(self) -> str:
        splits = [
            (one.name, one.examples, len(one.shards), f"{one.size_bytes:,} bytes") for one in self.splits.values()
        ]
        features = [(one.name, _describe(one), one.role) for one in self.features.values()]
        table = html_table(f"{self.name} {self.version}", ["split", "examples", "shards", "bytes"], splits)
        return table + html_table("Features", ["feature", "type", "role"], features)


def info(directory: Paths, *, version: str | None = None, files: Files | None = None) -> DatasetInfo:
    """Describe the dataset in `directory`: a version's folder, or its parent, whose LATEST or tags name a `version`.

    `files` are the files to read through; None to choose them by `directory`. Raise a UserError if there is no dataset,
    or it is unpublished, and a CorruptDataError if its manifest cannot be read.
    """
    dataset = open_for_reading(directory, files, version)
    manifest = dataset.manifest
    labels = labels_of(manifest)
    return DatasetInfo(
        manifest.name,
        manifest.version,
        dataset.directory,
        manifest.compression,
        {split.name: split for split in manifest.splits},
        {feature.name: feature for feature in manifest.features},
        labels[0].name if labels else None,
        manifest.file_format,
    )


def _describe(feature: Feature) -> str:
    sizes = "".join(f"[{'any number' if size is None else size}]" for size in feature.shape)
    element = feature.element or feature.dtype
    kind = f", {name.replace('_', ' ')}" if (name := kind_of(feature).display_name) else ""
    kind = f", {feature.time} since 1970 in UTC" if feature.time else kind
    classes = f" of {len(feature.class_names)}" if feature.class_names else ""
    return f"{element}{sizes}{kind}{classes}{'' if feature.required else ', may be missing'}"


_THREADS = 32  # an object store answers a request in some 50 ms
_BLOCK_BYTES = 8 << 20  # read at once, as in shardmill.reading.tensor_dataset


def check_sizes(dataset: Dataset, shards: Sequence[ShardEntry]) -> None:
    """Check that each shard exists and has the size in the manifest, if the files have a method `size`.

    Raise a CorruptDataError if a shard is missing, truncated or replaced; the message names it.
    """
    size: Any = getattr(dataset.files, "size", None)
    if size is None:
        return

    def check(shard: ShardEntry) -> None:
        try:
            found = size(dataset.path(shard))
        except FileNotFoundError:
            raise CorruptDataError(f"{dataset.path(shard)} is missing; the manifest lists it") from None
        if found != shard.size_bytes:
            raise CorruptDataError(
                f"{dataset.path(shard)} has {found:,} bytes; the manifest says {shard.size_bytes:,}: it was cut short"
                " or replaced"
            )

    _check_concurrently(check, shards)


def check_contents(dataset: Dataset, shards: Sequence[ShardEntry]) -> None:
    """Check the bytes of each shard like `check_content`, several at a time."""
    _check_concurrently(lambda shard: check_content(dataset, shard), shards)


def check_content(dataset: Dataset, shard: ShardEntry, block_bytes: int = _BLOCK_BYTES) -> None:
    """Read a shard, `block_bytes` at a time, and check its bytes against the manifest.

    Raise a CorruptDataError if it is missing or differs from what was written; the message names it, and the record if
    one is damaged.
    """
    crc = 0
    try:
        with dataset.files.open(dataset.path(shard)) as file:
            while block := file.read(block_bytes):
                crc = google_crc32c.extend(crc, block)
    except FileNotFoundError:
        raise CorruptDataError(f"{dataset.path(shard)} is missing; the manifest lists it") from None
    if f"{crc:08x}" != shard.crc32c:
        for _ in dataset.records(shard):  # which says more, if it is a record that is damaged
            pass
        raise replaced_shard_error(shard, crc)


def replaced_shard_error(shard: ShardEntry, crc: int) -> CorruptDataError:
    """Return the error for a shard whose records are sound but which is not the one that was written."""
    return CorruptDataError(
        f"{shard.file} is not the file that was written: its crc32c is {crc:08x}, the manifest says {shard.crc32c}; "
        "every record in it is sound, so it may be another data set's shard"
    )


def _check_concurrently(check: Callable[[ShardEntry], None], shards: Sequence[ShardEntry]) -> None:
    with ThreadPoolExecutor(min(_THREADS, len(shards)) or 1, "shardmill-check") as pool:
        for _ in pool.map(check, shards):
            pass


def read_shard(dataset: Dataset, shard: ShardEntry, record: int = 0, offset: int = 0) -> Iterator[RecordBlock]:
    """Yield the serialized examples of a shard from a `record` on, which begins at byte `offset`, in blocks.

    Each record's checksum is verified, and the file's checksum at the end if `offset` is 0. Raise a CorruptDataError if
    the shard is missing or differs from what was written; the message names it and the record.
    """
    with open_shard(dataset, shard) as file:
        if offset:
            file.seek(offset)
        raw = ChecksummedFile(file)
        for records in dataset.manifest.codec.read_blocks(cast(BinaryIO, raw), shard.file, record, offset):
            record += len(records)
            yield records
    if record != shard.examples:
        raise CorruptDataError(f"{shard.file} holds {record} records; the manifest says {shard.examples}")
    if not offset and f"{raw.crc32c:08x}" != shard.crc32c:
        raise replaced_shard_error(shard, raw.crc32c)


def read_slice(dataset: Dataset, piece: "ShardSlice", offset: int = 0) -> Iterator[RecordBlock]:
    """Yield the serialized examples of a slice in blocks; raise the errors of `read_shard`.

    Reading begins with the slice if `offset` is the byte at which it begins, else with the shard. It ends with the
    slice. The checksum of the whole file is verified only if all of it was read.
    """
    index = piece.start if offset else 0
    for block in read_shard(dataset, piece.shard, index, offset):
        start, stop = max(piece.start - index, 0), min(piece.stop - index, len(block))
        if start < stop:
            yield block.between(start, stop)
        index += len(block)
        if piece.stop <= index < piece.shard.examples:
            return
