"""The findings in the calls of a user's function."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from shardmill.text import plural
from shardmill.transforms.findings import Finding

Place = tuple[str, int]  # file and line; of rows without an order, the beginning of the row, or nothing, and 0


def _describe_first(place: Place | None) -> str:
    if place in (None, ("", 0)):
        return ""
    return f" (first: {place[0]}, line {place[1]:,})" if place[1] else f" (first: {place[0]})"


@dataclass(slots=True)
class MapCalls(Finding):
    """The calls of a function with records; places are those of the first record."""

    rank: ClassVar[int] = 1
    function: str = ""
    records: int = 0  # that the function took
    rows: int = 0  # that it returned
    rejected: int = 0  # records that the function failed on, or that could not be read
    left_out: int = 0  # records for which it returned None, or an empty list
    first_left_out: Place | None = None
    several: int = 0  # records of which it made several rows
    several_rows: int = 0  # that it made of these
    first_several: Place | None = None
    repeated: int = 0  # records that it took twice
    unequal: int = 0  # those of which it returned something else the second time
    first_unequal: Place | None = None
    columns: frozenset[str] = frozenset()  # of the input whose types were decided

    def count(self, place: Place, rows: int, records: int = 1) -> None:
        """Count records of which the function made `rows` rows."""
        self.records += records
        self.rows += rows
        if rows < records:
            self.left_out += records - rows
            self.first_left_out = min(self.first_left_out or place, place)
        elif rows > records:
            self.several += records
            self.several_rows += rows
            self.first_several = min(self.first_several or place, place)

    def count_repeated(self, place: Place, is_equal: bool, records: int = 1) -> None:
        """Count records that the function took twice."""
        self.repeated += records
        if not is_equal:
            self.unequal += records
            self.first_unequal = min(self.first_unequal or place, place)

    @property
    def shares_places(self) -> bool:
        return bool(self.several)

    def notices(self, flags: Any, rows: int) -> Iterator[str]:
        if self.left_out:
            count = f"{self.left_out:,} of {plural(self.records, 'record')}"
            yield f"{self.function} left out {count}{_describe_first(self.first_left_out)}"
        if self.several:
            yield (
                f"{self.function} made {self.several_rows:,} rows of {plural(self.several, 'record')}"
                f"{_describe_first(self.first_several)}"
            )
        if self.unequal:
            yield (
                f"{self.function} returned something else for {self.unequal:,} of {plural(self.repeated, 'record')}"
                f" that it was given twice{_describe_first(self.first_unequal)}: builds of the same input will differ"
            )
