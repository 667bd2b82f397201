"""Options for labels, annotations, boxes, masks and images."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from shardmill.addons import registry
from shardmill.data import features
from shardmill.data.features import MAX_PIXELS as MAX_PIXELS
from shardmill.errors import UserError
from shardmill.flag_values import OptionValueError, split_pairs
from shardmill.metadata import file_names
from shardmill.metadata.labels import LABELS_FILE, ON_NEW_LABEL, parse_labels
from shardmill.text import alternatives
from shardmill.transforms.options.declare import Options, flag, newer_flag, or_none, read_option_file

# Declares --on_bad_box, the action for boxes that are empty, or not in their image
bad_box_flag = partial(
    flag,
    "reject",
    "Action for a box that is empty or not in its image: reject the image, drop the object, or clip a box that reaches"
    " out",
    choices=("reject", "drop", "clip"),
)
# Declares --boxes_seen, the orientation of images that boxes refer to
boxes_seen_flag = partial(
    flag,
    "",
    "Orientation that boxes of images with an EXIF rotation refer to, if image sizes do not show it",
    choices=("", "stored", "upright"),
    default_words="such images are rejected",
    to_json=or_none,
)


@dataclass(frozen=True, kw_only=True)
class BoxOptions(Options):
    """Options for objects in the images of table columns."""

    title: ClassVar[str] = "objects in images"

    on_bad_box: str = bad_box_flag(is_always_recorded=False)
    boxes_seen: str = boxes_seen_flag(is_always_recorded=False)


TFDS = "tfds"


@dataclass(frozen=True, kw_only=True)
class ObjectOptions(Options):
    """Options for object detection, whatever names the objects."""

    title: ClassVar[str] = BoxOptions.title

    on_bad_box: str = bad_box_flag()
    unread_objects: str = newer_flag(
        "reject",
        "Action for an object without a box, such as a point: reject the image, or drop the object",
        choices=("reject", "drop"),
    )
    boxes_seen: str = boxes_seen_flag()
    feature_names: str = newer_flag(
        TFDS,
        "Naming of features: as in TFDS object detection data sets, or the keys of TensorFlow's Object Detection API",
        choices=(TFDS, features.OBJECT_DETECTION),
        group="output",
    )

    def check_has_objects(self, has_objects: bool, used: Collection[str]) -> None:
        """Check that these options are given with objects; annotations use those in `used`. Raises UserError."""
        for name in ("on_bad_box", "unread_objects", "boxes_seen", "feature_names"):
            value, is_used, manifest = getattr(self, name), has_objects, ["a manifest with a column of objects"]
            if name == "unread_objects":  # in a manifest, every object has a box
                is_used, manifest = name in used, []
            if not is_used and value not in ("reject", "", TFDS):
                sources = alternatives([*registry.source_flags("" if manifest else name), *manifest])
                raise UserError(f"--{name} {value} needs {sources or 'annotations, which no add-on here reads'}")


def max_pixels_flag(**attributes: Any) -> Any:
    """Declare the flag --max_pixels, the size of the largest image that is accepted."""
    return flag(
        MAX_PIXELS,
        "Maximum number of pixels; larger images are rejected",
        check=lambda pixels: None if pixels > 0 else "expected a positive number",
        **attributes,
    )


@dataclass(frozen=True, kw_only=True)
class PictureOptions(Options):
    """Options for images in columns."""

    title: ClassVar[str] = "images in columns"

    verify: str = newer_flag(
        "header", "Check of each image: its header, or all of its pixels", choices=("header", "decode")
    )
    max_pixels: int = max_pixels_flag(is_always_recorded=False)


Labels = tuple[str, ...] | Mapping[str, tuple[str, ...]]


def read_labels(value: Any) -> Labels:
    """Read class names from the file at a path, or of several labels from `a=PATH,b=PATH`; return names unchanged."""
    if isinstance(value, Mapping):
        return {name: tuple(_read(names) if isinstance(names, str) else names) for name, names in value.items()}
    if not isinstance(value, str):
        return tuple(value)
    with suppress(OptionValueError):
        if len(named := split_pairs(value, "label=FILE", is_listed=True)) > 1:
            return {name: _read(path) for name, path in named}
    return _read(value)


def _read(value: str) -> tuple[str, ...]:
    try:
        return parse_labels(read_option_file("labels_file", value).decode(), value)
    except UnicodeDecodeError:
        raise UserError(f"--labels_file {value} is not UTF-8; save it as UTF-8") from None


@dataclass(frozen=True, kw_only=True)
class LabelOptions(Options):
    """Options for class names."""

    title: ClassVar[str] = "labels"

    # names by id, of one label or by label; None: sorted from input
    labels: Labels | None = flag(
        None,
        "File with one class name a line, which fixes the class ids; for several labels a=FILE,b=FILE",
        name="labels_file",
        reads_file=True,
        parse=read_labels,
    )
    on_new_label: str = flag(
        "fail",
        "Action for a class that is not in --labels_file: fail the job, append the class, or reject the record",
        choices=ON_NEW_LABEL,
    )

    source_version: str = ""  # version whose names are kept; "" for --labels_file

    @property
    def source(self) -> str:
        """The origin of the names, as text."""
        return f"the kept labels of version {self.source_version}" if self.source_version else LABELS_FILE

    @property
    def error_prefix(self) -> str:
        """A clause saying that names were given, to begin an error message."""
        version = self.source_version
        return f"the labels of version {version} are kept" if version else f"{LABELS_FILE} was given"

    def class_names(self, label: str = "label", labels: Sequence[str] = ("label",)) -> tuple[str, ...] | None:
        """Return the names given for `label`, which is one of `labels`; None if there are none."""
        if self.labels is None:
            return None
        if not isinstance(self.labels, Mapping):
            if len(labels) > 1:
                each = ",".join(f"{name}={file_names.labels_file(name)}" for name in labels)
                raise UserError(
                    f"{self.error_prefix}, but --label names {len(labels)} columns; give --labels_file {each}"
                )
            return self.labels
        if label not in self.labels and not self.source_version:
            raise UserError(f"{self.source} says nothing of the classes of {label!r}, but of {', '.join(self.labels)}")
        return self.labels.get(label)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.on_new_label != "fail" and self.labels is None:
            raise UserError(f"--on_new_label {self.on_new_label} needs --labels_file")


VERIFY = ("header", "decode", "none")  # how far an image is checked: its structure, every pixel, or not at all
FORMATS = ("jpeg", "png")  # what images are re-encoded as
# Stretch; fill the size and crop the centre; fit within it and pad with black
RESIZE_MODES = ("exact", "cover", "contain")


# What tf.io.decode_raw reads, by NumPy's names.
REAL = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "bool")
ELEMENTS = (*REAL, "complex64", "complex128")
MAX_DIMENSIONS = 32  # of NumPy before 2.0


_ARRAY_RESERVED = ("label", "filename", "split")  # features that every array has, or columns that mean something else


def parse_shape(value: Any) -> tuple[int | None, ...]:
    """Parse sizes from `64,64` or numbers; the first may be None (any size), and `''` means a single value."""
    text = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    words = [word.strip() for word in text.split(",")] if text.strip() else []
    if "None" in words[1:]:
        raise OptionValueError(
            f"{text!r}: expected no size but the first to be None; TFDS stores the shape with arrays of other shapes"
        )
    if not all(word.isdecimal() and int(word) > 0 for word in words if word != "None"):
        raise OptionValueError(f"{text!r} is not a list of sizes from 1, such as 64,64 or None,3")
    if len(words) > MAX_DIMENSIONS:
        raise OptionValueError(f"expected {MAX_DIMENSIONS} sizes at most")
    return tuple(None if word == "None" else int(word) for word in words)


def parse_array_name(value: Any) -> str:
    """Parse the name of the array's feature, which no other feature has; raises OptionValueError."""
    if not isinstance(value, str) or not value or not value.isprintable():
        raise OptionValueError(f"{value!r}: expected a name")
    if value in _ARRAY_RESERVED:
        raise OptionValueError(f"{value}: that is another feature's name; give another")
    return value
