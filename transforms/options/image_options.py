"""Options for labels, annotations, boxes, masks and images."""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from shardmill.data import features
from shardmill.data.features import MAX_PIXELS as MAX_PIXELS
from shardmill.errors import UserError
from shardmill.flag_values import OptionValueError, items_of, split_pairs
from shardmill.metadata import file_names
from shardmill.metadata.labels import LABELS_FILE, ON_NEW_LABEL, parse_labels
from shardmill.transforms.options.declare import Options, check_no_repeats, flag, read_option_file
from shardmill.transforms.options.job_options import parse_names, parse_path


def bad_box_flag(**attributes: Any) -> Any:
    """Declare the flag --on_bad_box, the action for boxes that are empty, or not in their image."""
    return flag(
        "reject",
        "Action for a box that is empty or not in its image: reject the image, drop the object, or clip a box that"
        " reaches out",
        choices=("reject", "drop", "clip"),
        **attributes,
    )


def boxes_seen_flag(**attributes: Any) -> Any:
    """Declare the flag --boxes_seen, the orientation of images that boxes refer to."""
    return flag(
        "",
        "Orientation that boxes of images with an EXIF rotation refer to, if image sizes do not show it",
        choices=("", "stored", "upright"),
        default_words="such images are rejected",
        to_json=lambda text: text or None,
        **attributes,
    )


@dataclass(frozen=True, kw_only=True)
class BoxOptions(Options):
    """Options for objects in the images of table columns."""

    title: ClassVar[str] = "objects in images"

    on_bad_box: str = bad_box_flag(is_always_recorded=False)
    boxes_seen: str = boxes_seen_flag(is_always_recorded=False)


TFDS = "tfds"
BOXES_CSV = "boxes_csv"  # a format of --annotations that has a flag of its own
_SPLIT = re.compile(r"(\w+)=(.+)")


def parse_annotation_files(value: Any) -> tuple[tuple[str, str], ...]:
    """Parse `train=a.json` items, pairs or a mapping into (split, path) pairs; the split may be ""."""
    pairs = []
    for item in items_of(value):
        match = _SPLIT.fullmatch(item) if isinstance(item, str) else None
        split, path = match.groups() if match else ("", item) if isinstance(item, str) else item
        pairs.append((str(split), parse_path(path)))
    if len({bool(split) for split, _ in pairs}) > 1:
        raise OptionValueError("some files have a split and others not; give each one, as in train=a.json")
    check_no_repeats([split for split, _ in pairs if split], "the split {} is there twice")
    check_no_repeats([path for _, path in pairs], "the file {} is there twice")
    return tuple(pairs)


def parse_export(value: Any) -> tuple[str, str]:
    """Parse (format, path) from `via=export.json`, a path alone, whose format is "", or a pair."""
    if not isinstance(value, str):
        return str(value[0]), parse_path(value[1])
    match = _SPLIT.fullmatch(value)
    return (match[1], parse_path(match[2])) if match else ("", parse_path(value))


def _source_flag(default: Any, help: str, parse: Any = parse_path, **attributes: Any) -> Any:
    return flag(default, help, parse=parse, affects_output=False, **attributes)


@dataclass(frozen=True, kw_only=True)
class AnnotationOptions(Options):
    """Options for object detection."""

    title: ClassVar[str] = "objects in images"

    coco: tuple[tuple[str, str], ...] = _source_flag(
        (),
        "COCO annotation file, for example instances.json, or one for each split; repeatable",
        parse=parse_annotation_files,
        repeats=True,
        metavar="[SPLIT=]FILE",
    )
    voc: str | None = _source_flag(None, "Folder of Pascal VOC annotations: Annotations/, or its parent folder")
    yolo: str | None = _source_flag(None, "File data.yaml of a YOLO data set")
    annotations: tuple[str, str] | None = _source_flag(
        None,
        "File or folder that a labelling tool exported; FORMAT= names its format if several fit",
        parse=parse_export,
        metavar="[FORMAT=]PATH",
    )
    boxes_csv: str | None = _source_flag(
        None, "CSV file with one row for each box, or a folder of such files; columns are found by their usual names"
    )
    on_bad_box: str = bad_box_flag()
    unread_objects: str = flag(
        "reject",
        "Action for an object without a box, such as a point: reject the image, or drop the object",
        choices=("reject", "drop"),
        is_always_recorded=False,
    )
    boxes_seen: str = boxes_seen_flag()
    feature_names: str = flag(
        TFDS,
        "Naming of features: as in TFDS object detection data sets, or the keys of TensorFlow's Object Detection API",
        choices=(TFDS, features.OBJECT_DETECTION),
        group="output",
        is_always_recorded=False,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.boxes_csv is not None and self.annotations is None:
            object.__setattr__(self, "annotations", (BOXES_CSV, self.boxes_csv))
        if len(given := [*self._given]) > 1:
            raise UserError(f"{given[0]} and {given[1]} both say what is in the images; give one")

    def check_has_objects(self) -> None:
        """Check that flags about objects are given with annotations or objects of a manifest; raises UserError."""
        for name in ("on_bad_box", "unread_objects", "boxes_seen", "feature_names"):
            value, about = getattr(self, name), "--coco, --voc, --yolo or --annotations name, or a column of a manifest"
            is_used = self.has_objects
            if name == "unread_objects":  # elsewhere every object has a box
                is_used, about = bool({"--coco", "--annotations"} & {*self._given}), "--coco or --annotations name"
            if not is_used and value not in ("reject", "", TFDS):
                raise UserError(f"--{name} {value} is about the objects that {about}")

    @property
    def has_objects(self) -> bool:
        """True if an option gives annotations."""
        return bool(self._given)

    @property
    def _given(self) -> dict[str, str]:
        """The options that name annotations, as given on the command line."""
        is_csv = self.annotations == (BOXES_CSV, self.boxes_csv)
        values = {
            "--coco": " --coco ".join("=".join(filter(None, pair)) for pair in self.coco),
            "--voc": self.voc,
            "--yolo": self.yolo,
            "--annotations": "=".join(filter(None, () if is_csv else self.annotations or ())),
            "--boxes_csv": self.boxes_csv,
        }
        return {flag: value for flag, value in values.items() if value}

    @property
    def annotation_flag(self) -> str:
        """The annotation option as given on the command line; "" if none."""
        return " ".join(next(iter(self._given.items()), ()))


Color = tuple[int, int, int]  # red, green and blue, 0 to 255
MaskColors = tuple[tuple[str, Color], ...]  # the classes of masks in the order of their values, each with its colour
_COLOR_FIRST = re.compile(r"(\d+)[\s,;]+(\d+)[\s,;]+(\d+)[\s,;:]+(\S.*)")  # CamVid's label_colors.txt
_NAME_FIRST = re.compile(r"([^,:;\t]+?)\s*[,:;\s]\s*(\d+)[\s,;]+(\d+)[\s,;]+(\d+)\b.*")  # labelmap.txt, class_dict.csv


def parse_mask_colors(value: Any) -> MaskColors:
    """Parse the classes of colours in masks from the path of a file, or from (name, colour) pairs.

    A file has a line for each class, `64 128 64 Animal`, `Animal:64,128,64` or `Animal #408040`; a header such as
    `name,b,g,r` counts, and lines that begin with `# ` do not. Or it is JSON: a map of names to colours, the labels of
    CVAT, or the `dataset_meta.json` of datumaro.

    Raises:
        UserError: if the file cannot be read, or a line holds no name and colour.
        OptionValueError: if a name or a colour is there twice.
    """
    if isinstance(value, str):
        try:
            text = read_option_file("mask_colors", value).decode("utf-8-sig")
            text = re.sub("#([0-9a-fA-F]{6})\\b", lambda found: ",".join(map(str, bytes.fromhex(found[1]))), text)
            pairs = _colors_of_json(text) if value.lower().endswith(".json") else _colors_of_lines(text)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise UserError(f"--mask_colors {value} is no list of names and colours: {error}") from None
    else:
        pairs = [(str(name), color) for name, color in (value.items() if isinstance(value, Mapping) else value)]
    colors = [(name, _check_color(color)) for name, color in pairs]
    check_no_repeats([name for name, _ in colors], "the class {} is there twice")
    check_no_repeats([",".join(map(str, color)) for _, color in colors], "the colour {} is there twice")
    return tuple(colors)


def _check_color(color: Any) -> Color:
    try:
        red, green, blue = bytes(map(int, color.split(",") if isinstance(color, str) else color))
    except (TypeError, ValueError):
        raise OptionValueError(f"{color} is no colour; expected #rrggbb, or red, green, blue from 0 to 255") from None
    return red, green, blue


def _colors_of_json(text: str) -> list[tuple[str, Any]]:
    found = json.loads(text)
    if isinstance(found, list):
        return [(item["name"], item["color"]) for item in found]
    if "segmentation_colors" not in found:
        return list(found.items())
    names = found["label_map"]
    if sorted(map(int, names)) != list(range(len(found["segmentation_colors"]))):
        raise ValueError("label_map and segmentation_colors have other numbers")
    return [(names[str(number)], color) for number, color in enumerate(found["segmentation_colors"])]


def _colors_of_lines(text: str) -> list[tuple[str, Any]]:
    lines = [line.strip() for line in text.splitlines()]
    found, order = list[tuple[str, Any]](), "rgb"
    for number, line in enumerate(lines, 1):
        if not line or line.startswith("#"):
            continue
        if (match := _COLOR_FIRST.fullmatch(line)) is not None:
            name, parts = match[4], match.groups()[:3]
        elif (match := _NAME_FIRST.fullmatch(line)) is not None:
            name, parts = match[1], match.groups()[1:]
        elif found or re.search(r"\d", line):  # no header
            raise ValueError(f"line {number} is {line!r}; expected such as 'Animal:64,128,64' or '64 128 64 Animal'")
        else:
            header = "".join(word[0] for word in re.findall(r"\b(?:r|g|b|red|green|blue)\b", line.lower()))
            order = header if sorted(header) == sorted(order) else order
            continue
        found.append((name, ",".join(parts[order.index(color)] for color in "rgb")))
    if not found:
        raise ValueError("it is empty")
    return found


@dataclass(frozen=True, kw_only=True)
class MaskOptions(Options):
    """Options for image segmentation."""

    title: ClassVar[str] = "masks of images"

    masks: str | None = flag(
        None,
        "Folder with one mask for each image, under the same relative path; the suffix may differ",
        parse=parse_path,
        is_always_recorded=False,
        to_json=bool,
    )
    mask_column: tuple[str, ...] = flag(
        (),
        "Manifest column with the file name of each image's mask, or comma-separated columns",
        parse=parse_names,
        is_always_recorded=False,
        metavar="COLUMN",
    )
    mask_pattern: str = flag(
        "",
        "Name of each image's mask without suffix, for example '{stem}_mask' or '{stem}_image={stem}_mask'; "
        "without --masks, --input holds the masks",
        is_always_recorded=False,
        metavar="[IMAGE=]MASK",
    )
    mask_dtype: str = flag(
        "uint8",
        "Data type of mask values; uint16, for example for depth maps and instance ids, makes 16-bit PNGs",
        choices=("uint8", "uint16"),
        is_always_recorded=False,
    )
    mask_colors: MaskColors = flag(
        (),
        "File with the class of each colour in masks, for example labelmap.txt or class_dict.csv",
        parse=parse_mask_colors,
        reads_file=True,
        default_words="masks of colours are rejected",
        is_always_recorded=False,
        metavar="FILE",
        to_json=dict,
    )
    masks_seen: str = flag(
        "",
        "Orientation that masks of images with an EXIF rotation refer to, if image sizes do not show it",
        choices=("", "stored", "upright"),
        default_words="such images are rejected",
        is_always_recorded=False,
    )


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

    verify: str = flag(
        "header",
        "Check of each image: its header, or all of its pixels",
        choices=("header", "decode"),
        is_always_recorded=False,
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
        raise UserError(f"--labels_file {value} is not UTF-8") from None


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
