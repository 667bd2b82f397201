"""What stats.json says of a feature in the examples of a split.

Which members a feature has follows from what it is: numbers have a range and a histogram, strings lengths, both
distinct and top values; images, audio, arrays and whole texts have the sizes of their files; class labels have the
count of each class. What a feature has not is None, and does not stand in the file.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shardmill.metadata.json_values import Value
from shardmill.statistics.extremes import Extreme
from shardmill.statistics.members import (
    Json,
    Member,
    attributes,
    counts,
    counts_by_integer,
    is_plain_count,
    is_plain_number,
    present,
)
from shardmill.statistics.numbers import OF_NUMBERS, Number, Numbers
from shardmill.statistics.values import Distinct, TopValue, top_values_from_json

_MIXED = "mixed"


@dataclass(frozen=True, slots=True)
class FeatureSummary:
    """What is known of a feature in the examples of one split.

    Attributes:
      count, missing: examples that have it, and that lack it; None where every example has it, but for the heights,
        widths and frames of files: those are counted.
      per_example: the lengths of lists.
      is_mixed: of different kinds in different examples, of which nothing more is said.
      distinct: how many values differ.
      numbers: of a feature that is numbers.
      formats, encodings: files by theirs.
      seconds: of audio, in all.
      size_bytes: of the files.
      width, height: of images in a column of a table, in pixels; those of `shardmill images` are features.
      turned_by_exif: images that EXIF says to turn, which readers do not do.
      extremes: the images that are most so, by what is extreme of them: `smallest`, `largest`, `most elongated`.
      values: of the numbers in all arrays.
      length_bytes: of strings, or of whole texts.
      classes: examples by the name of their class, in the order of ids; 0 is said too.
      without_name: values that are no id of a class.
      frames_by_rate, files_by_channels: of audio; the rate is in Hz.
      top_values: the most frequent values, that first which is most so; None where there are too many integers to count
        each.
      top_values_from: what those were drawn from, where that is not every value.
      label_association: how well the values tell the label, 0 to 1: Goodman and Kruskal's lambda, by what share fewer
        labels are guessed wrongly by who knows the value; None where there is no label, or too many values.
    """

    count: int | None = None
    missing: int | None = None
    per_example: Numbers | None = None
    is_mixed: bool = False
    distinct: Distinct | None = None
    numbers: Numbers | None = None
    formats: Mapping[str, int] | None = None
    encodings: Mapping[str, int] | None = None
    seconds: Number | None = None
    size_bytes: Numbers | None = None
    width: Numbers | None = None
    height: Numbers | None = None
    turned_by_exif: int = 0
    extremes: Mapping[str, tuple[Extreme, ...]] | None = None
    values: Numbers | None = None
    length_bytes: Numbers | None = None
    classes: Mapping[str, int] | None = None
    without_name: int = 0
    frames_by_rate: Mapping[int, int] | None = None
    files_by_channels: Mapping[int, int] | None = None
    top_values: tuple[TopValue, ...] | None = None
    top_values_from: str = ""
    label_association: Number | None = None

    def to_json(self) -> Json:
        """As the file has it."""
        return present(
            count=self.count,
            missing=self.missing,
            values_per_example=_object(self.per_example),
            kind=_MIXED if self.is_mixed else None,
            distinct=_object(self.distinct),
            **(_object(self.numbers) or {}),
            formats=self.formats,
            encodings=self.encodings,
            seconds=self.seconds,
            size_bytes=_object(self.size_bytes),
            width=_object(self.width),
            height=_object(self.height),
            turned_by_exif=self.turned_by_exif or None,
            extremes=self.extremes and {what: _list(images) for what, images in self.extremes.items()},
            values=_object(self.values),
            length_bytes=_object(self.length_bytes),
            classes=self.classes,
            ids_without_a_name=self.without_name or None,
            frames=_by_text(self.frames_by_rate),
            files=_by_text(self.files_by_channels),
            top_values=_list(self.top_values),
            top_values_from=self.top_values_from or None,
            label_association=self.label_association,
        )

    @classmethod
    def from_json(cls, value: Value) -> "FeatureSummary":
        """What the file has; raises ValueError."""
        found = attributes(value, _MEMBERS)
        own = {name: found.pop(name) for name in _OF_NUMBERS if name in found}
        return cls(**found, numbers=Numbers(**own) if own else None)


def _object(part: Numbers | Distinct | None) -> Json | None:
    return None if part is None else part.to_json()


def _list(parts: Iterable[TopValue | Extreme] | None) -> list[Json] | None:
    return None if parts is None else [part.to_json() for part in parts]


def _by_text(counts: Mapping[int, int] | None) -> dict[str, int] | None:
    return None if counts is None else {str(key): count for key, count in counts.items()}


def _extremes(value: Value) -> dict[str, tuple[Extreme, ...]]:
    return {what: tuple(map(Extreme.from_json, images.items())) for what, images in value.entries().items()}


def _is_mixed(value: Value) -> bool:
    return bool(value.value == _MIXED)


_COUNT = (Value.integer, is_plain_count)
_MEMBERS: Mapping[str, Member] = {
    "count": Member("count", *_COUNT),
    "missing": Member("missing", *_COUNT),
    "values_per_example": Member("per_example", Numbers.from_json),
    "kind": Member("is_mixed", _is_mixed),
    "distinct": Member("distinct", Distinct.from_json, plain=Distinct.of_plain),
    "formats": Member("formats", counts),
    "encodings": Member("encodings", counts),
    "seconds": Member("seconds", Value.number),
    "size_bytes": Member("size_bytes", Numbers.from_json),
    "width": Member("width", Numbers.from_json),
    "height": Member("height", Numbers.from_json),
    "turned_by_exif": Member("turned_by_exif", *_COUNT),
    "extremes": Member("extremes", _extremes),
    "values": Member("values", Numbers.from_json),
    "length_bytes": Member("length_bytes", Numbers.from_json),
    "classes": Member("classes", counts),
    "ids_without_a_name": Member("without_name", *_COUNT),
    "frames": Member("frames_by_rate", counts_by_integer),
    "files": Member("files_by_channels", counts_by_integer),
    "top_values": Member("top_values", top_values_from_json),
    "top_values_from": Member("top_values_from", Value.text),
    "label_association": Member("label_association", Value.number, is_plain_number),
    **OF_NUMBERS,
}
_OF_NUMBERS = tuple(member.attribute for member in OF_NUMBERS.values())
