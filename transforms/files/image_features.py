"""Features and notices of data sets of images, and the image formats found in records."""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from shardmill.addons import registry
from shardmill.data.features import OBJECT_DETECTION_KEYS
from shardmill.metadata.tfds_metadata import TFDS_CANNOT
from shardmill.text import plural
from shardmill.transforms.findings import Occurrences
from shardmill.transforms.formats.conventions import DEEP_BYTES, HEAD_BYTES, NO_IMAGE, PNG, image_format, is_16_bit_png

if TYPE_CHECKING:
    from shardmill.transforms.files.image_objects import ObjectNames
    from shardmill.transforms.statistics.files import ImageProperties

_DARK = 1 << 14  # a highest value of 16 bits that is a quarter of white, or less


def naming_notices(names: "ObjectNames") -> list[str]:
    """Return a notice of what TFDS cannot read under a naming scheme of objects."""
    if not names.is_detection_api:
        return []
    return [
        "--feature_names object_detection: TFDS has no feature for boxes whose edges are lists of their own; it reads"
        f" {OBJECT_DETECTION_KEYS.objects} as a Sequence with four lists of numbers, and no BBoxFeature"
    ]


def turned_notices(rotated: int, remedy: str = "--image_format jpeg turns them upright") -> list[str]:
    """Return a notice of images stored unchanged although EXIF rotates them."""
    if not rotated:
        return []
    images = plural(rotated, "image is", "images are")
    return [
        f"{images} stored sideways, upside down or mirrored, with an EXIF orientation that TensorFlow, TFDS,"
        f" shardmill.load and shardmill.examples ignore; {remedy}"
    ]


def deep_notices(deep: int, reencoded: bool = False) -> list[str]:
    """Return a notice of images found with more than 8 bits a channel."""
    if not deep:
        return []
    if reencoded:
        have = plural(deep, "image has", "images have")
        return [f"{have} more than 8 bits a channel, of which the upper 8 are stored"]
    images, advice = plural(deep, "image is a PNG", "images are PNGs"), ""
    if registry.has_flag("mask_dtype"):
        advice = ", and all readers those of --masks with --mask_dtype uint16, for depth maps and the like"
    return [
        f"{images} of 16 bits a channel, of which TFDS, tf.io.decode_image, shardmill.load and shardmill.examples give"
        f" the upper 8; all 16 are stored: tf.io.decode_png(…, dtype=tf.uint16) gives them{advice}"
    ]


def property_notices(found: "ImageProperties", reencoded: bool) -> list[str]:
    """Return notices of properties of images that readers ignore, or that re-encoding does not keep."""
    notices = deep_notices(found.deep, reencoded)
    if reencoded and 0 < found.highest.maximum <= _DARK:
        notices[0] += (
            f"; the highest value of those of 16 bits is {found.highest.maximum:,} of 65,535, which is stored as"
            f" {found.highest.maximum >> 8} of 255: multiply the values first, or store TIFFs by `shardmill arrays`"
        )
    if found.transparent and reencoded:
        have = plural(found.transparent, "image has", "images have")
        tiffs = plural(found.transparent_tiffs, "is a TIFF whose last band is", "are TIFFs whose last bands are")
        bands = f"; {tiffs} transparency by its tags: --image_bands 1,2,3 leaves that band out"
        notices.append(
            f"{have} transparent pixels, which are stored as white{bands if found.transparent_tiffs else ''}"
        )
    elif found.transparent:
        images = plural(found.transparent, "image is a GIF", "images are GIFs")
        notices.append(
            f"{images} with a transparent colour, which TensorFlow decodes as black; --image_format png stores white"
        )
    if found.several_frames:
        images = plural(found.several_frames, "image has", "images have")
        notices.append(f"{images} several frames or pages, of which the first is stored")
    if found.more_bands:
        images = plural(found.more_bands, "TIFF has", "TIFFs have")
        notices.append(f"{images} more bands than --image_bands names, which are left out")
    return notices + nodata_notices(found.nodata)


def nodata_notices(found: Mapping[str, Occurrences]) -> list[str]:
    """Return a notice for each value that tags call no data, given the files whose tag has it."""
    return [
        f"{plural(number, 'TIFF has', 'TIFFs have')} the tag GDAL_NODATA {value}, the first {name!r}: pixels of that"
        " value are no data, and are stored as others are"
        for value, (number, name) in sorted(found.items())
    ]


def animation_notices(formats: Counter[str]) -> list[str]:
    """Return a notice of images that TensorFlow decodes as animations, with shape (frames, height, width, 3)."""
    return [
        f"{TFDS_CANNOT} {formats[name]:,} of the images, {name} by format, which TensorFlow takes for an animation; "
        "give --image_format png (and --on_several_frames first, if they move), or decode with"
        " tf.io.decode_image(…, expand_animations=False)"
        for name in ("gif", "webp")
        if formats[name]
    ]


_COVER = "outside of what --resize_mode cover keeps, and"
_CHANGES = {
    "clipped": ("box reached out of its picture, and was", "boxes reached out of their pictures, and were", "clipped"),
    "dropped": ("box was no good, and its object was", "boxes were no good, and their objects were", "left out"),
    "cropped": (f"box lies {_COVER} its object was", f"boxes lie {_COVER} their objects were", "left out"),
}


def box_notices(boxes: Mapping[str, int]) -> list[str]:
    """Return notices of boxes that were changed, by kind of change."""
    changes = [(number, *_CHANGES[change]) for change, number in sorted(boxes.items()) if number]
    return [f"{plural(number, one, several)} {what}" for number, one, several, what in changes]


Formats = Mapping[str, Counter[str]]  # of each feature's values


def count_formats(features: pa.RecordBatch) -> Formats:
    """Count the image formats of each feature with one string a row; if the first is not an image, only that one."""
    found: dict[str, Counter[str]] = {}
    for name, column in zip(features.schema.names, features.columns, strict=True):
        values = _get_strings(column)
        if values is not None and len(values):
            first = image_format(values[0].as_py()[:HEAD_BYTES])
            heads = pc.binary_slice(values, 0, HEAD_BYTES).to_pylist() if first != NO_IMAGE else []
            found[name] = Counter(map(image_format, heads)) if heads else Counter({NO_IMAGE: 1})
    return found


def count_deep_pngs(features: pa.RecordBatch) -> Counter[str]:
    """Count the values of each feature that are PNGs of 16 bits a channel."""
    found: Counter[str] = Counter()
    for name, column in zip(features.schema.names, features.columns, strict=True):
        values = column.flatten() if pa.types.is_large_list(column.type) else column
        if pa.types.is_large_binary(values.type):
            pngs = values.filter(pc.starts_with(values, PNG))
            heads = pc.binary_slice(pngs, 0, DEEP_BYTES).to_pylist() if len(pngs) else []
            found[name] += sum(map(is_16_bit_png, heads))
    return +found


def _get_strings(column: pa.Array) -> pa.Array | None:
    column = column.drop_null()
    if pa.types.is_large_list(column.type):
        if not len(column) or not pc.all(pc.equal(pc.list_value_length(column), 1)).as_py():
            return None
        column = column.flatten()
    return column if pa.types.is_large_binary(column.type) else None
