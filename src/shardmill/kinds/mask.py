"""`mask`: a number from 0 to 255, or to 65,535, for each pixel of an image, as a gray PNG."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from shardmill.features.feature import Feature
from shardmill.kinds import tfds_entries
from shardmill.kinds.base import Entry, FeatureKind
from shardmill.media.image_limits import MAX_PIXELS

_NOTE = "format:mask"


class MaskKind(FeatureKind):
    """Encoded masks, each as large as its image."""

    name = "mask"
    bytes_are_strings = False

    def tfds(self, feature: Feature) -> Entry:
        """An Image of one channel, as those of TFDS's own data sets for segmentation."""
        dtype = feature.element or "uint8"
        image = {"shape": {"dimensions": ["-1", "-1", "1"]}, "dtype": dtype, "encodingFormat": "png"}
        return {"pythonClassName": f"{tfds_entries.PACKAGE}.image_feature.Image", "image": image}

    def annotate(self, proto: Any, feature: Feature) -> None:
        """A domain of images, and that the pixels are numbers, which no field is for."""
        proto.image_domain.SetInParent()
        proto.annotation.tag.append(_NOTE)
        if feature.element:
            proto.annotation.tag.append(f"element:{feature.element}")

    def from_schema(self, proto: Any, plain: Feature, notes: Mapping[str, str]) -> Feature | None:
        """What has a domain of images, and the note."""
        if not proto.HasField("image_domain") or _NOTE not in proto.annotation.tag:
            return None
        return replace(plain, dtype="bytes", kind=self.name, element=notes.get("element", ""))

    def opened(self, feature: Feature, configuration: Mapping[str, Any]) -> Callable[[bytes], Any] | None:
        """The values."""
        from shardmill.media.image_pixels import mask_array

        configured = configuration.get("max_pixels")
        return partial(mask_array, max_pixels=configured if isinstance(configured, int) else MAX_PIXELS)

    def words(self, feature: Feature) -> str:
        """What the pixels are."""
        return f"mask, a value from 0 to {65535 if feature.element else 255} a pixel, png"
