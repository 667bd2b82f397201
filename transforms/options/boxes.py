"""What becomes of boxes in images that are no good, or lie in a picture that EXIF turns."""

from dataclasses import dataclass
from typing import Any, ClassVar

from shardmill.transforms.options.declare import Options, flag


def bad_box_flag(**attributes: Any) -> Any:
    """The field of what a box does that is no good."""
    return flag(
        "reject",
        "what an empty box, or one outside of its picture, does to the image; drop leaves the object out",
        choices=("reject", "drop"),
        **attributes,
    )


def boxes_seen_flag(**attributes: Any) -> Any:
    """The field of which picture boxes are of, where EXIF turns it."""
    return flag(
        "",
        "of images that EXIF turns, where no size tells: whether boxes are of the picture as it is stored or upright",
        choices=("", "stored", "upright"),
        default_words="such an image is a reject",
        to_json=lambda text: text or None,
        **attributes,
    )


@dataclass(frozen=True, kw_only=True)
class BoxOptions(Options):
    """Objects in the images of columns."""

    title: ClassVar[str] = "objects in images"

    on_bad_box: str = bad_box_flag(told=False)
    boxes_seen: str = boxes_seen_flag(told=False)

    @property
    def asked(self) -> str:
        """The first of these options that was given, in words; "" where none was."""
        if self.on_bad_box != "reject":
            return f"--on_bad_box {self.on_bad_box}"
        return f"--boxes_seen {self.boxes_seen}" if self.boxes_seen else ""
