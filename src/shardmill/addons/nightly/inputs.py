"""Digest a build's input and options, and check the age of its newest input."""

import errno
import hashlib
import json
import os
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from importlib import metadata
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

import shardmill
from shardmill.addons.nightly.recipe import FreshnessOptions
from shardmill.addons.nightly.recipe_values import format_duration
from shardmill.errors import ChecksError, UserError
from shardmill.metadata import file_names
from shardmill.metadata.manifest import Reject, crc32c_hex
from shardmill.pipelines.config.files import FilesConfig, ListedFilesConfig
from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.config.records import NamedInputsConfig, ParallelConfig, RowsConfig
from shardmill.transforms.columns.arrow import to_batches
from shardmill.transforms.inputs.folders import IMAGES, FileKind
from shardmill.transforms.inputs.listing import NO_MATCH, accept_language_suffix, input_root, list_input, list_singly
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import CHECKSUM_STAMP, FileStat, error_text
from shardmill.transforms.stores.storage import raise_if_store_failed
from shardmill.transforms.stores.streams import UNREADABLE, checksums

if TYPE_CHECKING:
    from shardmill.transforms.inputs.annotations import AnnotationSource

FILES = pa.schema([pa.field("name", pa.string()), pa.field("size", pa.int64()), pa.field("stamp", pa.string())])
_MANIFEST = "--manifest"  # the name of that file among those that it lists
_SPLIT_LISTS = "--split_lists"  # the names of those files begin with it
QUERY = "--query"  # the name of a query's result, which is unknown before it is read
_MASKS = "--masks"  # the folder of masks as the names of its files have it
_CLOCK_TICK_S = 0.02  # seconds, in which a file may be written twice and bear one time: twice the longest of Linux
_NO_SIZE = -1  # bytes, of a file that cannot be looked at
_REMOTE_THREADS = 32  # that ask a store of a file each, for it answers late

_NamedFile = tuple[str, FileStat]  # a file by its name in the input


@dataclass(frozen=True)
class Inputs:
    """Everything that determines the bytes of a build.

    The input is the files' names, with the size and stamp that their store gives (a checksum, an ETag, or the
    modification time in ns). With `fingerprint: content`, a checksum of the content replaces the stamp. Skipped files
    are not part of it.
    """

    files: pa.Table  # FILES sorted by name: files found, and files that cannot be read
    code: Mapping[str, str]  # other inputs as JSON, by name: `--resize`, `pillow`
    newest: float | None  # the newest modification time, in seconds since 1970; None for none
    missing: tuple[str, ...] = ()  # parts of the input, such as days of a window, without a file

    @cached_property
    def data_version(self) -> str:
        """Return a digest of the input (32 hex digits)."""
        digest = hashlib.blake2b(digest_size=16)
        for batch in self.files.to_batches(max_chunksize=10_000):
            rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            digest.update("".join(f"{name}\0{size}\0{stamp}\0\n" for name, size, stamp in rows).encode())
        return digest.hexdigest()

    @cached_property
    def code_version(self) -> str:
        """Return a digest of everything else that shapes the bytes (32 hex digits)."""
        return hashlib.blake2b(json.dumps(self.code, sort_keys=True).encode(), digest_size=16).hexdigest()

    @property
    def file_count(self) -> int:
        """Return the number of files, readable or not."""
        lists = (pc.starts_with(self.files["name"], name) for name in (_MANIFEST, _SPLIT_LISTS, QUERY))
        return self.files.num_rows - sum(pc.sum(names, min_count=0).as_py() for names in lists)


def find_inputs(
    config: JobConfig, fingerprint: str = "metadata", kept_entries: Mapping[str, str] | None = None
) -> Inputs:
    """List the files that a job of `config` would read, and digest the options and libraries that shape its output.

    Raises UserError if there is no such input.

    Args:
        fingerprint: "metadata", or "content" for checksums of all files, which reads them
        kept_entries: what the recipe keeps of an earlier version: `{"labels": "keep"}`
    """
    started = time.time()
    for path in config.inputs:
        if storage.is_local(path) and not os.path.lexists(_find_root(config, path)):
            raise UserError(f"--input {path}: no such file or folder")
    missing: list[str] = []
    found = [(name, _check_access(stat)) for name, stat in _restat_recent(_find_files(config, missing), started)]
    if fingerprint == "content":
        found = _with_checksums(found)
    rows = sorted((name, stat.size_bytes, stat.stamp) for name, stat in found)
    newest = max((stat.modified for _, stat in found if stat.size_bytes != _NO_SIZE), default=None)
    files = pa.Table.from_batches(to_batches(rows, FILES), FILES)
    kept = {name: json.dumps(value) for name, value in {"fingerprint": fingerprint, **(kept_entries or {})}.items()}
    return Inputs(files, _list_code_inputs(config) | kept, newest, tuple(missing))


def _find_files(config: JobConfig, missing: list[str]) -> Iterator[_NamedFile]:
    """Yield the input files, and add parts of the input without files to `missing`.

    A query's result is a file that differs each time.
    """
    if isinstance(config, RowsConfig):
        yield QUERY, FileStat("", _NO_SIZE, uuid.uuid4().hex, 0.0)
        return
    if isinstance(config, ListedFilesConfig):
        for split, path in config.split_lists:
            yield f"{_SPLIT_LISTS} {split}={path}", _stat_file(path)
        if config.manifest:
            yield from _list_manifest_files(config)
            return
        if (masks := config.added.folder) is not None:  # under names that no image has
            yield from _list_matched_files(masks, input_root(masks), IMAGES, [], f"{_MASKS}/")
        if (source := config.annotating.find_source(config)) is not None:
            yield from _list_annotated_files(config, source)
            return
    if isinstance(config, NamedInputsConfig):
        for name, pattern in config.named_inputs:
            kind = accept_language_suffix(config.kind, name) if isinstance(config, ParallelConfig) else config.kind
            yield from _list_matched_files(pattern, _find_root(config, pattern), kind, missing, f"{name}=")
        return
    assert config.input is not None
    yield from _list_matched_files(config.input, _find_root(config, config.input), config.kind, missing)


def _find_root(config: JobConfig, path: str) -> str:
    return config.root if isinstance(config, FilesConfig) and path == config.input else input_root(path)


def _list_matched_files(
    pattern: str, root: str, kind: FileKind, missing: list[str], before: str = ""
) -> Iterator[_NamedFile]:
    for item in list_singly(list_input(pattern, kind)):
        if isinstance(item, FileStat):
            path = storage.join(root, item.path)
            yield f"{before}{item.path}", FileStat(path, item.size_bytes, item.stamp, item.modified)
        elif isinstance(item, Reject):
            yield f"{before}{item.source}", _make_unreadable(item.source, item.reason)
        elif item.kind == NO_MATCH:
            missing.append(item.name)


def _list_manifest_files(config: ListedFilesConfig) -> Iterator[_NamedFile]:
    from shardmill.transforms.inputs.found_files import companion_paths
    from shardmill.transforms.inputs.manifest_table import ManifestFindings, ManifestReader, infer_columns

    several = len(config.manifests) > 1
    for manifest in config.manifests:
        suffix = f" {manifest.split}={manifest.path}" if several or manifest.split else ""
        yield f"{_MANIFEST}{suffix}", _stat_file(manifest.path)
    root, named = config.root, []
    seen: set[bytes] = set()
    names = config.manifest_names
    columns = infer_columns(config.manifests, (), names)
    reader = ManifestReader(config.manifests, columns, names, config.allow_outside, ())
    for batch in reader.read(ManifestFindings(names)):
        if isinstance(batch, Reject):
            continue
        cells = (batch[name].to_pylist() for name in ("digest", "name", "uri"))
        for digest, name, uri, companions in zip(*cells, companion_paths(batch), strict=True):
            if digest not in seen:
                seen.add(digest)
                named.append((name, uri or storage.join(root, name)))
                named += [(path, path) for path in companions]
    yield from zip([name for name, _ in named], _stat_files([path for _, path in named]), strict=True)


def _list_annotated_files(config: ListedFilesConfig, source: "AnnotationSource") -> Iterator[_NamedFile]:
    from shardmill.transforms.inputs.annotations import AnnotatedImages, ListedImage
    from shardmill.transforms.inputs.found_files import resolve_name

    names = {path: path for path in source.list_extra_files()}
    for item in source.list_images():
        if isinstance(item, ListedImage):
            names[item.annotation] = storage.join(config.root, item.annotation)
        images = [item.image] if isinstance(item, ListedImage) else []
        if isinstance(item, AnnotatedImages):
            images = [image.name for image in item.images]
        for image in images:
            with suppress(ValueError):  # which will be a reject
                name, uri = resolve_name(image, config.root, config.allow_outside)
                names[name] = uri or storage.join(config.root, name)
    yield from zip(names, _stat_files(list(names.values())), strict=True)


def _stat_files(paths: Sequence[str]) -> Iterator[FileStat]:
    if all(map(storage.is_local, paths)):
        yield from map(_stat_file, paths)
        return
    with ThreadPoolExecutor(_REMOTE_THREADS, "shardmill-stat") as pool:
        yield from pool.map(_stat_file, paths)


def _stat_file(path: str) -> FileStat:
    try:
        return storage.stat_file(path)
    except OSError as error:
        raise_if_store_failed(error, path)
        return _make_unreadable(path, error_text(error))


def _check_access(stat: FileStat) -> FileStat:
    is_forbidden = storage.is_local(stat.path) and not os.access(stat.path, os.R_OK) and os.path.isfile(stat.path)
    return _make_unreadable(stat.path, os.strerror(errno.EACCES)) if is_forbidden else stat


def _make_unreadable(path: str, reason: str) -> FileStat:
    return FileStat(path, _NO_SIZE, f"{UNREADABLE}{reason}", 0.0)


def _restat_recent(files: Iterable[_NamedFile], started: float) -> Iterator[_NamedFile]:
    """Yield `files`; look again at those of the last clock tick, whose next write might have kept the same time."""
    young = []
    for name, stat in files:
        if stat.modified >= started - _CLOCK_TICK_S and storage.is_local(stat.path):
            young.append((name, stat.path))
        else:
            yield name, stat
    if young:
        time.sleep(_CLOCK_TICK_S)
        yield from ((name, _stat_file(path)) for name, path in young)


def _with_checksums(files: list[_NamedFile]) -> list[_NamedFile]:

    def has_checksum(stat: FileStat) -> bool:
        return stat.size_bytes == _NO_SIZE or stat.stamp.startswith(CHECKSUM_STAMP)

    stamps = iter(checksums(stat.path for _, stat in files if not has_checksum(stat)))
    return [(name, stat if has_checksum(stat) else replace(stat, stamp=next(stamps))) for name, stat in files]


def _list_code_inputs(config: JobConfig) -> dict[str, str]:
    flags = {option.field: f"--{option.name}" for option in config.options}
    shaping: dict[str, Any] = {}
    for field, value in config.to_json().items():
        shaping.setdefault(flags.get(field, field), []).append(value)  # --num_shards sets two fields
    if config.schema_text:
        shaping["--schema"] = [config.schema_text]
    graphs = (getattr(options, "transform_graph", None) for options in config.add_ons)
    if (graph := next(filter(None, graphs), None)) is not None:  # a version that another may replace
        manifest = storage.read_bytes(storage.join(graph.directory, file_names.MANIFEST))
        shaping["--transform_graph"] = [graph.name, crc32c_hex(manifest)]
    options = {name: values if len(values) > 1 else values[0] for name, values in shaping.items()}
    versions = {name: metadata.version(name) for name in config.libraries} | {"shardmill": shardmill.__version__}
    return {name: json.dumps(value, sort_keys=True) for name, value in {**options, **versions}.items()}


_SKEW = 300.0  # seconds that clocks of two machines may differ by, without a word


def check_freshness(newest: float | None, options: FreshnessOptions, now: float) -> str | None:
    """Return a warning on the age of the newest input, or None if it is fresh enough; both times are since 1970.

    The job itself reports that it has no input. Raises ChecksError if the newest is older than `error_after`.
    """
    if newest is None or (options.warn_after is None and options.error_after is None):
        return None
    age, when = now - newest, datetime.fromtimestamp(newest, UTC).strftime("%Y-%m-%d %H:%M UTC")
    if age < -_SKEW:
        return (
            f"the newest input was written at {when}, {format_duration(-age)} from now: a clock is wrong, and how fresh"
            " the input is cannot be known"
        )
    message = f"the newest input was written at {when}, {format_duration(max(age, 0.0))} ago"
    if options.error_after is not None and age > options.error_after:
        raise ChecksError(
            f"{message}; freshness: error_after {format_duration(options.error_after)} allows no more: has the source"
            " stopped? Nothing was published"
        )
    if options.warn_after is not None and age > options.warn_after:
        return f"{message}, more than freshness: warn_after {format_duration(options.warn_after)}"
    return None
