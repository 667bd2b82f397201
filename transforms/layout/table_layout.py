"""How a table, lines of text or existing records are to be read, once that is decided."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from shardmill.features.feature import DType, Features
from shardmill.metadata.labels import ClassNames
from shardmill.transforms.columns.inferred import Inferred
from shardmill.transforms.columns.separated import Separated
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.formats.base import KeyColumn
from shardmill.transforms.inputs.folders import SPLITS, FolderRoles
from shardmill.transforms.inputs.summary import InputCounts, InputSummary
from shardmill.transforms.layout.objects import LABEL, RowObjects
from shardmill.transforms.layout.table_options import TableOptions
from shardmill.transforms.options.pictures import PictureOptions


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The reading of a table.

    Attributes:
      types: of the columns to read as features, in their order.
      features: as published, in the order in which they are encoded.
      labels: the columns, and of existing records the features, whose values are classes.
      class_names: the class tables of those that are not stored as ids already, by column.
      splits: split names by id.
      fractions: theirs, or None where the folders of the files say the split.
      notices: what the user must be told at the end.
      required_labels: labels' columns whose rows without a value are rejected.
      separated: the columns of labels whose texts are split into lists, and how.
      kinds: of existing records' features, where a record with another kind of one is rejected.
      folders: what those of the files mean.
      keys: the columns to read as keys, groups and strata, which need not be features; not those of lines and existing
        records.
      schema_said: how rejects call the schema that `features` come from.
      target: the label that others are held against, whatever its values are: the first of several; the first of
        `labels` if None.
      indexed: how much input there is, for the step that publishes: on clusters each step that reads what another has
        found takes memory of their own.
      images: the columns that are images: each is checked, and a row without one is rejected.
      times: the columns whose texts are times that become numbers, and the unit of each.
      counted: those of them that may hold such numbers already, for it is a schema that says the unit.
      pictures: how they are checked.
      objects: in one of these; None where none are.
      calls_rows: the column whose text rejects call a row by, beside its number; "" where there is none.
    """

    types: Mapping[str, ColumnType]
    features: Features
    labels: tuple[str, ...]
    class_names: Mapping[str, ClassNames]
    splits: tuple[str, ...]
    fractions: tuple[Fraction, ...] | None
    notices: tuple[str, ...] = ()
    required_labels: tuple[str, ...] = ()
    separated: Mapping[str, Separated] = field(default_factory=dict)
    kinds: Mapping[str, DType] = field(default_factory=dict)
    folders: FolderRoles = SPLITS
    keys: tuple[KeyColumn, ...] = ()
    schema_said: str = "--schema"
    target: str | None = None
    indexed: InputCounts = field(default_factory=InputCounts)
    images: tuple[str, ...] = ()
    pictures: PictureOptions = field(default_factory=PictureOptions)
    objects: RowObjects | None = None
    calls_rows: str = ""
    times: Mapping[str, str] = field(default_factory=dict)
    counted: tuple[str, ...] = ()

    @property
    def row_labels(self) -> tuple[str, ...]:
        """Those of the labels that are not of objects in images."""
        return tuple(name for name in self.labels if self.objects is None or name != LABEL)


# How a route decides upon its layout; whether an example of a line has its number concerns lines alone.
MakeLayout = Callable[[InputSummary, Inferred, TableOptions, bool], TableLayout]
