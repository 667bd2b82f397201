"""Images of each format and mode are passed through, re-encoded and resized."""

from pathlib import Path

import pytest
from PIL import Image

from shardmill.transforms.files.image_codec import Reencode, reencode
from tests.support.command import Run, image, write_files
from tests.support.image_jobs import ImageJobs, convert, picture

FORMATS = {"jpeg": "JPEG", "png": "PNG", "gif": "GIF", "bmp": "BMP", "webp": "WEBP", "tif": "TIFF"}
MODES = [("L", "png"), ("P", "png"), ("RGBA", "png"), ("LA", "png"), ("1", "png"), ("I;16", "png"), ("CMYK", "jpeg")]
MODES += [("L", "jpeg"), ("P", "gif"), ("RGBA", "webp"), ("CMYK", "tif"), ("RGBA", "tif"), ("I", "tif")]


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image of every format and of every mode, 40 x 20 pixels, and one that EXIF turns by 90 degrees."""
    modes = {f"mode/{mode}.{suffix}": image(2, FORMATS[suffix], (40, 20), mode) for mode, suffix in MODES}
    files = {f"format/{suffix}.{suffix}": image(1, name, (40, 20)) for suffix, name in FORMATS.items()}
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = {"turned/6.jpg": image(3, "JPEG", (40, 20), exif=exif.tobytes())}
    return write_files(tmp_path_factory.mktemp("zoo") / "in", {**files, **modes, **turned})


def test_bytes_pass_through_untouched_by_default(run: Run, zoo: Path, tmp_path: Path) -> None:
    contents = convert(run, zoo, tmp_path, "--max_reject_fraction", "0.9")
    refused = {str(path.relative_to(zoo)) for path in zoo.rglob("*.tif")}
    assert {reject["source"] for reject in contents.rejects()} == refused
    assert all("--image_format jpeg or png" in reject["reason"] for reject in contents.rejects())
    assert len(contents.records) > 10
    for name in contents.records:
        assert contents.example(name)["image"] == [(zoo / name).read_bytes()]


def test_image_format_makes_every_image_one_of_that_format(run: Run, zoo: Path, tmp_path: Path) -> None:
    contents = convert(run, zoo, tmp_path, "--image_format", "jpeg", "--jpeg_quality", "40")
    assert contents.rejects() == []
    for name in contents.records:
        decoded, example = picture(contents, name), contents.example(name)
        assert (decoded.format, decoded.mode) == ("JPEG", "RGB")
        assert decoded.size == ((20, 40) if name == "turned/6.jpg" else (40, 20))
        assert (*example["width"], *example["height"]) == decoded.size
        assert example["image"] == [reencode((zoo / name).read_bytes(), Reencode("jpeg", quality=40)).data]
    (feature,) = (feature for feature in contents.dataset.manifest.features if feature.name == "image")
    assert feature.encoding == "jpeg"


def test_resize_keeps_jpeg_and_makes_all_else_png(run: Run, zoo: Path, tmp_path: Path) -> None:
    contents = convert(run, zoo, tmp_path, "--resize", "16x12")
    assert {picture(contents, name).size for name in contents.records} == {(16, 12)}
    formats = {name: picture(contents, name).format for name in contents.records}
    assert formats == {name: "JPEG" if name.endswith(("jpg", "jpeg")) else "PNG" for name in contents.records}


def test_resize_mode(images: ImageJobs) -> None:
    data = image(1, "PNG", (90, 30))
    contents = images.make({"a.png": data}, "--resize 30x30 --resize_mode contain")
    assert contents.example("a.png")["image"] == [reencode(data, Reencode("", (30, 30), "contain")).data]
