"""Masks of images and pairs of images: features of their own that TFDS reads, moved with their image."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

import shardmill
from shardmill.metadata.schema import from_pbtxt
from tests.support.command import LONG_AGO, Run, age, image, tree_bytes, write_files, write_old_files
from tests.support.jobs import Jobs
from tests.support.later import Later
from tests.support.masks import COLOURS, encoded, palette, picture, values, write_pairs
from tests.support.reading import make

tf = Later("tensorflow")
tfds = Later("tensorflow_datasets")
MASKED = "images --input in/images --masks in/masks"


def examples(directory: Path, **options: Any) -> dict[str, Any]:
    """The examples of the one split, by the names of their files."""
    found = shardmill.examples(directory, "train", **options)
    return {example["filename"].decode(): example for example in found}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A folder of images beside one of masks, and the data set made of both."""
    folder = write_pairs(tmp_path_factory.mktemp("pairs"))
    return folder, make("images", folder / "images", folder / "out", "--masks", folder / "masks", "--num_shards", 2)


@pytest.mark.slow
def test_tfds_reads_masks_as_images_of_one_channel(pairs: tuple[Path, Path]) -> None:
    folder, directory = pairs
    builder = tfds.builder_from_directory(str(directory))
    feature = builder.info.features["mask"]
    found = {one["filename"].decode(): one for one in tfds.as_numpy(builder.as_dataset(split="train"))}

    assert (type(feature).__name__, feature.shape, feature.dtype) == ("Image", (None, None, 1), np.uint8)
    assert len(found) == 8
    for name, example in found.items():
        np.testing.assert_array_equal(example["mask"][..., 0], np.asarray(Image.open(folder / "masks" / name)))
        np.testing.assert_array_equal(example["image"], COLOURS[example["mask"][..., 0]])


def test_bytes_schema_and_statistics_are_those_of_masks(pairs: tuple[Path, Path], run: Run) -> None:
    folder, directory = pairs
    for name, example in examples(directory).items():
        assert example["mask"] == (folder / "masks" / name).read_bytes()
    sizes = [path.stat().st_size for path in folder.glob("masks/*/*.png")]
    (mask,) = [feature for feature in from_pbtxt((directory / "schema.pbtxt").read_text()) if feature.name == "mask"]
    stats = json.loads((directory / "stats.json").read_text())["splits"]["train"]["features"]["mask"]

    assert run("verify", directory, "--decode").status == 0
    assert (mask.kind, mask.required, mask.shape) == ("mask", True, ())
    assert stats["formats"] == {"png": 8}
    assert (stats["size_bytes"]["min"], stats["size_bytes"]["max"]) == (min(sizes), max(sizes))


@pytest.mark.slow
def test_load_gives_images_and_masks_scaled_alike(pairs: tuple[Path, Path]) -> None:
    dataset = shardmill.load(pairs[1], batch_size=8, image_size=(24, 32), label="mask", features=["image"])
    ((images, masks),) = list(dataset)

    assert (masks.shape, masks.dtype) == ((8, 24, 32, 1), tf.uint8)
    assert set(np.unique(masks)) == {0, 1, 2}
    colours = COLOURS[masks.numpy()[..., 0]] / 255
    # What is not at an edge has the colour of its value
    assert (np.abs(colours - images.numpy()).max(-1) < 0.01).mean() > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("label", ["mask", None])
def test_augmenting_changes_both(pairs: tuple[Path, Path], label: str | None) -> None:
    def cropped(features: dict[str, Any], seed: Any) -> dict[str, Any]:
        top = tf.random.stateless_uniform((), seed, 0, 5, tf.int32)
        return {name: pixels[top : top + 7, ::-1] for name, pixels in features.items()}

    options: dict[str, Any] = {"label": label, "features": ["image"]} if label else {"supervised": True}
    for images, labels in shardmill.load(pairs[1], augment=cropped, seed=3, image_dtype="uint8", **options):
        mask = labels if label else labels["mask"]
        assert mask.shape == (7, 16, 1)
        np.testing.assert_array_equal(images, COLOURS[mask.numpy()[..., 0]])


@pytest.mark.slow
def test_an_augmentation_that_loses_the_mask_is_told(pairs: tuple[Path, Path]) -> None:
    with pytest.raises(Exception, match="UserError: augment returned no 'mask'"):  # of TensorFlow, which says whose
        shardmill.load(pairs[1], label="mask", augment=lambda features: {"image": features["image"]})


def test_resized_masks_lie_as_their_images_and_blend_nothing(jobs: Jobs) -> None:
    big = np.kron(values(3), np.ones((8, 8), np.uint8)) * 100
    files = {"images/1.png": encoded(np.stack([big] * 3, -1)), "masks/1.png": encoded(big)}

    built = jobs.build(f"{MASKED} --resize 40x30 --image_format png", files=files)
    example = examples(built.directory, decode_images=True)["1.png"]
    pixels, mask = example["image"][..., 0].astype(int), example["mask"][..., 0].astype(int)

    assert mask.shape == (30, 40)
    assert set(np.unique(mask)) == {0, 100, 200}
    assert (np.abs(pixels - mask) < 10).mean() > 0.85  # all but the edges, which the image blends


@pytest.mark.slow
def test_a_palette_is_stored_as_its_places(jobs: Jobs) -> None:
    mask = values(5)
    built = jobs.build(MASKED, files={"images/1.png": picture(mask), "masks/1.png": palette(mask)})

    np.testing.assert_array_equal(examples(built.directory, decode_images=True)["1.png"]["mask"][..., 0], mask)
    (decoded,) = [values.numpy() for _, values in shardmill.load(built.directory, label="mask")]
    np.testing.assert_array_equal(decoded[..., 0], mask)
    (said,) = [notice for notice in built.notices if notice.startswith("mask")]
    assert said.startswith("mask: 1 mask has a palette, and is stored as a gray PNG of the places in it")


def test_other_files_keep_their_values(jobs: Jobs) -> None:
    wide, coloured = values(1).astype(np.uint16), np.stack([values(1)] * 3, -1)
    masks = [
        encoded(wide),
        encoded(coloured),
        encoded(Image.fromarray(coloured).convert("RGBA")),
        encoded(values(1), "BMP"),
        encoded(values(1), "TIFF", tiffinfo={42113: "2"}),
    ]
    jobs.write({f"masks/{number}.png": content for number, content in enumerate(masks)})
    built = jobs.build(MASKED, files={f"images/{number}.png": picture(values(1)) for number in range(5)})

    for example in examples(built.directory, decode_images=True).values():
        np.testing.assert_array_equal(example["mask"][..., 0], values(1))
    tag = "the tag GDAL_NODATA calls pixels of 2 no data, the first of '4.png'"
    for said in ("1 mask has 16 bits", "2 masks have colours that are all gray", "1 mask is no PNG", tag):
        assert any(said in notice for notice in built.notices), built.notices


@pytest.mark.parametrize(("seen", "flags"), [("stored", ""), ("upright", "--image_format png"), ("upright", "")])
def test_masks_turn_with_images_that_exif_turns(jobs: Jobs, seen: str, flags: str) -> None:
    stored = values(2)
    for orientation in (3, 5, 6, 8):
        turned = Image.open(io.BytesIO(encoded(stored, orientation=orientation)))
        mask = encoded(stored if seen == "stored" else np.asarray(ImageOps.exif_transpose(turned)))
        jobs.write({f"images/{orientation}.png": picture(stored, orientation), f"masks/{orientation}.png": mask})

    found = examples(jobs.build(f"{MASKED} --masks_seen {seen} {flags}").directory, decode_images=True)

    assert len(found) == 4
    for example in found.values():
        np.testing.assert_array_equal(example["image"], COLOURS[example["mask"][..., 0]])


@pytest.mark.slow
def test_columns_of_a_manifest_name_pairs_and_masks(tmp_path: Path) -> None:
    rows = [
        {"left": f"l/{n}.jpg", "right_file_name": f"r/{n}.jpg", "areas": f"m/{n}.png", "text": f"no {n}"}
        for n in range(6)
    ]
    for n in range(6):
        pixels = {f"l/{n}.jpg": image(n, size=(16, 12)), f"r/{n}.jpg": image(n + 50, size=(9 + n, 7))}
        write_files(tmp_path, {**pixels, f"m/{n}.png": encoded(values(n))})
    (tmp_path / "meta.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    flags = ("--manifest", tmp_path / "meta.jsonl", "--file_column", "left,right_file_name", "--mask_column", "areas")
    directory = make("images", None, tmp_path / "out", *flags)
    features = tfds.builder_from_directory(str(directory)).info.features

    assert {name: type(features[name]).__name__ for name in ("image", "right", "areas")} == dict.fromkeys(
        ("image", "right", "areas"), "Image"
    )
    assert (features["right"].shape, features["areas"].shape) == ((None, None, 3), (None, None, 1))
    for name, example in examples(directory).items():
        row = next(row for row in rows if row["left"] == name)
        assert example["right"] == (tmp_path / row["right_file_name"]).read_bytes()
        assert example["areas"] == (tmp_path / row["areas"]).read_bytes()
        assert example["text"].decode() == row["text"]
        assert {"left", "right_file_name"}.isdisjoint(example)
    with pytest.raises(shardmill.UserError, match="the sizes of 'right' are not known; give image_size"):
        shardmill.load(directory, batch_size=6)
    ((inputs, label),) = list(shardmill.load(directory, batch_size=6, image_size=(5, 6), features=["image", "right"]))
    assert {name: tensor.shape for name, tensor in inputs.items()} == {"image": (6, 5, 6, 3), "right": (6, 5, 6, 3)}
    assert label.shape == (6, 5, 6, 1)


def test_contact_sheets_and_pages_show_masks_and_pairs(run: Run, pairs: tuple[Path, Path], tmp_path: Path) -> None:
    plain = make("images", pairs[0] / "images", tmp_path / "plain")

    def sheet(directory: Path) -> np.ndarray:
        assert run("inspect", directory, "--contact_sheet", tmp_path / "sheet.png").status == 0
        return np.asarray(Image.open(tmp_path / "sheet.png").convert("RGB")).astype(int)

    with_masks, without = sheet(pairs[1]), sheet(plain)
    overlay = np.array([(20 + 230) / 2, 0, 0])  # nothing lies over the background
    assert not (np.abs(with_masks - overlay).max(-1) < 3).any()
    red, mixed = np.array([220, 30, 30]), np.array([(220 + 230) / 2, (30 + 159) / 2, (30 + 0) / 2])
    assert (np.abs(without - red).max(-1) < 3).any()
    assert not (np.abs(with_masks - red).max(-1) < 3).any()
    assert (np.abs(with_masks - mixed).max(-1) < 3).any()

    def page(directory: Path) -> str:
        return (directory.parent / "builds" / "1.0.0.html").read_text()

    assert page(pairs[1]).count("data:image/jpeg") >= 8  # an overlay is no longer shown pixel by pixel
    assert page(plain).count("data:image/jpeg") == 0


def test_a_changed_mask_is_read_again_and_others_are_taken(jobs: Jobs) -> None:
    folder = write_pairs(jobs.folder / "in")
    jobs.write({"masks/a/0.png": palette(values(0))})
    age(folder)
    build = f"{MASKED} --num_shards 3 --resize 8x6 --version"
    jobs.build(f"{build} 1.0.0 --reuse record")
    write_old_files(folder, {"masks/a/2.png": encoded(values(3))}, LONG_AGO + 1)

    again = jobs.build(f"{build} 1.0.1 --reuse LATEST")
    full = jobs.build(f"{build} 1.0.1 --output full")

    assert "7 of 8 files taken from 1.0.0, the others read" in again.said
    assert tree_bytes(again.directory) == tree_bytes(full.directory)


COLORS = "20 20 20\t\tBackground\n220 30 30\tCar\n30 220 30\tLane Markings\n1 2 3\tVoid\n"  # and one more


def test_colours_become_classes(jobs: Jobs) -> None:
    """Other lists of colours, and mistakes in them, are in test_colors.py."""
    write_pairs(jobs.folder / "in", 4)
    coloured = [encoded(Image.fromarray(COLOURS[values(index)])) for index in range(4)]
    coloured[1] = encoded(Image.fromarray(COLOURS[values(1)]).quantize(8))  # with a palette
    coloured[3] = encoded(Image.fromarray(COLOURS[values(3)]).convert("RGBA"))
    jobs.write({f"masks/{'ab'[index % 2]}/{index}.png": content for index, content in enumerate(coloured)})
    jobs.write({"colors.txt": COLORS})

    jobs.fail(MASKED, "give --mask_colors, a file with the class of each colour")
    said = "--mask_colors is about the masks of --masks or --mask_column"
    jobs.refuse("images --input in/images --mask_colors in/colors.txt", said)
    built = jobs.build(f"{MASKED} --mask_colors in/colors.txt --resize 16x12 --overwrite")

    notice = "4 classes in --mask_colors: 0 'Background', 1 'Car', 2 'Lane Markings', 3 'Void'"
    assert notice in "\n".join(built.notices)
    for file, example in examples(built.directory).items():
        with Image.open(io.BytesIO(example["mask"])) as stored:
            assert stored.mode == "L"
            assert (np.asarray(stored) == values(int(Path(file).stem))).all()


@pytest.mark.parametrize(
    ("flags", "suffix"),
    [
        ("--input in/images --masks in/masks", ""),
        ("--input in/images --masks in/masks --mask_pattern {stem}_m --resize 8x6 --mask_dtype uint16", "_m"),
        ("--manifest in/m.csv --mask_column mask", ""),
    ],
)
def test_white_and_black_become_zero_and_one_as_the_notice_says(jobs: Jobs, flags: str, suffix: str) -> None:
    rows = "".join(f"images/{at}.jpg,masks/{at}.png\n" for at in range(3))
    files = {f"images/{at}.jpg": image(at, "JPEG", (16, 12)) for at in range(3)} | {"m.csv": f"file_name,mask\n{rows}"}
    pixels = [(values(at) > 0) * np.uint8(255) for at in range(2)]
    masks = [Image.fromarray(pixels[0]), Image.fromarray(pixels[1]).convert("1"), Image.new("L", (16, 12))]
    jobs.write({**files, **{f"masks/{at}{suffix}.png": encoded(mask) for at, mask in enumerate(masks)}})
    build = f"images {flags} --num_shards 2"

    for more in ("--reuse record", "--reuse LATEST --version 1.0.1"):
        (said,) = [notice for notice in jobs.build(f"{build} {more}").notices if "255" in notice]
    jobs.write({"colors.txt": "\n".join(said.split("'")[1::2])})
    built = jobs.build(f"{build} --mask_colors in/colors.txt --version 1.0.2")

    assert said.startswith("3 masks have only the values 0 and 255; --mask_colors FILE stores 0 and 1, if")
    assert not [notice for notice in built.notices if "255" in notice]
    found = [example["mask"] for example in examples(built.directory, decode_images=True).values()]
    assert sorted((set(np.unique(mask)) for mask in found), key=len) == [{0}, {0, 1}, {0, 1}]


OF_VOC = Image.frombytes("P", (16, 12), ((values(1) > 0) * np.uint8(255)).tobytes())
OF_VOC.putpalette([0, 0, 0] * 255 + [224, 224, 192])


@pytest.mark.parametrize("other", [encoded(values(1)), encoded(OF_VOC)], ids=["values", "palette"])
def test_of_masks_with_other_values_nothing_is_said_of_255(jobs: Jobs, other: bytes) -> None:
    masks = [encoded((values(at) > 0) * np.uint8(255)) for at in range(3)]
    pictures = {f"images/{at}.jpg": image(at, "JPEG", (16, 12)) for at in range(4)}
    jobs.write({**pictures, **{f"masks/{at}.png": mask for at, mask in enumerate([*masks, other])}})
    assert not [notice for notice in jobs.build(MASKED).notices if "255" in notice]


def test_a_colour_without_a_class_is_a_reject(jobs: Jobs) -> None:
    write_pairs(jobs.folder / "in", 4)
    jobs.write({f"masks/{'ab'[index % 2]}/{index}.png": picture(values(index)) for index in range(4)})
    odd = COLOURS[values(0)]
    odd[0, 0] = (7, 8, 9)
    wide = encoded(np.full_like(values(2), 5000, np.uint16))  # which Pillow makes white
    jobs.write({"masks/a/0.png": encoded(odd), "masks/a/2.png": wide, "colors.txt": f"{COLORS}255 255 255\tWhite\n"})
    frames = [Image.fromarray(COLOURS[values(index)]) for index in range(2)]
    frames[0].save(jobs.folder / "in/masks/b/1.png", save_all=True, append_images=frames[1:])

    built = jobs.build(f"{MASKED} --mask_colors in/colors.txt --max_reject_fraction 0.8")

    assert "1 pixel has a colour that --mask_colors does not list, such as 7,8,9" in built.said
    assert "a mask of more than 8 bits, and --mask_colors lists colours of 8" in "".join(built.reasons.values())
    assert "an animation, of which no picture is the mask" in built.reasons["b/1.png"]
    assert len(examples(built.directory)) == 1
