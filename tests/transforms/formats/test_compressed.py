"""Compressed files of every format: the same rows as of files that are not, and of a cut one those before the cut."""

import bz2
import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from shardmill.data.tfrecord import frame_record
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.formats.csv import CsvFormat
from shardmill.transforms.formats.documents import DocumentsFormat
from shardmill.transforms.formats.format import RecordFormat
from shardmill.transforms.formats.json_lines import JsonLinesFormat
from shardmill.transforms.formats.lines import LinesFormat
from shardmill.transforms.formats.tfrecords import TFRecordFormat
from tests.support.encoded import encode_example
from tests.support.format_files import Types, blocks, file_ref, infer, read

NUMBERS = [number * 7919 % 100_003 for number in range(6000)]
INTEGERS, TEXTS = {"n": ColumnType("int64", None, 0)}, {"text": ColumnType("bytes", None, 0)}
QUOTED = CsvFormat(block_size=500, is_quote_given=True)
FORMATS: dict[str, tuple[RecordFormat, Types, list[bytes]]] = {
    # Of several lines, so that most cuts are within a quote
    "csv": (QUOTED, TEXTS, [b"text\n", *(b'"%d\n%d\n%d"\n' % (n, n * 7 % 99_991, n * 13 % 99_989) for n in NUMBERS)]),
    "json lines": (JsonLinesFormat(500), INTEGERS, [b'{"n": %d}\n' % n for n in NUMBERS]),
    "lines": (LinesFormat(500), TEXTS, [b"%d\n" % n for n in NUMBERS]),
    "documents": (DocumentsFormat(500, separator="--"), TEXTS, [b"%d\n--\n" % n for n in NUMBERS]),
    "examples": (TFRecordFormat(500), {}, [frame_record(encode_example({"n": [n]})) for n in NUMBERS]),
}
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "zstd": zstandard.compress,
}
SUFFIXES = {"gzip": ".gz", "bzip2": ".bz2", "zstd": ".zst"}


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name in FORMATS for kind in SUFFIXES if kind == "gzip" or name != "examples"]
)
def test_rows_of_a_whole_and_of_a_cut_file(tmp_path: Path, name: str, kind: str) -> None:
    format_, types, records = FORMATS[name]
    plain = read(format_, file_ref(tmp_path, b"".join(records)), types)
    first, second = (COMPRESS[kind](b"".join(part)) for part in (records[:3000], records[3000:]))
    file = file_ref(tmp_path, first + second, f"a.x{SUFFIXES[kind]}")
    (block,) = blocks(format_, file)
    assert (block.offset, block.length) == (0, file.size_bytes)
    assert read(format_, file, types) == plain
    assert max(len(part.lines) for part in format_.read(block, types)) < 500
    for share in (0.1, 0.5, 0.9):
        cut = file_ref(tmp_path, first + second[: int(len(second) * share)], file.name)
        rows, lines, (reject,), _ = read(format_, cut, types)
        assert len(rows) > 2990
        assert (rows, lines) == (plain.rows[: len(rows)], plain.lines[: len(rows)])
        assert (reject.source, reject.line, reject.stage) == (file.name, plain.lines[len(rows)], "read")
        assert reject.is_loss
        assert f"the {kind} data ends too early" in reject.reason
        assert infer(format_, cut).rows == len(rows)
