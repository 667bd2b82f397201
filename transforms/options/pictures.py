"""How far the images in columns of tables are checked."""

from dataclasses import dataclass
from typing import Any, ClassVar

from shardmill.media.image_limits import MAX_PIXELS
from shardmill.transforms.options.declare import Options, flag


def max_pixels_flag(**attributes: Any) -> Any:
    """The field of the most pixels that an image may have."""
    return flag(
        MAX_PIXELS,
        "more make an image a reject",
        check=lambda pixels: None if pixels > 0 else "expected a positive number",
        **attributes,
    )


@dataclass(frozen=True, kw_only=True)
class PictureOptions(Options):
    """Images in columns."""

    title: ClassVar[str] = "images in columns"

    verify: str = flag("header", "how far each image is checked", choices=("header", "decode"), told=False)
    max_pixels: int = max_pixels_flag(told=False)

    @property
    def asked(self) -> str:
        """The first of these options that was given, in words; "" where none was."""
        if self.verify != "header":
            return f"--verify {self.verify}"
        return f"--max_pixels {self.max_pixels}" if self.max_pixels != MAX_PIXELS else ""
