"""The WebDataset input format: tar archives of samples."""

import itertools
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from shardmill.errors import UserError
from shardmill.metadata.manifest import Reject
from shardmill.text import plural, shorten
from shardmill.transforms.columns.arrow import slices, to_batch
from shardmill.transforms.columns.types import ColumnNames, ColumnType, ColumnTypes, DeclaredColumn, Inferred, ValuesOf
from shardmill.transforms.findings import IgnoredNames
from shardmill.transforms.formats import format as formats
from shardmill.transforms.formats import tar_samples
from shardmill.transforms.formats.format import OBJECTS, BlockRef, UnreadableError
from shardmill.transforms.formats.json_lines import JsonObjects, ObjectFields, ObjectsInference, is_objects_value
from shardmill.transforms.stores.storage import is_local
from shardmill.transforms.stores.streams import TruncatedError, is_compressed, open_decompressed

EMPTY_FILE = "tar file without a sample"
REPEATED_KEY = (
    "the key is that of an earlier sample of its file, with others between; members of one key are one sample if"
    " they are consecutive, as the webdataset library reads them; `tar --sort=name -cf` packs a folder so"
)
FOLDERS = (
    "the folder in a key is no label; if folders are classes, unpack the tar files, and give the folder to `shardmill"
    " images`"
)
_MOST_IMAGES = 50  # of a sample: with more, names are likely to be cut too early
_MAX_CLASS_DIGITS = 18  # of an id: more do not fit 64 bits
JSON_PREFIX = "json."  # before the name of what JSON has, where another member of the sample has a column of that name


@dataclass(frozen=True)
class TarFormat(formats.RecordFormat):
    """A row for each sample of a tar file; see `TarReader`.

    * Images are columns of bytes, `.cls` is an int64, `.txt` a string.
    * The members of a `.json` object are columns, by the rules of JsonObjects.
    * A JSON member named like another column of its sample, with another value, is `json.NAME`.
    * `objects` with boxes, in Hugging Face's form, is its JSON.

    Lines are the samples' numbers in their file, from 1. Concatenated tar files are read as one.
    """

    block_size: int  # approximate bytes of a BlockRef; a compressed file is one
    fill: tuple[tuple[str, str], ...] = ()  # see JsonLinesFormat
    drop: tuple[str, ...] = ()  # see JsonLinesFormat
    key_until: str = ""  # `first_dot` or `last_dot` of a name; "" for the first dot unless that looks wrong
    locates_images: bool = False  # rows have IMAGE_OFFSET and IMAGE_COLUMN

    infers_with_index = True
    lock_share = 0.4

    def index(self, file: formats.FileRef) -> Iterator[BlockRef | Reject | formats.SkippedItems | formats.RecordNotice]:
        """Yield blocks of whole samples; damage is left to `read`, so the last block ends where the file does.

        8 bytes are kept for each sample, to count repeated keys.

        Raises:
            UserError: if keys seem to be cut too early, or if no sample has more than a label.
        """
        for item in self._index(file, None):
            assert not isinstance(item, Inferred)
            yield item

    def index_and_infer(
        self, file: formats.FileRef, columns: ColumnNames, values_of: Sequence[ValuesOf]
    ) -> Iterator[BlockRef | Reject | formats.SkippedItems | formats.RecordNotice | Inferred]:
        yield from self._index(file, _Inference(self, file.name, columns, values_of))

    def _index(
        self, file: formats.FileRef, inference: "_Inference | None"
    ) -> Iterator[BlockRef | Reject | formats.SkippedItems | formats.RecordNotice | Inferred]:
        packed = is_compressed(file.name)
        start = first = 0
        last, whole = 0, True
        keys, contents = array("Q"), set[str]()  # the hashes of all keys, and all kinds of members
        folders = set[str]()  # of keys, the first two
        checked: set[tuple[str, ...]] = set()  # columns of samples, which decide whether keys look wrong
        with open_decompressed(file.path, file.name, file.size_bytes) as stream:
            reader = self._reader(
                stream, 0, None, 1, tar_samples.ALL_MEMBERS if inference is None else tar_samples.IMAGE_MEMBERS
            )
            try:
                for piece in reader.pieces(is_end=True):
                    if inference is not None:
                        inference.add_piece(piece)
                    for sample in piece.samples:
                        keys.append(xxhash.xxh3_64_intdigest(sample.key.encode()))
                        contents.update(holds for holds, _, _ in sample.parts.values())
                        if len(folders) < 2:
                            folders.add(sample.key.rpartition("/")[0])
                        if (kind := tuple(sample.parts)) not in checked:
                            if not self.key_until:
                                _check_key(sample, file.name)
                            checked.add(kind)
                        if first and not packed and sample.start - start >= self.block_size:
                            yield BlockRef(file, start, sample.start - start, first, records=sample.number - first)
                            start, first = sample.start, sample.number
                        first, last = first or sample.number, sample.number
            except (UnreadableError, TruncatedError) as error:
                whole = False
                if not reader.members and not reader.position:
                    begins = f"it begins with {reader.beginning!r}" if reader.beginning else "it is empty"
                    why = str(error) if isinstance(error, TruncatedError) else f"not a tar file: {begins}"
                    yield formats.reject_file(file.name, file.size_bytes, why)
                    return
        if last and whole and not contents - {"class"}:
            raise UserError(_describe_no_content(file.name, reader.skipped_members))
        for what, (number, name) in sorted(reader.skipped_members.items()):
            yield formats.SkippedItems(what, f"{file.name}: {name}", number)
        if len(folders) > 1 and contents == {"image"}:
            yield formats.RecordNotice(FOLDERS, f"{file.name}: {max(folders)}/", len(keys))
        hashes = np.frombuffer(keys, np.uint64)
        order = np.argsort(hashes, kind="stable")
        later = order[1:][hashes[order[1:]] == hashes[order[:-1]]]
        if len(later) and not all(set(one) & set(other) for one, other in itertools.combinations(checked, 2)):
            raise UserError(
                f"{file.name}: sample {int(later.min()) + 1:,} has the key of an earlier sample, and other members:"
                " members of one key must be consecutive, as the webdataset library reads them; `tar --sort=name -cf`"
                " packs a folder so"
            )
        if len(later):
            yield formats.RecordNotice(REPEATED_KEY, f"{file.name}: sample {int(later.min()) + 1:,}", len(later))
        if not last and whole:
            yield formats.SkippedItems(EMPTY_FILE, file.name)
        else:
            records = last + 1 - max(first, 1) if whole else None
            yield BlockRef(file, start, file.size_bytes - start, max(first, 1), records=records)
        if inference is not None:
            yield inference.result()

    def infer(self, block: BlockRef, columns: ColumnNames, values_of: Sequence[ValuesOf]) -> Iterator[Inferred]:
        """Infer the types from the members' names and the JSON objects, and mark columns of images and of class ids."""
        inference = _Inference(self, block.file.name, columns, values_of)
        for piece in self._pieces(block, tar_samples.IMAGE_MEMBERS):
            if not isinstance(piece, Reject):
                inference.add_piece(piece)
        yield inference.result()

    def read(self, block: BlockRef, types: ColumnTypes, keys: formats.Keys = ()) -> Iterator[formats.Rows]:
        for piece in self._pieces(block):
            if isinstance(piece, Reject):
                yield formats.empty_rows(types, [piece], keys)
                continue
            found = self.rows(piece, block.file.name)
            images = {name for name in types if name in found.images}
            rows = found.objects.read({name: kind for name, kind in types.items() if name not in images}, keys)
            arrays = {name: rows.batch[name] for name in rows.batch.schema.names}
            spans = {name: found.spans_of(name, rows.lines) for name in images}
            arrays |= {name: _images_at(spans[name], piece) for name in images}
            ordered = {name: arrays.pop(name) for name in types} | arrays
            if self.locates_images:
                can_refer = is_local(block.file.path) and not is_compressed(block.file.name) and block.file.revision
                ordered |= _locate_images(spans if can_refer else {}, list(types), len(rows.lines))
            yield replace(rows, batch=to_batch(ordered, len(rows.lines)), findings=rows.findings.without(IgnoredNames))

    def objects(self, block: BlockRef) -> Iterator[JsonObjects | Reject]:
        """Yield the samples of a block as objects, some at a time, with their images as bytes."""
        for piece in self._pieces(block):
            if isinstance(piece, Reject):
                yield piece
                continue
            found = self.rows(piece, block.file.name)
            for name in found.images:
                images = _images_at(found.spans_of(name, found.objects.line_numbers), piece).to_pylist()
                for row, image in zip(found.objects.objects, images, strict=True):
                    row[name] = image
            yield found.objects

    def _pieces(self, block: BlockRef, *unread: str | None) -> Iterator[tar_samples.TarPiece | Reject]:
        """Yield the samples of a block, without the data of `unread` members, and a Reject for what cannot be read."""
        file = block.file
        plain = not is_compressed(file.name)
        with open_decompressed(file.path, file.name, block.end) as stream:
            if block.offset:
                stream.seek(block.offset)
            length = block.length if plain else None
            reader = self._reader(stream, block.offset, length, block.first_line, *unread)
            try:
                yield from reader.pieces(is_end=not plain or block.end == file.size_bytes)
            except (UnreadableError, OSError) as error:
                yield _lost_samples(block, reader, error)

    def _reader(
        self, stream: BinaryIO, offset: int, length: int | None, first: int, *unread: str | None
    ) -> tar_samples.TarReader:
        until_last = self.key_until == "last_dot"
        return tar_samples.TarReader(stream, offset, length, first, self.block_size, *unread, until_last_dot=until_last)

    def rows(self, piece: tar_samples.TarPiece, name: str) -> "_Rows":
        """Convert the samples of a piece of file `name` to rows."""
        found = _Rows(JsonObjects(name, [], [], np.zeros(0, np.int64), {}, []), {}, set(), ObjectFields())
        objects, lines, numbers, rejects = [], [], [], []
        for sample in piece.samples:
            try:
                made, line = _sample_object(sample, piece)
            except UnreadableError as error:
                rejects.append(Reject(name, sample.number, formats.STAGE, f"{sample.key}: {error}"))
                continue
            if OBJECTS in made and OBJECTS not in sample.parts and is_objects_value(made[OBJECTS]):
                made[OBJECTS] = found.seen.add(made[OBJECTS], f"{name}: {sample.key}")
            objects.append(made)
            lines.append(line)
            numbers.append(sample.number)
            for column, part in sample.parts.items():
                if part[0] == "image":
                    found.images.setdefault(column, {})[sample.number] = part
                elif part[0] == "class":
                    found.classes.add(column)
        rows = JsonObjects(name, objects, lines, np.array(numbers, np.int64), formats.parse_fills(self.fill), rejects)
        return replace(found, objects=rows.remark_repeats([*map(orjson.loads, lines)]))


class _Inference(ObjectsInference):
    def __init__(self, format_: TarFormat, name: str, columns: ColumnNames, values_of: Sequence[ValuesOf]) -> None:
        super().__init__(columns, format_.drop, values_of)
        self._format, self._name = format_, name

    def add_piece(self, piece: tar_samples.TarPiece) -> None:
        wanted, drop = self.wanted, self.drop
        rows = self._format.rows(piece, self._name)
        requested = None if wanted is None else [name for name in wanted if name not in rows.images]
        types, kept, _ = rows.objects.infer(requested, drop)
        declared: dict[str, DeclaredColumn] = {}
        for name, lies in rows.images.items():
            if wanted is None or name in wanted:
                present = 0 if name in drop else len(lies.keys() & set(kept.line_numbers.tolist()))
                types[name] = ColumnType("bytes", None, present)
                declared[name] = DeclaredColumn("image", is_required=True)
        for name in sorted(rows.classes):
            if ids := [item[name] for item in kept.objects if name in item]:
                declared[name] = DeclaredColumn("class_label", num_classes=max(ids) + 1, is_required=True)
        for name in types:
            if name.startswith(JSON_PREFIX):
                own = name.removeprefix(JSON_PREFIX)
                message = (
                    f"what .json objects call {own!r} is {name!r} where another member of the sample is {own!r} already"
                )
                declared[name] = DeclaredColumn("text", message=message)
        self.add(Inferred(types, len(kept.objects), declared=declared), kept, rows.seen)


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    objects: JsonObjects  # everything except images
    images: dict[str, dict[int, tar_samples.SamplePart]]  # location of images, by column and sample number
    classes: set[str]  # columns of class ids
    seen: ObjectFields  # field names and classes of objects in images

    def spans_of(self, name: str, numbers: np.ndarray) -> np.ndarray:
        """Return offset in the file and size of an image of each of the samples `numbers`: int64, shape (rows, 2).

        Both are -1 for samples without one.
        """
        of_column = self.images[name]
        parts = [of_column.get(number, _NO_IMAGE)[1:] for number in numbers.tolist()]
        return np.array(parts, np.int64).reshape(-1, 2)


_NO_IMAGE: tar_samples.SamplePart = ("image", -1, -1)


def _images_at(spans: np.ndarray, piece: tar_samples.TarPiece) -> pa.Array:
    present = spans[:, 1] >= 0
    starts = np.where(present, spans[:, 0] - piece.base, 0)
    column = slices(piece.data, starts, starts + np.maximum(spans[:, 1], 0))
    return column if present.all() else pc.if_else(pa.array(present), column, pa.scalar(None, column.type))


def _locate_images(spans: Mapping[str, np.ndarray], names: Sequence[str], rows: int) -> dict[str, pa.Array]:
    offsets, columns, sizes = np.full(rows, -1, np.int64), np.full(rows, -1, np.int64), np.full(rows, -1, np.int64)
    for number, name in enumerate(names):
        if name in spans:
            larger = spans[name][:, 1] > sizes
            offsets[larger], sizes[larger] = spans[name][larger, 0], spans[name][larger, 1]
            columns[larger] = number
    return {formats.IMAGE_OFFSET: pa.array(offsets), formats.IMAGE_COLUMN: pa.array(columns)}


def _check_key(sample: tar_samples.Sample, file_name: str) -> None:
    """Raise a UserError if what follows the first dot in the names of a sample's images looks like a part of the key.

    That is so if it has no letter, as in `22.00.png`, or if a sample has many images.
    """
    images = [column for column, (holds, _, _) in sample.parts.items() if holds == "image"]
    is_odd = any(not any(map(str.isalpha, column)) for column in images)
    if is_odd or len(images) > _MOST_IMAGES:
        shown = f"{images[0]!r} to {images[-1]!r}" if len(images) > 1 else repr(images[0])
        raise UserError(
            f"{file_name}: names are cut at their first dot, so that {plural(len(images), 'image', 'images')} {shown}"
            f" would be one example with the key {sample.key!r}; give --key_until last_dot for an example each, or"
            " --key_until first_dot if that is meant"
        )


def _describe_no_content(file_name: str, skipped: Mapping[str, tuple[int, str]]) -> str:
    """Return the message that samples have nothing but a label, with the members that were passed over."""
    passed = "; ".join(f"{kind} ({number:,}, such as {name!r})" for kind, (number, name) in sorted(skipped.items()))
    return (
        f"{file_name}: the samples have a label and nothing else, as"
        f" {f'these members are passed over: {passed}' if passed else 'there is no other member'}; read are images"
        " (.jpg, .png, …), .txt, .json and .cls: convert the others to one of these, or unpack .npy and .wav files for"
        " `shardmill arrays` and `shardmill audio`"
    )


def _sample_object(sample: tar_samples.Sample, piece: tar_samples.TarPiece) -> tuple[dict[str, Any], bytes]:
    """Return a sample without its images as an object, and its JSON's text; an invalid one is an UnreadableError."""
    if sample.problem:
        raise UnreadableError(sample.problem)
    made: dict[str, Any] = {tar_samples.KEY: sample.key}
    line = b"{}"
    members: dict[str, Any] = {}
    for column, (holds, at, size) in sample.parts.items():
        if holds == "image":
            continue
        data = bytes(piece.data[at - piece.base : at - piece.base + size])
        if holds == "class":
            digits = data.strip()
            if not digits.isdigit() or len(digits) > _MAX_CLASS_DIGITS:
                shown = shorten(digits.decode(errors="backslashreplace"))
                raise UnreadableError(f"its .cls is {shown!r}; expected the id of a class, an integer from 0")
            made[column] = int(digits)
        elif holds == "text":
            try:
                made[column] = data.decode()
            except UnicodeDecodeError as error:
                raise UnreadableError(f"its text is not UTF-8, at byte {error.start:,}") from None
        else:
            line, members = data, _members(data)
    for name, value in members.items():
        if name not in made and name not in sample.parts:
            made[name] = value
        elif name not in made or made[name] != value:
            made[JSON_PREFIX + name] = value
    return made, line


def _members(data: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise UnreadableError(f"its .json is no JSON: {error.msg}, at character {error.pos + 1:,}") from None
    if not isinstance(value, dict):
        raise UnreadableError(f"its .json is no object, but {shorten(data.strip().decode(errors='replace'))}")
    return value


def _lost_samples(block: BlockRef, reader: tar_samples.TarReader, error: Exception) -> Reject:
    name, number = block.file.name, reader.number
    if isinstance(error, TruncatedError):
        reason = f"{error}; all from sample {number:,} on is lost"
        damage = formats.compressed_damage(error, block.file.size_bytes)
        return damage.make_reject(name, number, reason, number - block.first_line, block.length)
    why = formats.unreadable_reason(error, block.file.path)
    if isinstance(error, formats.CutError):
        return Reject(name, number, formats.STAGE, f"{why}; what follows is lost", 1, 0, "at least")
    left = max(block.end - reader.position, 0) if not is_compressed(name) else 0
    reason = f"{why}; all from sample {number:,} on is lost"
    return formats.Damage(reason, left, left / max(reader.position, 1)).make_reject(
        name, number, reason, number - 1, left
    )
