"""The features of an image data set, from its layout and from what was written."""

from collections import Counter
from collections.abc import Mapping, Sequence

from shardmill.features.feature import Feature, Features
from transforms.files.features import TFDS_CANNOT, file_features
from transforms.files.images.objects import object_features
from transforms.inputs.annotations.objects import Member
from transforms.layout.files import Layout


def image_features(
    layout: Layout, rows: int, measured: bool, formats: Counter[str], members: Sequence[Member] = ()
) -> Features:
    """The features, in the order in which transforms.files.images.encode writes them.

    Args:
      layout: class names and a manifest's columns.
      rows: records planned: a column with a value in each of them is required.
      measured: whether height and width are known.
      formats: of the images written; where there is only one, it is the feature's encoding.
      members: what is annotated of each object in them.
    """
    encoding = next(iter(formats)) if len(formats) == 1 and measured else ""
    image = Feature("image", "bytes", "image", encoding=encoding)
    objects = object_features(members, layout.object_classes.names) if layout.object_classes is not None else ()
    return file_features(layout, rows, image, ("height", "width") if measured else (), objects)


def turned_notices(turned: int) -> list[str]:
    """What must be said of images that were stored as they are although EXIF says to turn them."""
    if not turned:
        return []
    images = "1 image is" if turned == 1 else f"{turned:,} images are"
    return [
        f"{images} stored sideways, upside down or mirrored, with an EXIF orientation that TensorFlow, TFDS,"
        " shardmill.load and shardmill.examples do not heed; --image_format jpeg turns them upright"
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
