"""Bands, pages, frames, bits and transparency of images are kept, or their loss is a reject or counted."""

import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image

from tests.support.command import image, npy, read_back, write_old_files
from tests.support.image_jobs import ImageJobs, damaged_in_the_middle
from tests.support.jobs import Jobs
from tests.support.masks import decode, encoded
from tests.support.pages import tiff

PLAIN = {"a/plain.png": image(1, "PNG", (3, 3))}


def pixels(bands: int, top: int = 255, dtype: type = np.uint8) -> np.ndarray:
    """Values of 6 x 5 pixels, up to `top`, which is among them."""
    values = np.random.default_rng(bands).integers(0, top, (5, 6, bands), dtype)
    values[0, 0] = top
    return values


def packed_tiff(values: np.ndarray, bits: int) -> bytes:
    """A gray TIFF whose samples have `bits` bits each, without gaps; shape (height, width), rows of whole bytes."""
    height, width = values.shape
    rows = np.packbits((values[..., None] >> np.arange(bits)[::-1] & 1).reshape(height, -1).astype(np.uint8), axis=1)
    tags = ((256, width), (257, height), (258, bits), (259, 1), (262, 1), (273, 122), (277, 1), (278, height))
    entries = b"".join(struct.pack("<HHII", tag, 3, 1, value) for tag, value in (*tags, (279, rows.size)))
    return b"II*\0" + struct.pack("<IH", 8, 9) + entries + bytes(4) + rows.tobytes()


def multi(values: np.ndarray, **options: Any) -> bytes:
    """A TIFF of bands that are no colours, as GDAL writes it."""
    return tiff(values, photometric="minisblack", planarconfig="contig", **options)


def gif(frames: int, **options: Any) -> bytes:
    pictures = [Image.fromarray(pixels(1, 200 + number)[..., 0]).convert("P") for number in range(frames)]
    return encoded(pictures[0], "GIF", save_all=True, append_images=pictures[1:], **options)


def huge_icon() -> bytes:
    """An icon of 16 x 16 pixels by its directory, whose picture states 30,000 x 30,000."""
    picture = bytearray(image(2, "PNG", (16, 16)))
    picture[16:24] = struct.pack(">II", 30_000, 30_000)
    picture[29:33] = struct.pack(">I", zlib.crc32(picture[12:29]))
    return struct.pack("<HHHBBBBHHII", 0, 1, 1, 16, 16, 0, 0, 1, 32, len(picture), 22) + bytes(picture)


def with_empty_comment() -> bytes:
    data = gif(1)
    at = 13 + (3 << (data[10] & 7) + 1)
    return data[:at] + b"\x21\xfe\0" + data[at:]


def cmyk_without_marker() -> bytes:
    data = image(3, mode="CMYK")
    start = data.index(b"\xff\xee")
    return data[:start] + data[start + 2 + int.from_bytes(data[start + 2 : start + 4], "big") :]


BANDS = "of which an image holds 1 or 3; --image_format png --image_bands 1,2,3 stores those, and `shardmill arrays`"
PAGES = tiff(pixels(3).transpose(2, 0, 1), photometric="minisblack")
# Files by the flags of their job, each with words of its reject
REJECTS: dict[str, dict[str, tuple[bytes, str]]] = {
    "--image_format png": {
        "near infrared": (tiff(pixels(4), photometric="rgb", extrasamples=["unspecified"]), BANDS),
        "four gray bands": (multi(pixels(4)), BANDS),
        "five bands": (tiff(pixels(5), photometric="rgb"), "a TIFF of 5 bands"),
        "twelve bands": (multi(pixels(12, 9000, np.uint16)), "a TIFF of 12 bands"),
        "twelve bands, apart": (tiff(pixels(12).transpose(2, 0, 1), planarconfig="separate"), "a TIFF of 12 bands"),
        "two bands": (multi(pixels(2)), BANDS.replace("1,2,3", "1")),
        "pages": (PAGES, "a TIFF of 3 pages"),
        "frames": (gif(4), "a gif of 4 frames, of which an image holds one; --on_several_frames first"),
        "icons": (b"icns" + bytes(20), "an icon (ICNS)"),
        "an icon whose picture is huge": (huge_icon(), "more than --max_pixels"),
    },
    "": {
        "twelve bands": (multi(pixels(12)), BANDS),
        "pages": (PAGES, "a TIFF of 3 pages"),
        "CMYK": (cmyk_without_marker(), "a CMYK jpeg without Adobe's marker"),
    },
    "--image_format png --image_bands 5": {"four bands": (multi(pixels(4)), "4 bands, of which --image_bands")},
    "--image_format png --image_bands 1": {"floats": (multi(pixels(4).astype(np.float32)), "`shardmill arrays`")},
    "--resize 4x4": {"frames": (gif(3), "a gif of 3 frames")},
    "--verify decode": {
        "an empty comment": (with_empty_comment(), "a gif with an empty extension"),
        "pixels": (damaged_in_the_middle(), "does not decode"),
    },
    "--max_pixels 11": {"pixels": (image(1, "PNG", (4, 3)), "4 x 3 pixels is more than --max_pixels 11")},
}


@pytest.mark.parametrize("flags", REJECTS)
def test_a_loss_is_a_reject(images: ImageJobs, flags: str) -> None:
    files = {f"a/{name}.tif": data for name, (data, _) in REJECTS[flags].items()}

    contents = images.make({**PLAIN, **files}, f"{flags} --max_reject_fraction 0.95")

    reasons = {reject["source"]: reject["reason"] for reject in contents.rejects()}
    assert reasons.keys() == files.keys()
    for name, (_, words) in REJECTS[flags].items():
        assert words in reasons[f"a/{name}.tif"]
    assert list(contents.records) == ["a/plain.png"]


def pyramid() -> bytes:
    """A TIFF with a smaller copy of its page."""
    out = io.BytesIO()
    with tifffile.TiffWriter(out) as writer:
        writer.write(pixels(3), photometric="rgb")
        writer.write(pixels(3)[::2, ::2], photometric="rgb", subfiletype=1)
    return out.getvalue()


RGBN = pixels(4)
DEEP = pixels(12, 9000, np.uint16)
ALPHA = pixels(4)
BLENDED = np.asarray(
    Image.alpha_composite(Image.new("RGBA", (6, 5), "white"), Image.fromarray(ALPHA, "RGBA")).convert("RGB")
)
GRAY12 = np.random.default_rng(1).integers(0, 4096, (4, 8), np.uint16)
GRAY12[0, 0] = 4095
FIRST = "--on_several_frames first"
NO_DATA = [(42113, "s", 0, "-9999", True)]
KEPT: dict[str, tuple[bytes, str, np.ndarray, str]] = {
    "three bands of four": (
        tiff(RGBN, photometric="rgb", extrasamples=["unspecified"]),
        "--image_bands 1,2,3",
        RGBN[..., :3],
        "1 TIFF has more bands than --image_bands names, which are left out",
    ),
    "false colours": (
        multi(RGBN, compression="lzw", extratags=NO_DATA),
        "--image_bands 4,3,2",
        RGBN[..., 3:0:-1],
        "1 TIFF has the tag GDAL_NODATA -9999, the first 'a/odd.tif'",
    ),
    "one band": (multi(DEEP), "--image_bands 9", DEEP[..., [8] * 3] >> 8, "which is stored as 35 of 255"),
    "bands apart": (
        tiff(RGBN.transpose(2, 0, 1), photometric="minisblack", planarconfig="separate"),
        "--image_bands 2",
        RGBN[..., [1] * 3],
        "1 TIFF has more bands",
    ),
    "transparency": (
        tiff(ALPHA, photometric="rgb", extrasamples=["unassalpha"]),
        "",
        BLENDED,
        "1 image has transparent pixels, which are stored as white; 1 is a TIFF whose last band is transparency by its"
        " tags: --image_bands 1,2,3 leaves that band out",
    ),
    "12 bits": (packed_tiff(GRAY12, 12), "", GRAY12[..., None].repeat(3, 2) >> 4, "1 image has more than 8 bits"),
    "10 bits": (packed_tiff(GRAY12 >> 2, 10), "", GRAY12[..., None].repeat(3, 2) >> 4, "of which the upper 8"),
    "12 bits in 16": (
        tiff(GRAY12),
        "",
        GRAY12[..., None].repeat(3, 2) >> 8,
        "the highest value of those of 16 bits is 4,095 of 65,535, which is stored as 15 of 255",
    ),
    "pages": (
        PAGES,
        FIRST,
        pixels(3)[..., [0] * 3],
        "1 image has several frames or pages, of which the first is stored",
    ),
    "a smaller copy of the page": (pyramid(), "", pixels(3), ""),
    "frames": (gif(2), FIRST, pixels(1, 200)[..., [0] * 3], "1 image has several frames"),
}


@pytest.mark.parametrize("case", KEPT)
def test_the_flag_in_the_reason_helps_and_is_counted(images: ImageJobs, case: str) -> None:
    data, flags, expected, words = KEPT[case]

    result = images.start({**PLAIN, "a/odd.tif": data}, f"--image_format png {flags}")

    assert result.status == 0, result.err
    assert words in result.out
    contents = read_back(Path("out/n"))
    assert np.array_equal(decode(bytes(contents.example("a/odd.tif")["image"][0])), expected)
    assert not contents.rejects()


MANY: dict[str, tuple[np.ndarray, Callable[[np.ndarray], bytes]]] = {
    "bands": (pixels(12, 9000, np.uint16), multi),
    "bands apart": (pixels(12), lambda of: tiff(of.transpose(2, 0, 1), planarconfig="separate")),
    "floats": (pixels(4).astype(np.float32), lambda of: multi(of, compression="lzw")),
    "pages": (pixels(3).transpose(2, 0, 1), lambda of: tiff(of, photometric="minisblack")),
    "12 bits": (GRAY12 >> 1, lambda of: packed_tiff(of, 12)),
}


@pytest.mark.parametrize("case", MANY)
def test_arrays_keep_all_bands_and_pages(jobs: Jobs, case: str) -> None:
    values, make = MANY[case]
    built = jobs.build("arrays", files={f"a/{number}.tif": make(values + number) for number in range(2)})
    found = {bytes(of["filename"]): of["image"] for of in built.examples()}
    for number in range(2):
        assert np.array_equal(found[b"a/%d.tif" % number], values + number)
        assert found[b"a/%d.tif" % number].dtype == values.dtype


def test_numbers_that_are_none_and_pixels_without_data_are_said(jobs: Jobs) -> None:
    odd = np.array([[np.nan, np.inf, np.nan], [1, 2, -9999]], np.float32)
    files = {"0.npy": npy(np.zeros_like(odd)), "1.tif": multi(odd, extratags=NO_DATA), "2.npy": npy(odd)}
    write_old_files(jobs.folder / "in", files)
    for version, reuse in (("1.0.0", "record"), ("1.1.0", "LATEST")):
        built = jobs.build(f"arrays --version {version} --reuse {reuse}")
        assert {
            "of the arrays, 4 numbers are NaN, the first in '1.tif'",
            "of the arrays, 2 numbers are infinite, the first in '1.tif'",
            "1 TIFF has the tag GDAL_NODATA -9999, the first '1.tif': pixels of that value are no data, and are stored"
            " as others are",
        } < set(built.notices)
    assert built.json("../builds/1.1.0.json")["reused"] == 3


def test_a_damaged_tiff_is_no_array(jobs: Jobs) -> None:
    data = multi(pixels(12))
    built = jobs.build("arrays --max_reject_fraction 0.5", files={"0.tif": data, "1.tif": data, "2.tif": data[:-200]})
    (reason,) = built.reasons.values()
    assert list(built.reasons) == ["2.tif"]
    assert reason.startswith("a TIFF that tifffile does not decode")
