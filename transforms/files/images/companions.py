"""The further files of an image's example, read and encoded beside it: masks, and the other pictures of a pair."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from shardmill.features.feature import Feature, Features
from shardmill.features.renames import NO_RENAMES, Renames
from shardmill.records import example
from shardmill.records.example import decode_example
from shardmill.transforms.examples.framing import FOOTER_BYTES, HEADER_BYTES
from shardmill.transforms.files.images.boxes import Picture
from shardmill.transforms.files.images.codec import Reencode
from shardmill.transforms.files.images.errors import ImageError
from shardmill.transforms.files.images.header import ImageHeader, check_structure, read_header
from shardmill.transforms.files.images.masks import encode_mask
from shardmill.transforms.inputs.companions import Companion
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.error_text import error_text
from shardmill.transforms.stores.failures import raise_if_store_failed

_DEEP = "deep"


class Beside(NamedTuple):
    """A further file as it is stored.

    Attributes:
      data: its bytes.
      header: of a picture.
      made_of: of a mask, see transforms.files.images.masks; of a picture `deep`, where it was found with more than 8
        bits a channel.
    """

    data: bytes
    header: ImageHeader | None = None
    made_of: str = ""


@dataclass(frozen=True)
class CompanionEncoder:
    """Encodes the companions of images.

    Attributes:
      companions: those of each image.
      masks_seen: whether masks of images that EXIF turns are of the `stored` or the `upright` picture, where their size
        does not tell; "" makes these images rejects.
      renames: what the features are called.
      mask_dtype: of the values of masks.
    """

    companions: tuple[Companion, ...]
    masks_seen: str = ""
    renames: Renames = NO_RENAMES
    mask_dtype: str = "uint8"

    @property
    def has_masks(self) -> bool:
        """Whether there are masks among them."""
        return any(item.is_mask for item in self.companions)

    def encode(
        self,
        paths: Sequence[str],
        picture: Picture,
        how: Reencode | None,
        image: Callable[[str, bytes], tuple[bytes, ImageHeader]],
        max_pixels: int,
        decodes: bool,
    ) -> tuple[Beside, ...]:
        """The companions of one image.

        Args:
          paths: of their files.
          picture: the image as it was found.
          how: it is re-encoded; None where it is stored as it is.
          image: what becomes of a picture's file.
          max_pixels, decodes: as in shardmill.transforms.files.images.masks.encode_mask.

        Raises:
          ImageError: one of them is no good; the message begins with which.
          OSError: a store failed.
        """
        found = []
        for item, path, small in zip(self.companions, paths, storage.read_small(list(paths)), strict=True):
            try:
                data = storage.read_bytes(path) if small is None else small
                if item.is_mask:
                    mask = encode_mask(data, picture, how, self.masks_seen, max_pixels, decodes, self.mask_dtype)
                    found.append(Beside(mask.data, made_of=mask.made_of))
                else:
                    stored, header = image(path, data)
                    found.append(Beside(stored, header, _DEEP if header.deep else ""))
            except ImageError as error:
                raise ImageError(f"{item.what}: {error}") from error
            except OSError as error:
                raise_if_store_failed(error, path)
                raise ImageError(f"{item.what}: cannot be read: {error_text(error)}") from error
        return tuple(found)

    def remembered(self, beside: Sequence[Beside]) -> str:
        """What `recalled` needs of the companions of an image beside its example."""
        return ",".join(one.made_of for one in beside)

    def recalled(self, record: bytes, remembered: str, measured: bool) -> tuple[Beside, ...]:
        """The companions in an example, framed, that an older version holds."""
        values = decode_example(record[HEADER_BYTES:-FOOTER_BYTES])
        found = []
        for item, made_of in zip(self.companions, remembered.split(","), strict=True):
            data = bytes(values[self.renames(item.feature)][0])
            header = None
            if not item.is_mask:
                header = check_structure(data, read_header(data)) if measured else ImageHeader("unchecked", 0, 0)
                header = replace(header, deep=made_of == _DEEP)
            found.append(Beside(data, header, made_of))
        return tuple(found)

    def entries(self, beside: Sequence[Beside]) -> bytes:
        """The features of companions, serialized."""
        return b"".join(
            example.bytes_entry_header(self.renames(item.feature), len(of.data)) + of.data
            for item, of in zip(self.companions, beside, strict=True)
        )


def companion_features(
    companions: Sequence[Companion], formats: dict[str, list[str]], measured: bool, mask_dtype: str = "uint8"
) -> Features:
    """The features of companions, in the order in which they are written.

    Args:
      companions: those of each image.
      formats: of the pictures written, by feature; where there is only one, it is the feature's encoding.
      measured: whether these are known.
      mask_dtype: of the values of masks.
    """
    found = []
    for item in companions:
        if item.is_mask:
            element = "" if mask_dtype == "uint8" else mask_dtype
            found.append(Feature(item.feature, "bytes", "mask", encoding="png", role="label", element=element))
        else:
            seen = formats.get(item.feature, [])
            encoding = seen[0] if len(seen) == 1 and measured else ""
            found.append(Feature(item.feature, "bytes", "image", encoding=encoding))
    return tuple(found)
