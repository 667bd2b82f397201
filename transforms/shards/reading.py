"""Read a data set in a Beam pipeline: each record once, in parts of shards."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, BinaryIO, Literal, NamedTuple, cast, get_args

import apache_beam as beam
import numpy as np
import pyarrow as pa

from shardmill.data import spans
from shardmill.data.shard_index import read_shard_index
from shardmill.data.spans import RecordBlock
from shardmill.errors import CorruptDataError, UserError
from shardmill.reading.dataset import RAW_RECORD, Dataset, open_dataset, open_shard, read_slice
from shardmill.reading.plain_examples import RecordDecoder
from shardmill.reading.record_positions import IndexPlace, find_index
from shardmill.reading.slices import ShardSlice, select_examples
from shardmill.transforms.columns.arrow import concatenate, slices
from shardmill.transforms.columns.example_batches import BatchDecoder, RowError
from shardmill.transforms.stores import storage
from shardmill.transforms.workers.elements import Spread

As = Literal["dicts", "examples", "batches"]
_PART_BYTES = 32 << 20  # of a shard with an index, about: some seconds of work
_BATCH_BYTES = 1 << 20  # of serialized examples of a record batch; runners like no elements of many megabytes


class ReadDataset(beam.PTransform):
    """Read a split of a data set of shardmill: a PCollection of each of its examples once, in any order.

    ```python
    with beam.Pipeline() as pipeline:
        rows = pipeline | shardmill.beam.ReadDataset("datasets/flowers", "train[:10%]")
    ```

    Every record's checksums are verified; of shards that are read as a whole, those of the files, too. Workers share a
    split by shards. If the data set has an index (`shardmill index`), they share parts of shards, of 32 MiB.

    Elements, by `as_`:

    * `dicts`: dictionaries by feature name, with the values of `shardmill.examples`.
    * `examples`: serialized `tf.train.Example`, bytes as they are in the shards, as `beam.io.ReadFromTFRecord` yields.
    * `batches`: `pyarrow.RecordBatch` of up to 1 MiB of examples, several times as fast. Numbers are int64 and float32,
      text and files are large_binary, missing values are null; class labels are ids, whose names are in the schema's
      metadata as Hugging Face's datasets has them.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        split: str = "train",
        *,
        features: Sequence[str] | None = None,
        version: str | None = None,
        sha256: str | None = None,
        as_: As = "dicts",
    ) -> None:
        """Set up the transform; the data set is opened when it is applied to a pipeline.

        Args:
            folder: folder of a version, or its parent, whose LATEST names a version; local, or in a store.
            split: name of the split, or slices of splits in TFDS's syntax: `train[:10%]`, `train[1000:2000]`,
                `train+test`.
            features: names of the features to read; None for all. Not for `as_="examples"`.
            version: a version or tag in the parent folder; None for the version in LATEST.
            sha256: SHA-256 of the manifest; another manifest is an error. None for any.
            as_: what an element is: `dicts`, `examples` or `batches`.

        Raises:
            UserError: if an argument is wrong; when it is applied, if the data set, version, split or feature does not
                exist.
            CorruptDataError: when it is applied, if the manifest or the index is damaged; in workers, if a shard or
                record differs from what was written. The message names file and record.
        """
        super().__init__()
        if as_ not in get_args(As):
            raise UserError(f"as_={as_!r}: expected one of {', '.join(map(repr, get_args(As)))}")
        if isinstance(features, str):
            raise UserError(f"features={features!r} is one string; expected a list of names: [{features!r}]")
        if features is not None and as_ == "examples":
            raise UserError('features=[…] selects values of as_="dicts" and as_="batches"; an example is read as it is')
        if features is not None and not features:
            raise UserError("features=[] selects nothing; expected names of features, or None for all")
        self._place = os.fspath(folder), storage.StorageFiles(), version, sha256
        self._split, self._features = split, features
        self._as: As = as_

    def expand(self, pbegin: beam.pvalue.PBegin) -> beam.PCollection[Any]:
        dataset = open_dataset(*self._place)
        selection = select_examples(dataset.manifest, self._split)
        read = _ReadFn(replace(dataset, manifest=replace(dataset.manifest, splits=())), self._features, self._as)
        read.setup()  # which finds mistakes
        places = (dataset.manifest.codec.keeps_offsets and find_index(dataset, selection.shards)) or {}
        pieces = [(piece, places.get(piece.shard)) for piece in selection.slices]
        parts = pbegin | "Shards" >> beam.Create(pieces, reshuffle=False) | "Parts" >> beam.FlatMap(divide_slice)
        kind: Any = {"dicts": dict[str, Any], "examples": bytes, "batches": pa.RecordBatch}[self._as]
        spread = Spread(lambda part: f"{part.piece.shard.file} {part.piece.start}")
        return parts | "Spread" >> spread | "Read" >> beam.ParDo(read).with_output_types(kind)


class Part(NamedTuple):
    """Successive records of a shard, and their bytes if an index tells them."""

    piece: ShardSlice
    begin: int = 0
    end: int | None = None  # None: the shard is read from its beginning, as far as the slice goes


def divide_slice(element: tuple[ShardSlice, IndexPlace | None], part_bytes: int = _PART_BYTES) -> list[Part]:
    """Return the parts of a slice of a shard: of about `part_bytes` with an index, else one.

    Raises:
        CorruptDataError: if the index is missing or damaged.
    """
    piece, place = element
    if place is None or (piece.is_whole and piece.shard.size_bytes <= part_bytes):
        return [Part(piece)]
    bounds = read_shard_index(*place, storage.StorageFiles()).bounds
    begin, end = bounds[[piece.start, piece.stop]].tolist()
    number = max(round((end - begin) / part_bytes), 1)
    wanted = begin + np.arange(1, number) * (end - begin) // number
    cuts = np.unique([piece.start, *np.clip(np.searchsorted(bounds, wanted), piece.start, piece.stop), piece.stop])
    starts, stops = cuts[:-1].tolist(), cuts[1:].tolist()
    return [
        Part(ShardSlice(piece.shard, start, stop), int(bounds[start]), int(bounds[stop]))
        for start, stop in zip(starts, stops, strict=True)
    ]


def read_part(dataset: Dataset, part: Part) -> Iterator[RecordBlock]:
    """Yield the records of a part in blocks, and verify their checksums.

    Raises:
        CorruptDataError: if the shard is missing or differs from what was written; the message names it and the record.
    """
    piece = part.piece
    if part.end is None:
        yield from read_slice(dataset, piece)
        return
    number = piece.start
    with open_shard(dataset, piece.shard, lambda path: storage.open_read(path, part.end)) as file:
        file.seek(part.begin)
        limited = cast(BinaryIO, _Limited(file, part.end - part.begin))
        for block in spans.read_blocks(limited, piece.shard.file, index=number, offset=part.begin):
            number += len(block)
            yield block
    if number != piece.stop:
        raise CorruptDataError(
            f"{piece.shard.file} is cut short, or not the shard of its index: it has {number - piece.start} records"
            f" from record {piece.start} on; expected {piece.examples}"
        )


class _Limited:
    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._left = file, size

    def read(self, size: int) -> bytes:
        data = self._file.read(min(size, self._left))
        self._left -= len(data)
        return data


class _ReadFn(beam.DoFn):
    def __init__(self, dataset: Dataset, features: Sequence[str] | None, as_: As) -> None:
        self._dataset, self._features, self._as = dataset, features, as_

    def setup(self) -> None:
        manifest = self._dataset.manifest
        self._dicts = RecordDecoder(manifest, self._features, None, ())
        decode = BatchDecoder(manifest.features, self._features)
        self._batches: Callable[[RecordBlock], pa.RecordBatch] = decode
        if manifest.has_raw_records:
            self._batches = lambda block: pa.record_batch({RAW_RECORD: slices(block.data, block.starts, block.ends)})

    def process(self, part: Part) -> Iterator[Any]:
        """Yield the elements of a part."""
        blocks = read_part(self._dataset, part)
        if self._as == "examples":
            for block in blocks:
                yield from block
        elif self._as == "dicts":
            yield from self._read_dicts(part.piece, blocks)
        else:
            yield from self._read_batches(part.piece, blocks)

    def _read_dicts(self, piece: ShardSlice, blocks: Iterator[RecordBlock]) -> Iterator[dict[str, Any]]:
        number = piece.start
        try:
            for block in blocks:
                for example in self._dicts.block(block):
                    yield example
                    number += 1
        except CorruptDataError:
            raise
        except ValueError as error:
            raise CorruptDataError(f"{piece.shard.file}: record {number}: {error}") from error

    def _read_batches(self, piece: ShardSlice, blocks: Iterator[RecordBlock]) -> Iterator[pa.RecordBatch]:
        number, size, held = piece.start, 0, []
        for block in blocks:
            try:
                held.append(self._batches(block))
            except ValueError as error:
                row = number + (error.row if isinstance(error, RowError) else 0)
                raise CorruptDataError(f"{piece.shard.file}: record {row}: {error}") from error
            number += len(block)
            size += int((block.ends - block.starts).sum())
            if size >= _BATCH_BYTES:
                yield concatenate(held)
                size, held = 0, []
        if held:
            yield concatenate(held)
