"""Decode examples to Python and NumPy values without TensorFlow."""

import math
import random
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any, cast

import numpy as np

from shardmill.data.example import LIST_TAGS, decode_example, encode_varint, read_varint, unpack_varints
from shardmill.data.example_columns import ColumnReader, ExampleScanner, ReadColumns, ScannedBlock
from shardmill.data.feature_kind import fixed_sizes
from shardmill.data.features import DType, Feature, Features, find_incomplete
from shardmill.data.kinds import kind_of
from shardmill.data.spans import Positions, RecordBlock
from shardmill.errors import CorruptDataError, UserError
from shardmill.filesystem import Files, Paths
from shardmill.metadata.manifest import Manifest
from shardmill.reading.dataset import RAW_RECORD, Dataset, check_sizes, find_features, open_for_reading, read_slice
from shardmill.reading.record_positions import find_offsets
from shardmill.reading.slices import Part, ShardSlice, select_examples, select_part

Example = dict[str, Any]
Read = Callable[[bytes, int, int], Any]  # values from (record, start, end); ValueError where they are not as expected

_NO_ENTRY = b"\xff"  # no entry begins like that
_KNOWN_PREFIXES = 1 << 16  # remembered: some megabytes at most
_LENGTHS_BYTES = 17  # of three lengths and two tags at most, between a name and its values
_FLOAT = struct.Struct("<f")
_SMALL = list(np.arange(0x80))  # making a NumPy scalar takes longer than all else about it


class _Prefixes(dict[int, bytes]):
    """The bytes that precede a feature's values in a serialized example, by the size of its entry; computed once."""

    def __init__(self, feature: Feature) -> None:
        self._feature = feature

    def __missing__(self, size: int) -> bytes:
        if len(self) >= _KNOWN_PREFIXES:
            self.clear()
        prefix = self[size] = _make_prefix(self._feature, size)
        return prefix


# Name, whether it is required, how it is read: None if it is not wanted
_Plan = tuple[str, bool, Read | None, _Prefixes]


class ExampleDecoder:
    """Decode serialized examples of known features.

    A scalar becomes np.int64, np.float32 or bytes. A list becomes an array of int64 or float32, or a list of bytes.
    More dimensions become an array of the feature's shape, with dtype object for bytes. A feature of kind `array`
    becomes an array of its element type. Missing features are absent.
    """

    def __init__(self, features: Features, names: Sequence[str] | None = None) -> None:
        """Set up a decoder of the features named in `names`, in the order of `features`; None for all."""
        self._features = {item.name: item for item in features}
        self._wanted = set(self._features if names is None else names)
        self._required = frozenset(item.name for item in features if item.required) & self._wanted
        self._plans = {item.name: self._plan(item) for item in features}
        self._order = list(self._plans.values())

    def _plan(self, feature: Feature) -> _Plan:
        read = _choose_reader(feature) if feature.name in self._wanted else None
        return feature.name, feature.required, read, _Prefixes(feature)

    def __call__(self, record: bytes) -> dict[str, Any]:
        """Return the wanted features of a serialized example.

        Raise a ValueError if `record` is not an example, or a feature has the wrong type or number of values; the
        message names it.
        """
        values = self.decode_plain(record)
        return self._decode_any(record) if values is None else values

    def decode_plain(self, record: bytes) -> dict[str, Any] | None:
        """Decode an example fast if it has known features only, in the order and layout last seen; else return None."""
        end = len(record)
        values: dict[str, Any] = {}
        try:
            size, position = read_varint(record, 1)
            if record[0] != 0x0A or position + size != end:
                return None
            for name, required, read, prefixes in self._order if position < end else ():
                size, start = record[position + 1], position + 2
                if size > 0x7F:
                    size, start = read_varint(record, position + 1)
                prefix = prefixes[size]
                if record.startswith(prefix, position):
                    stop = start + size
                    if read is not None:
                        values[name] = read(record, position + len(prefix), stop)
                    position = stop
                elif required:
                    return None
                if position >= end:
                    break
        except (IndexError, ValueError):
            return None
        return values if position == end and self._required <= values.keys() else None

    def _decode_any(self, record: bytes) -> dict[str, Any]:
        """Decode an example with its features in any order, slowly, and expect that order from now on."""
        found = decode_example(record)
        order = [self._plans[name] for name in found if name in self._plans]
        if order != [plan for plan in self._order if plan[0] in found]:
            self._order = order + [plan for name, plan in self._plans.items() if name not in found]
        values = {}
        for name in self._plans:
            if name in self._wanted and name in found and (len(found[name]) or None in self._features[name].list_shape):
                values[name] = _check_values(self._features[name], found[name])
            elif name in self._wanted and self._features[name].required:
                raise ValueError(f"feature {name!r} is missing")
        return values


_MISSING: Any = object()
FEW_RECORDS = 32  # of a block, for which a column of each feature costs more than it saves


class BlockDecoder:
    """Decode the serialized examples of a block as `ExampleDecoder` does, by columns and several times as fast."""

    def __init__(self, features: Features, names: Sequence[str] | None = None) -> None:
        self.one = self._decode = ExampleDecoder(features, names)
        self._scanner = ExampleScanner(features)
        self._columns = [(column, item) for column, item in enumerate(features) if names is None or item.name in names]
        self._names = [item.name for _, item in self._columns]
        unpackers = ((item.name, kind_of(item).value_decoder(item)) for _, item in self._columns)
        self._unpackers = [(name, unpack) for name, unpack in unpackers if unpack is not None]
        wanted = [item for _, item in self._columns]
        are_fixed = wanted and all(map(ColumnReader.can_read, wanted))
        self.columns = ColumnReader(features, self._names) if are_fixed else None

    def __call__(self, block: RecordBlock) -> Iterator[Example]:
        """Yield the wanted features of each example; raise the ValueError of the first that is not as expected."""
        if self.columns is not None:
            yield from self.from_columns(self.columns.take(block))
            return
        if len(block) < FEW_RECORDS:
            yield from map(self._decode, block)
            return
        scanned = self._scanner.scan(block)
        rows = np.flatnonzero(scanned.fits)
        columns = [_column_values(scanned, column, item, rows) for column, item in self._columns]
        decoded = zip(*columns, strict=True) if columns else iter([()] * len(rows))
        present = np.all(scanned.present[:, [column for column, _ in self._columns]], axis=1)
        for row, fits in enumerate(scanned.fits.tolist()):
            if not fits:
                yield self._decode(block.record(row))
                continue
            example = dict(zip(self._names, next(decoded), strict=True))
            if not present[row]:
                example = {name: value for name, value in example.items() if value is not _MISSING}
            for name, unpack in self._unpackers:
                if name in example:
                    example[name] = unpack(example[name])
            yield example

    def from_columns(self, found: ReadColumns) -> Iterator[Example]:
        """Yield the examples that `columns` read; raise the ValueError of the first that is not as expected."""
        columns, rest = found
        for row, values in enumerate(zip(*map(_split_column, columns.values()), strict=True)):
            if row in rest:
                yield self._decode(rest[row])
                continue
            example = dict(zip(columns, values, strict=True))
            for name, unpack in self._unpackers:
                example[name] = unpack(example[name])
            yield example


def _split_column(values: list[bytes] | np.ndarray) -> list[Any]:
    """Return the value of each example; one that is an array does not keep those of the others in memory."""
    return list(values) if isinstance(values, list) or values.ndim == 1 else [value.copy() for value in values]


def _column_values(scanned: ScannedBlock, column: int, feature: Feature, rows: Positions) -> list[Any]:
    """Return the value of a feature in each of some records that fit; _MISSING where it has none."""
    present = scanned.present[rows, column]
    if not present.all():
        found = iter(_column_values(scanned, column, feature, rows[present]))
        return [next(found) if has_value else _MISSING for has_value in present.tolist()]
    if feature.dtype == "bytes" and feature.list_shape:
        lists = scanned.value_lists(column, rows)
        return [_reshape(feature, values) for values in lists] if len(feature.shape) > 1 else lists
    values = scanned.values(column, rows)
    if not feature.list_shape:
        return list(values)
    numbers, ends = cast(np.ndarray, values), np.cumsum(scanned.places[rows, column, 2]).tolist()
    # Copied: an example must not keep the values of its whole block in memory
    pieces = [numbers[start:end].copy() for start, end in zip([0, *ends], ends, strict=False)]
    return [_reshape(feature, piece) for piece in pieces] if len(feature.shape) > 1 else pieces


def _check_values(feature: Feature, values: Any) -> Any:
    """Check values that shardmill.data.example decoded, and return them in their feature's form."""
    dtype = values.dtype.name if isinstance(values, np.ndarray) else "bytes"
    if len(values) and dtype != feature.dtype:
        raise ValueError(f"feature {feature.name!r} holds {dtype}; expected {feature.dtype}")
    count = math.prod(fixed_sizes(feature)) if feature.list_shape else 1
    if None not in feature.list_shape and len(values) != count:
        raise ValueError(f"feature {feature.name!r} has {len(values)} values; expected {count}")
    if len(values) % max(count, 1):
        raise ValueError(f"feature {feature.name!r} has {len(values)} values; expected a multiple of {count}")
    if not feature.list_shape:
        unpack = kind_of(feature).value_decoder(feature)
        return values[0] if unpack is None else unpack(values[0])
    if len(feature.shape) == 1:
        return values if feature.dtype == "bytes" or len(values) else np.empty(0, feature.dtype)
    return _reshape(feature, values)


def _reshape(feature: Feature, values: Any) -> np.ndarray:
    array: np.ndarray = np.array(values, object) if feature.dtype == "bytes" else np.asarray(values, feature.dtype)
    return array.reshape([-1 if size is None else size for size in feature.shape])


def _make_prefix(feature: Feature, size: int) -> bytes:
    listed = feature.dtype == "bytes" and bool(feature.list_shape)
    name = feature.name.encode()
    key = b"\x0a" + encode_varint(len(name)) + name + b"\x12"
    most = size - len(key)
    for count in range(max(most - _LENGTHS_BYTES, 0), most + 1):
        inner = b"" if listed or (count == 0 and feature.list_shape) else b"\x0a" + encode_varint(count)
        value = bytes((LIST_TAGS[feature.dtype],)) + encode_varint(len(inner) + count) + inner
        head = key + encode_varint(len(value) + count) + value
        if len(head) + count == size:
            return b"\x0a" + encode_varint(size) + head
    return _NO_ENTRY


def _choose_reader(feature: Feature) -> Read:
    unpack = kind_of(feature).value_decoder(feature)
    if unpack is not None:
        return lambda record, start, end: unpack(record[start:end])
    if not feature.shape:
        return _SCALARS[feature.dtype]
    count = None if None in feature.shape else math.prod(fixed_sizes(feature))
    values = partial(_decode_list, _LISTS[feature.dtype], count)
    return (
        values if len(feature.shape) == 1 else lambda record, start, end: _reshape(feature, values(record, start, end))
    )


def _decode_one_float(record: bytes, start: int, end: int) -> Any:
    if end - start != 4:
        raise ValueError("not one float")
    return np.float32(_FLOAT.unpack_from(record, start)[0])


def _decode_one_int(record: bytes, start: int, end: int) -> Any:
    if end - start == 1 and record[start] < 0x80:
        return _SMALL[record[start]]
    value = shift = 0
    for byte in record[start:end]:
        value |= (byte & 0x7F) << shift
        shift += 7
    # One value: only its last byte has no continuation bit.
    if end == start or end - start > 10 or record[end - 1] > 0x7F or min(record[start : end - 1]) < 0x80:
        raise ValueError("not one integer")
    value &= 0xFFFFFFFFFFFFFFFF
    return np.int64(value - (1 << 64) if value >> 63 else value)


def _decode_list(decode: Read, count: int | None, record: bytes, start: int, end: int) -> Any:
    values = decode(record, start, end)
    if count is not None and len(values) != count:
        raise ValueError("another number of values")
    return values


def _decode_strings(record: bytes, start: int, end: int) -> list[bytes]:
    values = []
    while start < end:
        size, first = read_varint(record, start + 1)
        if record[start] != 0x0A or first + size > end:
            raise ValueError("not a list of bytes")
        start = first + size
        values.append(record[first:start])
    return values


_SCALARS: Mapping[DType, Read] = {
    "bytes": lambda record, start, end: record[start:end],
    "float32": _decode_one_float,
    "int64": _decode_one_int,
}
_LISTS: Mapping[DType, Read] = {
    "bytes": _decode_strings,
    "float32": lambda record, start, end: np.frombuffer(record[start:end], "<f4"),
    "int64": lambda record, start, end: unpack_varints(record[start:end]),
}


def check_defaults(features: Features, defaults: Mapping[str, Any], all_features: Features) -> dict[str, Any]:
    """Return the defaults of `features`, some of `all_features`, in their shape and type.

    They are bytes for text, one value for lists of any length, and arrays for kind `array`. Raise a UserError if a
    default is for an unknown feature, or does not fit its feature.
    """
    names = [feature.name for feature in all_features]
    for name in defaults:
        if name not in names:
            raise UserError(f"defaults names {name!r}, which is no feature; there are {', '.join(names)}")
    given = [feature for feature in features if feature.name in defaults]
    return {feature.name: _parse_default(feature, defaults[feature.name]) for feature in given}


def check_complete(features: Features, defaults: Mapping[str, Any]) -> None:
    """Check that every feature that may be missing has a default or is a list of any length, which may be empty.

    Raise a UserError if one has no default; the message suggests one.
    """
    lacking = [feature for feature in find_incomplete(features) if feature.name not in defaults]
    if lacking:
        what = "is a feature that some examples lack" if len(lacking) == 1 else "are features that some examples lack"
        raise UserError(
            f"{', '.join(feature.name for feature in lacking)} {what}; give a value for missing ones, "
            f"defaults={suggest_defaults(lacking)} for instance, or choose others with features=[…]"
        )


def suggest_defaults(features: Sequence[Feature]) -> str:
    """Return Python code of defaults that fit `features`."""
    examples = ("0" if feature.is_packed else _EXAMPLE_DEFAULTS[feature.dtype] for feature in features)
    pairs = (f"{feature.name!r}: {default}" for feature, default in zip(features, examples, strict=True))
    return f"{{{', '.join(pairs)}}}"


_EXAMPLE_DEFAULTS: dict[DType, str] = {"int64": "0", "float32": "0.0", "bytes": "''"}


def _parse_default(feature: Feature, value: Any) -> Any:
    shape = () if None in feature.shape else fixed_sizes(feature)
    if feature.dtype == "bytes" and not feature.is_packed:
        given = np.array(value, object)
        if not all(isinstance(item, (str, bytes)) for item in given.flat):
            raise UserError(f"the default {value!r} of feature {feature.name!r} is no text")
        texts = [item.encode() if isinstance(item, str) else item for item in given.flat]
        array = np.array(texts, object).reshape(given.shape)
    else:
        array = _parse_numbers(feature, value, np.dtype(feature.element if feature.is_packed else feature.dtype))
    if array.shape not in ((), shape):
        raise UserError(
            f"the default {value!r} of feature {feature.name!r} has shape {array.shape}; expected {shape} or one value"
        )
    return array[()] if shape == () else np.broadcast_to(array, shape)


def _parse_numbers(feature: Feature, value: Any, dtype: np.dtype[Any]) -> np.ndarray:
    try:
        array = np.array(value, dtype)
        fits = dtype.kind in "fc" or bool(np.all(array == np.array(value)))
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        raise UserError(f"the default {value!r} of feature {feature.name!r} is no {dtype}")
    return array


def examples(
    directory: Paths,
    split: str = "train",
    *,
    features: Sequence[str] | None = None,
    defaults: Mapping[str, Any] | None = None,
    decode_images: bool = False,
    decode_audio: bool = False,
    shuffle_buffer_size: int = 0,
    seed: int | None = None,
    num_workers: int = 1,
    worker_index: int = 0,
    equal_parts: bool = False,
    version: str | None = None,
    sha256: str | None = None,
    files: Files | None = None,
) -> Iterator[Example]:
    """Read a split as dictionaries by feature name, and verify the checksum of every record and file.

    * A scalar is np.int64, np.float32 or bytes (UTF-8 for text).
    * A list is an array of int64 or float32, or a list of bytes.
    * Values of more dimensions are an array of the feature's shape: boxes are (n, 4), or (0, 4) if there are none.
    * An array has its own type.
    * An image is the bytes of its file, and so is audio unless its samples were stored.

    Arrays are writable. Missing values are absent, unless `defaults` replaces them. PyTorch's `default_collate` needs
    that: it drops a feature that the first example of a batch lacks, and fails at one that another lacks. Of records
    that `--record_type raw` passed through unparsed, the bytes are called `record`.

    Each process reads its own part, in JAX for instance. PyTorch has `shardmill.torch.Dataset`.

    ```python
    own = dict(num_workers=jax.process_count(), worker_index=jax.process_index())
    for example in shardmill.examples("datasets/wine", shuffle_buffer_size=1000, seed=epoch, **own):
        ...
    ```

    Args:
        directory: folder of a version, or its parent, whose LATEST names a version. gs:// and similar schemes are read
            through TensorFlow's file system, which is then imported.
        split: name of the split, or slices of splits in TFDS's syntax: `train[:10%]`, `train[1000:2000]`, `train+test`.
        version: a version or tag in the parent folder; None for the version in LATEST.
        sha256: SHA-256 of the manifest, which `shardmill verify` prints; another manifest is an error. None for any.
        features: names of the features to read; None for all.
        defaults: values that replace missing ones, by feature name; for a list of any length, the value of a list of
            one.
        decode_images: decode an image to an array of uint8 (height, width, 3), as `shardmill images` makes RGB. EXIF
            orientation is ignored; `--image_format` makes images upright. A mask becomes an array of its values, uint8
            or uint16 (height, width, 1).
        decode_audio: decode a WAV file to an array of float32 in [-1, 1), (frames,) if all files have one channel, else
            (frames, channels). Stored samples are arrays in any case.
        shuffle_buffer_size: draw each example at random from a buffer of this many, and read the shards in random
            order. 0 keeps the order of shards and records.
        seed: seed of the shuffling, for instance the epoch's number; None for another order each time.
        num_workers: number of workers that share the split; each example is read by exactly one of them.
        worker_index: index of this worker, from 0.
        equal_parts: divide examples among workers instead of shards, so that parts differ by one example at most, but
            each worker reads all shards. By default, a warning says so if parts differ by more than a tenth.
        files: the files to read through; None to choose them by `directory`.

    Raises:
        UserError: if the dataset, split, feature or worker does not exist, or a default does not fit its feature.
        CorruptDataError: if the manifest is unreadable, or a shard is missing or has another size; while reading, if a
            shard or record differs from what was written. The message names file and record.
    """
    dataset = open_for_reading(directory, files, version, sha256)
    manifest = dataset.manifest
    part = select_part(select_examples(manifest, split), num_workers, worker_index, equal_parts)
    decoded = (("image", decode_images), ("mask", decode_images), ("audio", decode_audio))
    decoder = RecordDecoder(manifest, features, defaults, {kind for kind, decode in decoded if decode})
    if shuffle_buffer_size < 0:
        raise UserError(f"shuffle_buffer_size is {shuffle_buffer_size}; expected 0 or more")
    if seed is not None and not shuffle_buffer_size:
        raise UserError(f"seed is {seed}, but nothing is shuffled; give shuffle_buffer_size")
    names = ", ".join(feature.name for feature in decoder.features)
    kinds = {feature.kind for feature in decoder.features}
    if decode_audio and "audio" not in kinds:
        raise UserError(f"decode_audio is for audio; those of {manifest.name} that are read are {names}")
    if decode_images and not kinds & {"image", "mask"}:
        raise UserError(f"decode_images is for images; those of {manifest.name} that are read are {names}")
    check_sizes(dataset, part.shards)
    offsets = find_offsets(dataset, part.slices)
    if not shuffle_buffer_size:
        return _read(dataset, part, decoder, offsets)
    generator = random.Random(seed)
    shuffled = Part(tuple(generator.sample(part.slices, len(part.slices))))
    if part.step > 1:  # whose examples are counted in the order of the shards
        shuffled = part
    return _shuffle(_read(dataset, shuffled, decoder, offsets), shuffle_buffer_size, generator)


class RecordDecoder:
    """Decode records to the dictionaries that `examples` yields: of some features, with defaults and opened files."""

    def __init__(
        self,
        manifest: Manifest,
        names: Sequence[str] | None,
        defaults: Mapping[str, Any] | None,
        opened_kinds: Collection[str],
        image_size: tuple[int, int] | None = None,
        fast_jpeg: bool = False,
    ) -> None:
        """Set up a decoder of the features in `names`, None for all; `opened_kinds` are `image`, `mask` and `audio`.

        Raise a UserError if a feature does not exist, or a default does not fit its feature.
        """
        self.features = manifest.features if names is None else find_features(manifest, names)
        fills = check_defaults(self.features, defaults or {}, manifest.features)
        self._fills = {
            item.name: _shape_default(item, fills[item.name]) for item in self.features if item.name in fills
        }
        size = {"size": image_size}
        scaling: dict[str, dict[str, Any]] = {"image": {**size, "fast_jpeg": fast_jpeg}, "mask": size}
        # The reader's options, which name kinds, say whether a kind that could open files does
        self._openers: dict[str, Callable[..., Any]] = {}
        for feature in self.features:
            opener = kind_of(feature).file_decoder(feature, manifest.configuration)
            if feature.kind in opened_kinds and opener is not None:
                self._openers[feature.name] = partial(opener, **scaling.get(feature.kind, {}))
        self._arrays = [
            feature.name
            for feature in self.features
            if feature.shape or feature.is_packed or feature.name in self._openers
        ]
        self._is_raw = manifest.has_raw_records
        self._decode = BlockDecoder(manifest.features, [feature.name for feature in self.features])

    def one(self, record: bytes) -> Example:
        """Return the example in a record; raise a ValueError if it is not as expected."""
        return {RAW_RECORD: record} if self._is_raw else self.finish(self._decode.one(record))

    @property
    def columns(self) -> ColumnReader | None:
        """Return what reads the features by columns; None if one may have any number of values."""
        return None if self._is_raw else self._decode.columns

    def from_columns(self, found: ReadColumns) -> Iterator[Example]:
        """Yield the examples that `columns` read; raise the ValueError of the first that is not as expected."""
        return map(self.finish, self._decode.from_columns(found))

    def block(self, block: RecordBlock) -> Iterator[Example]:
        """Yield the example in each record; raise the ValueError of the first that is not as expected."""
        if self._is_raw:
            return ({RAW_RECORD: record} for record in block)
        return map(self.finish, self._decode(block))

    def finish(self, example: Example) -> Example:
        """Decode the files in an example, and replace missing values."""
        for name, opener in self._openers.items():
            if name in example:
                example[name] = opener(example[name])
        for name, value in self._fills.items():
            if name not in example:
                example[name] = copy(value)
        for name in self._arrays:  # PyTorch warns of arrays that are read-only
            value = example.get(name)
            if isinstance(value, np.ndarray) and not value.flags.writeable:
                example[name] = value.copy()
        return example


def _read(dataset: Dataset, part: Part, decoder: RecordDecoder, offsets: Mapping[ShardSlice, int]) -> Iterator[Example]:
    number = 0
    for piece in part.slices:
        index = piece.start
        for block in read_slice(dataset, piece, offsets.get(piece, 0)):
            first = (part.first - number) % part.step
            row = first
            try:
                for example in decoder.block(block.every(first, part.step)):
                    yield example
                    row += part.step
            except ValueError as error:
                raise CorruptDataError(f"{piece.shard.file}: record {index + row}: {error}") from error
            number += len(block)
            index += len(block)


def _shape_default(feature: Feature, default: Any) -> Any:
    """Return a default of `check_defaults` in the form of the feature's values.

    A list of any length, or an array whose first size varies, holds one value.
    """
    if not feature.shape:
        return default
    is_text = feature.dtype == "bytes" and not feature.is_packed
    values = np.array(default, object) if is_text else np.asarray(default)
    if None in feature.shape:
        values = np.full((1, *fixed_sizes(feature)), default, values.dtype)
    return list(values) if is_text and len(feature.shape) == 1 else values


def _shuffle(stream: Iterator[Example], size: int, generator: random.Random) -> Iterator[Example]:
    held: list[Example] = []
    for example in stream:
        if len(held) < size:
            held.append(example)
            continue
        place = generator.randrange(size)
        yield held[place]
        held[place] = example
    generator.shuffle(held)
    yield from held
