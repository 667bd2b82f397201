"""What some rows say of their columns; mergeable in any order."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from transforms.columns.types import ColumnType, merge_types

MAX_VALUES = 100_000  # distinct values of a column that are collected: no label has more classes


@dataclass(frozen=True, slots=True)
class Inferred:
    """What some rows say of their columns; mergeable in any order.

    Attributes:
      types: of every column that has a value in some row.
      rows: how many there are, those left out apart.
      values: the distinct values of one column, as spelled; None once there are more than MAX_VALUES.
    """

    types: Mapping[str, ColumnType] = field(default_factory=dict)
    rows: int = 0
    values: frozenset[str] | None = frozenset()

    def merge(self, other: "Inferred") -> "Inferred":
        """What both sets of rows say."""
        values = None if self.values is None or other.values is None else self.values | other.values
        if values is not None and len(values) > MAX_VALUES:
            values = None
        return Inferred(merge_types(self.types, other.types), self.rows + other.rows, values)
