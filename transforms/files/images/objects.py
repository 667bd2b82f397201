"""The objects in an image as features of its example: their boxes checked, and moved with the picture."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from shardmill.features.feature import DType, Feature, Features, Kind
from shardmill.features.renames import NO_RENAMES, Renames
from shardmill.records import example
from transforms.files.images.boxes import Box, Picture, clipped, fault, fitting, frame_of, turned, turned_back
from transforms.files.images.codec import Reencode
from transforms.files.images.errors import ImageError
from transforms.inputs.annotations.objects import RELATIVE, Member, Noted, Object
from transforms.sharding.keys import hash_strings
from transforms.statistics.tables import TableStats

SEQUENCE = "objects"  # as TFDS's own data sets call it
ON_BAD_BOX = ("reject", "drop")
_EDGE = 1e-6  # of a side: less beyond it is a matter of rounding


class Placed(NamedTuple):
    """What became of the objects in an image.

    Attributes:
      values: of each member, those of all objects.
      clipped: boxes that reached out of the picture.
      dropped: objects left out, for their boxes are no good.
      cropped: objects left out, for they are not in what is kept of the picture.
    """

    values: Mapping[Member, Sequence[Any]]
    clipped: int = 0
    dropped: int = 0
    cropped: int = 0


class _Kind(NamedTuple):
    """How a member is stored, and what Arrow holds it as."""

    dtype: DType
    kind: Kind
    arrow: pa.DataType


_INTEGERS, _FLAGS = _Kind("int64", "tensor", pa.int64()), _Kind("int64", "bool", pa.int64())
_KINDS: dict[Member, _Kind] = {
    "area": _Kind("float32", "tensor", pa.float32()),
    "bbox": _Kind("float32", "bbox", pa.float32()),
    "id": _INTEGERS,
    "is_crowd": _FLAGS,
    "is_difficult": _FLAGS,
    "is_truncated": _FLAGS,
    "label": _Kind("int64", "class_label", pa.int64()),
    "pose": _Kind("bytes", "text", pa.binary()),
}


def object_features(members: Iterable[Member], class_names: Sequence[str]) -> Features:
    """The features of objects, in the order in which they are written."""
    return tuple(
        Feature(
            _name(member),
            _KINDS[member].dtype,
            _KINDS[member].kind,
            (None, 4) if member == "bbox" else (None,),
            class_names=tuple(class_names) if member == "label" else (),
            sequence=SEQUENCE,
        )
        for member in sorted(members)
    )


def _name(member: str) -> str:
    return f"{SEQUENCE}/{member}"


@dataclass(frozen=True)
class ObjectEncoder:
    """Encodes the objects in images.

    Attributes:
      members: what is said of each.
      on_bad_box: whether an object whose box is no good makes its image a `reject`, or is left out: `drop`.
      boxes_seen: whether boxes of images that EXIF turns are of the `stored` or the `upright` picture, where the
        annotation's size does not tell; "" makes these images rejects.
      renames: what the features are called.
    """

    members: tuple[Member, ...]
    on_bad_box: str = "reject"
    boxes_seen: str = ""
    renames: Renames = NO_RENAMES

    def place(self, noted: Noted, picture: Picture, how: Reencode | None) -> Placed:
        """The objects where they are in the image as it will be stored.

        Args:
          noted: them, as they are annotated.
          picture: the image as it was found.
          how: it is re-encoded; None where it is stored as it is.

        Raises:
          ImageError: the annotation is not of this image, or a box is no good.
        """
        if not noted.objects:
            return Placed({member: [] for member in self.members})
        move, scale, (width, height) = self._way(noted, picture, how)
        kept: list[tuple[Object, Box, float]] = []
        counts = {"clipped": 0, "dropped": 0, "cropped": 0}
        for item in noted.objects:
            box = Box(item.top / height, item.left / width, item.bottom / height, item.right / width)
            if problem := fault(box):
                if self.on_bad_box == "reject":
                    raise ImageError(_said(item, problem, noted.size))
                counts["dropped"] += 1
                continue
            inside = clipped(box)
            assert inside is not None
            counts["clipped"] += max(map(abs, map(float.__sub__, inside, box))) > _EDGE
            moved = move(inside)
            seen = clipped(moved)
            if seen is None:
                counts["cropped"] += 1
                continue
            kept.append((item, seen, scale * _area(seen) / (_area(moved) or 1.0)))
        return Placed({member: self._values(member, kept) for member in self.members}, **counts)

    def _way(
        self, noted: Noted, picture: Picture, how: Reencode | None
    ) -> tuple[Callable[[Box], Box], float, tuple[int, int]]:
        """What moves a box, by how much an area grows, and the size in which edges are counted."""
        said = None if noted.size == RELATIVE else noted.size
        frame = frame_of(picture, said, self.boxes_seen)
        own = picture.upright if frame == "upright" else (picture.width, picture.height)
        unit = RELATIVE if noted.size == RELATIVE else own
        if how is None:
            back = frame == "upright"
            return (lambda box: turned_back(box, picture.orientation) if back else box), 1.0, unit
        target = how.size or picture.upright
        fit = fitting(picture.upright, how.size, how.mode)
        grown = (target[0] * target[1] * _area(fit.put)) / (picture.width * picture.height * _area(fit.kept))
        forward = frame == "stored"
        return (lambda box: fit(turned(box, picture.orientation) if forward else box)), grown, unit

    def _values(self, member: Member, kept: Sequence[tuple[Object, Box, float]]) -> Sequence[Any]:
        if member == "bbox":
            return [edge for _, box, _ in kept for edge in box]
        if member == "area":
            return [(item.area or 0.0) * scale for item, _, scale in kept]
        values = [getattr(item, member) for item, _, _ in kept]
        if member == "pose":
            return [text.encode() for text in values]
        return [int(value) for value in values]

    def entries(self, placed: Placed) -> bytes:
        """The features, serialized."""
        return b"".join(
            example.entry(self.renames(_name(member)), _ENCODERS[_KINDS[member].dtype](placed.values[member]))
            for member in sorted(self.members)
        )

    def stats(self, placed: Sequence[Placed], names: Sequence[str]) -> TableStats:
        """The statistics of the objects in some images, `names` theirs."""
        columns = []
        for member in sorted(self.members):
            lengths = [len(item.values[member]) for item in placed]
            values = pa.array([value for item in placed for value in item.values[member]], _KINDS[member].arrow)
            offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(np.int64))
            columns.append(pa.LargeListArray.from_arrays(offsets, values))
        batch = pa.RecordBatch.from_arrays(columns, list(map(_name, sorted(self.members))))
        ties = hash_strings(names, 0)
        return TableStats.of(batch, ties, [_name("label")])


_ENCODERS: dict[DType, Callable[[Any], bytes]] = {
    "int64": example.int64_feature,
    "float32": example.float_feature,
    "bytes": example.bytes_feature,
}


def _area(box: Box) -> float:
    return (box.bottom - box.top) * (box.right - box.left)


def _said(item: Object, problem: str, size: tuple[int, int] | None) -> str:
    edges = ", ".join(f"{edge:g}" for edge in (item.left, item.top, item.right, item.bottom))
    of = "" if size is None or size == RELATIVE else f" of {size[0]} x {size[1]} pixels"
    what = problem if problem != "lies outside the picture" else f"{problem}{of}"
    return f"object {item.id}: the box from left, top to right, bottom {edges} {what}"
