"""Where the masks of images are."""

from dataclasses import dataclass
from typing import Any, ClassVar

from shardmill.transforms.options.declare import Options, ValueMistake, flag
from shardmill.transforms.options.output import parse_path


def parse_columns(value: Any) -> tuple[str, ...]:
    """The names of columns from `mask,edges`, or several.

    Raises:
      ValueMistake: one is empty, or there twice.
    """
    names = tuple(value.split(",") if isinstance(value, str) else value)
    if "" in names:
        raise ValueMistake(f"{value!r} names a column without a name")
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueMistake(f"the column {twice[0]} is there twice")
    return names


@dataclass(frozen=True, kw_only=True)
class MaskOptions(Options):
    """Segmentation."""

    title: ClassVar[str] = "masks of images"

    masks: str | None = flag(
        None,
        "a folder with a mask for each image of --input, --coco, --voc or --yolo: its path there, with any suffix of"
        " images",
        parse=parse_path,
        told=False,
        to_json=bool,
    )
    mask_column: tuple[str, ...] = flag(
        (),
        "of a manifest: names the mask of each image; several with commas",
        parse=parse_columns,
        told=False,
        metavar="COLUMN",
        to_json=list,
    )
    mask_dtype: str = flag(
        "uint8",
        "what the values of masks fit into; uint16, as of depth maps and ids of instances, makes PNGs of 16 bits",
        choices=("uint8", "uint16"),
        told=False,
    )
    masks_seen: str = flag(
        "",
        "of images that EXIF turns, where no size tells: whether masks are of the picture as it is stored or upright",
        choices=("", "stored", "upright"),
        default_words="such an image is a reject",
        told=False,
    )
