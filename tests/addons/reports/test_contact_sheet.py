"""Tests of contact_sheet.py: arrays and boxes as pictures, and which images are on a sheet."""

import io
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageChops, ImageFont

from shardmill.addons.reports.contact_sheet import (
    COLOURS,
    count_turned,
    draw_contact_sheet,
    draw_masks,
    draw_objects,
    fit_line,
    name_in_ascii,
    pick_samples,
    to_ascii,
)
from shardmill.addons.reports.pictures import ObjectBox, Picture, is_drawable, to_picture
from shardmill.data.features import Feature
from shardmill.data.kinds import draw_array
from shardmill.data.tfrecord import frame_record
from shardmill.errors import CorruptDataError
from shardmill.filesystem import LocalFiles
from shardmill.metadata.manifest import Manifest, ShardEntry, SplitEntry
from shardmill.reading.dataset import Dataset
from shardmill.transforms.files.image_geometry import Box
from tests.support.encoded import encode_example


def feature(element: str, *shape: int) -> Feature:
    return Feature("scan", "bytes", "array", shape, element=element)


SHAPES: dict[tuple[str, tuple[int, ...]], bool] = {
    **dict.fromkeys([("float32", (6, 5)), ("uint8", (6, 5, 3)), ("bool", (6, 5, 1))], True),
    **dict.fromkeys([("complex64", (6, 5)), ("float32", (6, 5, 2)), ("float32", (6,)), ("float32", ())], False),
    ("float32", (2, 6, 5, 3)): False,
}


def test_arrays_that_can_be_drawn() -> None:
    assert {(element, shape): is_drawable(feature(element, *shape)) for element, shape in SHAPES} == SHAPES
    assert not is_drawable(Feature("image", "bytes", "image"))


@pytest.mark.parametrize(
    ("values", "pixels"),
    [
        (np.array([[-1.0, 0, 1]]), [0, 128, 255]),
        (np.array([[7, 7, 7]], np.int16), [0, 0, 0]),
        (np.array([[False, True, True]]), [0, 255, 255]),
        (np.array([[np.nan, 0, 1]], np.float32), [0, 0, 255]),
        (np.array([[np.nan, np.inf, -np.inf]]), [0, 0, 0]),
        (np.array([[-1.7e308, 0, 1.7e308]]), [0, 128, 255]),
    ],
)
def test_values_are_scaled(values: np.ndarray, pixels: list[int]) -> None:
    with warnings.catch_warnings(action="error"):
        png = draw_array(feature(str(values.dtype), *values.shape), values.tobytes())
    assert np.asarray(Image.open(io.BytesIO(png))).ravel().tolist() == pixels


def test_channels() -> None:
    values = np.arange(18, dtype=np.uint8).reshape(2, 3, 3)

    assert Image.open(io.BytesIO(draw_array(feature("uint8", 2, 3, 3), values.tobytes()))).mode == "RGB"
    assert Image.open(io.BytesIO(draw_array(feature("uint8", 6, 3, 1), values.tobytes()))).mode == "L"
    assert draw_array(feature("uint8", 2, 3), b"12345") == b""  # of another length


def drawn(name: str, left: float, right: float) -> Image.Image:
    image = Image.new("RGB", (100, 60))
    draw_objects(image, [ObjectBox(Box(0.1, left, 0.9, right), 1, name)], b"")
    return image


def test_a_name_may_be_twice_as_wide_as_its_box_and_stays_in_the_picture() -> None:
    for left in (0.0, 0.3, 0.72):  # the last box ends where the picture does
        whole = drawn("green", left, left + 0.27)
        assert ImageChops.difference(whole, drawn("gree", left, left + 0.27)).getbbox() is not None
    name = ImageChops.difference(drawn("green", 0.72, 0.99), drawn("", 0.72, 0.99)).getbbox()
    assert name is not None
    assert name[0] < 72
    assert name[2] <= 100


def test_a_name_is_white_on_a_dark_colour() -> None:
    for colour, is_white in ((4, True), (3, False)):
        image = Image.new("RGB", (100, 60))
        draw_objects(image, [ObjectBox(Box(0.1, 0.1, 0.9, 0.9), colour, "green")], b"")
        assert any(min(pixel) > 200 for pixel in _colours(image)) is is_white


def test_each_value_of_a_mask_has_a_colour() -> None:
    mask = io.BytesIO()
    Image.fromarray(np.array([[0, 1, 2, 8]], np.uint8)).save(mask, "PNG")
    image = Image.new("RGB", (4, 1))
    draw_masks(image, [mask.getvalue()], _png((0, 0, 0), (4, 1)))

    halves = [tuple(round(part / 2) for part in colour) for colour in (COLOURS[0], COLOURS[1], COLOURS[0])]
    assert [image.getpixel((x, 0)) for x in range(4)] == [(0, 0, 0), *halves]


def test_a_longer_name_is_cut_and_a_narrow_box_has_none() -> None:
    long = "a very long name of a class"
    assert drawn(long, 0.0, 0.27).tobytes() == drawn(long[:-3], 0.0, 0.27).tobytes()
    assert drawn("green", 0.0, 0.2).tobytes() == drawn("", 0.0, 0.2).tobytes()


_RED_FRAME = (198, 40, 40)
_FEATURES = (
    Feature("image", "bytes", "image"),
    Feature("label", "int64", "class_label", class_names=tuple(f"class_{index}" for index in range(20))),
    Feature("filename", "bytes", "text"),
)


def _png(colour: tuple[int, ...], size: tuple[int, int] = (10, 10), mode: str = "RGB") -> bytes:
    out = io.BytesIO()
    Image.new(mode, size, colour).save(out, "PNG")
    return out.getvalue()


def _open(png: bytes) -> Image.Image:
    return Image.open(io.BytesIO(png)).convert("RGB")


def _colours(page: Image.Image) -> set[tuple[int, int, int]]:
    colours = page.convert("RGB").getcolors(page.width * page.height)
    return {(colour[0], colour[1], colour[2]) for _, colour in colours or () if isinstance(colour, tuple)}


def _dataset(folder: Path, shards: Sequence[Sequence[int | None]], ordered: bool = False) -> Dataset:
    """A data set whose shards hold examples of these classes; file names are `<shard>/<index>`, images are not
    decoded."""
    entries = []
    for number, labels in enumerate(shards):
        name = f"tiny-train.tfrecord-{number:05d}-of-{len(shards):05d}"
        records = []
        for index, label in enumerate(labels):
            example = {"image": [b"image"], "filename": [f"{number}/{index}".encode()]}
            records.append(encode_example(example if label is None else {**example, "label": [label]}))
        (folder / name).write_bytes(b"".join(map(frame_record, records)))
        entries.append(ShardEntry(name, len(labels), 0, ""))
    labelled = any(label is not None for labels in shards for label in labels)
    features = _FEATURES if labelled else (_FEATURES[0], _FEATURES[2])
    split, configuration = SplitEntry("train", tuple(entries)), {"no_shuffle": ordered}
    manifest = Manifest("tiny", "1.0.0", "", features, (split,), configuration=configuration)
    return Dataset(str(folder), manifest, LocalFiles())


def _pick(dataset: Dataset, number: int) -> list[Picture]:
    return pick_samples(dataset, dataset.manifest.splits, number)


def _even(names: Sequence[str], each: int) -> Counter[str]:
    return Counter(dict.fromkeys(names, each))


@pytest.mark.parametrize(
    ("shards", "number", "labels", "files"),
    [
        ([[0, 0, 0, 0, 0, 0, 1, 2, 3] * 20] * 3, 20, _even(["class_0", "class_1", "class_2", "class_3"], 5), None),
        ([list(range(20))] * 2, 10, _even([f"class_{index}" for index in range(0, 20, 2)], 1), None),
        ([[index % 2 for index in range(100)]] * 5, 20, None, _even("01234", 4)),
        ([list(range(4))] * 4, 4, None, _even("0123", 1)),  # one of each class, and of every shard
        ([[None] * 3] * 10, 5, None, _even("02468", 1)),
        ([[0, 1], [], [1]], 40, None, Counter({"0": 2, "2": 1})),  # all there is
        ([], 40, Counter(), Counter()),
        ([[index * 7 % 5 for index in range(50)]] * 3, 12, None, None),
    ],
)
def test_classes_and_shards_are_evened_out(
    tmp_path: Path, shards: Any, number: int, labels: Counter[str] | None, files: Counter[str] | None
) -> None:
    dataset = _dataset(tmp_path, shards)
    samples = _pick(dataset, number)

    assert labels is None or Counter(sample.label for sample in samples) == labels
    numbers = [int(sample.label.partition("_")[2] or 0) for sample in samples]
    assert files is None or Counter(sample.file.split("/")[0] for sample in samples) == files
    assert numbers == sorted(numbers)
    assert samples == _pick(dataset, number)  # always the same


@pytest.mark.parametrize("ordered", [True, False])
def test_records_in_order_are_looked_at_throughout(tmp_path: Path, ordered: bool) -> None:
    dataset = _dataset(tmp_path, [[index // 100 for index in range(1000)]], ordered)
    assert len({sample.label for sample in _pick(dataset, 10)}) == (10 if ordered else 1)


def test_shuffled_records_are_read_from_the_beginning_only(tmp_path: Path) -> None:
    dataset = _dataset(tmp_path, [[0] * 1000])
    path = tmp_path / dataset.manifest.splits[0].shards[0].file
    path.write_bytes(path.read_bytes()[:-7])
    assert len(_pick(dataset, 40)) == 40
    with pytest.raises(CorruptDataError, match="record 999 at byte"):
        _pick(dataset, 300)


def test_sample_of_an_example() -> None:
    example: dict[str, Any] = {"image": [b"x"], "label": np.array([3]), "filename": ["ä".encode()]}
    chinese = (Feature("label", "int64", "class_label", class_names=("dog", "猫")),)

    assert to_picture(example, _FEATURES) == Picture(b"x", "class_3", "ä")
    assert to_picture({"image": [], "label": np.array([20])}, _FEATURES) == Picture(b"", "no class 20")
    assert to_picture({"label": np.array([1])}, chinese, name_class=name_in_ascii).label == "class 1"
    assert to_picture({"label": np.array([0])}, chinese, name_class=name_in_ascii).label == "dog"
    assert to_picture({"label": np.array([3, 0])}, _FEATURES).label == "class_3, class_0"


def test_every_image_is_on_the_sheet() -> None:
    colours = [(index, 255 - index, 7) for index in range(0, 250, 6)]
    page = _open(draw_contact_sheet([Picture(_png(colour)) for colour in colours]))
    assert set(colours) <= _colours(page)
    assert _RED_FRAME not in _colours(page)


@pytest.mark.parametrize("number", [0, 1, 2, 7, 40, 300])
def test_page_is_as_large_as_its_grid(number: int) -> None:
    page = _open(draw_contact_sheet([Picture(_png((1, 2, 3)))] * number))
    columns, rows = (page.width - 8) // 148, (page.height - 8) // 148
    assert page.size == (8 + 148 * columns, 8 + 148 * rows)
    assert columns <= 12
    assert columns * rows >= number > columns * (rows - 1) or number == 0
    image = (np.asarray(page) == (1, 2, 3)).all(2)
    assert image.sum() == number * 120 * 120  # ten pixels, enlarged by a whole factor


@pytest.mark.parametrize("data", [b"", b"no image", _png((1, 2, 3))[:-25], b"\xff\xd8\xff\xe0" + b"\0" * 50])
def test_what_does_not_decode_is_marked(data: bytes) -> None:
    good, bad = Picture(_png((1, 2, 3)), "cat", "a.png"), Picture(data, "cat", "a.png")
    assert _RED_FRAME not in _colours(_open(draw_contact_sheet([good, good])))
    page = _open(draw_contact_sheet([good, bad]))
    assert page.getpixel((8, 8)) != _RED_FRAME
    assert page.getpixel((8 + 148, 8)) == _RED_FRAME
    assert (1, 2, 3) in _colours(page)


def test_a_bomb_is_not_decoded() -> None:
    page = Image.new("1", (20_000, 10_000))  # 200 million pixels, in some 25 kB
    out = io.BytesIO()
    page.save(out, "PNG")
    assert _RED_FRAME in _colours(_open(draw_contact_sheet([Picture(out.getvalue())])))


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        ((4000, 3), (128, 1)),
        ((1, 1), (128, 128)),
        ((300, 150), (128, 64)),
        ((64, 128), (64, 128)),
        ((40, 30), (120, 90)),
    ],
)
def test_images_fill_their_cell(size: tuple[int, int], shown: tuple[int, int]) -> None:
    image = (np.asarray(_open(draw_contact_sheet([Picture(_png((9, 8, 7), size))]))) == (9, 8, 7)).all(2)
    rows, columns = np.nonzero(image)
    assert (int(np.ptp(columns)) + 1, int(np.ptp(rows)) + 1) == shown


def test_images_of_all_modes() -> None:
    out = io.BytesIO()
    Image.new("CMYK", (200, 100), (0, 0, 0, 0)).save(out, "JPEG")
    images = _png((5,), (9, 9), "L"), _png((0, 90, 0, 128), (9, 9), "RGBA"), out.getvalue()
    colours = _colours(_open(draw_contact_sheet(list(map(Picture, images)))))
    assert _RED_FRAME not in colours
    assert {(5, 5, 5), (127, 172, 127)} <= colours


def test_labels_and_names_are_drawn_beneath() -> None:
    image = _png((1, 2, 3))
    bare, label, both = (draw_contact_sheet([Picture(image, *text)]) for text in ((), ("cat",), ("cat", "cat/1.png")))
    assert _open(bare).height < _open(label).height < _open(both).height
    assert label != draw_contact_sheet([Picture(image, "dog")])
    assert both != draw_contact_sheet([Picture(image, "cat", "cat/2.png")])
    assert draw_contact_sheet([Picture(image)], "title") not in (bare, draw_contact_sheet([Picture(image)], "other"))


def test_long_text_stays_in_its_card() -> None:
    image, text = _png((1, 2, 3)), "Ünïcødé 猫 " * 1000
    page = np.asarray(_open(draw_contact_sheet([Picture(image, text, text)] * 2, text)))
    gap, edge = page[30:, 149:156], page[:, -8:]  # between the two cards; right of the second
    assert _colours(Image.fromarray(gap)) == _colours(Image.fromarray(edge)) == {(241, 243, 245)}


ASCII = {
    **{"plain text": "plain text", "Ünïcode": "Unicode", "smørrebrød": "sm?rrebr?d", "猫": "?", "ﬁ": "fi", "": ""},
    "line\nbreak\ttab\0": "line?break?tab?",
}


def test_readable_text() -> None:
    assert {text: to_ascii(text) for text in ASCII} == ASCII


@pytest.mark.parametrize("width", [20, 50, 128])
@pytest.mark.parametrize("text", ["i" * 500, "W" * 500, "short", "a/b/c/" * 30 + "end.jpg"])
def test_text_is_cut_to_fit(text: str, width: int) -> None:
    font = ImageFont.load_default(size=12)
    start, end = fit_line(text, width), fit_line(text, width, keep_end=True)
    if font.getlength(text) <= width:
        assert start == end == text
        return
    for line in (start, end):
        assert width - 15 < font.getlength(line) <= width
    assert (start[-1], end[0]) == ("…", "…")
    assert text.startswith(start[:-1])
    assert text.endswith(end[1:])


def test_images_that_are_drawn_turned_are_counted() -> None:
    exif, out = Image.Exif(), io.BytesIO()
    exif[0x0112] = 6
    Image.new("RGB", (9, 3)).save(out, "JPEG", exif=exif)

    assert count_turned([Picture(out.getvalue()), Picture(_png((1, 2, 3))), Picture(b"no image"), Picture(b"")]) == 1
