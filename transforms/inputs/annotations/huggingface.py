"""Objects in a column of a manifest, as Hugging Face's image folders have them.

See huggingface.co/docs/datasets/image_dataset: `objects` is {"bbox": [[x, y, width, height], …], "categories": […]},
lists of one length, or a list of objects with one each; boxes are in pixels, from the upper left corner.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from shardmill.errors import UserError
from shardmill.metadata.rejects import Reject
from shardmill.transforms.columns.inferred import MAX_VALUES, ToldObjects
from shardmill.transforms.columns.nested import shown
from shardmill.transforms.formats.parquet.huggingface import BOX, LABELS
from shardmill.transforms.formats.parquet.huggingface import OBJECTS as COLUMN
from shardmill.transforms.inputs.annotations.coco_file import is_measure, is_number, is_whole
from shardmill.transforms.inputs.annotations.objects import OBJECTS, Member, Object, object_lists

SIDES = ("width", "height")  # columns that may say the size of the picture, in pixels
KEYS: Mapping[str, Member] = {
    BOX: "bbox",
    **dict.fromkeys(LABELS, "label"),
    **dict.fromkeys(("area", "areas"), "area"),
    **dict.fromkeys(("id", "ids"), "id"),
    **dict.fromkeys(("iscrowd", "is_crowd"), "is_crowd"),
}


@dataclass(frozen=True, slots=True)
class ObjectsColumn:
    """What a manifest says of each object.

    Attributes:
      keys: as it calls them, by the members that they are.
      numbered: whether classes are ids; else they are names.
      names: of the classes by these ids; () where nobody says them.
      image_id: the column that holds what every image is known by, the name of its file; "" for none.
    """

    keys: tuple[tuple[Member, str], ...]
    numbered: bool = False
    names: tuple[str, ...] = ()
    image_id: str = ""

    @classmethod
    def of(cls, told: ToldObjects, names: tuple[str, ...], source: str) -> "ObjectsColumn":
        """What a column says that is told of; raises a UserError that names its `source` if it is not what each object
        is."""
        members: dict[Member, str] = {}
        for key in (key for key in KEYS if key in told.keys):
            members.setdefault(KEYS[key], key)
        if "label" not in members:
            raise UserError(
                f"{source}: {COLUMN!r} has {', '.join(map(repr, sorted(told.keys)))}, and nothing says what each object"
                f" is; expected {LABELS[0]!r}, {LABELS[1]!r} or {LABELS[4]!r} beside {BOX!r}"
            )
        return cls(tuple(members.items()), bool(told.numbered), names)

    @property
    def members(self) -> tuple[Member, ...]:
        """What is said of each object."""
        return tuple(member for member, _ in self.keys)

    def objects(self, value: Any) -> list[Object]:
        """The objects that a row says are in its image.

        Raises:
          ValueError: it says none, or of one what is no good.
        """
        columns = _columns(value, [key for _, key in self.keys])
        found = []
        for number, values in enumerate(zip(*columns, strict=True), 1):
            told = dict(zip(self.members, values, strict=True))
            x, y, width, height = self._box(told["bbox"], number)
            found.append(
                Object(
                    self._class(told["label"], number),
                    *(y, x, y + height, x + width),
                    self._id(told.get("id", number), number),
                    self._area(told.get("area", width * height), width * height, number),
                    self._flag(told.get("is_crowd", False), number),
                )
            )
        return found

    def left_out(self, value: Any) -> Iterator[str]:
        """What a row says of objects and no example holds, once for each."""
        known = {key for _, key in self.keys}
        for item in value if isinstance(value, list) else [value or {}]:
            for key in item.keys() - known:
                said = item[key] if isinstance(value, dict) and isinstance(item[key], list) else [item[key]]
                yield from (key for one in said if one not in (None, [], "", 0))

    def _box(self, value: Any, number: int) -> Sequence[float]:
        if not (isinstance(value, list) and len(value) == 4 and all(map(is_number, value))):
            raise ValueError(f"object {number} has {shown(value)} for {BOX}; expected [x, y, width, height]")
        return value

    def _class(self, value: Any, number: int) -> str:
        if not self.numbered:
            if not isinstance(value, str) or not value:
                raise ValueError(f"object {number} has {shown(value)} for its class; expected a name, as others have")
            return value
        if not is_whole(value) or not 0 <= value < MAX_VALUES:
            raise ValueError(f"object {number} has {shown(value)} for its class; expected an id from 0, as others have")
        value = int(value)
        return self.names[value] if value < len(self.names) else str(value)  # which is in no table of names

    def _id(self, value: Any, number: int) -> int:
        if not is_whole(value):
            raise ValueError(f"object {number} has {shown(value)} for its id; expected a whole number")
        return int(value)

    def _area(self, value: Any, of_box: float, number: int) -> float:
        if value is None:
            return of_box
        if not is_measure(value):
            raise ValueError(f"object {number} has {shown(value)} for its area; expected a number")
        return float(value)

    def _flag(self, value: Any, number: int) -> bool:
        if value not in (0, 1, None):
            raise ValueError(f"object {number} has {shown(value)} for iscrowd; expected 0 or 1")
        return bool(value)


def with_objects(batch: pa.RecordBatch, column: ObjectsColumn) -> tuple[pa.RecordBatch, list[Reject], Counter[str]]:
    """FOUND rows with OBJECTS, which are none of their columns any more; a Reject for each of which these are no good;
    and of how many objects it says what no example holds."""
    kept, columns, objects, sizes, rejects = [], [], [], [], []
    left_out: Counter[str] = Counter()
    for row, text in enumerate(batch["columns"].to_pylist()):
        values = json.loads(text) if text else {}
        value, sides = values.pop(COLUMN, None), [values.pop(side, None) for side in SIDES]
        name, line = batch["name"][row].as_py(), batch["line"][row].as_py()
        try:
            check_sides(sides)
            objects.append(column.objects(value))
        except ValueError as error:
            rejects.append(Reject(name, line, "index", f"column {COLUMN!r}: {error}"))
            continue
        sizes.append(sides)
        left_out.update(column.left_out(value))
        if column.image_id:
            values[column.image_id] = name
        kept.append(row)
        columns.append(json.dumps(values))
    place = batch.schema.get_field_index("columns")
    found = batch.take(pa.array(kept, pa.int64())).set_column(
        place, batch.schema.field(place), pa.array(columns, pa.string())
    )
    beside = objects_batch(sizes, objects)
    for field, values in zip(OBJECTS, beside.columns, strict=True):
        found = found.append_column(field, values)
    return found, rejects, left_out


def check_sides(sides: Sequence[Any]) -> None:
    """Raise a ValueError if what SIDES say is neither the size of a picture nor nothing."""
    if list(sides) != [None, None] and not all(is_whole(side) and side > 0 for side in sides):
        said = f"{shown(sides[0])} x {shown(sides[1])} pixels"
        raise ValueError(f"the picture's size is said to be {said}; expected whole numbers")


def objects_batch(sizes: Sequence[Sequence[int | None]], objects: Sequence[Sequence[Object]]) -> pa.RecordBatch:
    """OBJECTS of some images: what SIDES say of each, and the objects in it."""
    sides = [pa.array([size[place] for size in sizes], pa.int64()) for place in range(len(SIDES))]
    return pa.RecordBatch.from_arrays([*sides, object_lists(objects)], schema=OBJECTS)


def _columns(value: Any, keys: Sequence[str]) -> list[list[Any]]:
    """The values of each key, as many as there are objects."""
    if value is None or value in ([], {}):
        return [[] for _ in keys]
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return [[item.get(key) for item in value] for key in keys]
    if not isinstance(value, dict):
        raise ValueError(f"{shown(value)}; expected an object with {', '.join(keys)}, or a list of such")
    columns = [value.get(key) for key in keys]
    if columns == [None] * len(keys) and set(keys) <= value.keys():  # a struct of Arrow's that is nothing may be this
        return [[] for _ in keys]
    for key, column in zip(keys, columns, strict=True):
        if not isinstance(column, list):
            raise ValueError(f"{key} is {shown(column)}; expected a list")
    lists = [column for column in columns if isinstance(column, list)]
    if len(set(map(len, lists))) > 1:
        said = ", ".join(f"{len(column):,} of {key}" for key, column in zip(keys, lists, strict=True))
        raise ValueError(f"lists of several lengths: {said}")
    return lists
