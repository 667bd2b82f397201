"""Features of examples: their kinds, dtypes and shapes, their names and roles."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from shardmill.errors import UserError
from shardmill.flag_values import assign

Kind = Literal["tensor", "bool", "text", "image", "class_label", "array", "audio", "bbox", "mask"]
DType = Literal["int64", "float32", "bytes"]
Role = Literal["input", "label", "source"]
TimeUnit = Literal["", "s", "ms", "us", "ns"]


@dataclass(frozen=True, slots=True)
class Feature:
    """The description of one feature of every example: its name, type, shape, kind and role."""

    name: str  # key in `tf.train.Example`
    dtype: DType  # type of the values in its list
    kind: Kind = "tensor"  # meaning of the values
    # `()`, `(n,)`, `(None,)` or `(None, 4)`; only the first size may be None; row-major; of an array, its own shape
    shape: tuple[int | None, ...] = ()
    required: bool = True  # present in every example; otherwise absent if missing
    class_names: tuple[str, ...] = ()  # of a `class_label`, by id
    encoding: str = ""  # the one format of all images or WAV samples; "" if they differ
    element: str = ""  # NumPy type of an array's raw little-endian values; `uint16` for 16-bit masks
    sample_rate: int = 0  # of all audio (WAV bytes or float32 samples); 0 if they differ
    channels: int = 0  # of all audio; 0 if they differ
    role: Role = "input"  # `input` of a model, `label` to predict, or `source`: origin or size, added by shardmill
    original: str = ""  # name before `--rename`, such as `text`; "" if not renamed
    # name of its list of objects, such as `objects` for `objects/bbox`; all its features have equal lengths
    sequence: str = ""
    time: TimeUnit = ""  # unit since 1970 in UTC, if int64 values are times

    def __post_init__(self) -> None:
        if None in self.shape[1:]:
            raise ValueError(f"feature {self.name!r} has shape {self.shape}; expected no size but the first to be None")
        # shardmill.data.kinds has the rules of each kind; these two are those of every feature
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
        """Return the owner of one value: an `example`, or one of several `object`s."""
        return "object" if self.sequence else "example"

    @property
    def member(self) -> str:
        """Return the TFDS name within the sequence, such as `bbox`; "" if it is in none or not named after it."""
        prefix = f"{self.sequence}/"
        return self.name.removeprefix(prefix) if self.sequence and self.name.startswith(prefix) else ""

    @property
    def stem(self) -> str:
        """Return the prefix of names of files about the feature, as in TFDS: `image.class.label`, `objects-label`."""
        parts = (self.sequence, self.member) if self.member else (self.name,)
        return "-".join(part.replace("/", ".") for part in parts)

    @property
    def is_wav(self) -> bool:
        """Return True if the feature holds the bytes of WAV files."""
        return self.kind == "audio" and self.dtype == "bytes"

    @property
    def is_dense(self) -> bool:
        """Return True if every example has the same number of values: TensorFlow's FixedLenFeature."""
        return self.required and None not in self.list_shape

    @property
    def is_packed(self) -> bool:
        """Return True if the list holds a single bytes value that encodes all numbers, as for arrays."""
        return self.kind == "array"

    @property
    def list_shape(self) -> tuple[int | None, ...]:
        """Return the shape of the values in the list: `()` if a single bytes value encodes them all."""
        return () if self.is_packed else self.shape


Features = tuple[Feature, ...]


def find_incomplete(features: Features) -> list[Feature]:
    """Return the features that need a default: those that some examples lack, except lists of any length."""
    return [feature for feature in features if not feature.required and None not in feature.shape]


def find_feature(features: Iterable[Feature], name: str) -> Feature | None:
    """Return the feature that has `name` in the input or in shardmill, regardless of `--rename`; None if not found."""
    found = [feature for feature in features if name in (feature.original, feature.name)]
    return next((feature for feature in found if feature.original == name), found[0] if found else None)


def features_of_kind(features: Iterable[Feature], kind: Kind) -> Features:
    """Return the features of one kind."""
    return tuple(feature for feature in features if feature.kind == kind)


_MAX_NAME_BYTES = 200  # a file of 255 may be named by it: that of a label


@dataclass(frozen=True, slots=True)
class Renames:
    """Pairs of (name in the input, name in examples), for renamed features only.

    Raises:
        UserError: if a name occurs twice or is not usable.
    """

    pairs: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        for position, what in ((0, "renames {!r} twice"), (1, "calls two features {!r}")):
            names = [pair[position] for pair in self.pairs]
            if twice := [name for name in names if names.count(name) > 1]:
                raise UserError(f"--rename {what.format(twice[0])}")
        for old, new in self.pairs:
            if not new.isprintable() or len(new.encode(errors="replace")) > _MAX_NAME_BYTES:
                raise UserError(
                    f"--rename {old}={new!r}: expected a name that can be printed, of {_MAX_NAME_BYTES} bytes at most"
                )

    @classmethod
    def of(cls, configuration: Mapping[str, Any]) -> "Renames":
        """Return the renames in a manifest's configuration."""
        found = configuration.get("rename")
        pairs = found.items() if isinstance(found, dict) else ()
        return cls(tuple((str(old), str(new)) for old, new in pairs))

    def __call__(self, name: str) -> str:
        """Return the name in examples of the input's feature `name`."""
        return dict(self.pairs).get(name, name) if self.pairs else name

    def original_name(self, name: str) -> str:
        """Return the input's name of the feature that is `name` in examples."""
        return next((old for old, new in self.pairs if new == name), name)

    def check(self, names: Iterable[str]) -> None:
        """Check the renames against the features' `names`.

        Raises:
            UserError: if a renamed feature does not exist, or the new name is already taken.
        """
        known = list(names)
        for old, new in self.pairs:
            if old not in known:
                raise UserError(
                    f"--rename {assign(old, new)}: there is no feature {old!r}; they are {', '.join(known)}"
                )
            if new in known and new not in dict(self.pairs):
                raise UserError(f"--rename {assign(old, new)}: there is a feature {new!r} already; rename that one too")

    def rename_features(self, features: Features) -> Features:
        """Return the features with their new names, in the same order."""
        renamed = ((feature, self(feature.name)) for feature in features)
        return tuple(
            replace(feature, name=name, original=feature.name) if name != feature.name else feature
            for feature, name in renamed
        )

    def restore_features(self, features: Features) -> Features:
        """Return renamed features with their names in the input."""
        return tuple(replace(feature, name=self.original_name(feature.name), original="") for feature in features)


NO_RENAMES = Renames()


# What shardmill itself added to examples, by the format in the manifest's configuration; images have none there.
_SOURCES = {
    None: ("filename", "height", "width"),
    "lines": ("filename", "line_number"),
    "text files": ("filename",),
    "arrays": ("filename",),
    "audio": ("filename", "sample_rate", "channels", "frames"),
}


def mark_labels(features: Features, configuration: Mapping[str, Any]) -> Features:
    """Return the features with the role `label` set on those that `--label` names (default: `label`), by input name."""
    given = configuration.get("label") or "label"
    names = tuple(map(Renames.of(configuration), [given] if isinstance(given, str) else given))
    return tuple(replace(feature, role="label") if feature.name in names else feature for feature in features)


def infer_roles(features: Features, configuration: Mapping[str, Any]) -> Features:
    """Return the features of a manifest without roles, with roles and original names from its configuration."""
    renames, written = Renames.of(configuration), configuration.get("format")
    known = written is not None or bool(features_of_kind(features, "image"))
    sources = tuple(map(renames, _SOURCES.get(written, ()))) if known else ()
    named = renames.rename_features(renames.restore_features(features))
    marked = tuple(replace(feature, role="source") if feature.name in sources else feature for feature in named)
    return mark_labels(marked, configuration)


LANGUAGES_KEY = "languages"  # in that configuration


def translated_features(configuration: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names in examples of the features that hold one text, or its tokens, in several languages."""
    return tuple(map(Renames.of(configuration), configuration.get(LANGUAGES_KEY) or ()))


OBJECT_DETECTION = "object_detection"  # as --feature_names and the configuration in manifest.json have it
BACKGROUND_CLASS = "background"  # of the id 0 in its label maps
_OBJECT = "image/object"


class ObjectDetectionKeys(NamedTuple):
    """Feature names by content; `edges` are the top, left, bottom and right of boxes."""

    image: str = "image/encoded"
    filename: str = "image/filename"
    height: str = "image/height"
    width: str = "image/width"
    format: str = "image/format"
    sha256: str = "image/key/sha256"
    source_id: str = "image/source_id"
    objects: str = _OBJECT
    edges: tuple[str, str, str, str] = (
        f"{_OBJECT}/bbox/ymin",
        f"{_OBJECT}/bbox/xmin",
        f"{_OBJECT}/bbox/ymax",
        f"{_OBJECT}/bbox/xmax",
    )
    label: str = f"{_OBJECT}/class/label"
    text: str = f"{_OBJECT}/class/text"
    area: str = f"{_OBJECT}/area"
    difficult: str = f"{_OBJECT}/difficult"
    id: str = f"{_OBJECT}/id"  # not of the API: COCO's, which nothing else keeps
    is_crowd: str = f"{_OBJECT}/is_crowd"
    truncated: str = f"{_OBJECT}/truncated"
    view: str = f"{_OBJECT}/view"


OBJECT_DETECTION_KEYS = ObjectDetectionKeys()
# What every image has, by its name in other data sets
OBJECT_DETECTION_RENAMES = tuple(
    (name, getattr(OBJECT_DETECTION_KEYS, name)) for name in ("image", "filename", "height", "width")
)


def has_object_detection_names(configuration: Mapping[str, Any]) -> bool:
    """Return True if a manifest's configuration selects these names."""
    return configuration.get("feature_names") == OBJECT_DETECTION


MAX_PIXELS = 178_956_970  # twice what Pillow warns of: where it, too, calls an image a decompression bomb
