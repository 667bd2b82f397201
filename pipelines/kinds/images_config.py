"""What an images job is told, validated."""

from dataclasses import dataclass
from typing import Any

from pipelines.config.files import ListedFilesConfig
from pipelines.config.job import JobConfig, check
from shardmill.errors import UserError
from transforms.files.images.codec import Reencode
from transforms.files.images.limits import MAX_PIXELS, VERIFY
from transforms.inputs.listing import IMAGES, FileKind

DEFAULT_QUALITY = 95  # of JPEG: beyond it Pillow's files grow without a visible gain
# Bytes a pixel of re-encoded photographs, to plan with: jpeg at quality 95, and png.
_BYTES_PER_PIXEL = {"jpeg": 0.5, "png": 2.0, "": 0.5}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagesConfig(ListedFilesConfig):
    """The flags of `shardmill images`; see pipelines.flags.options for what each means."""

    verify: str = "header"
    image_format: str = ""
    resize: tuple[int, int] | None = None
    resize_mode: str = "exact"
    jpeg_quality: int = DEFAULT_QUALITY
    max_pixels: int = MAX_PIXELS
    coordinates: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        ListedFilesConfig.__post_init__(self)
        check(self.verify in VERIFY, f"--verify {self.verify}: expected one of {VERIFY}")
        if self.resize is None and self.resize_mode != "exact":
            raise UserError(f"--resize_mode {self.resize_mode} needs --resize")
        check(1 <= self.jpeg_quality <= 100, f"--jpeg_quality {self.jpeg_quality}: expected 1 to 100")
        check(self.max_pixels > 0, f"--max_pixels {self.max_pixels}: expected a positive number")
        self._check_effects()

    def _check_effects(self) -> None:
        """Refuse what would be accepted and then ignored."""
        if self.jpeg_quality != DEFAULT_QUALITY and (self.reencode is None or self.image_format == "png"):
            raise UserError(f"--jpeg_quality {self.jpeg_quality} needs --resize or --image_format jpeg: no JPEG is made without")
        if self.max_pixels != MAX_PIXELS and self.verify == "none" and self.reencode is None:
            raise UserError(f"--max_pixels {self.max_pixels} contradicts --verify none, which does not look into images")

        if self.coordinates and (self.reencode is None or self.manifest is None):
            raise UserError(
                "--coordinates is about the columns of a --manifest whose images are re-encoded, by --resize or --image_format; "
                "as they are, images and columns agree"
            )

    @property
    def reencode(self) -> Reencode | None:
        """How images are re-encoded, None where their bytes pass through."""
        if not self.image_format and self.resize is None:
            return None
        return Reencode(self.image_format, self.resize, self.resize_mode, self.jpeg_quality)

    @property
    def record_bytes(self) -> int | None:
        """The bytes of every encoded image, about, where they are re-encoded to one size."""
        return int(self.resize[0] * self.resize[1] * _BYTES_PER_PIXEL[self.image_format]) if self.resize is not None else None

    @property
    def kind(self) -> FileKind:
        """The files that a folder is searched for."""
        return IMAGES

    @property
    def read_threads(self) -> int:
        """How many threads of a worker read and encode; 0 stands for the number of its cores.

        Reading small local files is a matter of microseconds, in which threads only contend for the interpreter; decoding
        runs outside it; and an object store answers after milliseconds, whatever the machine.
        """
        if self.is_remote:
            return self.threads or 32
        return self.threads if self._decodes else self.threads or 1

    @property
    def files_per_task(self) -> int:
        """How many files a thread takes at once: few where each takes long."""
        return 4 if self.is_remote else 8 if self._decodes else 64

    @property
    def _decodes(self) -> bool:
        return self.reencode is not None or self.verify == "decode"

    def to_json(self) -> dict[str, Any]:
        """The options that shape the output, for the manifest; not where it lies or how it was computed."""
        return {
            **JobConfig.to_json(self),
            **self.manifest_json,
            "verify": self.verify,
            "image_format": self.image_format or None,
            "resize": list(self.resize) if self.resize else None,
            "resize_mode": self.resize_mode,
            "jpeg_quality": self.jpeg_quality,
            "max_pixels": self.max_pixels,
            **({"coordinates": dict(self.coordinates)} if self.coordinates else {}),
        }
