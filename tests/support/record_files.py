"""TFRecord files as others write them, without TensorFlow: of the Object Detection API, TFX, YouTube-8M and so on."""

import gzip
import io
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from PIL import Image

from shardmill.data.example import encode_bytes_feature, encode_entry, encode_varint
from shardmill.data.tfrecord import frame_record
from tests.support.encoded import encode_example


def jpeg(seed: int, width: int = 64, height: int = 48) -> bytes:
    """Return a JPEG of coarse noise."""
    out = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 255, (height // 8, width // 8, 3), np.uint8)
    Image.fromarray(pixels.repeat(8, 0).repeat(8, 1)).save(out, "JPEG")
    return out.getvalue()


def write_records(path: Path, records: list[bytes], compress: Callable[[bytes], bytes] = bytes) -> Path:
    """Write a TFRecord file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(compress(b"".join(map(frame_record, records))))
    return path


def message(field: int, payload: bytes) -> bytes:
    """Return a length-delimited field of a protobuf message."""
    return encode_varint(field << 3 | 2) + encode_varint(len(payload)) + payload


def detection(number: int) -> bytes:
    """Return an example of the Object Detection API, with 0 to 2 objects."""
    count = number % 3
    return encode_example(
        {
            "image/encoded": [jpeg(number)],
            "image/filename": [f"{number}.jpg".encode()],
            "image/height": [48],
            "image/object/bbox/xmin": np.array([0.1, 0.4][:count], np.float32),
            "image/object/bbox/xmax": np.array([0.5, 0.8][:count], np.float32),
            "image/object/bbox/ymin": np.array([0.1, 0.5][:count], np.float32),
            "image/object/bbox/ymax": np.array([0.6, 0.9][:count], np.float32),
            "image/object/class/label": np.array([1, 2][:count], np.int64),
        }
    )


def trip(number: int) -> bytes:
    """Return an example as TFX's taxi pipeline has."""
    company = {"company": [f"c{number % 4}".encode()]} if number % 5 else {}
    return encode_example({"miles": np.array([number], np.float32), "payment": [b"Cash"], **company})


def video(number: int) -> bytes:
    """Return a SequenceExample of YouTube-8M."""
    steps = b"".join(message(1, encode_bytes_feature([bytes(128)])) for _ in range(4 + number % 3))
    lists = message(1, message(1, b"rgb") + message(2, steps))
    return message(1, encode_entry("id", encode_bytes_feature([b"v%d" % number]))) + message(2, lists)


def frame_of_car(number: int) -> bytes:
    """Return a message of an unknown type, as Waymo's frames are."""
    return (
        message(1, message(1, b"segment-%d" % number))
        + message(4, b"\x08\x01" + message(2, jpeg(number)))
        + b"\x30\x07"
    )


def tensor(number: int) -> bytes:
    """Return what `tf.io.serialize_tensor` makes of a float32 tensor of shape (3, 4)."""
    shape = b"".join(message(2, b"\x08" + encode_varint(size)) for size in (3, 4))
    return b"\x08\x01" + message(2, shape) + message(4, np.full((3, 4), number, "<f4").tobytes())


def hostile(number: int) -> bytes:
    """Return an example with names and values that would run as scripts or move a terminal's cursor."""
    svg = b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(4)"><script>alert(5)</script></svg>'
    values: Mapping[str, list[bytes]] = {
        "<script>alert(1)</script>": [b"<img src=x onerror=alert(2)>\x1b[31mred"],
        "\u202eevil": [b"</textarea></script><script>alert(3)</script>"],
        "a\"b'c": [b"javascript:alert(6)"],
        "svg": [svg],
    }
    return encode_example({**values, "number": [number]})


LABEL_MAP = "item {\n id: 1\n name: 'cat'\n}\nitem {\n id: 2\n name: 'dog'\n}\n"


def write_all_layouts(folder: Path) -> Path:
    """Write a folder for each layout."""
    for shard in range(2):
        write_records(
            folder / f"od/train.record-0000{shard}-of-00002", list(map(detection, range(shard * 6, shard * 6 + 6)))
        )
    (folder / "od/label_map.pbtxt").write_text(LABEL_MAP)
    write_records(folder / "tfx/Split-train/data_tfrecord-00000-of-00001.gz", list(map(trip, range(20))), gzip.compress)
    write_records(
        folder / "tfx/Split-eval/data_tfrecord-00000-of-00001.gz", list(map(trip, range(20, 25))), gzip.compress
    )
    write_records(folder / "zlib/z.tfrecord", list(map(trip, range(20))), zlib.compress)
    write_records(folder / "spark/part-00000-12-c000.tfrecord", list(map(trip, range(20))))
    (folder / "spark/_SUCCESS").touch()
    write_records(folder / "videos/v.tfrecord", list(map(video, range(6))))
    write_records(folder / "cars/segment-1", list(map(frame_of_car, range(4))))
    write_records(folder / "tensors/t.tfrecord", list(map(tensor, range(5))))
    write_records(folder / "hostile/h.tfrecord", list(map(hostile, range(3))))
    write_records(folder / "one/one", [trip(1)])
    write_records(folder / "zero/zero.tfrecord", [])
    whole = (folder / "od/train.record-00000-of-00002").read_bytes()
    (folder / "bad.tfrecord").write_bytes(whole[:2000] + bytes([whole[2000] ^ 255]) + whole[2001:])
    (folder / "cut.tfrecord").write_bytes(whole[: len(whole) * 2 // 3])
    (folder / "lfs.tfrecord").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7\nsize 1\n")
    return folder
