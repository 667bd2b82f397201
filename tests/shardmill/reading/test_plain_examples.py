"""examples: NumPy values without TensorFlow, equal to what TensorFlow reads, every checksum verified."""

import io
import json
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import shardmill
from shardmill.errors import CorruptDataError, UserError
from shardmill.pipelines import cli
from shardmill.transforms.files.image_codec import Reencode, reencode
from tests.support.command import image, npy, write_files
from tests.support.reading import ROWS, by_number, copy, flip, make, make_images, make_rows, plain, row, shards
from tests.support.small_data_set import edit_manifest
from tests.support.sounds import wav


@pytest.fixture
def rows(rows_in_four_shards: Path) -> Path:
    return rows_in_four_shards


@pytest.fixture(scope="module")
def flowers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_images(tmp_path_factory.mktemp("images"), "--splits", "train=0.8,test=0.2", each=5)


def expected(number: int) -> dict[str, Any]:
    values = row(number)
    return {**values, "city": ["Oslo", "Rome"].index(values["city"])}


def test_values_are_those_of_the_source(rows_of_each_compression: Path) -> None:
    assert by_number(shardmill.examples(rows_of_each_compression)) == {
        number: expected(number) for number in range(ROWS)
    }


def test_types(rows: Path) -> None:
    types = {
        "n": np.int64, "x": np.float32, "word": bytes, "pair": np.ndarray, "weights": np.ndarray, "tokens": np.ndarray,
        "tags": list, "city": np.int64, "age": np.int64, "note": bytes,
    }  # fmt: skip
    for example in shardmill.examples(rows):
        assert {name: type(value) for name, value in example.items()} == {name: types[name] for name in example}
        assert (example["weights"].dtype, example["tokens"].dtype) == (np.float32, np.int64)


def test_defaults_stand_for_missing_values(rows: Path) -> None:
    found = by_number(shardmill.examples(rows, defaults={"age": -1, "note": "none"}))

    assert found == {number: {"age": -1, "note": "none", **expected(number)} for number in range(ROWS)}
    example = next(shardmill.examples(rows, defaults={"age": -1, "note": "none"}, features=["age", "note"]))
    assert (type(example["age"]), type(example["note"])) == (np.int64, bytes)


@pytest.fixture(scope="module")
def gaps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Values of many kinds, all of which every second row lacks; and images, and arrays of a fixed and of any size."""
    values = {
        "count": 7, "price": 2.5, "is_new": True, "word": "wörd", "pair": [1, -2], "vector": [0.5, 1.5, 2.5],
        "tokens": [1, 2, 300], "tags": ["a", "b"], "boxes": [[0.0, 0.0, 0.5, 1.0]], "grid": [[1, 2], [3, 4]],
    }  # fmt: skip
    lines = (json.dumps({"n": number, **(values if number % 2 else {})}) for number in range(10))
    folder = tmp_path_factory.mktemp("gaps")
    source = write_files(folder, {"gaps.jsonl": "".join(f"{line}\n" for line in lines).encode()}) / "gaps.jsonl"
    return make("jsonl", source, folder / "out")


GAP_DEFAULTS: dict[str, Any] = {
    "count": -1, "price": 0.0, "is_new": 0, "word": "none", "pair": [8, 9], "vector": 0, "tokens": -1, "tags": "no",
    "boxes": 0.0, "grid": 0,
}  # fmt: skip


def test_a_default_has_the_type_of_the_values_that_it_replaces(gaps: Path) -> None:
    found = list(shardmill.examples(gaps, defaults=GAP_DEFAULTS))
    (full,) = {tuple(sorted(example)) for example in found}
    assert set(full) == {"n", *GAP_DEFAULTS}
    values = [example for example in shardmill.examples(gaps) if len(example) > 1]
    assert len(values) == 5
    for example in found:
        for name, value in values[0].items():
            assert type(example[name]) is type(value), name
            if isinstance(value, np.ndarray):
                assert (example[name].dtype, example[name].ndim) == (value.dtype, value.ndim), name


@pytest.mark.parametrize(
    "options", [{}, {"shuffle_buffer_size": 4, "seed": 1}, {"num_workers": 1, "equal_parts": True}]
)
def test_arrays_are_writable_and_each_example_has_its_own(gaps: Path, options: dict[str, Any]) -> None:
    expected = by_number(shardmill.examples(gaps, defaults=GAP_DEFAULTS))
    seen = {}
    for example in shardmill.examples(gaps, defaults=GAP_DEFAULTS, **options):
        seen[int(example["n"])] = plain(example)
        for value in example.values():
            if isinstance(value, np.ndarray):
                value[:] = 99 if value.dtype != object else b"99"
            elif isinstance(value, list):
                value.append(b"99")
    assert seen == expected


@pytest.mark.parametrize("kind", ["images", "arrays", "audio"])
def test_decoded_files_are_writable(kind: str, tmp_path: Path) -> None:
    files = {
        "images": {f"{number}.png": image(number, "PNG") for number in range(3)},
        "arrays": {f"{number}.npy": npy(np.full((3, 2), number, np.float32)) for number in range(3)},
        "audio": {f"{number}.wav": wav(number=number) for number in range(3)},
    }
    directory = make(kind, write_files(tmp_path / "in" / "a", files[kind]).parent, tmp_path / "out")
    options: dict[str, Any] = {"images": {"decode_images": True}, "audio": {"decode_audio": True}}.get(kind, {})
    arrays = [example["audio" if kind == "audio" else "image"] for example in shardmill.examples(directory, **options)]
    assert len(arrays) == 3
    assert all(isinstance(array, np.ndarray) and array.flags.writeable for array in arrays)


def test_features_chosen(rows: Path) -> None:
    found = [plain(example) for example in shardmill.examples(rows, features=["word", "n"])]

    assert sorted(example["n"] for example in found) == list(range(ROWS))
    assert all(example == {"n": example["n"], "word": f"wörd {example['n']}"} for example in found)


@pytest.mark.parametrize("options", [{}, {"equal_parts": True}], ids=["by shard", "equal"])
@pytest.mark.parametrize("workers", [1, 2, 4, 5, 9])
@pytest.mark.filterwarnings("ignore:split 'train' has 4 shards")
def test_each_example_is_on_one_worker(rows: Path, workers: int, options: dict[str, Any]) -> None:
    parts = [
        list(shardmill.examples(rows, num_workers=workers, worker_index=worker, **options)) for worker in range(workers)
    ]

    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert len(by_number(chain(*parts))) == ROWS


def test_order_and_shuffling(rows: Path) -> None:
    def numbers(**options: Any) -> list[int]:
        return [int(example["n"]) for example in shardmill.examples(rows, **options)]

    assert numbers() == numbers()
    assert numbers(shuffle_buffer_size=10, seed=1) == numbers(shuffle_buffer_size=10, seed=1)
    orders = {
        tuple(numbers()),
        *(tuple(numbers(shuffle_buffer_size=size, seed=seed)) for size in (1, 10, 1000) for seed in (1, 2)),
    }
    assert len(orders) == 7
    assert all(sorted(order) == list(range(ROWS)) for order in orders)


def test_images(flowers: Path) -> None:
    encoded = {example["filename"]: example for example in shardmill.examples(flowers)}
    decoded = {example["filename"]: example for example in shardmill.examples(flowers, decode_images=True)}

    assert encoded.keys() == decoded.keys()
    for name, example in encoded.items():
        source = flowers.parent.parent.parent / "source" / name.decode()
        assert example["image"] == source.read_bytes()
        assert np.array_equal(
            decoded[name]["image"], np.asarray(Image.open(io.BytesIO(example["image"])).convert("RGB"))
        )
        assert decoded[name]["image"].shape == (example["height"], example["width"], 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "trian"}, "has no split 'trian'; it has train"),
        ({"features": ["m"]}, "has no feature 'm'; it has age, "),
        ({"defaults": {"m": 1}}, "defaults names 'm', which is no feature"),
        ({"num_workers": 2, "worker_index": 2}, "worker_index is 2; expected 0 to 1"),
        ({"decode_images": True}, "decode_images is for images; those of n that are read are age, "),
        ({"seed": 1}, "seed is 1, but nothing is shuffled"),
        ({"shuffle_buffer_size": -1}, "shuffle_buffer_size is -1"),
    ],
)
def test_mistakes_are_said_at_the_call(rows: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        shardmill.examples(rows, **options)


def test_a_flipped_bit_is_named_with_file_and_record(tmp_path: Path) -> None:
    directory = make_rows(tmp_path, "--num_shards", 4, rows=20)
    intact = [plain(example) for example in shardmill.examples(directory)]
    victim = shards(directory)[1]
    sound = victim.read_bytes()
    for position in range(0, len(sound), 3):
        victim.write_bytes(sound)
        flip(victim, position)
        stream = shardmill.examples(directory)
        found: list[Any] = []
        with pytest.raises(CorruptDataError) as raised:
            found.extend(plain(example) for example in stream)
        assert victim.name in str(raised.value)
        assert f"record {len(found) - 5} at byte " in str(raised.value)
        assert found == intact[: len(found)]


def test_an_example_without_a_feature_it_should_have(rows: Path, tmp_path: Path) -> None:
    directory = copy(rows, tmp_path)
    edit_manifest(directory, lambda content: content["features"][2].update(name="wort"))

    with pytest.raises(CorruptDataError, match=r"00000-of-00004: record 0: feature 'wort' is missing"):
        next(shardmill.examples(directory))


def test_an_image_that_cannot_be_decoded(tmp_path: Path) -> None:
    source = tmp_path / "source" / "images"
    source.mkdir(parents=True)
    (source / "bad.jpg").write_bytes(b"no image")
    directory = make("images", source, tmp_path / "out", "--verify", "none")

    with pytest.raises(
        CorruptDataError,
        match=r"00000-of-00001: record 0: not an image that Pillow reads: the file starts with b'no image'$",
    ):
        next(shardmill.examples(directory, decode_images=True))


@pytest.fixture(scope="module")
def odd_images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images that Pillow's own conversion to RGB gets wrong, and one that EXIF turns."""
    exif = Image.Exif()
    exif[0x0112] = 6
    deep = io.BytesIO()
    Image.fromarray((np.arange(108, dtype=np.uint16) * 600).reshape(9, 12)).save(deep, "PNG")
    files = {
        "deep.png": deep.getvalue(),
        "alpha.png": image(1, "PNG", mode="RGBA"),
        "clear.png": png_with_alpha(),
        "turned.jpg": image(3, "JPEG", exif=exif.tobytes()),
    }
    return make("images", write_files(tmp_path_factory.mktemp("odd") / "in", files), tmp_path_factory.mktemp("out"))


def png_with_alpha() -> bytes:
    out = io.BytesIO()
    Image.new("RGBA", (12, 9), (200, 10, 10, 0)).save(out, "PNG")
    return out.getvalue()


def test_pixels_are_those_that_the_writer_makes(odd_images: Path) -> None:
    raw = {example["filename"]: example["image"] for example in shardmill.examples(odd_images)}
    seen = {example["filename"]: example["image"] for example in shardmill.examples(odd_images, decode_images=True)}

    for name in (b"deep.png", b"alpha.png", b"clear.png"):
        with Image.open(io.BytesIO(reencode(raw[name], Reencode("png"))[0])) as written:
            assert np.array_equal(seen[name], np.asarray(written)), name
    assert len(np.unique(seen[b"deep.png"])) > 80
    assert (seen[b"clear.png"] == 255).all()


def test_pixels_lie_as_they_are_stored_and_the_job_says_so(odd_images: Path) -> None:
    (turned,) = (e for e in shardmill.examples(odd_images, decode_images=True) if e["filename"] == b"turned.jpg")

    assert turned["image"].shape == (turned["height"], turned["width"], 3) == (9, 12, 3)
    (notice,) = (
        notice for notice in json.loads((odd_images / "manifest.json").read_text())["notices"] if "EXIF" in notice
    )
    assert notice.startswith("1 image is stored sideways")
    assert "--image_format jpeg turns them upright" in notice
    assert (
        json.loads((odd_images / "stats.json").read_text())["splits"]["train"]["features"]["image"]["turned_by_exif"]
        == 1
    )


def test_a_contact_sheet_says_what_it_turned(
    odd_images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        cli.main(["inspect", str(odd_images), "--examples", "0", "--contact_sheet", str(tmp_path / "sheet.png")]) == 0
    )
    assert "sheet.png: 4 images, 1 of them turned upright by EXIF, which readers do not do" in capsys.readouterr().out


def test_a_bomb_names_shard_and_record(odd_images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)  # of Pillow's own error, which is no OSError and no ValueError
    with pytest.raises(CorruptDataError, match=r"00000-of-00001: record 0: Image size .* could be decompression bomb"):
        next(shardmill.examples(odd_images, decode_images=True))

    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    directory = copy(odd_images, tmp_path)
    edit_manifest(directory, lambda content: content["configuration"].update(max_pixels=107))
    with pytest.raises(CorruptDataError, match=r"00000-of-00001: record 0: 12 x 9 pixels are more than the 107 that"):
        next(shardmill.examples(directory, decode_images=True))
