"""The steps that a feature may be put through, by TensorFlow Transform's names: what each takes and gives. Pure.

A step that is an analyzer takes constants from all values of the training split; see `needs`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, Protocol

from shardmill.features.feature import DType
from shardmill.transforms.options.declare import ValueMistake

Needs = Literal["", "moments", "range", "quantiles", "vocabulary"]
NOT_IN_A_VOCABULARY = (b"", b"\n", b"\r")  # an entry is a line of a text file, as in TFT


@dataclass(frozen=True, slots=True)
class Values:
    """The values of a feature between two steps.

    Attributes:
      dtype: of each.
      many: whether an example has a list of them.
      missing: whether an example may have none.
      ids: how many there are where they are ids from 0, None where nobody knows, 0 where they are no ids.
    """

    dtype: DType
    many: bool = False
    missing: bool = False
    ids: int | None = 0

    @property
    def words(self) -> str:
        """What they are, for a sentence."""
        return f"lists of {self.dtype}" if self.many else self.dtype


class Step(Protocol):
    """One step; a dataclass whose fields are its parameters."""

    name: ClassVar[str]
    needs: ClassVar[Needs]

    def after(self, values: Values) -> Values:
        """What it makes of `values`; raises ValueMistake where it takes none such."""


def to_json(step: Step) -> dict[str, Any]:
    """A step by its name, with its parameters; `step_of` reads it."""
    parameters = {item.name: getattr(step, item.name) for item in fields(step)}  # type: ignore[arg-type]
    return {step.name: {name: list(value) if isinstance(value, tuple) else value for name, value in parameters.items()}}


def step_of(entry: Mapping[str, Any]) -> Step:
    """The step that `to_json` wrote."""
    ((name, parameters),) = entry.items()
    return STEPS[name](**{key: tuple(value) if isinstance(value, list) else value for key, value in parameters.items()})


def _numbers(name: str, values: Values) -> None:
    if values.dtype == "bytes":
        raise ValueMistake(f"{name} is of numbers, and the values are {values.words}")


def _floats(name: str, values: Values) -> Values:
    """Numbers, after what makes a float32 of each."""
    _numbers(name, values)
    return replace(values, dtype="float32", ids=0)


def _texts(name: str, values: Values) -> None:
    if values.dtype != "bytes":
        raise ValueMistake(f"{name} is of texts, and the values are {values.words}")


def _at_least(name: str, number: int | None, least: int) -> None:
    if number is not None and number < least:
        raise ValueMistake(f"{name} is {number}; expected {least} or more")


@dataclass(frozen=True, slots=True)
class Fill:
    """What stands where an example has no value."""

    name: ClassVar[str] = "fill"
    needs: ClassVar[Needs] = ""
    value: str

    def after(self, values: Values) -> Values:
        """Values of which none is missing."""
        if values.many:
            raise ValueMistake("fill is of features with one value, and lists are empty where they are missing")
        self.typed(values.dtype)
        return replace(values, missing=False)

    def typed(self, dtype: DType) -> int | float | bytes:
        """The value as values of `dtype` are; raises ValueMistake."""
        if dtype == "bytes":
            return self.value.encode()
        try:
            number = int(self.value) if dtype == "int64" else float(self.value)
        except ValueError:
            raise ValueMistake(f"fill: {self.value!r} is no {dtype}, as the values are") from None
        if dtype == "int64" and not -(1 << 63) <= number < 1 << 63:
            raise ValueMistake(f"fill: {self.value} is beyond int64")
        return number


@dataclass(frozen=True, slots=True)
class Lower:
    """Texts in small letters; those of ASCII, as tf.strings.lower has them."""

    name: ClassVar[str] = "lower"
    needs: ClassVar[Needs] = ""

    def after(self, values: Values) -> Values:
        """Texts."""
        _texts(self.name, values)
        return values


@dataclass(frozen=True, slots=True)
class Tokenize:
    """A text as the list of its tokens.

    Attributes:
      pattern: what stands between two, a regular expression of RE2; "" for white space of ASCII.
    """

    name: ClassVar[str] = "tokenize"
    needs: ClassVar[Needs] = ""
    pattern: str = ""

    def after(self, values: Values) -> Values:
        """Lists of texts."""
        _texts(self.name, values)
        if values.many:
            raise ValueMistake(f"tokenize is of single texts, and the values are {values.words}")
        return replace(values, many=True)


@dataclass(frozen=True, slots=True)
class Log1p:
    """log(1 + x)."""

    name: ClassVar[str] = "log1p"
    needs: ClassVar[Needs] = ""

    def after(self, values: Values) -> Values:
        """float32."""
        return _floats(self.name, values)


@dataclass(frozen=True, slots=True)
class ZScore:
    """(x - mean) / standard deviation, as tft.scale_to_z_score."""

    name: ClassVar[str] = "z_score"
    needs: ClassVar[Needs] = "moments"

    def after(self, values: Values) -> Values:
        """float32."""
        return _floats(self.name, values)


@dataclass(frozen=True, slots=True)
class MinMax:
    """x scaled so that the least and the greatest value become `low` and `high`, as tft.scale_by_min_max."""

    name: ClassVar[str] = "min_max"
    needs: ClassVar[Needs] = "range"
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueMistake(f"min_max: [{self.low:g}, {self.high:g}]; expected the smaller number first")

    def after(self, values: Values) -> Values:
        """float32."""
        return _floats(self.name, values)


@dataclass(frozen=True, slots=True)
class Buckets:
    """The number of the bucket that a value falls in, by boundaries that are given, as tft.apply_buckets."""

    name: ClassVar[str] = "boundaries"
    needs: ClassVar[Needs] = ""
    boundaries: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.boundaries or any(low >= high for low, high in zip(self.boundaries, self.boundaries[1:])):
            raise ValueMistake("bucketize: expected boundaries that ascend, such as [18, 30, 65]")

    def after(self, values: Values) -> Values:
        """Ids."""
        _numbers(self.name, values)
        return replace(values, dtype="int64", ids=len(self.boundaries) + 1)


@dataclass(frozen=True, slots=True)
class Bucketize:
    """The same by quantiles, as tft.bucketize: about as many values in each bucket."""

    name: ClassVar[str] = "bucketize"
    needs: ClassVar[Needs] = "quantiles"
    num_buckets: int

    def __post_init__(self) -> None:
        _at_least("num_buckets", self.num_buckets, 2)

    def after(self, values: Values) -> Values:
        """Ids."""
        _numbers(self.name, values)
        return replace(values, dtype="int64", ids=None)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The id of a value by how frequent it is, as tft.compute_and_apply_vocabulary; parameters as there."""

    name: ClassVar[str] = "vocabulary"
    needs: ClassVar[Needs] = "vocabulary"
    top_k: int | None = None
    frequency_threshold: int | None = None
    num_oov_buckets: int = 0
    default_value: int = -1

    def __post_init__(self) -> None:
        _at_least("top_k", self.top_k, 1)
        _at_least("frequency_threshold", self.frequency_threshold, 1)
        _at_least("num_oov_buckets", self.num_oov_buckets, 0)
        if self.num_oov_buckets and self.default_value != -1:
            raise ValueMistake("default_value has no effect beside num_oov_buckets; give one of them")

    def after(self, values: Values) -> Values:
        """Ids."""
        if values.dtype == "float32":
            raise ValueMistake(f"a vocabulary is of texts or int64, and the values are {values.words}; bucketize them")
        return replace(values, dtype="int64", ids=None)


@dataclass(frozen=True, slots=True)
class Hash:
    """The hash of a text below `hash_buckets`, as tft.hash_strings."""

    name: ClassVar[str] = "hash"
    needs: ClassVar[Needs] = ""
    hash_buckets: int

    def __post_init__(self) -> None:
        _at_least("hash_buckets", self.hash_buckets, 1)

    def after(self, values: Values) -> Values:
        """Ids."""
        _texts(self.name, values)
        return replace(values, dtype="int64", ids=self.hash_buckets)


@dataclass(frozen=True, slots=True)
class OneHot:
    """A list of as many 0.0 as there are ids, with 1.0 at the place of the value; all 0.0 where it is none of them."""

    name: ClassVar[str] = "one_hot"
    needs: ClassVar[Needs] = ""

    def after(self, values: Values) -> Values:
        """A list of float32, never missing."""
        if values.ids == 0:
            raise ValueMistake(
                f"one_hot is of ids, which vocabulary, bucketize and hash give, and the values are {values.words}"
            )
        if values.many:
            raise ValueMistake(f"one_hot is of features with one value, and the values are {values.words}")
        return Values("float32", many=True)


STEPS: Mapping[str, type[Any]] = {
    step.name: step
    for step in (Fill, Lower, Tokenize, Log1p, ZScore, MinMax, Buckets, Bucketize, Vocabulary, Hash, OneHot)
}
