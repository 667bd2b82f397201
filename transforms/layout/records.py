"""How existing records are to be read: only of their folders and labels is there something to decide."""

from shardmill.errors import UserError
from shardmill.kinds.registry import kind_of
from shardmill.metadata.labels import check_label_name
from shardmill.transforms.columns.inferred import Inferred
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.layout.label import check_labels_file, names_beside_schema
from shardmill.transforms.layout.notices import skipped_notices
from shardmill.transforms.layout.own_schema import unheeded_notices
from shardmill.transforms.layout.splits import check_split_shards, splits_of_tables
from shardmill.transforms.layout.table_layout import TableLayout
from shardmill.transforms.layout.table_options import TableOptions


def make_record_layout(summary: InputSummary, inferred: Inferred, options: TableOptions, _: bool) -> TableLayout:
    """Decide how to read existing records.

    Raises:
      UserError: ids without the names of their classes, or no such split.
    """
    notices = [
        *skipped_notices(summary),
        *(unheeded_notices(summary, options.records) if options.schema is None else ()),
    ]
    splits = splits_of_tables(summary, options.source, options.split.splits)
    check_split_shards(splits.names, options.split_shards)
    notices += splits.notices
    for feature in options.schema or ():
        if kind_of(feature).has_classes and (
            feature.name not in options.label_columns or options.classes.labels is None
        ):
            raise UserError(
                f"{options.schema_said} says that {feature.name!r} holds ids of classes; give --label {feature.name}"
                f" and their names with --labels_file {names_beside_schema(feature)}, which stands beside the schema"
            )
        check_labels_file(feature, options)
    labels = options.label_columns if options.classes.labels is not None else ()
    for label in labels:
        check_label_name(label)
    types = {"record": ColumnType("bytes", None, 0)}
    target = next(iter(options.label_columns), None)
    return TableLayout(types, (), labels, {}, splits.names, splits.fractions, tuple(notices), target=target)
