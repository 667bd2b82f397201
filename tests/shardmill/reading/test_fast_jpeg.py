"""JPEGs that `load` and `source` decode at a fraction of their size."""

from collections.abc import Callable
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import shardmill
from shardmill.data.media import rgb_array
from shardmill.errors import UserError
from shardmill.reading.tensor_examples import ImageDecoder, ImageDType
from tests.support.command import write_files
from tests.support.later import Later
from tests.support.masks import encoded, write_pairs
from tests.support.reading import make

tf = Later("tensorflow")
# Two of 427 x 640 pixels
PHOTOS = sorted(Path(str(distribution("scikit-learn").locate_file("sklearn/datasets/images"))).glob("*.jpg"))
MEAN, MOST = 4, 60  # differences of pixels from those of images that are decoded whole, as docs/random-access.md says
ALIASED = 16  # mean difference without antialiasing
# Height and width of images, and the fraction at which a photo is decoded for it
SIZES = {(427, 640): 1, (214, 320): 1, (213, 321): 1, (213, 320): 2, (107, 160): 2, (106, 160): 4, (53, 81): 4} | {
    (53, 80): 8,
    (20, 31): 8,
}


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    """The photos, one of them in several ways, and images that have no fraction."""
    photo = Image.open(PHOTOS[0])
    turned = Image.Exif()
    turned[0x0112] = 6  # orientation: rotated by 90 degrees
    odd = photo.crop((0, 0, 611, 401))
    small = photo.resize((50, 40))
    return {path.name: path.read_bytes() for path in PHOTOS} | {
        "cmyk.jpg": encoded(photo.convert("CMYK"), "JPEG"),
        "grey.jpg": encoded(photo.convert("L"), "JPEG"),
        "odd.jpg": encoded(odd, "JPEG"),
        "progressive.jpg": encoded(odd, "JPEG", progressive=True),
        "turned.jpg": encoded(odd, "JPEG", exif=turned),
        "tall.jpg": encoded(photo.resize((90, 2000)), "JPEG"),
        "small.jpg": encoded(small, "JPEG"),
        "small.png": encoded(small, "PNG"),
        "whole.png": encoded(photo, "PNG"),
    }


@pytest.fixture(scope="module")
def photos(files: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    return make("images", write_files(folder / "in", files), folder / "out")


def of_source(directory: Path, size: tuple[int, int], **options: Any) -> dict[str, np.ndarray]:
    source = shardmill.source(directory, features=["image", "filename"], image_size=size, **options)
    return {example["filename"].decode(): example["image"] for example in source}


def of_load(directory: Path, size: tuple[int, int], antialias: bool = True, **options: Any) -> dict[str, np.ndarray]:
    names: dict[str, Any] = {"features": ["image", "filename"], "supervised": False, "image_dtype": "uint8"}
    examples = shardmill.load(directory, "train", None, size, antialias=antialias, **names, **options)
    return {example["filename"].decode(): example["image"] for example in examples.as_numpy_iterator()}


def differences(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    assert found.shape == expected.shape
    assert found.dtype == np.uint8
    return np.abs(found.astype(int) - expected)


@pytest.mark.slow
@pytest.mark.parametrize("read", [of_source, of_load])
def test_pixels_are_near_those_of_whole_images(photos: Path, read: Callable[..., dict[str, np.ndarray]]) -> None:
    for size, fraction in SIZES.items():
        fast, whole = read(photos, size, fast_jpeg=True), read(photos, size)
        for name in ("small.jpg", "small.png", "whole.png"):  # 40 x 50 pixels are not twice as many as 20 x 31
            np.testing.assert_array_equal(fast[name], whole[name])
        for name in ("china.jpg", "flower.jpg", "grey.jpg", "cmyk.jpg"):
            found = differences(fast[name], whole[name])
            assert found.any() == (fraction > 1), (size, name)
            assert found.mean() < MEAN
            assert found.max() < MOST
        for name in ("odd.jpg", "progressive.jpg", "turned.jpg", "tall.jpg"):
            assert differences(fast[name], whole[name]).mean() < MEAN


def test_a_smaller_fraction_would_be_too_far_away(files: dict[str, bytes]) -> None:
    """The bounds of the test above notice one that is half of what is used."""
    for size, fraction in SIZES.items():
        if size not in ((213, 320), (106, 160)):
            continue
        found = []
        for path in PHOTOS:
            image = Image.open(path)
            image.draft(None, (image.width // fraction // 2, image.height // fraction // 2))
            assert image.height < size[0]
            scaled = np.asarray(image.resize(size[::-1], Image.Resampling.BILINEAR))
            found.append(differences(scaled, rgb_array(files[path.name], 1 << 30, size)))
        assert max(one.mean() for one in found) > MEAN
        assert max(one.max() for one in found) > MOST


@pytest.mark.slow
def test_without_antialiasing_they_are_further_away(photos: Path) -> None:
    """Each pixel is a mean of several of the file, and not one of them, as in the whole image."""
    for size in (size for size, fraction in SIZES.items() if fraction > 1):
        fast, whole = of_load(photos, size, False, fast_jpeg=True), of_load(photos, size, False)
        found = [differences(fast[path.name], whole[path.name]).mean() for path in PHOTOS]
        assert MEAN < max(found) < ALIASED


@pytest.mark.slow
def test_floats_and_grey_images(files: dict[str, bytes]) -> None:
    ways: list[tuple[ImageDType, bool]] = [("float32", True), ("uint8", True), ("uint8", False)]
    for name in ("china.jpg", "grey.jpg", "whole.png", "small.jpg"):
        for channels in (1, 3):
            floats, integers, whole = (
                ImageDecoder(dtype, channels, (50, 60), fast_jpeg=fast)(files[name]).numpy() for dtype, fast in ways
            )
            np.testing.assert_array_equal(np.round(floats * 255), integers)
            assert floats.shape == (50, 60, channels)
            assert (integers == whole).all() == name.startswith(("whole", "small"))


@pytest.mark.slow
def test_a_jpeg_that_is_cut_short(files: dict[str, bytes]) -> None:
    cut = files["china.jpg"][:-5000]
    for fast in (True, False):
        with pytest.raises(ValueError, match="truncated"):
            rgb_array(cut, 1 << 30, (50, 60), fast)
        with pytest.raises(tf.errors.InvalidArgumentError):
            ImageDecoder("uint8", 3, (50, 60), fast_jpeg=fast)(cut)


@pytest.mark.slow
def test_masks_stay_as_they_are(tmp_path: Path) -> None:
    write_pairs(tmp_path)
    directory = make("images", tmp_path / "images", tmp_path / "out", "--masks", tmp_path / "masks")
    fast, whole = (shardmill.source(directory, image_size=(4, 5), fast_jpeg=fast) for fast in (True, False))
    for one, other in zip(fast, whole, strict=True):
        np.testing.assert_array_equal(one["mask"], other["mask"])
    options: dict[str, Any] = {"batch_size": 8, "image_size": (4, 5), "shuffle": False, "label": "mask"}
    for (_, one), (_, other) in zip(
        shardmill.load(directory, fast_jpeg=True, **options), shardmill.load(directory, **options), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_it_needs_a_size(photos: Path) -> None:
    for read in (shardmill.source, shardmill.load):
        with pytest.raises(UserError, match=r"^fast_jpeg=True decodes images at about the size .* give image_size$"):
            read(photos, fast_jpeg=True)
