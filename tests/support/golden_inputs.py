"""The small inputs that golden_cases has commands for: the same bytes each time."""

import gzip
import io
import json
import sqlite3
import struct
import tarfile
import zlib
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shardmill.data.tfrecord import frame_record
from tests.support.encoded import encode_example
from tests.support.tokenizer_files import byte_level_json, texts, tokenizer_json

_TRANSFORM = """\
score: z_score
city: {vocabulary: {top_k: 3, num_oov_buckets: 1}}
note: [{fill: none}, tokenize, vocabulary]
id:
  - {bucketize: {num_buckets: 4}, one_hot: true, output: id_bucket}
  - {min_max: [-1, 1], output: id_scaled}
user: drop
"""
_COLUMNS = """\
age:
  - {z_score: true, output: age_scaled}
  - {bucketize: {num_buckets: 3}, output: age_bucket}
patient: {vocabulary: {num_oov_buckets: 1}}
"""


_FUNCTION = """
from PIL import ImageOps

def change(row, rng):
    if row["id"] % 7 == 3:
        return None
    changed = {**row, "drawn": rng.random(), "double": 2 * row["id"]}
    return [changed, {**changed, "double": -1}] if row["id"] % 5 == 1 else changed

def keep(batch):
    return batch

def mirror(row):
    return [row, {**row, "image": ImageOps.mirror(row["image"]), "mirrored": 1}]
"""


def write_inputs(folder: Path) -> None:
    """Write the inputs of all cases, all the same each time; Parquet and Avro by pyarrow and fastavro."""
    _write(folder / "transform.yaml", _TRANSFORM.encode())
    _write(folder / "columns.yaml", _COLUMNS.encode())
    _write(folder / "function.py", _FUNCTION.encode())
    for number in range(24):
        name = f"images/{('cat', 'dog', 'owl')[number % 3]}/{number:02}.png"
        _write(folder / name, _png(number, width=5 + number % 4, height=7))
    _write_objects(folder / "objects")
    _write_pairs(folder / "pairs")
    _write_manifests(folder / "manifests")
    _write_tars(folder / "tars")
    _write(folder / "images/cat/broken.png", b"\x89PNG\r\n\x1a\nno")
    _write(folder / "labels.txt", b"owl\ncat\n")
    _write(folder / "tokenizer.json", tokenizer_json())
    _write(folder / "bytes.json", byte_level_json())
    _write(folder / "sentences.txt", "\n".join(texts(60)).encode())
    _write(folder / "cities.txt", b"Rome\nOslo\n")
    _write(folder / "groups.txt", b"zero\none\ntwo\n")
    rows = [("file_name", "label", "patient", "age", "caption")]
    rows += [(f"images/cat/{n:02}.png", f"c{n % 2}", f"p{n % 4}", str(n), "") for n in range(0, 24, 3)]
    _write(folder / "manifest.csv", "".join(",".join(row) + "\n" for row in rows).encode())
    _write(folder / "names.csv", b"id,breed\n" + b"".join(b"%02d,b%d\n" % (n, n % 2) for n in range(0, 24, 3)))
    tags = [
        f"images/cat/{n:02}.png,{';'.join(tag for k, tag in enumerate('abc') if n >> k & 1)}\n" for n in range(0, 24, 3)
    ]
    _write(folder / "tags.csv", f"file_name,label\n{''.join(tags)}".encode())
    lists = [
        {"file_name": f"images/dog/{n:02}.png", "v": [1.5, n], "tokens": list(range(n % 3)), "when": "now"}
        for n in range(1, 24, 3)
    ]
    _write(folder / "manifest.jsonl", "".join(json.dumps(row) + "\n" for row in lists).encode())
    for number in range(9):
        dtype = ">f4" if number == 4 else "<f4" if number % 5 else "<i8"
        array = np.arange(number, number + 6).reshape(2, 3).astype(dtype, order="F" if number == 3 else "C")
        out = io.BytesIO()
        np.save(out, array)
        _write(folder / f"arrays/{'ab'[number % 2]}/{8 - number}.npy", out.getvalue())
    for number in range(7):
        out = io.BytesIO()
        np.save(out, np.arange(3 * (1 + number % 4), dtype="<f4").reshape(-1, 3)[:, : 2 if number == 5 else 3])
        _write(folder / f"clouds/{'ab'[number % 2]}/{number}.npy", out.getvalue())
    for number in range(9):
        _write(folder / f"audio/{('hum', 'tick')[number % 2]}/{number}.wav", _wav(number))
    _write(folder / "audio/hum/cut.wav", _wav(0)[:-3])
    _write_tables(folder / "tables")
    _write_pictures(folder / "tables/pictures.parquet")
    _write(folder / "schema.pbtxt", _SCHEMA)
    for name, words in (
        ("train/good/a.txt", "one\ntwo\n\nthree"),
        ("train/bad/b.txt", "vier\r\nfünf\n"),
        ("test/good/c.txt", "six\n"),
    ):
        _write(folder / "texts" / name, words.encode())
    for language, word in (("de", "Zeile"), ("en", "line")):
        lines = [f"{word} {number}" if number % 9 or language == "en" else "" for number in range(40)]
        _write(folder / f"parallel/a.{language}", "".join(f"{line}\n" for line in lines).encode())
        _write(folder / f"parallel/b.{language}", f"{word} {language}\r\n{word}".encode())
    for part in range(2):
        records = []
        for number in range(part * 20, part * 20 + 20):
            example: dict[str, Any] = {"id": [number], "group": [number % 3], "x": [number / 4, 1.0]}
            records.append(encode_example(example | ({"s": [b"%d" % number]} if number % 2 else {})))
        _write(folder / f"records/old-{part:05}-of-00002.tfrecord", b"".join(map(frame_record, records)))


def _write_tars(folder: Path) -> None:
    """Two tar files of samples, one in pieces of long names, the other compressed without a time; one image is cut."""
    for part in range(2):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=(tarfile.PAX_FORMAT, tarfile.GNU_FORMAT)[part]) as tar:
            for number in range(part * 9, part * 9 + 9):
                picture = _png(number + 70, 6 + number % 3, 5)[: 40 if number == 7 else None]
                told = json.dumps({"score": number / 8, "tags": ["x"] * (number % 3), "label": f"c{number % 2}"})
                for suffix, data in (("cls", b"%d" % (number % 3)), ("json", told.encode()), ("png", picture)):
                    member = tarfile.TarInfo(f"{'long/' * (22 * part)}{number:03}.{suffix}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
                member = tarfile.TarInfo(f"{'long/' * (22 * part)}{number:03}.note.txt")
                member.size = 1
                tar.addfile(member, io.BytesIO(b"%d" % (number % 10)))
        _write(folder / ("a.tar", "b.tar.gz")[part], gzip.compress(out.getvalue(), mtime=0) if part else out.getvalue())


def _write_pictures(path: Path) -> None:
    """A table as Hugging Face has images and classes, and images as plain bytes beside; one image is cut."""
    pictures = [_png(number + 90, 7, 4 + number % 3)[: 50 if number == 3 else None] for number in range(12)]
    files = pa.array([{"bytes": picture, "path": None} for picture in pictures])
    names = {"names": ["x", "y", "z"], "_type": "ClassLabel"}
    told = {"info": {"features": {"image": {"_type": "Image"}, "kind": names}}}
    columns = {"image": files, "kind": pa.array([number % 3 for number in range(12)]), "thumb": pictures[::-1]}
    table = pa.table(columns).replace_schema_metadata({"huggingface": json.dumps(told)})
    pq.write_table(table, path, row_group_size=5)


def _write_objects(folder: Path) -> None:
    """The same pictures thrice, with what is in them as COCO, VOC and YOLO have it; a box of each is empty."""
    categories = [{"id": 2, "name": "cat"}, {"id": 5, "name": "dog"}]
    boxes = {index: [(index % 5 + place, 1, 3, 2 * place) for place in range(index % 3)] for index in range(12)}
    for split, members in (("train", range(9)), ("val", range(9, 12))):
        images = [{"id": 50 - n, "file_name": f"{n}.png", "width": 14, "height": 9} for n in members]
        annotations = [
            {"id": 10 * n + place, "image_id": 50 - n, "category_id": (2, 5)[place % 2], "bbox": list(box)}
            | {"area": 1.5 * n}
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


def _write_manifests(folder: Path) -> None:
    """Pictures in two folders, and Parquet files that name them."""
    for name, numbers in (("a", range(6)), ("more/b", range(6, 9)), ("more/c", range(9, 12))):
        place = (folder / name).parent
        for number in numbers:
            _write(place / f"{number}.png", _png(number, 6, 5))
        rows = [
            {"file_name": f"{n}.png", "label": "xy"[n % 2], "weight": n / 4, "tags": ["t"] * (n % 3)} for n in numbers
        ]
        pq.write_table(pa.Table.from_pylist(rows), folder / f"{name}.parquet")


def _write_pairs(folder: Path) -> None:
    """Pictures with masks, of which one is missing and one is of another size, and pictures of the other eye; a table
    that names all."""
    rows = ["file_name,mask,right_file_name,label"]
    for number in range(12):
        name = f"{'ab'[number % 2]}/{number}.png"
        _write(folder / "images" / name, _png(number, 14, 9))
        _write(folder / "right" / name, _png(number + 50, 7, 5 + number % 3))
        if number != 4:
            _write(folder / "masks" / name, _mask(number, 14, 8 if number == 7 else 9))
        rows.append(f"images/{name},masks/{name},right/{name},{'xy'[number % 2]}")
    _write(folder / "pairs.csv", "".join(f"{row}\n" for row in rows).encode())


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
        {"id": n, "kind": "ab"[n % 2], "size": None if n % 6 == 1 else n / 8, "vector": [n, 1, 2]}
        | {"tokens": [n] * (n % 4), "boxes": [[0.5, n, 1, 2]] * (n % 3), "ok": n % 2 == 0}
        for n in range(60)
    ]
    _write(folder / "rows.jsonl", "".join(json.dumps(row) + "\n" for row in objects).encode())
    _write_tags(folder)
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
    with sqlite3.connect(folder / "rows.db") as connection:
        connection.execute("CREATE TABLE rows (id INTEGER, name TEXT, value REAL, data BLOB)")
        rows = table.select(["id", "name", "value"]).to_pylist()
        connection.executemany("INSERT INTO rows VALUES (:id, :name, :value, zeroblob(:id % 5))", rows)
    connection.close()
    _write_avro(folder / "rows.avro")


def _write_tags(folder: Path) -> None:
    """Rows with several classes each, or none, beside one and a number."""
    rows = [
        (n, [tag for k, tag in enumerate(("sun", "sea", "ice")) if n >> k & 1], "ab"[n % 2], n / 4) for n in range(40)
    ]
    text = "".join(f"{n},{';'.join(tags)},{kind},{score}\n" for n, tags, kind, score in rows)
    _write(folder / "tags.csv", f"id,tags,kind,score\n{text}".encode())
    lines = (json.dumps({"id": n, "tags": tags, "kind": kind, "score": score}) for n, tags, kind, score in rows)
    _write(folder / "tags.jsonl", "".join(f"{line}\n" for line in lines).encode())


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
        {"id": n, "name": ("one", "two")[n % 2], "value": None if n % 9 == 4 else n / 2, "when": n}
        | {"more": {"n": str(n)}, "boxes": [[n, 1, 2, 3.5]] * (n % 3)}
        for n in range(80)
    ]
    with path.open("wb") as file:
        fastavro.writer(file, schema, rows, codec="deflate", sync_interval=500, sync_marker=b"0123456789abcdef")


def _png(number: int, width: int, height: int) -> bytes:
    """A picture of 8-bit RGB, its pixels stored without compression."""
    rows = b"".join(b"\0" + bytes((number * 31 + y * 7 + x * 3) % 256 for x in range(width * 3)) for y in range(height))
    return _png_of(rows, width, height, 2)


def _mask(number: int, width: int, height: int) -> bytes:
    """A gray picture of the values 0 to 2, likewise."""
    rows = b"".join(b"\0" + bytes((number + y // 3 + x // 4) % 3 for x in range(width)) for y in range(height))
    return _png_of(rows, width, height, 0)


def _png_of(rows: bytes, width: int, height: int, colour: int) -> bytes:
    length = struct.pack("<HH", len(rows), len(rows) ^ 0xFFFF)
    stored = b"\x78\x01\x01" + length + rows + struct.pack(">I", zlib.adler32(rows))
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
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
