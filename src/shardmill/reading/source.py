"""Read any example of a data set by its number: for Grain, PyTorch's samplers and scripts."""

import io
import operator
import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, islice, repeat
from typing import Any, NamedTuple, SupportsIndex, overload

import numpy as np

from shardmill.data.example_columns import ReadColumns
from shardmill.data.features import DType, Features
from shardmill.data.kinds import kind_of
from shardmill.data.shard_index import Positions, SplitIndex
from shardmill.data.spans import RecordBlock, read_blocks
from shardmill.data.tfrecord import OVERHEAD, record_footer, record_header
from shardmill.errors import CorruptDataError, UserError
from shardmill.filesystem import Files, LocalFiles, Paths
from shardmill.reading.dataset import Dataset, check_contents, open_for_reading
from shardmill.reading.plain_examples import Example, RecordDecoder
from shardmill.reading.record_positions import open_indexes
from shardmill.reading.shard_cache import CachedRanges
from shardmill.reading.shard_ranges import LocalRanges, Range, ShardRanges, fetch_ahead, most_open_files, shard_ranges
from shardmill.reading.slices import Selection, select_examples

_HEAD = 12  # bytes of framing before a record, of OVERHEAD
_COLUMNS_BYTES = 256 << 10  # of records that are decoded together, by columns
_MOST_RECORDS = 8192  # decoded together
_FEW_RECORDS = 32  # for which decoding by columns saves nothing; the mean record has 8 KiB then
_READ_BYTES = 1 << 20  # of records of local files that an iterator reads together
_COMPUTED = (  # attributes that are not pickled
    *("_decoder", "_shards", "_numbers", "_firsts", "_shifts", "_step", "_fetched"),
    *("_local", "_columns", "_converters", "_lookup", "_run"),
)


def source(
    directory: Paths,
    split: str = "train",
    *,
    features: Sequence[str] | None = None,
    defaults: Mapping[str, Any] | None = None,
    decode: bool = False,
    image_size: tuple[int, int] | None = None,
    fast_jpeg: bool = False,
    cache_dir: str | os.PathLike[str] | None = None,
    cache_limit: int | None = None,
    verify: bool = False,
    version: str | None = None,
    sha256: str | None = None,
    files: Files | None = None,
) -> "Source":
    """Open a split for random access: `source[12_345]` reads one example and verifies its checksum.

    The result is a Grain `RandomAccessDataSource` and a PyTorch map-style `Dataset` as it is. It can be pickled, and
    used by threads and by processes that are forked or spawned.

    ```python
    source = shardmill.source("datasets/flowers", "train", decode=True, image_size=(224, 224))
    len(source), source[12_345], source[-1], source[10:20]
    loader = torch.utils.data.DataLoader(source, batch_size=32, shuffle=True, num_workers=4)
    ```

    Values are those of `shardmill.examples`. A data set without an index (`shardmill index`) is read once from
    beginning to end when it is opened. ArrayRecord shards need no index. They have to
    be on a local disk, and processes that are forked after an example was read cannot read them.

    Args:
        directory: folder of a version, or its parent, whose LATEST names a version; local, or in a store.
        split: name of the split, or slices of splits in TFDS's syntax: `train[:10%]`, `train[1000:2000]`, `train+test`.
        features: names of the features to read; None for all.
        defaults: values that replace missing ones, by feature name; for a list of any length, the value of a list of
            one.
        decode: decode images, masks and audio as `shardmill.examples` does.
        image_size: (height, width) to which images are scaled, bilinearly and with antialiasing, and masks with them,
            by the nearest pixel. It implies `decode`.
        fast_jpeg: decode a JPEG at 1/2, 1/4 or 1/8 of its height and width, if that is at least `image_size`, and scale
            the result. Pixels then differ by about 1 to 3 of 255 on average.
        cache_dir: local folder that keeps parts of shards that were read, for data sets in a store. Several processes
            and versions may share it. None for no such folder.
        cache_limit: bytes that `cache_dir` may hold, at least 64 MiB; None for any number.
        verify: compare the checksum of each shard with the manifest's before this function returns. It finds another
            data set's shard whose records have the same sizes. Records are always verified.
        version: a version or tag in the parent folder; None for the version in LATEST.
        sha256: SHA-256 of the manifest, which `shardmill verify` prints; another manifest is an error. None for any.
        files: the files to read through; None to choose them by `directory`.

    Raises:
        UserError: if the dataset, split or feature does not exist, a default does not fit its feature, the shards are
            compressed, or `cache_dir` cannot be written. Also if ArrayRecord shards are in a store.
        CorruptDataError: if the manifest or the index is damaged, or of another build; while reading, if a shard or
            record differs from what was written. The message names file and record.
    """
    dataset = open_for_reading(directory, files, version, sha256)
    if cache_limit is not None and cache_dir is None:
        raise UserError(f"cache_limit is {cache_limit}, but nothing is kept; give cache_dir")
    if dataset.manifest.codec.has_index:
        _check_array_record(dataset, cache_dir is not None)
    ranges = shard_ranges(dataset)
    if cache_dir is not None:
        ranges = CachedRanges(dataset, ranges, os.fspath(cache_dir), cache_limit)
    selection = select_examples(dataset.manifest, split)
    if verify:
        check_contents(dataset, selection.shards)
    return Source(dataset, selection, ranges, features, defaults, decode, image_size, fast_jpeg)


def _check_array_record(dataset: Dataset, has_cache: bool) -> None:
    """Check that ArrayRecord shards are on a local disk, where the library can read them; raise UserError otherwise."""
    if not isinstance(dataset.files, LocalFiles):
        raise UserError(
            f"{dataset.directory} has ArrayRecord shards, of which any record is read only on a local disk; copy the"
            " data set to one, or read it in order with shardmill.examples"
        )
    if has_cache:
        raise UserError("cache_dir is for TFRecord shards, and this data set has ArrayRecord shards; leave it out")


class Source:
    """A split that `shardmill.source` opened: a sequence of examples with random access."""

    _run: "_Run"

    def __init__(
        self,
        dataset: Dataset,
        selection: Selection,
        ranges: ShardRanges,
        features: Sequence[str] | None,
        defaults: Mapping[str, Any] | None,
        decode: bool,
        image_size: tuple[int, int] | None,
        fast_jpeg: bool,
    ) -> None:
        """Set up the source; `shardmill.source` describes the arguments."""
        manifest = dataset.manifest
        if not (manifest.codec.keeps_offsets or manifest.codec.has_index):
            raise UserError(
                f"{manifest.name} {manifest.version} has {manifest.compression} shards, and random access needs"
                " uncompressed ones; write some with `shardmill reshard --compression none`, or read in order with"
                " shardmill.examples"
            )
        if image_size is not None and not (len(image_size) == 2 and min(image_size) > 0):
            raise UserError(f"image_size is {image_size}; expected (height, width), both at least 1")
        if fast_jpeg and image_size is None:
            raise UserError("fast_jpeg=True decodes images at about the size that they are scaled to; give image_size")
        self._dataset, self._selection = dataset, selection
        self._names, self._defaults = features, dict(defaults or {})
        self._decode, self._image_size = decode or image_size is not None, image_size
        self._fast_jpeg = fast_jpeg
        self._decoder = self._make_decoder()
        kinds = {feature.kind for feature in self._decoder.features}
        what, decodable = ("image_size", {"image", "mask"}) if image_size else ("decode", {"image", "mask", "audio"})
        if self._decode and not kinds & decodable:
            names = ", ".join(feature.name for feature in self._decoder.features)
            raise UserError(
                f"{what} is for features of kind {' or '.join(sorted(decodable))}; those of {manifest.name} that are"
                f" read are {names}"
            )
        self._bounds, self._indexes = open_indexes(dataset, selection.shards)
        self._ranges = ranges
        self._set_up()

    def _make_decoder(self) -> RecordDecoder:
        kinds = ("image", "mask", "audio") if self._decode else ()
        manifest = self._dataset.manifest
        return RecordDecoder(manifest, self._names, self._defaults, kinds, self._image_size, self._fast_jpeg)

    def _set_up(self) -> None:
        slices = self._selection.slices
        numbers = {shard.file: number for number, shard in enumerate(self._selection.shards)}
        self._shards = [piece.shard for piece in slices]
        self._numbers = [numbers[piece.shard.file] for piece in slices]
        # The number of the first example of each slice, and its place in the shard less that number
        self._firsts = list(accumulate((piece.examples for piece in slices), initial=0))
        self._shifts = [piece.start - first for piece, first in zip(slices, self._firsts, strict=False)]
        mean_bytes = sum(one.size_bytes for one in self._shards) / max(sum(one.examples for one in self._shards), 1)
        step = min(int(_COLUMNS_BYTES / max(mean_bytes, 1)), _MOST_RECORDS)
        self._step = step if step >= _FEW_RECORDS else 1  # records decoded together
        self._fetched = self._step  # read together: a record is still in the processor's cache when it is decoded
        self._local = self._ranges if isinstance(self._ranges, LocalRanges) else None
        self._columns = None if self._local is None else self._decoder.columns
        if self._columns is not None:
            self._fetched = min(max(int(_READ_BYTES / max(mean_bytes, 1)), 1), _MOST_RECORDS)
            self._converters = [
                (item.name, kind_of(item).value_decoder(item) or _CONVERTERS[item.dtype])
                for item in self._columns.features
            ]
        self._lookup = self._make_lookup()

    def _make_lookup(self) -> "_Lookup | None":
        if not self._indexes or any(index is not self._indexes[0][0] for index, _ in self._indexes):
            return None
        shards = [self._indexes[number][1] for number in self._numbers]
        return _Lookup(self._indexes[0][0], np.array(self._firsts), np.array(self._shifts), np.array(shards))

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name not in _COMPUTED}
        if self._indexes:
            state["_bounds"] = [None] * len(self._bounds)  # they are mapped again
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._decoder = self._make_decoder()
        self._set_up()

    @property
    def features(self) -> Features:
        """Return the features of each example."""
        return self._decoder.features

    @property
    def defaults(self) -> dict[str, Any]:
        """Return the values that replace missing ones, by feature name."""
        return dict(self._defaults)

    @property
    def decode(self) -> bool:
        """Return True if images, masks and audio are decoded."""
        return self._decode

    @property
    def image_size(self) -> tuple[int, int] | None:
        """Return height and width to which images and masks are scaled; None for their own."""
        return self._image_size

    @property
    def fingerprint(self) -> str:
        """Return a text that names the version, its manifest, the split and the slice; saved states can compare it."""
        manifest = self._dataset.manifest
        return f"{manifest.name} {manifest.version} {self._selection.text} manifest {self._dataset.manifest_crc32c}"

    def __repr__(self) -> str:  # Grain compares it with that in a checkpoint
        return f"<shardmill.Source {self.fingerprint}, {len(self):,} examples>"

    def __len__(self) -> int:
        return self._firsts[-1]

    def __iter__(self) -> Iterator[Example]:
        if self.reads_ahead:
            starts = range(0, len(self), self._step)
            batches = self.read_batches(range(len(self))[start : start + self._step] for start in starts)
            yield from chain.from_iterable(batches)
            return
        for start in range(0, len(self), self._fetched):
            yield from self._read(range(start, min(start + self._fetched, len(self))))

    @overload
    def __getitem__(self, index: SupportsIndex) -> Example: ...  # type: ignore[overload-overlap]
    @overload
    def __getitem__(self, index: slice | list[int] | np.ndarray) -> list[Example]: ...
    def __getitem__(self, index: Any) -> Example | list[Example]:
        """Return the example with a number, or those of a slice, of several numbers, or of a mask, as NumPy does.

        A negative number counts from the end. Raise an IndexError if there is no such example.
        """
        if isinstance(index, slice):
            return self.__getitems__(range(*index.indices(len(self))))
        try:
            number = operator.index(index)
        except TypeError:
            return self.__getitems__(self._numbers_of(index))
        return self._read_one(self._locate(number))

    def _numbers_of(self, index: Any) -> list[int]:
        """Return the numbers of a list or array; one of boolean values selects among all examples."""
        found = np.asarray(index)
        if found.dtype == bool and found.shape == (len(self),):
            return np.flatnonzero(found).tolist()
        if isinstance(index, tuple) or found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
            raise TypeError(
                f"{index!r:.99} is no index; expected an integer, a slice, a list of integers, or {len(self)} booleans"
            )
        return found.tolist()

    def __getitems__(self, indices: Sequence[SupportsIndex]) -> list[Example]:
        """Return several examples, in the order of their numbers; PyTorch calls it for each batch.

        Of a store, the next examples are fetched ahead if the numbers follow those of the previous call.
        """
        if self.reads_ahead:
            places, framed = self._read_stored(indices)
            return list(self._decode_all(framed, places))
        return list(self._read(indices))

    @property
    def reads_ahead(self) -> bool:
        """Return True if `read_batches` fetches examples ahead: those of a store."""
        return self._ranges.is_concurrent

    def read_batches(self, batches: Iterable[Sequence[SupportsIndex]]) -> Iterator[list[Example]]:
        """Yield what `__getitems__` returns for each batch; of a store, the next batches are fetched meanwhile.

        About 16 MiB are fetched ahead, and at least one batch.
        """
        if self.reads_ahead:
            for places, framed in fetch_ahead(self._ranges, map(self._locate_all, batches)):
                yield list(self._decode_all(framed, places))
        else:
            yield from map(self.__getitems__, batches)

    def _read_stored(self, indices: Sequence[SupportsIndex]) -> tuple[Sequence[Range], Sequence[bytes]]:
        """Read records of a store; those that follow the previous call's come from a stream of all that follow."""
        numbers = range(first := operator.index(indices[0]), first + len(indices)) if len(indices) else range(0)
        if not numbers or first < 0 or numbers.stop > len(self) or list(indices) != list(numbers):
            places = self._locate_all(indices)
            return places, self._ranges.read_all(places)
        run = self.__dict__.pop("_run", None)  # in one step: no other thread gets it
        stream = None
        if run is not None and (run.process, run.end) == (os.getpid(), first):
            stream = run.stream or self._stream(first, len(numbers))
            pairs = list(islice(stream, len(numbers)))
            places, framed = [place for place, _ in pairs], [record for _, record in pairs]
        else:
            places = self._locate_all(numbers)
            framed = self._ranges.read_all(places)
        self._run = _Run(os.getpid(), numbers.stop, stream)
        return places, framed

    def _stream(self, first: int, count: int) -> Iterator[tuple[Range, bytes]]:
        batches = (range(len(self))[start : start + count] for start in range(first, len(self), count))
        fetched = fetch_ahead(self._ranges, map(self._locate_all, batches))
        return chain.from_iterable(zip(places, framed, strict=True) for places, framed in fetched)

    def _decode_all(self, framed: Sequence[bytes], places: Sequence[Range]) -> Iterator[Example]:
        for row in range(0, len(places), self._step):
            yield from self._decode_records(framed[row : row + self._step], places[row : row + self._step])

    def read_columns(self, indices: Sequence[SupportsIndex] | Positions) -> dict[str, list[bytes] | np.ndarray] | None:
        """Return the undecoded values of several examples by feature name, several times as fast as the examples.

        Bytes are in a list, numbers in an array (examples, *shape). None if the values are not read from local files,
        if there may be any number of them, or if one is missing, encoded in an unusual way or damaged.
        """
        found = self._read_columns(indices)
        return None if found is None or found[1] else found[0]

    def _read_columns(self, indices: Sequence[SupportsIndex] | Positions) -> ReadColumns | None:
        """Return values by columns; None if not all records are sound, in local files and found by the index."""
        if self._columns is None or self._local is None or self._lookup is None:
            return None
        numbers = np.asarray(indices)
        if not numbers.size or numbers.dtype.kind not in "iu" or numbers.ndim != 1:
            return None
        if numbers.min() < -len(self) or numbers.max() >= len(self):
            return None
        numbers = numbers.astype(np.int64, copy=False)
        pieces, starts, stops = self._lookup.locate(np.where(numbers < 0, numbers + len(self), numbers))
        descriptors = np.full(len(self._shards), -1, np.int64)
        files = []  # open until all is read
        needed = np.flatnonzero(np.bincount(pieces)).tolist()
        if len(needed) > 2 * most_open_files():
            return None
        for piece in needed:
            if (file := self._local.open_file(self._shards[piece])) is not None:
                descriptors[piece] = file.descriptor
                files.append(file)
        return self._columns.read(descriptors[pieces], starts, stops)

    def _read(self, indices: Sequence[SupportsIndex]) -> Iterator[Example]:
        found = self._read_columns(indices)
        if found is None:
            yield from self._read_places([self._locate(index) for index in indices])
            return
        row = 0
        try:
            for example in self._decoder.from_columns(found):
                yield example
                row += 1
        except ValueError as error:
            place = self._locate(indices[row])
            raise CorruptDataError(f"{place.shard.file}: record {place.record}: {error}") from error

    def _read_places(self, places: Sequence[Range]) -> Iterator[Example]:
        if self._step == 1 and not self._ranges.is_concurrent:
            yield from map(self._read_one, places)
            return
        for first in range(0, len(places), self._fetched):
            fetched = places[first : first + self._fetched]
            framed = self._ranges.read_all(fetched)
            for row in range(0, len(fetched), self._step):
                yield from self._decode_records(framed[row : row + self._step], fetched[row : row + self._step])

    def _decode_records(self, framed: Sequence[bytes], places: Sequence[Range]) -> Iterator[Example]:
        block = _join_records(framed) if self._step > 1 else None
        row = 0
        try:
            if block is None:
                for row, place in enumerate(places):
                    yield self._decoder.one(_unframe(framed[row], place))
            else:
                for example in self._decoder.block(block):
                    yield example
                    row += 1
        except CorruptDataError:
            raise
        except ValueError as error:
            raise CorruptDataError(f"{places[row].shard.file}: record {places[row].record}: {error}") from error

    def _locate_all(self, indices: Sequence[SupportsIndex]) -> list[Range]:
        if not isinstance(indices, range) or indices.step != 1 or not 0 <= indices.start < indices.stop <= len(self):
            return [self._locate(index) for index in indices]
        found: list[Range] = []
        first = indices.start
        while first < indices.stop:  # several times as fast as one by one
            piece = bisect_right(self._firsts, first) - 1
            record, count = first + self._shifts[piece], min(indices.stop, self._firsts[piece + 1]) - first
            known = self._bounds[self._numbers[piece]]
            known = self._look_up(self._numbers[piece]) if known is None else known
            bounds = np.asarray(known[record : record + count + 1]).tolist()
            found += map(Range, repeat(self._shards[piece], count), bounds, bounds[1:], range(record, record + count))
            first += count
        return found

    def _locate(self, index: SupportsIndex) -> Range:
        number, count = operator.index(index), self._firsts[-1]
        if not -count <= number < count:
            raise IndexError(f"example {number:,} of {self._selection.text}, which has {count:,}")
        number += count * (number < 0)
        piece = bisect_right(self._firsts, number) - 1
        record = number + self._shifts[piece]
        bounds = self._bounds[self._numbers[piece]]
        if bounds is None:
            bounds = self._look_up(self._numbers[piece])
        return Range(self._shards[piece], int(bounds[record]), int(bounds[record + 1]), record)

    def _read_one(self, place: Range) -> Example:
        values = None
        if self._columns is not None and self._local is not None and self._columns.has_scalars_only:
            file = self._local.open_file(place.shard)
            values = None if file is None else self._columns.one(file.descriptor, place.start, place.stop)
        if values is None:
            values = _unframe(self._ranges.read(place.shard, place.start, place.stop), place)
        try:
            if isinstance(values, bytes):
                return self._decoder.one(values)
            named = zip(self._converters, values, strict=True)
            return self._decoder.finish({name: convert(value) for (name, convert), value in named})
        except ValueError as error:
            raise CorruptDataError(f"{place.shard.file}: record {place.record}: {error}") from error

    def _look_up(self, number: int) -> Positions:
        index, place = self._indexes[number]
        bounds = self._bounds[number] = index.shard(place).bounds
        return bounds


_CONVERTERS: Mapping[DType, Callable[[Any], Any]] = {"bytes": bytes, "float32": np.float32, "int64": np.int64}


class _Lookup(NamedTuple):
    split: SplitIndex
    firsts: Positions  # the number of the first example of each slice, and the number of examples
    shifts: Positions  # for each slice, the record of its first example in the shard less that number
    shards: Positions  # for each slice, the number of its shard in the index

    def locate(self, numbers: Positions) -> tuple[Positions, Positions, Positions]:
        """Return the slice of each example, and the first byte and the end of its record."""
        pieces = np.searchsorted(self.firsts, numbers, "right") - 1
        return pieces, *self.split.locate(self.shards[pieces], numbers + self.shifts[pieces])


class _Run(NamedTuple):
    process: int
    end: int  # the number behind the last one
    stream: Iterator[tuple[Range, bytes]] | None  # of the records from there on; None after the first of the calls


def _unframe(framed: bytes, place: Range) -> bytes:
    """Return the payload of a record; raise a CorruptDataError if its length or its checksums are wrong."""
    end = len(framed) - OVERHEAD + _HEAD
    payload = framed[_HEAD:end]
    if framed[:_HEAD] != record_header(len(payload)):
        raise CorruptDataError(
            f"{place.shard.file}: record {place.record} has another length than its index says, or one that fails its"
            " checksum"
        )
    if framed[end:] != record_footer((payload,)):
        raise CorruptDataError(f"{place.shard.file}: record {place.record} fails its checksum")
    return payload


def _join_records(framed: Sequence[bytes]) -> RecordBlock | None:
    data = b"".join(framed)
    try:
        (block,) = read_blocks(io.BytesIO(data), "", len(data) + 1)
    except ValueError:
        return None
    ends = np.cumsum([len(one) for one in framed])
    return block if np.array_equal(block.ends + OVERHEAD - _HEAD, ends) else None
