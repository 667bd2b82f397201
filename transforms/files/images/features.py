"""The features of an image data set, from its layout and from what was written."""

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from shardmill.features.feature import Feature, Features
from shardmill.features.object_detection import KEYS
from shardmill.transforms.files.features import TFDS_CANNOT, file_features
from shardmill.transforms.files.images.companions import companion_features
from shardmill.transforms.files.images.object_names import TFDS, ObjectNames
from shardmill.transforms.files.images.objects import object_features
from shardmill.transforms.inputs.annotations.objects import Member
from shardmill.transforms.inputs.companions import Companion
from shardmill.transforms.layout.files import Layout
from shardmill.transforms.statistics.files import CompanionStats


def image_features(
    layout: Layout,
    rows: int,
    measured: bool,
    formats: Counter[str],
    members: Sequence[Member] = (),
    names: ObjectNames = TFDS,
    companions: Sequence[Companion] = (),
    beside: Mapping[str, CompanionStats] = MappingProxyType({}),
    mask_dtype: str = "uint8",
) -> Features:
    """The features, in the order in which shardmill.transforms.files.images.encode writes them.

    Args:
      layout: class names and a manifest's columns.
      rows: records planned: a column with a value in each of them is required.
      measured: whether height and width are known.
      formats: of the images written; where there is only one, it is the feature's encoding.
      members: what is annotated of each object in them.
      names: what that is called.
      companions: further files of each example.
      beside: what was written of them, by feature.
      mask_dtype: of the values of masks.
    """
    encoding = next(iter(formats)) if len(formats) == 1 and measured else ""
    image = Feature("image", "bytes", "image", encoding=encoding)
    objects = object_features(members, layout.object_classes.names, names) if layout.object_classes is not None else ()
    told = tuple(Feature(name, "bytes", "text", role="source") for name in (KEYS.format, KEYS.sha256))
    noted = (*told, *objects) if names.of_api else objects
    written = {name: list(stats.formats) for name, stats in beside.items()}
    noted += companion_features(companions, written, measured, mask_dtype)
    return file_features(layout, rows, image, ("height", "width") if measured else (), noted)


def naming_notices(names: ObjectNames) -> list[str]:
    """What must be said of a data set that TFDS reads, by what the objects in it are called."""
    if not names.of_api:
        return []
    return [
        "--feature_names object_detection: TFDS has no feature for boxes whose edges are lists of their own; it reads"
        f" {KEYS.objects} as a Sequence with four lists of numbers, and no BBoxFeature"
    ]


def turned_notices(turned: int, remedy: str = "--image_format jpeg turns them upright") -> list[str]:
    """What must be said of images that were stored as they are although EXIF says to turn them."""
    if not turned:
        return []
    images = "1 image is" if turned == 1 else f"{turned:,} images are"
    return [
        f"{images} stored sideways, upside down or mirrored, with an EXIF orientation that TensorFlow, TFDS,"
        f" shardmill.load and shardmill.examples do not heed; {remedy}"
    ]


def deep_notices(deep: int, reencoded: bool = False) -> list[str]:
    """What must be said of images that were found with more than 8 bits a channel."""
    if not deep:
        return []
    one = deep == 1
    if reencoded:
        have = "1 image has" if one else f"{deep:,} images have"
        return [f"{have} more than 8 bits a channel, of which the upper 8 are stored"]
    are = "1 image is a PNG" if one else f"{deep:,} images are PNGs"
    return [
        f"{are} of 16 bits a channel, of which TFDS, tf.io.decode_image, shardmill.load and shardmill.examples give the"
        " upper 8; all 16 are stored: tf.io.decode_png(…, dtype=tf.uint16) gives them, and all readers those of --masks"
        " with --mask_dtype uint16, for depth maps and the like"
    ]


def animation_notices(formats: Counter[str]) -> list[str]:
    """What must be said of images by `formats`: to TensorFlow, animations are (frames, height, width, 3)."""
    counts = {name: formats[name] for name in ("gif", "webp")}
    return [
        f"{TFDS_CANNOT} {number:,} of the images, {name} by format, which TensorFlow takes for an animation; "
        "give --image_format png, or decode with tf.io.decode_image(…, expand_animations=False)"
        for name, number in counts.items()
        if number
    ]


def box_notices(boxes: Mapping[str, int]) -> list[str]:
    """What must be said of boxes that are not as they were annotated: how many, by what was done to them."""
    done = {
        "clipped": "reached out of its picture, and was clipped|reached out of their pictures, and were clipped",
        "dropped": "was no good, and its object was left out|were no good, and their objects were left out",
        "cropped": "lies outside of what --resize_mode cover keeps, and its object was left out|lie outside of what"
        " --resize_mode cover keeps, and their objects were left out",
    }
    said = []
    for what, number in boxes.items():
        one, several = done[what].split("|")
        if number:
            said.append(f"1 box {one}" if number == 1 else f"{number:,} boxes {several}")
    return said


_MADE_OF = {
    "palette": "has a palette, and is stored as a gray PNG of the places in it, for TensorFlow decodes palettes to"
    " colours|have a palette, and are stored as gray PNGs of the places in it, for TensorFlow decodes palettes to"
    " colours",
    "shallow": "has 8 bits, and is stored with the same values in 16|have 8 bits, and are stored with the same values"
    " in 16",
    "deep": "has 16 bits, and is stored with the same values in 8|have 16 bits, and are stored with the same values"
    " in 8",
    "colours": "has colours that are all gray, and is stored as a gray PNG|have colours that are all gray, and are"
    " stored as gray PNGs",
    "format": "is no PNG, and is stored as a gray PNG of the same values|are no PNGs, and are stored as gray PNGs of"
    " the same values",
}


def companion_notices(beside: Mapping[str, CompanionStats], reencoded: bool) -> list[str]:
    """What must be said of masks that were no gray PNGs, and of further pictures that lie turned, or have 16 bits."""
    said = []
    for feature, stats in beside.items():
        for what, number in sorted(stats.made_of.items()):
            one, several = _MADE_OF[what].split("|")
            said.append(f"{feature}: 1 mask {one}" if number == 1 else f"{feature}: {number:,} masks {several}")
        of_pictures = (*turned_notices(stats.turned), *deep_notices(stats.deep, reencoded))
        said += [f"{feature}: {notice}" for notice in of_pictures]
    return said
