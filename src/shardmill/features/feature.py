"""What an example holds: features by name, and the descriptions of them that each reader wants."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Kind = Literal["tensor", "bool", "text", "image", "class_label", "array", "audio", "bbox", "mask"]
DType = Literal["int64", "float32", "bytes"]
Role = Literal["input", "label", "source"]
TimeUnit = Literal["", "s", "ms", "us", "ns"]


@dataclass(frozen=True, slots=True)
class Feature:
    """One feature of every example.

    Attributes:
      name: its key in `tf.train.Example`.
      dtype: what its list holds: `int64`, `float32` or `bytes`.
      kind: what the values mean.
      shape: `()` for one value, `(n,)` for n, `(None,)` for any number of them, `(None, 4)` for any number of boxes;
        only the first size may be None. The list holds the values in row-major order; of an `array`, whose list holds
        one bytes, it is the shape of what is in them.
      required: whether every example has it; a feature that is not required is absent where the value is missing.
      class_names: of a `class_label`, the names by id.
      encoding: of an `image`, the one format of all of them, or "" where they differ; so of the samples in files of
        `audio`.
      element: of an `array`, the NumPy name of its values' type, such as `float32`; they are raw, little-endian and
        row-major. Of a `mask`, `uint16` where its PNGs have 16 bits, else "".
      sample_rate, channels: of all `audio`, or 0 where they differ. It is a WAV file's bytes, or its samples as
        float32.
      role: what it is for: an `input` of a model, the `label` to predict, or a `source`, which shardmill itself added
        to say where the example is from, or how large.
      original: the name that the input or shardmill gives it, such as `text` or `height`, where `--rename` gave it
        another; "" where it has that name.
      sequence: of what is said of each of several objects, such as `objects/bbox`, the name of the list of them,
        `objects`; all features of a sequence have as many values, an object's at one place. "" of all others.
      time: of int64 that are times, the unit in which they are counted since 1970 in UTC; "" of all others.
    """

    name: str
    dtype: DType
    kind: Kind = "tensor"
    shape: tuple[int | None, ...] = ()
    required: bool = True
    class_names: tuple[str, ...] = ()
    encoding: str = ""
    element: str = ""
    sample_rate: int = 0
    channels: int = 0
    role: Role = "input"
    original: str = ""
    sequence: str = ""
    time: TimeUnit = ""

    def __post_init__(self) -> None:
        if None in self.shape[1:]:
            raise ValueError(f"feature {self.name!r} has shape {self.shape}; expected no size but the first to be None")
        # What holds of a kind is in shardmill.kinds; these two hold of any feature, and kinds are told with features
        told = bool(self.element)
        if (told and self.kind not in ("array", "mask")) or (self.is_packed and not (told and self.dtype == "bytes")):
            raise ValueError(
                f"feature {self.name!r} is {self.kind} of {self.element or self.dtype}; an array is bytes with an"
                " element type"
            )
        if self.time and (self.dtype != "int64" or self.kind != "tensor"):
            raise ValueError(f"feature {self.name!r} is times of {self.dtype}, {self.kind}; expected int64")
        if self.kind in ("bool", "class_label") and self.dtype != "int64":
            raise ValueError(
                f"feature {self.name!r} is a {self.kind.replace('_', ' ')} of {self.dtype}; expected int64"
            )

    @property
    def unit(self) -> str:
        """What has a value of it: an `example`, or one of several `object`s."""
        return "object" if self.sequence else "example"

    @property
    def member(self) -> str:
        """What TFDS calls it within its sequence, such as `bbox`; "" where it is in none, or called otherwise."""
        prefix = f"{self.sequence}/"
        return self.name.removeprefix(prefix) if self.sequence and self.name.startswith(prefix) else ""

    @property
    def stem(self) -> str:
        """What files about it are called after, as TFDS has it: `image.class.label`, `objects-label`."""
        parts = (self.sequence, self.member) if self.member else (self.name,)
        return "-".join(part.replace("/", ".") for part in parts)

    @property
    def is_wav(self) -> bool:
        """Whether it holds the bytes of WAV files."""
        return self.kind == "audio" and self.dtype == "bytes"

    @property
    def is_dense(self) -> bool:
        """Whether every example has the same number of values: TensorFlow's FixedLenFeature."""
        return self.required and None not in self.list_shape

    @property
    def is_packed(self) -> bool:
        """Whether the list holds one bytes with all values in it, as an array's does."""
        return self.kind == "array"

    @property
    def list_shape(self) -> tuple[int | None, ...]:
        """The shape of what the list holds: `()` where that is one bytes with all values in it."""
        return () if self.is_packed else self.shape


Features = tuple[Feature, ...]


def known_as(features: Iterable[Feature], name: str) -> Feature | None:
    """The feature that the input or shardmill calls `name`, whatever `--rename` calls it; None if there is none."""
    found = [feature for feature in features if name in (feature.original, feature.name)]
    return next((feature for feature in found if feature.original == name), found[0] if found else None)


def of_kind(features: Iterable[Feature], kind: Kind) -> Features:
    """Those of the features that are of a kind."""
    return tuple(feature for feature in features if feature.kind == kind)
