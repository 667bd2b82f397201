"""What a user says of the pixels of image files: how far they are looked at, and what they are encoded anew as."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

from shardmill.errors import UserError
from shardmill.installation.extras import install_hint
from shardmill.transforms.files.images.limits import FORMATS, MAX_PIXELS, RESIZE_MODES, VERIFY
from shardmill.transforms.options.declare import Options, ValueMistake, flag
from shardmill.transforms.options.pictures import max_pixels_flag

if TYPE_CHECKING:
    from shardmill.transforms.files.images.codec import Reencode

MAX_SIDE = 65_500  # pixels: the limit of JPEG encoders
DEFAULT_QUALITY = 95  # of JPEG: beyond it Pillow's files grow without a visible gain
# To plan with: of re-encoded photographs, jpeg at quality 95, and png
_BYTES_PER_PIXEL = {"jpeg": 0.5, "png": 2.0, "": 0.5}
_BYTES_PER_MASK_PIXEL = 0.05  # of a PNG of a few areas


def parse_resolution(value: Any) -> tuple[int, int]:
    """(width, height) in pixels from `224x224`, or a pair of them.

    Raises:
      ValueMistake: it is none, or larger than encoders take.
    """
    text = value if isinstance(value, str) else "x".join(map(str, value))
    match = re.fullmatch(r"(\d+)x(\d+)", text.lower())
    if match is None or not 0 < int(match[1]) <= MAX_SIDE or not 0 < int(match[2]) <= MAX_SIDE:
        raise ValueMistake(f"{text!r} is not WIDTHxHEIGHT in pixels, such as 224x224")
    return int(match[1]), int(match[2])


def parse_coordinates(value: Any) -> tuple[tuple[str, str], ...]:
    """((column, kind), …) from `boxes=relative,vector=none`, pairs, or a mapping.

    Raises:
      ValueMistake: one of them is none, or a column is there twice.
    """
    from shardmill.transforms.layout.coordinates import KINDS

    if isinstance(value, str):
        pairs = [tuple(item.strip().rpartition("=")[::2]) for item in value.split(",")]
    else:
        pairs = [tuple(pair) for pair in (value.items() if isinstance(value, Mapping) else value)]
    for name, kind in pairs:
        if not name or kind not in KINDS:
            raise ValueMistake(f"{value!r} is not column=kind,… with each kind one of {', '.join(KINDS)}")
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise ValueMistake(f"{value!r} names the column {name!r} twice")
    return tuple((name, kind) for name, kind in pairs)


@dataclass(frozen=True, kw_only=True)
class PixelOptions(Options):
    """How pictures are checked, decoded and encoded anew."""

    title: ClassVar[str] = "images"

    verify: str = flag("header", "how far each image is checked", choices=VERIFY)
    image_format: str = flag(
        "",
        "re-encode every image",
        choices=("", *FORMATS),
        default_words="bytes untouched",
        to_json=lambda name: name or None,
    )
    resize: tuple[int, int] | None = flag(
        None, "WIDTHxHEIGHT: decode, turn upright, make RGB, resize, re-encode", parse=parse_resolution, to_json=list
    )
    resize_mode: str = flag("exact", "stretch, crop to fill, or pad to fit", choices=RESIZE_MODES)
    jpeg_quality: int = flag(
        DEFAULT_QUALITY,
        "of re-encoded images",
        check=lambda quality: None if 1 <= quality <= 100 else "expected 1 to 100",
    )
    max_pixels: int = max_pixels_flag()
    coordinates: tuple[tuple[str, str], ...] = flag(
        (),
        "column=relative|pixels|none,…: what columns like boxes hold, where images are resized or turned upright",
        parse=parse_coordinates,
        to_json=dict,
    )
    near_duplicates: bool = flag(False, "find pictures that look alike, by a perceptual hash: decodes every image")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.resize is None and self.resize_mode != "exact":
            raise UserError(f"--resize_mode {self.resize_mode} needs --resize")
        if self.jpeg_quality != DEFAULT_QUALITY and (not self.reencodes or self.image_format == "png"):
            raise UserError(
                f"--jpeg_quality {self.jpeg_quality} needs --resize or --image_format jpeg: no JPEG is made without"
            )
        if self.max_pixels != MAX_PIXELS and self.verify == "none" and not self.reencodes:
            raise UserError(
                f"--max_pixels {self.max_pixels} contradicts --verify none, which does not look into images"
            )
        if self.near_duplicates and find_spec("imagehash") is None:
            raise UserError(f"--near_duplicates needs the library imagehash; {install_hint('near_duplicates')}")

    @property
    def reencodes(self) -> bool:
        """Whether images are decoded and encoded anew."""
        return bool(self.image_format) or self.resize is not None

    @property
    def decodes(self) -> bool:
        """Whether pixels are decoded: outside the interpreter, so that a thread a core pays."""
        return self.reencodes or self.verify == "decode" or self.near_duplicates

    @property
    def reencode(self) -> "Reencode | None":
        """How images are re-encoded, None where their bytes pass through."""
        from shardmill.transforms.files.images.codec import Reencode

        return Reencode(self.image_format, self.resize, self.resize_mode, self.jpeg_quality) if self.reencodes else None

    def encoded_bytes(self, pictures: int, masks: int) -> int | None:
        """The bytes of so many pictures and masks, about, where all are re-encoded to one size; else None."""
        if self.resize is None:
            return None
        pixels = self.resize[0] * self.resize[1]
        each = int(pixels * _BYTES_PER_PIXEL[self.image_format])
        return pictures * each + masks * int(pixels * _BYTES_PER_MASK_PIXEL)
