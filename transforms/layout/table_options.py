"""What the user said of a table: its columns, labels and splits."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from shardmill.features.feature import Feature, Features, TimeUnit
from shardmill.kinds.registry import kind_of
from shardmill.transforms.columns.inferred import ValuesOf
from shardmill.transforms.inputs.folders import FolderRoles
from shardmill.transforms.options.boxes import BoxOptions
from shardmill.transforms.options.labels import LabelOptions
from shardmill.transforms.options.pictures import PictureOptions
from shardmill.transforms.options.splits import SplitOptions

OBJECTS = "objects"  # the sequence of what is in images, and the column that it is made of


@dataclass(frozen=True, slots=True)
class TableOptions:
    """What the user said about columns, labels and splits.

    Attributes:
      source: how errors call the input.
      schema: the features of --schema, None if not given; of objects in images their column, see `unplaced`.
      objects: what --schema says of these.
      records: the folder, file or glob of existing records; "" where rows are read.
      schema_said: how errors call that: it may be kept of a version.
      drop, only: columns that are left out, or alone kept.
      fill: (column, text) of what stands for missing values.
      label_columns: those that are labels.
      separators: what stands between the classes of labels whose texts name several, by column.
      key: the column that is a record's identity, which need not be a feature.
      key_said: the flag that names it.
      split: how records are dealt out to splits; its columns need not be features either.
      classes: the names there may be.
      split_shards: the splits that --num_shards names.
      folders: what those of the files mean, as --folders says; None where that is guessed.
      plural: how errors call the files.
      images: the columns of --image.
      pictures: how images in columns are checked.
      boxes: what becomes of boxes in them.
      calls_rows: the column that says which record a row is; "" where there is none.
      says_label: the flags that were given as `label`, which is the first column of --label.
      times: the columns of --timestamp, and the unit of each.
      order_by: the column that orders the rows of sequences; "" where there are none.
      texts: what the texts of lines are called: of parallel files, one for each.
    """

    source: str
    schema: Features | None = None
    objects: Features = ()
    drop: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    fill: tuple[tuple[str, str], ...] = ()
    label_columns: tuple[str, ...] = ()
    separators: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None
    split: SplitOptions = field(default_factory=SplitOptions)
    classes: LabelOptions = field(default_factory=LabelOptions)
    split_shards: tuple[str, ...] = ()
    folders: FolderRoles | None = None
    plural: str = "files"
    images: tuple[str, ...] = ()
    pictures: PictureOptions = field(default_factory=PictureOptions)
    boxes: BoxOptions = field(default_factory=BoxOptions)
    calls_rows: str = ""
    says_label: tuple[str, ...] = ()
    records: str = ""
    schema_said: str = "--schema"
    key_said: str = "--key"
    times: Mapping[str, TimeUnit] = field(default_factory=dict)
    order_by: str = ""
    texts: tuple[str, ...] = ("text",)

    @property
    def helpers(self) -> list[str]:
        """The columns that are read although they may be no features."""
        columns = (self.key, self.split.group_by, self.split.stratify_by)
        return list(dict.fromkeys(name for name in columns if name is not None))

    @property
    def stratified(self) -> set[str]:
        """The column of --stratify_by, if it is given."""
        return set() if self.split.stratify_by is None else {self.split.stratify_by}

    @property
    def needs_classes(self) -> list[str]:
        """The labels whose class names must be found in the data although --schema says the types, and the column of
        objects in images.

        Beside frozen names too: only all rows say whether there is a new one. Where new ones are rejected, each row
        says it itself.
        """
        return [
            feature.name
            for feature in self.schema or ()
            if (feature.name in self.label_columns and self._is_open(feature)) or is_of_objects(feature)
        ]

    def _is_open(self, feature: Feature) -> bool:
        frozen = self.classes.names_of(feature.name, self.label_columns)
        if frozen is not None and self.classes.on_new_label == "reject":
            return False
        return feature.dtype == "bytes" or (kind_of(feature).has_classes and frozen is not None)

    @property
    def label_values(self) -> list[ValuesOf]:
        """The columns whose distinct values tell the classes."""
        return [ValuesOf(name, self.separators.get(name, "")) for name in self.label_columns]

    @property
    def needs_inference(self) -> bool:
        """Whether a pass over the data comes before it is encoded."""
        return self.schema is None or bool(self.needs_classes)


def unplaced(features: Features) -> tuple[Features, Features]:
    """The features of rows of which examples have `features`, with a column in the place of those of objects in images,
    and these."""
    prefix = f"{OBJECTS}/"
    if not any(feature.name == f"{prefix}bbox" and feature.kind == "bbox" for feature in features):
        return features, ()
    objects = tuple(feature for feature in features if feature.name.startswith(prefix))
    column = Feature(OBJECTS, "bytes", "bbox", required=False)
    return (*(feature for feature in features if feature not in objects), column), objects


def is_of_objects(feature: Feature) -> bool:
    """Whether a feature of rows is the column of objects in images, as `unplaced` has it."""
    return feature.name == OBJECTS and feature.kind == "bbox" and not feature.shape
