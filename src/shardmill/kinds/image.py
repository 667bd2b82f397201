"""`image`: the bytes of an image's file."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from shardmill.features.feature import Feature
from shardmill.kinds import tfds_entries
from shardmill.kinds.base import Entry, FeatureKind
from shardmill.media.image_limits import MAX_PIXELS

_TFDS_ENCODINGS = ("jpeg", "png")  # those that TFDS's Image may name: image_feature.py


class ImageKind(FeatureKind):
    """Encoded images of any size."""

    name = "image"
    input_rank = 0
    bytes_are_strings = False

    def tfds(self, feature: Feature) -> Entry:
        """An Image of three channels."""
        image: dict[str, Any] = {"shape": {"dimensions": ["-1", "-1", "3"]}, "dtype": "uint8"}
        if feature.encoding in _TFDS_ENCODINGS:
            image["encodingFormat"] = feature.encoding
        return {"pythonClassName": f"{tfds_entries.PACKAGE}.image_feature.Image", "image": image}

    def annotate(self, proto: Any, feature: Feature) -> None:
        """A domain of images."""
        proto.image_domain.SetInParent()

    def from_schema(self, proto: Any, plain: Feature, notes: Mapping[str, str]) -> Feature | None:
        """What has a domain of images."""
        return replace(plain, dtype="bytes", kind=self.name) if proto.HasField("image_domain") else None

    def opened(self, feature: Feature, configuration: Mapping[str, Any]) -> Callable[[bytes], Any] | None:
        """The pixels, RGB."""
        from shardmill.media.image_pixels import rgb_array

        configured = configuration.get("max_pixels")
        return partial(rgb_array, max_pixels=configured if isinstance(configured, int) else MAX_PIXELS)

    def words(self, feature: Feature) -> str:
        """The format of all of them, if they have one."""
        return f"image, {feature.encoding or 'of several formats'}"
