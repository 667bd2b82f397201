"""What becomes of images of each format and mode: passed through, re-encoded, resized."""

import io
from pathlib import Path

import pytest
from PIL import Image

from tests.support.command import Run, image, write_files
from tests.support.image_jobs import convert, damaged_in_the_middle, picture

FORMATS = {"jpeg": "JPEG", "png": "PNG", "gif": "GIF", "bmp": "BMP", "webp": "WEBP", "tif": "TIFF"}


@pytest.fixture(scope="session")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image of every format and of every mode, 40 x 20 pixels, and one that EXIF turns by 90 degrees."""
    modes = {f"mode/{mode}.{suffix}": image(2, FORMATS[suffix], (40, 20), mode) for mode, suffix in MODES}
    files = {f"format/{suffix}.{suffix}": image(1, name, (40, 20)) for suffix, name in FORMATS.items()}
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = {"turned/6.jpg": image(3, "JPEG", (40, 20), exif=exif.tobytes())}
    return write_files(tmp_path_factory.mktemp("zoo") / "in", {**files, **modes, **turned})


MODES = [("L", "png"), ("P", "png"), ("RGBA", "png"), ("LA", "png"), ("1", "png"), ("I;16", "png"), ("CMYK", "jpeg")]
MODES += [("L", "jpeg"), ("P", "gif"), ("RGBA", "webp"), ("CMYK", "tif"), ("RGBA", "tif"), ("I", "tif")]


def test_bytes_pass_through_untouched_by_default(run: Run, zoo: Path, tmp_path: Path) -> None:
    contents = convert(run, zoo, tmp_path, "--max_reject_fraction", "0.9")
    refused = {str(path.relative_to(zoo)) for path in zoo.rglob("*.tif")}
    assert {reject["source"] for reject in contents.rejects()} == refused
    assert all("--image_format jpeg or png" in reject["reason"] for reject in contents.rejects())
    assert len(contents.records) > 10
    for name in contents.records:
        assert contents.example(name)["image"] == [(zoo / name).read_bytes()]


@pytest.mark.parametrize("image_format", ["jpeg", "png"])
def test_image_format_makes_every_image_one_of_that_format(
    run: Run, zoo: Path, tmp_path: Path, image_format: str
) -> None:
    contents = convert(run, zoo, tmp_path, "--image_format", image_format)
    assert contents.rejects() == []
    for name in contents.records:
        decoded = picture(contents, name)
        assert (decoded.format, decoded.mode) == (image_format.upper(), "RGB")
        assert decoded.size == ((20, 40) if name == "turned/6.jpg" else (40, 20))
        example = contents.example(name)
        assert (example["width"].tolist(), example["height"].tolist()) == ([decoded.width], [decoded.height])  # type: ignore[union-attr]
    (feature,) = (feature for feature in contents.dataset.manifest.features if feature.name == "image")
    assert feature.encoding == image_format


def test_resize_keeps_jpeg_and_makes_all_else_png(run: Run, zoo: Path, tmp_path: Path) -> None:
    contents = convert(run, zoo, tmp_path, "--resize", "16x12")
    assert {picture(contents, name).size for name in contents.records} == {(16, 12)}
    formats = {name: picture(contents, name).format for name in contents.records}
    assert formats == {name: "JPEG" if name.endswith(("jpg", "jpeg")) else "PNG" for name in contents.records}


def test_resize_modes(run: Run, tmp_path: Path) -> None:
    """A picture of three stripes, red, green, blue: stretched, all are there; cropped, the middle; padded, black beside
    them."""
    stripes = Image.new("RGB", (90, 30))
    for index, colour in enumerate(((255, 0, 0), (0, 255, 0), (0, 0, 255))):
        stripes.paste(colour, (30 * index, 0, 30 * index + 30, 30))
    out = io.BytesIO()
    stripes.save(out, "PNG")
    line = image(0, "PNG", (1, 500))
    folder = write_files(tmp_path / "in", {"a/stripes.png": out.getvalue(), "a/line.png": line})
    found = {}
    for mode in ("exact", "cover", "contain"):
        contents = convert(run, folder, tmp_path / mode, "--resize", "30x30", "--resize_mode", mode)
        resized = picture(contents, "a/stripes.png")
        assert resized.size == picture(contents, "a/line.png").size == (30, 30)
        found[mode] = [resized.getpixel(at) for at in ((5, 15), (15, 15), (25, 15), (15, 2))]
    red, green, blue, black = (255, 0, 0), (0, 255, 0), (0, 0, 255), (0, 0, 0)
    assert found == {
        "exact": [red, green, blue, green],
        "cover": [green, green, green, green],
        "contain": [red, green, blue, black],
    }


def test_jpeg_quality(run: Run, tree: Path, tmp_path: Path) -> None:
    sizes = []
    for quality in (5, 95):
        contents = convert(run, tree, tmp_path / str(quality), "--image_format", "jpeg", "--jpeg_quality", quality)
        sizes.append(sum(len(contents.example(name)["image"][0]) for name in contents.records))
    assert sizes[0] < sizes[1]


def test_image_that_cannot_be_reencoded_is_a_reject(run: Run, tmp_path: Path) -> None:
    long = Image.new("L", (70_000, 1))
    out = io.BytesIO()
    long.save(out, "PNG")
    bad_exif = image(1, "JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\xff\xff" + b"\x01\x12" * 8)
    files = {
        "a/good.jpg": image(0),
        "a/long.png": out.getvalue(),
        "a/damaged.gif": damaged_in_the_middle(),
        "a/exif.jpg": bad_exif,
    }
    files |= {"a/text.jpg": b"text", "a/empty.jpg": b""}
    folder = write_files(tmp_path / "in", files)
    contents = convert(run, folder, tmp_path, "--image_format", "jpeg", "--max_reject_fraction", "0.9")
    reasons = {reject["source"]: reject["reason"] for reject in contents.rejects()}
    assert "65500" in reasons["a/long.png"]
    assert reasons["a/damaged.gif"].startswith("does not decode")
    assert reasons["a/text.jpg"].startswith("not an image")
    assert reasons["a/empty.jpg"] == "the file is empty"
    assert {"a/good.jpg"} <= contents.records.keys() <= {"a/good.jpg", "a/exif.jpg"}
