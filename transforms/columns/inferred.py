"""What some rows say of their columns; mergeable in any order."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from shardmill.features.feature import Kind
from shardmill.transforms.columns.types import ColumnType, merge_types

MAX_VALUES = 100_000  # distinct values of a column that are collected: no label has more classes

Values = Mapping[str, frozenset[str] | None]  # by column; None of one that has too many


@dataclass(frozen=True, slots=True)
class ValuesOf:
    """A column whose distinct values are collected.

    Attributes:
      name: of the column.
      separator: what stands between the values that a text is split into; "" where it is one.
    """

    name: str
    separator: str = ""


@dataclass(frozen=True, slots=True)
class ToldObjects:
    """What a column says of each object in an image.

    Attributes:
      keys: what that is called.
      numbered: whether classes are ids; None where there is no class.
      by_rows: whether each row says it on its own, and may lack what others have.
      place: where that is so, the first of such places by name.
    """

    keys: tuple[str, ...]
    numbered: bool | None
    by_rows: bool = False
    place: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Told:
    """What a format itself tells of a column, beside the type of its values.

    Attributes:
      kind: `image`, `class_label`, `bbox` of the objects in images, or `text` where there is nothing but what is
        `said`.
      names: of the classes, by id, as each file has them that names any: one, or the files differ.
      classes: one more than the greatest id there is, where nobody names them.
      is_complete: whether a row without a value is a mistake.
      path: of files that are named and not held, the first name; "" where there is none.
      said: a sentence that the user must be told of it; "" where there is none.
      objects: of objects in images, what each file says of them, or some rows: one, or the files differ.
    """

    kind: Kind
    names: frozenset[tuple[str, ...]] = frozenset()
    classes: int = 0
    is_complete: bool = False
    path: str = ""
    said: str = ""
    objects: frozenset[ToldObjects] = frozenset()

    def in_place(self, place: str) -> "Told":
        """The same, said in one place."""
        return replace(self, objects=frozenset(replace(item, place=place) for item in self.objects))

    def merge(self, other: "Told") -> "Told":
        """What both say; of two kinds the first by name."""
        kind, complete = min(self.kind, other.kind), self.is_complete or other.is_complete
        path = min(filter(None, (self.path, other.path)), default="")
        names, said = self.names | other.names, max(self.said, other.said)
        by_place = sorted((*self.objects, *other.objects), key=lambda item: item.place, reverse=True)
        objects = frozenset({item: item for item in by_place}.values())
        return Told(kind, names, max(self.classes, other.classes), complete, path, said, objects)


@dataclass(frozen=True, slots=True)
class Inferred:
    """What some rows say of their columns; mergeable in any order.

    Attributes:
      types: of every column that has a value in some row.
      rows: how many there are, those left out apart.
      values: the distinct values of some columns, as spelled; None once there are more than MAX_VALUES.
      told: of some columns, what they are beside their types.
    """

    types: Mapping[str, ColumnType] = field(default_factory=dict)
    rows: int = 0
    values: Values = field(default_factory=dict)
    told: Mapping[str, Told] = field(default_factory=dict)

    def merge(self, other: "Inferred") -> "Inferred":
        """What both sets of rows say."""
        values = merge_values(self.values, other.values)
        told = {**self.told, **other.told}
        for name in self.told.keys() & other.told.keys():
            told[name] = self.told[name].merge(other.told[name])
        return Inferred(merge_types(self.types, other.types), self.rows + other.rows, values, told)


def merge_values(one: Values, other: Values) -> Values:
    """The distinct values of both sets of rows, by column."""
    if not (one and other):
        return one or other
    return {name: _joined(one.get(name, frozenset()), other.get(name, frozenset())) for name in {**one, **other}}


def _joined(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    joined = None if one is None or other is None else one | other
    return joined if joined is None or len(joined) <= MAX_VALUES else None
