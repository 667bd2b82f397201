"""What a build would read and how, as two digests: of the input, and of all else that shapes the bytes.

The input is what is found by name, with the size and the stamp that its store gives it (a checksum, an ETag, the time
in ns when it was written), or with a checksum of all of it where the recipe says `fingerprint: content`. Files that are
passed over are none of it.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import metadata
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

import shardmill
from shardmill.errors import UserError
from shardmill.metadata.rejects import Reject
from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.config.listed_files import ListedFilesConfig
from shardmill.pipelines.config.parallel import ParallelConfig
from shardmill.transforms.inputs.file_kind import IMAGES, FileKind
from shardmill.transforms.inputs.listing import NO_MATCH, Found, input_root, list_input
from shardmill.transforms.inputs.record_files import of_language
from shardmill.transforms.options.declare import options_of
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.checksums import UNREADABLE, checksums
from shardmill.transforms.stores.error_text import error_text
from shardmill.transforms.stores.failures import raise_if_store_failed
from shardmill.transforms.stores.protocol import CHECKSUM_STAMP, FileStat
from shardmill.transforms.workers.batches import batches

if TYPE_CHECKING:
    from shardmill.transforms.inputs.annotations.source import AnnotationSource

FILES = pa.schema([pa.field("name", pa.string()), pa.field("size", pa.int64()), pa.field("stamp", pa.string())])
_MANIFEST = "--manifest"  # the name of that file among those that it lists
_MASKS = "--masks"  # the folder of masks as the names of its files have it
_TICK = 0.02  # seconds, in which a file may be written twice and bear one time: twice the longest of Linux
_NO_SIZE = -1  # bytes, of a file that cannot be looked at
_REMOTE_THREADS = 32  # that ask a store of a file each, for it answers late

_Named = tuple[str, FileStat]  # a file by its name in the input


@dataclass(frozen=True)
class Inputs:
    """All that decides upon the bytes of a build.

    Attributes:
      files: FILES, sorted by name: what is found, or cannot be.
      code: what shapes the bytes beside them, as JSON, by the words that name it: `--resize`, `pillow`.
      newest: when the newest file was written, in seconds since 1970; None where there is none.
      missing: choices of the input, such as days of a window, that no file is there for.
    """

    files: pa.Table
    code: Mapping[str, str]
    newest: float | None
    missing: tuple[str, ...] = ()

    @cached_property
    def data_version(self) -> str:
        """A digest of the input (32 hex digits)."""
        digest = hashlib.blake2b(digest_size=16)
        for batch in self.files.to_batches(max_chunksize=10_000):
            rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            digest.update("".join(f"{name}\0{size}\0{stamp}\0\n" for name, size, stamp in rows).encode())
        return digest.hexdigest()

    @cached_property
    def code_version(self) -> str:
        """A digest of what else shapes the bytes (32 hex digits)."""
        return hashlib.blake2b(json.dumps(self.code, sort_keys=True).encode(), digest_size=16).hexdigest()

    @property
    def number(self) -> int:
        """How many files there are, good or bad."""
        return self.files.num_rows - pc.sum(pc.starts_with(self.files["name"], _MANIFEST), min_count=0).as_py()


def find_inputs(config: JobConfig, fingerprint: str = "metadata", kept: Mapping[str, str] | None = None) -> Inputs:
    """List what a job of `config` would read.

    Args:
      config: as it was asked for, before labels or a schema are kept.
      fingerprint: "metadata", or "content" for checksums of all files, which reads them.
      kept: what the recipe keeps of the version before: `{"labels": "keep"}`.

    Raises:
      UserError: there is no such input.
      OSError: a store fails.
    """
    started = time.time()
    for path in config.inputs:
        root = _root(config, path)
        if storage.is_local(root) and not os.path.lexists(root):
            raise UserError(f"--input {path}: no such file or folder")
    missing: list[str] = []
    found = list(_settled(_found(config, missing), started))
    if fingerprint == "content":
        found = _with_contents(found)
    rows = sorted((name, stat.size_bytes, stat.stamp) for name, stat in found)
    newest = max((stat.modified for _, stat in found if stat.size_bytes != _NO_SIZE), default=None)
    files = pa.Table.from_batches(batches(rows, FILES), FILES)
    told = {"fingerprint": fingerprint, **(kept or {})}
    return Inputs(
        files, _code(config) | {name: json.dumps(value) for name, value in told.items()}, newest, tuple(missing)
    )


def _found(config: JobConfig, missing: list[str]) -> Iterator[_Named]:
    """The files; choices without any are added to `missing`."""
    if isinstance(config, ListedFilesConfig) and config.manifest:
        yield from _listed(config)
        return
    if isinstance(config, ListedFilesConfig) and (source := config.annotation_source) is not None:
        yield from _masks(config)
        yield from _annotated(config, source)
        return
    if isinstance(config, ListedFilesConfig):
        yield from _masks(config)
    if isinstance(config, ParallelConfig):
        for name, pattern in config.texts:
            yield from _matched(pattern, _root(config, pattern), of_language(config.kind, name), missing, f"{name}=")
        return
    assert config.input is not None
    yield from _matched(config.input, config.root, config.kind, missing)


def _root(config: JobConfig, path: str) -> str:
    """The folder that the names of one of the inputs are relative to; a store is asked once."""
    return config.root if path == config.input else input_root(path)


def _matched(pattern: str, root: str, kind: FileKind, missing: list[str], before: str = "") -> Iterator[_Named]:
    """The files of a folder or glob, by names that begin with `before`."""
    for item in list_input(pattern, kind):
        if isinstance(item, Found):
            path = storage.join(root, item.name)
            yield f"{before}{item.name}", FileStat(path, item.size_bytes, item.stamp, item.modified)
        elif isinstance(item, Reject):
            yield f"{before}{item.source}", _unreadable(item.source, item.reason)
        elif item.kind == NO_MATCH:
            missing.append(item.name)


def _masks(config: ListedFilesConfig) -> Iterator[_Named]:
    """The masks of a folder, if there are any, by names that no image has."""
    folder = config.masks_folder
    return iter(()) if folder is None else _matched(folder, folder, IMAGES, [], f"{_MASKS}/")


def _listed(config: ListedFilesConfig) -> Iterator[_Named]:
    """Manifests, and the files that they list."""
    from shardmill.transforms.inputs.manifests.reading import read_all
    from shardmill.transforms.inputs.manifests.rows import Row, digest

    several = len(config.manifests) > 1
    for manifest in config.manifests:
        told = f" {manifest.split}={manifest.path}" if several or manifest.split else ""
        yield f"{_MANIFEST}{told}", _look(manifest.path)
    root = config.root
    rows = read_all(config.manifests, config.allow_outside, (), config.manifest_names)
    named = []
    seen: set[bytes] = set()
    for row in rows:
        if isinstance(row, Row) and (known := digest(row)) not in seen:
            seen.add(known)
            named.append((row.name, row.uri or storage.join(root, row.name)))
            named += [(path, path) for path in row.companions]
    yield from zip([name for name, _ in named], _looks([path for _, path in named]), strict=True)


def _annotated(config: ListedFilesConfig, source: "AnnotationSource") -> Iterator[_Named]:
    """The files of annotations, and the images that they are of."""
    from shardmill.transforms.inputs.annotations.objects import AnnotatedFiles
    from shardmill.transforms.inputs.annotations.source import Listed
    from shardmill.transforms.inputs.located import locate

    names = {path: path for path in source.beside()}
    for item in source.listed():
        if isinstance(item, Listed):
            names[item.annotation] = storage.join(config.root, item.annotation)
        images = [item.image] if isinstance(item, Listed) else []
        if isinstance(item, AnnotatedFiles):
            images = [image.name for image in item.images]
        for image in images:
            with suppress(ValueError):  # which will be a reject
                name, uri = locate(image, config.root, config.allow_outside)
                names[name] = uri or storage.join(config.root, name)
    yield from zip(names, _looks(list(names.values())), strict=True)


def _looks(paths: Sequence[str]) -> Iterator[FileStat]:
    """What the store says of files, of many at once where each is a request."""
    if all(map(storage.is_local, paths)):
        yield from map(_look, paths)
        return
    with ThreadPoolExecutor(_REMOTE_THREADS, "shardmill-stat") as pool:
        yield from pool.map(_look, paths)


def _look(path: str) -> FileStat:
    try:
        return storage.stat_file(path)
    except OSError as error:
        raise_if_store_failed(error, path)
        return _unreadable(path, error_text(error))


def _unreadable(path: str, reason: str) -> FileStat:
    return FileStat(path, _NO_SIZE, f"{UNREADABLE}{reason}", 0.0)


def _settled(found: Iterable[_Named], started: float) -> Iterator[_Named]:
    """Files as they are once whoever writes to them again cannot give them the same time: those written a moment ago
    are looked at a second time."""
    young = []
    for name, stat in found:
        if stat.modified >= started - _TICK and storage.is_local(stat.path):
            young.append((name, stat.path))
        else:
            yield name, stat
    if young:
        time.sleep(_TICK)
        yield from ((name, _look(path)) for name, path in young)


def _with_contents(found: list[_Named]) -> list[_Named]:
    """With checksums of their contents for stamps, where these are none."""
    unsaid = [
        index
        for index, (_, stat) in enumerate(found)
        if stat.size_bytes != _NO_SIZE and not stat.stamp.startswith(CHECKSUM_STAMP)
    ]
    told = list(found)
    for index, stamp in zip(unsaid, checksums(found[index][1].path for index in unsaid), strict=True):
        name, stat = found[index]
        told[index] = name, replace(stat, stamp=stamp)
    return told


def _code(config: JobConfig) -> dict[str, str]:
    """What shapes the bytes beside the input, by the words that name it."""
    flags = {option.field: f"--{option.name}" for option in options_of(type(config))}
    shaping: dict[str, Any] = {}
    for field, value in config.to_json().items():
        shaping.setdefault(flags.get(field, field), []).append(value)  # --num_shards sets two fields
    if config.schema_text:
        shaping["--schema"] = [config.schema_text]
    told = {name: values if len(values) > 1 else values[0] for name, values in shaping.items()}
    versions = {name: metadata.version(name) for name in config.libraries} | {"shardmill": shardmill.__version__}
    return {name: json.dumps(value, sort_keys=True) for name, value in {**told, **versions}.items()}
