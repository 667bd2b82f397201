"""The keys of TensorFlow's Object Detection API, and what of a data set is called by them.

See tf_example_decoder.py, create_coco_tf_record.py and create_pascal_tf_record.py of its `object_detection`: edges are
fractions of the picture, `area` is in square pixels.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

NAME = "object_detection"  # as --feature_names and the configuration in manifest.json have it
BACKGROUND = "background"  # of the id 0 in its label maps
_OBJECT = "image/object"


class Keys(NamedTuple):
    """The keys, by what they hold; `edges` are top, left, bottom and right of boxes."""

    image: str = "image/encoded"
    filename: str = "image/filename"
    height: str = "image/height"
    width: str = "image/width"
    format: str = "image/format"
    sha256: str = "image/key/sha256"
    source_id: str = "image/source_id"
    objects: str = _OBJECT
    edges: tuple[str, str, str, str] = (
        f"{_OBJECT}/bbox/ymin",
        f"{_OBJECT}/bbox/xmin",
        f"{_OBJECT}/bbox/ymax",
        f"{_OBJECT}/bbox/xmax",
    )
    label: str = f"{_OBJECT}/class/label"
    text: str = f"{_OBJECT}/class/text"
    area: str = f"{_OBJECT}/area"
    difficult: str = f"{_OBJECT}/difficult"
    id: str = f"{_OBJECT}/id"  # not of the API: COCO's, which nothing else keeps
    is_crowd: str = f"{_OBJECT}/is_crowd"
    truncated: str = f"{_OBJECT}/truncated"
    view: str = f"{_OBJECT}/view"


KEYS = Keys()
# What every image has, by its name in other data sets
RENAMES = (
    ("image", KEYS.image),
    ("filename", KEYS.filename),
    ("height", KEYS.height),
    ("width", KEYS.width),
)


def is_asked(configuration: Mapping[str, Any]) -> bool:
    """Whether the configuration in a manifest asks for these keys."""
    return configuration.get("feature_names") == NAME
