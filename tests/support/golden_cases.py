"""Small inputs of every route, and a command for every option that shapes bytes: what the golden digests are of.

`python tests/support/golden_cases.py` writes `tests/support/golden.json` anew.
A change of it is a change of bytes: CHANGELOG.md says why.
"""

import contextlib
import hashlib
import io
import json
import os
import struct
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines import cli
from shardmill.records.example import encode_example
from shardmill.records.tfrecord import frame

DIGESTS = Path(__file__).with_name("golden.json")
_SPLITS = ("--splits", "train=0.6,test=0.4")

_TRANSFORM = """\
score: z_score
city: {vocabulary: {top_k: 3, num_oov_buckets: 1}}
note: [{fill: none}, tokenize, vocabulary]
id:
  - {bucketize: {num_buckets: 4}, one_hot: true, output: id_bucket}
  - {min_max: [-1, 1], output: id_scaled}
user: drop
"""

# Each case is the flags of one command, run in the folder of the inputs.
CASES: dict[str, tuple[str, ...]] = {
    "images": ("images", "--input", "images"),
    "images-splits": ("images", "--input", "images", *_SPLITS, "--num_shards", "3"),
    "images-seed": (
        "images",
        "--input",
        "images",
        *_SPLITS,
        "--seed",
        "7",
        "--split_seed",
        "9",
        "--num_shards",
        "train=2,test=1",
    ),
    "images-stratified": ("images", "--input", "images", *_SPLITS, "--stratify_by", "label"),
    "images-by-bytes": ("images", "--input", "images", "--balance", "bytes", "--num_shards", "3"),
    "images-ordered": ("images", "--input", "images", "--no_shuffle", "--num_shards", "2"),
    "images-shard-size": ("images", "--input", "images", "--shard_size", "1KiB"),
    "images-gzip": ("images", "--input", "images", "--compression", "gzip"),
    "images-labels-file": ("images", "--input", "images", "--labels_file", "labels.txt", "--on_new_label", "append"),
    "images-new-rejected": (
        *("images", "--input", "images", "--labels_file", "labels.txt", "--on_new_label", "reject"),
        *("--max_reject_fraction", "0.5"),
    ),
    "images-unverified": ("images", "--input", "images", "--verify", "none"),
    "images-decoded": ("images", "--input", "images", "--verify", "decode", "--max_pixels", "1000"),
    "images-png": ("images", "--input", "images", "--image_format", "png"),
    "images-exact": ("images", "--input", "images", "--resize", "8x6"),
    "images-cover": (
        "images",
        "--input",
        "images",
        "--resize",
        "8x6",
        "--resize_mode",
        "cover",
        "--image_format",
        "png",
    ),
    "images-contain": (
        *("images", "--input", "images", "--resize", "8x6", "--resize_mode", "contain", "--image_format", "jpeg"),
        *("--jpeg_quality", "80"),
    ),
    "images-manifest": ("images", "--manifest", "manifest.csv", "--group_by", "patient", *_SPLITS),
    "images-manifest-lists": ("images", "--manifest", "manifest.jsonl", "--no_shuffle"),
    "images-by-content": ("images", "--input", "images", "--group_by", "content", *_SPLITS),
    "images-near-duplicates": ("images", "--input", "images", "--near_duplicates", *_SPLITS),
    "images-version": ("images", "--input", "images", "--version", "2.3.4"),
    "images-renamed": (
        *("images", "--input", "images", "--rename", "image=image/encoded", "--rename", "label=image/class/label"),
    ),
    "images-folders": ("images", "--input", "images", "--folders", "any"),
    "images-manifest-columns": (
        *(
            "images",
            "--manifest",
            "names.csv",
            "--file_column",
            "id",
            "--label_column",
            "breed",
            "--file_suffix",
            ".png",
        ),
        *("--file_root", "images/cat/"),
    ),
    "images-coordinates": (
        *(
            "images",
            "--manifest",
            "manifest.jsonl",
            "--resize",
            "8x6",
            "--image_format",
            "png",
            "--coordinates",
            "v=none",
        ),
    ),
    "images-damaged": ("images", "--input", "images", "--on_damaged_file", "reject"),
    "images-coco": ("images", "--coco", "train=objects/train.json", "--coco", "val=objects/val.json"),
    "images-coco-one": (
        "images",
        "--coco",
        "objects/train.json",
        *_SPLITS,
        "--on_bad_box",
        "drop",
        "--num_shards",
        "2",
    ),
    "images-coco-resized": (
        *(
            "images",
            "--coco",
            "objects/train.json",
            "--resize",
            "9x9",
            "--resize_mode",
            "cover",
            "--boxes_seen",
            "upright",
        ),
        *("--image_format", "png"),
    ),
    "images-voc": ("images", "--voc", "objects/voc"),
    "images-yolo": ("images", "--yolo", "objects/yolo/data.yaml"),
    "arrays": ("arrays", "--input", "arrays", *_SPLITS),
    "arrays-typed": (
        *("arrays", "--input", "arrays", "--shape", "2,3", "--dtype", "float32", "--feature", "scan"),
        *("--max_reject_fraction", "0.9"),
    ),
    "audio": ("audio", "--input", "audio", *_SPLITS),
    "audio-decoded": ("audio", "--input", "audio", "--decode_audio", "--num_shards", "2"),
    "csv": ("csv", "--input", "tables/rows.csv"),
    "csv-renamed": ("csv", "--input", "tables/rows.csv", "--rename", "id=number", "--key", "id"),
    "csv-label": ("csv", "--input", "tables/rows.csv", "--label", "city", "--stratify_by", "city", *_SPLITS),
    "csv-group": (
        "csv",
        "--input",
        "tables/rows.csv",
        "--group_by",
        "user",
        "--key",
        "id",
        *_SPLITS,
        "--num_shards",
        "2",
    ),
    "csv-columns": ("csv", "--input", "tables/rows.csv", "--drop", "note", "--fill", "age=-1", "--missing", "NA,?"),
    "csv-only": ("csv", "--input", "tables/rows.csv", "--only", "id,city", "--no_shuffle"),
    "csv-by-bytes": ("csv", "--input", "tables/rows.csv", "--balance", "bytes", "--num_shards", "3", "--seed", "3"),
    "csv-gzip": ("csv", "--input", "tables/rows.csv", "--compression", "gzip", "--shard_size", "1KB"),
    "csv-blocks": ("csv", "--input", "tables/rows.csv", "--block_size", "1KiB"),
    "csv-transform": ("csv", "--input", "tables/rows.csv", *_SPLITS, "--transform", "transform.yaml"),
    "csv-latin": (
        *("csv", "--input", "tables/latin.txt", "--encoding", "latin-1", "--delimiter", ";", "--quote", "'"),
        *("--columns", "a,b,c"),
    ),
    "csv-schema": ("csv", "--input", "tables/rows.csv", "--schema", "schema.pbtxt", "--max_reject_fraction", "0.9"),
    "csv-labels-file": (
        *(
            "csv",
            "--input",
            "tables/rows.csv",
            "--label",
            "city",
            "--labels_file",
            "cities.txt",
            "--on_new_label",
            "append",
        ),
    ),
    "jsonl": ("jsonl", "--input", "tables/rows.jsonl", "--label", "kind", *_SPLITS),
    "jsonl-fill": ("jsonl", "--input", "tables/rows.jsonl", "--fill", "size=0", "--drop", "boxes", "--key", "id"),
    "parquet": ("parquet", "--input", "tables/rows.parquet", "--key", "id", *_SPLITS),
    "parquet-label": (
        "parquet",
        "--input",
        "tables/rows.parquet",
        "--label",
        "name",
        "--drop",
        "when",
        "--fill",
        "value=0.5",
    ),
    "avro": (
        "avro",
        "--input",
        "tables/rows.avro",
        "--label",
        "name",
        "--fill",
        "value=0.5",
        "--drop",
        "more",
        *_SPLITS,
    ),
    "text": ("text", "--input", "texts/train", *_SPLITS),
    "text-numbers": ("text", "--input", "texts", "--line_numbers", "--no_shuffle"),
    "text-latin": ("text", "--input", "tables/latin.txt", "--encoding", "latin-1"),
    "text-files": ("text", "--input", "texts", "--record", "file", "--num_shards", "2"),
    "reshard": ("reshard", "--input", "records", "--num_shards", "3", *_SPLITS),
    "reshard-mixed": ("reshard", "--input", "records", "--on_mixed", "reject", "--num_shards", "2"),
    "reshard-key": ("reshard", "--input", "records", "--key", "id", "--group_by", "group", *_SPLITS, "--seed", "5"),
    "reshard-label": (
        "reshard",
        "--input",
        "records",
        "--label",
        "group",
        "--labels_file",
        "groups.txt",
        "--no_shuffle",
    ),
}


def write_inputs(folder: Path) -> None:
    """Write the inputs of all cases, all the same each time; Parquet and Avro by pyarrow and fastavro."""
    _write(folder / "transform.yaml", _TRANSFORM.encode())
    for number in range(24):
        name = f"images/{('cat', 'dog', 'owl')[number % 3]}/{number:02}.png"
        _write(folder / name, _png(number, width=5 + number % 4, height=7))
    _write_objects(folder / "objects")
    _write(folder / "images/cat/broken.png", b"\x89PNG\r\n\x1a\nno")
    _write(folder / "labels.txt", b"owl\ncat\n")
    _write(folder / "cities.txt", b"Rome\nOslo\n")
    _write(folder / "groups.txt", b"zero\none\ntwo\n")
    rows = [("file_name", "label", "patient", "age", "caption")]
    rows += [
        (f"images/cat/{number:02}.png", f"c{number % 2}", f"p{number % 4}", str(number), "")
        for number in range(0, 24, 3)
    ]
    _write(folder / "manifest.csv", "".join(",".join(row) + "\n" for row in rows).encode())
    _write(folder / "names.csv", b"id,breed\n" + b"".join(b"%02d,b%d\n" % (n, n % 2) for n in range(0, 24, 3)))
    lists = [
        {
            "file_name": f"images/dog/{number:02}.png",
            "v": [1.5, number],
            "tokens": list(range(number % 3)),
            "when": "now",
        }
        for number in range(1, 24, 3)
    ]
    _write(folder / "manifest.jsonl", "".join(json.dumps(row) + "\n" for row in lists).encode())
    for number in range(9):
        dtype = ">f4" if number == 4 else "<f4" if number % 5 else "<i8"
        array = np.arange(number, number + 6).reshape(2, 3).astype(dtype, order="F" if number == 3 else "C")
        out = io.BytesIO()
        np.save(out, array)
        _write(folder / f"arrays/{'ab'[number % 2]}/{8 - number}.npy", out.getvalue())
    for number in range(9):
        _write(folder / f"audio/{('hum', 'tick')[number % 2]}/{number}.wav", _wav(number))
    _write(folder / "audio/hum/cut.wav", _wav(0)[:-3])
    _write_tables(folder / "tables")
    _write(folder / "schema.pbtxt", _SCHEMA)
    for name, words in (
        ("train/good/a.txt", "one\ntwo\n\nthree"),
        ("train/bad/b.txt", "vier\r\nfünf\n"),
        ("test/good/c.txt", "six\n"),
    ):
        _write(folder / "texts" / name, words.encode())
    for part in range(2):
        records = []
        for number in range(part * 20, part * 20 + 20):
            example: dict[str, Any] = {"id": [number], "group": [number % 3], "x": [number / 4, 1.0]}
            records.append(encode_example(example | ({"s": [b"%d" % number]} if number % 2 else {})))
        _write(folder / f"records/old-{part:05}-of-00002.tfrecord", b"".join(map(frame, records)))


def _write_objects(folder: Path) -> None:
    """The same pictures thrice, with what is in them as COCO, VOC and YOLO have it; a box of each is empty."""
    categories = [{"id": 2, "name": "cat"}, {"id": 5, "name": "dog"}]
    boxes = {index: [(index % 5 + place, 1, 3, 2 * place) for place in range(index % 3)] for index in range(12)}
    for split, members in (("train", range(9)), ("val", range(9, 12))):
        images = [{"id": 50 - n, "file_name": f"{n}.png", "width": 14, "height": 9} for n in members]
        annotations = [
            {
                "id": 10 * n + place,
                "image_id": 50 - n,
                "category_id": (2, 5)[place % 2],
                "bbox": list(box),
                "area": 1.5 * n,
            }
            for n in members
            for place, box in enumerate(boxes[n])
        ]
        content = {"annotations": annotations, "categories": categories, "images": images}
        _write(folder / f"{split}.json", json.dumps(content).encode())
        names = "".join(f"{n}\n" for n in members)
        _write(folder / f"voc/ImageSets/Main/{split}.txt", names.encode())
        for n in members:
            for place in (f"{n}.png", f"voc/JPEGImages/{n}.png", f"yolo/images/{split}/{n}.png"):
                _write(folder / place, _png(n + 40, 14, 9))
            _write(folder / f"voc/Annotations/{n}.xml", _voc(boxes[n]).encode())
            lines = (
                f"{place % 2} {(x + 1.5) / 14} {(1 + high / 2) / 9} {3 / 14} {high / 9}"
                for place, (x, _, _, high) in enumerate(boxes[n])
            )
            _write(folder / f"yolo/labels/{split}/{n}.txt", "".join(f"{line}\n" for line in lines).encode())
    _write(folder / "yolo/data.yaml", b"train: images/train\nval: images/val\nnames: [cat, dog]\n")


def _voc(boxes: list[tuple[int, int, int, int]]) -> str:
    objects = (
        f"<object><name>{('cat', 'dog')[place % 2]}</name><bndbox><xmin>{x}</xmin><ymin>{y}</ymin>"
        f"<xmax>{x + wide}</xmax><ymax>{y + high}</ymax></bndbox></object>"
        for place, (x, y, wide, high) in enumerate(boxes)
    )
    return f"<annotation><size><width>14</width><height>9</height></size>{''.join(objects)}</annotation>"


def _write_tables(folder: Path) -> None:
    cities = ("Oslo", "Rome", "Lima", '"St. John\'s, ""old"""')
    ages = ["NA" if number % 7 == 3 else str(number + 20) for number in range(200)]
    lines = [f"{n},{cities[n % 4]},{age},{n * 0.25},u{n % 9},{'x' * (n % 5)}" for n, age in enumerate(ages)]
    _write(folder / "rows.csv", "\n".join(["id,city,age,score,user,note", *lines, "1,too,few", ""]).encode())
    _write(folder / "latin.txt", "1;'é;x';2\n2;ü;3\n3;'a''b';\n".encode("latin-1"))
    objects = [
        {
            "id": n,
            "kind": "ab"[n % 2],
            "size": None if n % 6 == 1 else n / 8,
            "vector": [n, 1, 2],
            "tokens": [n] * (n % 4),
        }
        | {"boxes": [[0.5, n, 1, 2]] * (n % 3), "ok": n % 2 == 0}
        for n in range(60)
    ]
    _write(folder / "rows.jsonl", "".join(json.dumps(row) + "\n" for row in objects).encode())
    table = pa.table(
        {
            "id": pa.array(range(80), pa.int64()),
            "name": pa.array(["one", "two", None, "four"] * 20),
            "value": pa.array([None if n % 9 == 4 else n / 2 for n in range(80)], pa.float64()),
            "when": pa.array(range(80), pa.timestamp("ms")),
            "list": pa.array([[n, n + 1] for n in range(80)], pa.list_(pa.int32())),
        }
    )
    pq.write_table(table, folder / "rows.parquet", row_group_size=30)
    _write_avro(folder / "rows.avro")


def _write_avro(path: Path) -> None:
    schema = {
        "type": "record",
        "name": "row",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "name", "type": {"type": "enum", "name": "names", "symbols": ["one", "two"]}},
            {"name": "value", "type": ["null", "double"]},
            {"name": "when", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "boxes", "type": {"type": "array", "items": {"type": "array", "items": "float"}}},
            {"name": "more", "type": {"type": "map", "values": "string"}},
        ],
    }
    rows = [
        {
            "id": n,
            "name": ("one", "two")[n % 2],
            "value": None if n % 9 == 4 else n / 2,
            "when": n,
            "more": {"n": str(n)},
        }
        | {"boxes": [[n, 1, 2, 3.5]] * (n % 3)}
        for n in range(80)
    ]
    with path.open("wb") as file:
        fastavro.writer(file, schema, rows, codec="deflate", sync_interval=500, sync_marker=b"0123456789abcdef")


def _png(number: int, width: int, height: int) -> bytes:
    """A picture of 8-bit RGB, its pixels stored without compression."""
    rows = b"".join(b"\0" + bytes((number * 31 + y * 7 + x * 3) % 256 for x in range(width * 3)) for y in range(height))
    length = struct.pack("<HH", len(rows), len(rows) ^ 0xFFFF)
    stored = b"\x78\x01\x01" + length + rows + struct.pack(">I", zlib.adler32(rows))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", stored), (b"IEND", b""))
    body = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(body)


def _wav(number: int) -> bytes:
    """16-bit PCM of two channels, and one file of 8 bits and one channel."""
    channels, bits = (1, 8) if number == 5 else (2, 16)
    frame = channels * bits // 8
    samples = bytes((number * 37 + index * 11) % 256 for index in range(frame * (number + 3)))
    header = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, channels, 8000, 8000 * frame, frame, bits)
    body = b"WAVE" + header + b"data" + struct.pack("<I", len(samples)) + samples + b"\0" * (len(samples) % 2)
    return b"RIFF" + struct.pack("<I", len(body)) + body


_DENSE, _OPTIONAL = b"presence { min_fraction: 1 min_count: 1 } shape {}", b"value_count { min: 1 max: 1 }"
_SCHEMA = b"".join(
    b'feature { name: "%s" type: %s %s }\n' % row
    for row in (
        (b"id", b"INT", _DENSE),
        (b"city", b"BYTES", _DENSE),
        (b"age", b"FLOAT", _OPTIONAL),
        (b"score", b"FLOAT", _DENSE),
    )
)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def digests(case: str) -> dict[str, str]:
    """The sha256 of every file that a case publishes in `out`, below the current folder, by its name relative to
    that; not that of the build's record, which holds times."""
    # Some inputs are bad
    tolerance = () if "--max_reject_fraction" in CASES[case] else ("--max_reject_fraction", "0.9")
    status = cli.main([*CASES[case], *tolerance, "--output", f"out/{case}", "--name", "d"])
    assert status == 0, case
    files = sorted(path for path in Path(f"out/{case}").rglob("*") if path.is_file() and path.parent.name != "builds")
    return {str(path.relative_to(f"out/{case}")): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def main() -> None:
    """Write the digests of all cases."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_inputs(Path())
        found = {}
        for case in CASES:
            with contextlib.redirect_stdout(io.StringIO()):
                found[case] = digests(case)
            print(case, len(found[case]), file=sys.stderr)
    DIGESTS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    os._exit(0)


if __name__ == "__main__":
    main()
