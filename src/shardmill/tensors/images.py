"""Encoded images to tensors of one size."""

from dataclasses import dataclass
from typing import Any, Literal

from shardmill.errors import UserError
from shardmill.features.feature import Feature, known_as
from shardmill.installation.lazy_tensorflow import tf
from shardmill.reading.dataset import Dataset
from shardmill.statistics.feature_summary import FeatureSummary

ImageDType = Literal["float32", "uint8"]
Size = tuple[int, int]  # height, width

# For each pixel wanted: up to here, making floats of all costs less than it saves (224 x 224 of 448 x 448)
_FEW_PIXELS = 4
_TYPICAL_SIZE = (512, 512)  # pixels: what a buffer to shuffle in is sized by where nothing else is known


@dataclass(frozen=True, slots=True)
class ImageDecoder:
    """Decodes one image as a batch of any number of them is read.

    Attributes:
      dtype: `float32` for values in [0, 1], `uint8` for 0 to 255.
      channels: 3 for RGB, 1 for grey.
      resize: height and width to scale to, whatever the image's aspect ratio; None to leave it.
      known: height and width of all images where they are known to be equal.
      antialias: whether scaling down averages over all pixels.
    """

    dtype: ImageDType = "float32"
    channels: int = 3
    resize: Size | None = None
    known: Size | None = None
    antialias: bool = False

    def __post_init__(self) -> None:
        if self.dtype not in ("float32", "uint8"):
            raise UserError(f"image_dtype is {self.dtype!r}; expected 'float32' or 'uint8'")
        if self.channels not in (1, 3):
            raise UserError(f"channels is {self.channels!r}; expected 3 (RGB) or 1 (grey)")
        size = self.resize
        if size is not None and not (len(size) == 2 and all(isinstance(side, int) and side > 0 for side in size)):
            raise UserError(f"image_size is {size!r}; expected (height, width) in pixels")

    @property
    def size_bytes(self) -> int:
        """The size of a decoded image, or of a typical one where that is not known."""
        height, width = self.resize or self.known or _TYPICAL_SIZE
        return height * width * self.channels * (4 if self.dtype == "float32" else 1)

    def __call__(self, data: Any) -> Any:
        """A scalar string tensor to an image (height, width, channels) of `dtype`."""
        image = tf.io.decode_image(data, channels=self.channels, expand_animations=False)
        image.set_shape((*(self.known or (None, None)), self.channels))
        if self.resize is not None and self.resize != self.known:
            image = self._scaled(image)
            return image / 255.0 if self.dtype == "float32" else tf.cast(tf.round(image), tf.uint8)
        return tf.image.convert_image_dtype(image, tf.float32) if self.dtype == "float32" else image

    def mask(self, data: Any, dtype: str = "uint8") -> Any:
        """A scalar string tensor to a mask (height, width, 1) of `dtype`, scaled as its image is: each value that of
        the nearest pixel."""
        mask = tf.io.decode_png(data, channels=1, dtype=dtype)
        mask.set_shape((*(self.known or (None, None)), 1))
        if self.resize is not None and self.resize != self.known:
            mask = tf.image.resize(mask, self.resize, tf.image.ResizeMethod.NEAREST_NEIGHBOR)
        return mask

    def _scaled(self, image: Any) -> Any:
        """A uint8 image as float32 from 0 to 255, scaled.

        TensorFlow scales floats a third faster than bytes, to the same values; but of a large image all pixels would
        become floats, of which few are looked at.
        """
        assert self.resize is not None
        size, few = self.resize, _FEW_PIXELS * self.resize[0] * self.resize[1]

        def as_floats() -> Any:
            return tf.image.resize(tf.cast(image, tf.float32), size)

        def as_bytes() -> Any:
            return tf.image.resize(image, size, antialias=self.antialias)

        if self.antialias:
            return as_bytes()
        if self.known is not None:
            return as_floats() if self.known[0] * self.known[1] <= few else as_bytes()
        return tf.cond(tf.size(image) <= few * self.channels, as_floats, as_bytes)


def common_size(dataset: Dataset, split: str) -> tuple[Size | None, str]:
    """Height and width of all images of a split if they are equal, as its statistics have them; else None and what is
    known.

    Raises:
      CorruptDataError: the statistics are not what was written.
    """
    # What the input calls height need not be the image's
    added = [feature for feature in dataset.manifest.features if feature.role == "source"]
    names = [feature.name for feature in (known_as(added, side) for side in ("height", "width")) if feature]
    if len(names) != 2:
        return None, "their sizes are not known"
    try:
        stats = dataset.stats().splits.get(split)
    except FileNotFoundError:
        return None, "their sizes are not known, for there is no stats.json"
    found = [stats.features.get(side, FeatureSummary()).numbers for side in names] if stats is not None else []
    sides = [end for numbers in found if numbers is not None for end in (numbers.minimum, numbers.maximum)]
    whole = [side for side in sides if isinstance(side, int)]
    if len(whole) != 4:  # of records made elsewhere, or of a split without examples
        return None, "their sizes are not known"
    lowest, highest, narrowest, widest = whole
    if (lowest, narrowest) == (highest, widest):
        return (lowest, narrowest), ""
    return None, f"their heights are {lowest} to {highest}, their widths {narrowest} to {widest}"


def size_of_others(dataset: Dataset, feature: Feature) -> tuple[Size | None, str]:
    """As common_size, of images beside the first of their example, of which no statistics have the sides."""
    resized = dataset.manifest.configuration.get("resize")
    if isinstance(resized, list) and len(resized) == 2 and all(isinstance(side, int) for side in resized):
        return (resized[1], resized[0]), ""
    return None, f"the sizes of {feature.name!r} are not known"
