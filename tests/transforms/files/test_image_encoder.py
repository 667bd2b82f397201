"""Tests of transforms/files/image_encoder.py."""

import io
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from shardmill.data.codecs import PLAIN_CODEC
from shardmill.data.example import decode_example, encode_entry, encode_int64_feature
from shardmill.transforms.columns.arrow import convert_batch
from shardmill.transforms.files.image_codec import Reencode
from shardmill.transforms.files.image_encoder import ImageEncoder
from shardmill.transforms.files.image_geometry import (
    FAULTS,
    Box,
    ImageError,
    Picture,
    box_frame,
    clip_box,
    find_faults,
    fit_image,
    inverse_orientation,
    turn_box,
)
from shardmill.transforms.files.image_objects import ObjectEncoder
from shardmill.transforms.files.references import PLANNED
from shardmill.transforms.files.shards import make_empty_stored, split_into_tasks
from shardmill.transforms.inputs import annotations
from shardmill.transforms.shards.sources import EncodedChunk
from shardmill.transforms.statistics.files import ImageStats
from tests.support.command import write_files
from tests.support.masks import encoded

_EDGES = st.tuples(*[st.floats(0, 1)] * 4)
_SIDES = st.integers(1, 5_000)


def box_of(edges: tuple[float, ...]) -> Box:
    top, bottom, left, right = (*sorted(edges[:2]), *sorted(edges[2:]))
    return Box(top, left, bottom, right)


@given(_EDGES, st.integers(1, 8))
def test_what_is_turned_back_is_where_it_was(edges: tuple[float, ...], orientation: int) -> None:
    box = box_of(edges)
    moved = turn_box(box, orientation)

    assert turn_box(moved, inverse_orientation(orientation)) == pytest.approx(box, abs=1e-12)
    assert moved.top <= moved.bottom
    assert moved.left <= moved.right


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_box_is_turned_as_pillow_turns_its_image(orientation: int) -> None:
    image = Image.new("L", (8, 6))
    image.paste(255, (1, 2, 4, 3))
    with Image.open(io.BytesIO(encoded(image, orientation=orientation))) as turned:
        upright = ImageOps.exif_transpose(turned)
    left, top, right, bottom = upright.getbbox() or (0, 0, 0, 0)

    width, height = upright.size
    expected = Box(top / height, left / width, bottom / height, right / width)
    assert turn_box(Box(2 / 6, 1 / 8, 3 / 6, 4 / 8), orientation) == pytest.approx(expected)


@given(st.tuples(_SIDES, _SIDES), st.tuples(_SIDES, _SIDES), st.sampled_from(["exact", "cover", "contain"]))
def test_the_whole_picture_fills_the_new_one_or_lies_within(
    size: tuple[int, int], target: tuple[int, int], mode: str
) -> None:
    moved = fit_image(size, target, mode)(Box(0, 0, 1, 1))
    if mode == "exact":
        assert moved == Box(0, 0, 1, 1)
    elif mode == "cover":
        assert max(moved.top, moved.left) <= 1e-9
        assert min(moved.bottom, moved.right) >= 1 - 1e-9
    else:
        assert min(moved) >= 0
        assert max(moved) <= 1


@pytest.mark.parametrize(
    ("box", "said"),
    [
        (Box(0.1, 0.1, 0.2, 0.2), ""),
        (Box(-0.2, -0.2, 1.2, 1.2), ""),  # two pixels of ten
        (Box(-0.21, 0, 1, 1), "reaches out of the picture"),
        (Box(0, 0, 1, 1.3), "reaches out of the picture"),
        (Box(0.1, 0.1, 0.1, 0.2), "is empty"),
        (Box(0.3, 0.1, 0.1, 0.2), "ends before it begins"),
        (Box(1, 0.1, 1.5, 0.2), "lies outside the picture"),
        (Box(0.1, -0.5, 0.2, 0), "lies outside the picture"),
        (Box(float("nan"), 0, 1, 1), "is not of numbers"),
        (Box(0, 0, 1, float("inf")), "is not of numbers"),
    ],
)
def test_faults(box: Box, said: str) -> None:
    assert FAULTS[find_faults(Box(*map(np.atleast_1d, box)), np.array([[10.0, 10.0]]))[0]] == said
    assert said or not clip_box(box).is_empty


def test_many_boxes_are_looked_at_at_once() -> None:
    boxes = Box(*np.array([(0.1, 0.1, 0.2, 0.2), (0.3, 0.1, 0.1, 0.2), (-0.005, 0.5, 1.005, 0.75)]).T)
    assert find_faults(boxes, np.array([[640.0, 480.0]] * 3)).tolist() == [0, FAULTS.index("ends before it begins"), 0]
    assert [edge[2] for edge in clip_box(boxes)] == [0, 0.5, 1, 0.75]  # a part of a percent is rounding
    assert turn_box(boxes, 3).area == pytest.approx(boxes.area)


@pytest.mark.parametrize(
    ("picture", "said", "seen", "frame"),
    [
        (Picture(64, 48), (64, 48), "", "stored"),
        (Picture(64, 48), None, "", "stored"),
        (Picture(64, 48, 6), (64, 48), "upright", "stored"),  # the size tells
        (Picture(64, 48, 6), (48, 64), "stored", "upright"),
        (Picture(64, 48, 3), (64, 48), "upright", "upright"),
        (Picture(64, 48, 6), None, "stored", "stored"),
        (Picture(64, 64, 6), (64, 64), "", None),
        (Picture(64, 48, 3), (64, 48), "", None),
        (Picture(64, 48), (48, 64), "stored", None),
    ],
)
def test_what_boxes_are_counted_in_is_known_or_the_image_is_refused(
    picture: Picture, said: tuple[int, int] | None, seen: str, frame: str | None
) -> None:
    if frame is None:
        with pytest.raises(ImageError):
            box_frame(picture, said, seen)
    else:
        assert box_frame(picture, said, seen) == frame


def encode(format_: str, size: tuple[int, int] = (8, 6), orientation: int = 1) -> bytes:
    return encoded(Image.new("L", size, 90), format_, orientation)


def planned(names: list[str], sizes: list[int] | None = None, **columns: list[Any]) -> pa.RecordBatch:
    empty: dict[str, list[Any]] = {field.name: [None] * len(names) for field in PLANNED}
    known = {"name": names, "size": sizes or [100] * len(names), "split": ["train"] * len(names)}
    return convert_batch(list((empty | known | columns).values()), PLANNED)


def image_stats(chunk: EncodedChunk) -> ImageStats:
    assert isinstance(chunk.stats, ImageStats)
    return chunk.stats


def examples(chunk: EncodedChunk) -> list[dict[str, Any]]:
    decoded = [decode_example(record) for record in PLAIN_CODEC.read_records(io.BytesIO(chunk.framed), "chunk")]
    assert len(decoded) == chunk.examples
    return [{name: list(values) for name, values in example.items()} for example in decoded]


GIF = encode("gif")
FILES = {f"a.{format_}": encode(format_) for format_ in ("jpeg", "png", "gif", "bmp", "webp", "tiff")} | {
    "empty.jpg": b"",
    "text.jpg": b"hello",
    "short.png": encode("png")[:-3],
    "damaged.gif": GIF[:-6] + bytes((GIF[-6] ^ 0xFF,)) + GIF[-5:],
    "pixel.png": encode("png", (1, 1)),
    "turned.jpeg": encode("jpeg", orientation=6),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_files(tmp_path_factory.mktemp("files"), FILES)
    (folder / "folder.jpg").mkdir()
    return folder


def test_a_turned_image_with_coordinates_is_refused(root: Path) -> None:
    names = ["a.jpeg", "turned.jpeg"]

    for coordinates, good in (((), names), (("box",), names[:1])):
        encoder = ImageEncoder(str(root), reencode=Reencode("png"), coordinates=coordinates)
        chunk = encoder(planned(names))
        assert [example["filename"] for example in examples(chunk)] == [[name.encode()] for name in good]
        assert [reject.source for reject in chunk.rejects] == names[len(good) :]


def test_bytes_pass_through_untouched(root: Path) -> None:
    names = [f"a.{format_}" for format_ in ("jpeg", "png", "gif", "bmp", "webp")]
    chunk = ImageEncoder(str(root))(planned(names, label=[0, 1, 2, 3, 300]))

    assert examples(chunk) == [
        {"image": [FILES[name]], "label": [label], "filename": [name.encode()], "height": [6], "width": [8]}
        for name, label in zip(names, (0, 1, 2, 3, 300), strict=True)
    ]
    assert not chunk.rejects
    assert image_stats(chunk).formats == {"jpeg": 1, "png": 1, "gif": 1, "bmp": 1, "webp": 1}
    assert image_stats(chunk).labels == {0: 1, 1: 1, 2: 1, 3: 1, 300: 1}
    assert image_stats(chunk).sizes.total == sum(len(FILES[name]) for name in names)


def test_an_image_costs_few_calls(root: Path) -> None:
    """Seconds would depend on the machine; calls were 115 an image when a job over small images took a third longer."""
    batch = planned(["a.jpeg"] * 100, label=[index % 3 for index in range(100)])
    encoder = ImageEncoder(str(root))
    encoder(batch)  # what is made once
    calls: Counter[str] = Counter()

    sys.setprofile(lambda frame, event, argument: calls.update((event,)))
    encoder(batch)
    sys.setprofile(None)

    assert calls["call"] + calls["c_call"] <= 85 * len(batch)


def test_features_stand_in_schema_order(root: Path) -> None:
    column = encode_entry("price", encode_int64_feature([7]))
    labelled, plain = examples(ImageEncoder(str(root))(planned(["a.png"] * 2, label=[1, None], columns=[column, None])))

    assert list(labelled) == ["image", "label", "filename", "height", "width", "price"]
    assert labelled["price"] == [7]
    assert list(plain) == ["image", "filename", "height", "width"]


def test_a_uri_is_read_in_place_of_the_name(root: Path) -> None:
    (found,) = examples(ImageEncoder("/nowhere")(planned(["my name"], uri=[str(root / "a.gif")])))

    assert (found["filename"], found["image"]) == ([b"my name"], [FILES["a.gif"]])


@pytest.mark.parametrize(
    ("name", "how", "reason"),
    [
        ("short.png", None, "truncated: the png has no end"),
        ("damaged.gif", Reencode("jpeg"), "does not decode: broken data stream when reading image file"),
    ],
)
def test_rejects(root: Path, name: str, how: Reencode | None, reason: str) -> None:
    chunk = ImageEncoder(str(root), reencode=how)(planned([name], line=[7]))

    found = [(reject.source, reject.line, reject.stage, reject.reason) for reject in chunk.rejects]
    assert found == [(name, 7, "write", reason)]
    assert (bytes(chunk.framed), chunk.examples, image_stats(chunk).sizes.count) == (b"", 0, 0)


def test_a_bad_record_changes_no_other(root: Path) -> None:
    encoder = ImageEncoder(str(root))
    good = encoder(planned(["a.jpeg", "a.gif"]))
    mixed = encoder(planned(["text.jpg", "a.jpeg", "folder.jpg", "a.gif", "empty.jpg"]))

    assert bytes(mixed.framed) == bytes(good.framed)
    assert mixed.stats == good.stats
    assert [reject.source for reject in mixed.rejects] == ["text.jpg", "folder.jpg", "empty.jpg"]


@pytest.mark.parametrize(
    ("verify", "accepted"),
    [
        ("none", {"a.png", "a.tiff", "empty.jpg", "text.jpg", "short.png", "damaged.gif", "pixel.png"}),
        ("header", {"a.png", "damaged.gif", "pixel.png"}),
        ("decode", {"a.png", "pixel.png"}),
    ],
)
def test_how_far_images_are_checked(root: Path, verify: str, accepted: set[str]) -> None:
    names = ["a.png", "a.tiff", "empty.jpg", "text.jpg", "short.png", "damaged.gif", "pixel.png"]
    encoder = ImageEncoder(str(root), verify)
    chunk = encoder(planned(names))
    found = examples(chunk)

    assert {example["filename"][0].decode() for example in found} == accepted
    assert len(chunk.rejects) == len(names) - len(accepted)
    assert all(("height" in example) is encoder.has_sizes is (verify != "none") for example in found)


@pytest.mark.parametrize("reencode", [None, Reencode("png")])
@pytest.mark.parametrize(("limit", "good"), [(48, True), (47, False)])
def test_the_limit_of_pixels(root: Path, reencode: Reencode | None, limit: int, good: bool) -> None:
    chunk = ImageEncoder(str(root), reencode=reencode, max_pixels=limit)(planned(["a.gif"]))

    assert chunk.examples == good
    if not good:
        assert chunk.rejects[0].reason == "a gif of 8 x 6 pixels is more than --max_pixels 47: a decompression bomb?"


def test_reencoded_images(root: Path) -> None:
    encoder = ImageEncoder(str(root), "none", Reencode("jpeg", (4, 5)))
    found = examples(encoder(planned(["a.tiff", "a.webp"])))

    assert encoder.has_sizes
    for example in found:
        with Image.open(io.BytesIO(example["image"][0])) as image:
            assert (image.format, image.size, image.mode) == ("JPEG", (4, 5), "RGB")
        assert (example["width"], example["height"]) == ([4], [5])


MEBI = 1 << 20


def slices(batch: pa.RecordBatch, rows: int) -> list[pa.RecordBatch]:
    return [part for part, _ in split_into_tasks(batch, make_empty_stored(len(batch)), rows, MEBI)]


@pytest.mark.parametrize(
    ("sizes", "rows", "expected"),
    [
        ([10] * 5, 2, [2, 2, 1]),
        ([10] * 4, 4, [4]),
        ([MEBI] * 3, 64, [1, 1, 1]),
        ([5 * MEBI, 1, 1], 64, [1, 2]),
        ([MEBI // 2] * 5, 64, [2, 2, 1]),
        ([1], 1, [1]),
    ],
)
def test_chunks_are_bounded_in_rows_and_bytes(sizes: list[int], rows: int, expected: list[int]) -> None:
    batch = planned([str(index) for index in range(len(sizes))], sizes)
    parts = slices(batch, rows)

    assert [len(part) for part in parts] == expected
    assert [name for part in parts for name in part["name"].to_pylist()] == batch["name"].to_pylist()


def test_any_chunks_give_the_same_bytes(root: Path) -> None:
    batch = planned(["a.jpeg", "text.jpg", "a.png", "a.gif", "a.bmp", "folder.jpg", "a.webp"], label=list(range(7)))
    encoder = ImageEncoder(str(root))

    whole = bytes(encoder(batch).framed)

    for rows in (1, 2, 3):
        assert b"".join(encoder(chunk).framed for chunk in slices(batch, rows)) == whole


MEMBERS: tuple[annotations.ObjectField, ...] = ("area", "bbox", "id", "label")
SIZE = (60, 40)


def objects_planned(sizes: list[tuple[int, int] | None]) -> pa.RecordBatch:
    """Images of which `sizes` are said, the number of whose objects is their place; each has a box from the corner."""
    objects = [
        [annotations.Object("cat", 0, 0, 10 + each, 20 + each, 100 * image + each, 8.0) for each in range(image)]
        for image in range(len(sizes))
    ]
    columns = zip(*(item for of_image in objects for item in of_image), strict=True)
    sides = [[None if size is None else size[side] for size in sizes] for side in (0, 1)]
    found = pa.RecordBatch.from_arrays(
        [
            *(pa.array(side, pa.int64()) for side in sides),
            annotations.build_lists_of_columns(columns, list(map(len, objects))),
        ],
        ["box_width", "box_height", "objects"],
    )
    return annotations.plan_objects(found, {"cat": 0})


@pytest.mark.parametrize("how", [None, Reencode("png", (30, 30), "cover"), Reencode("png", (30, 30), "contain")])
@pytest.mark.parametrize("start", [0, 2])
def test_prepared_objects_are_those_of_the_images_as_they_are(how: Reencode | None, start: int) -> None:
    sizes = [SIZE, SIZE, None, SIZE, (61, 40), SIZE, SIZE, (40, 60)]
    pictures = [Picture(*SIZE, 6 if place == 7 else 1) for place in range(len(sizes))]
    encoder = ObjectEncoder(MEMBERS)
    batch = objects_planned(sizes)
    expected, expected_errors = encoder.place(annotations.read_planned_objects(batch), pictures, how)
    prepared = encoder.prepare(batch, how).slice(start)
    seen: list[Picture | None] = [None if place == 5 else picture for place, picture in enumerate(pictures)]
    rows, places, errors = encoder.annotate(prepared, seen[start:], how)

    assert batch.schema.equals(annotations.PLANNED_OBJECTS)
    assert {place + start for place in errors} == set(expected_errors) == {4}
    for place, row in enumerate(places, start):
        assert (row is None) == (place == 5)
        if row is not None and place != 4:
            assert rows.slice(row, 1).to_pylist() == expected.slice(place, 1).to_pylist()
            assert len(rows["objects/id"][row]) + rows["cropped"][row].as_py() == place


def test_what_is_prepared_is_taken() -> None:
    encoder = ObjectEncoder(MEMBERS)
    prepared = encoder.prepare(objects_planned([SIZE, SIZE]), None)
    rows, places, _ = encoder.annotate(prepared, [Picture(*SIZE)] * 2, None)

    assert places == [0, 1]
    assert len(rows) == 2
    np.testing.assert_allclose(rows["objects/bbox"][1].as_py(), [0, 0, 10 / 40, 20 / 60], rtol=1e-6)


def test_boxes_of_the_stored_image_are_turned_with_it_and_others_are_not() -> None:
    turned = [Picture(*SIZE, 6)] * 3  # whose upright image is 40 x 60
    batch = objects_planned([None, SIZE, SIZE[::-1]])
    rows, errors = ObjectEncoder(MEMBERS).place(annotations.read_planned_objects(batch), turned, Reencode("png"))

    assert errors == {}
    first = [boxes[:4] for boxes in rows["objects/bbox"].to_pylist()]
    np.testing.assert_allclose(first[1], [0, 1 - 10 / 40, 20 / 60, 1], rtol=1e-6)
    np.testing.assert_allclose(first[2], [0, 0, 10 / 60, 20 / 40], rtol=1e-6)
