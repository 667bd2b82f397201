"""How a table is to be read, decided from all of it: features and their types, classes, splits."""

from shardmill.errors import UserError
from shardmill.transforms.columns.inferred import Inferred
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.formats.base import KeyColumn
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.layout.column_names import common_header
from shardmill.transforms.layout.columns import choose_columns, holds_numbers_by
from shardmill.transforms.layout.label import resolve_labels
from shardmill.transforms.layout.notices import list_notices, noted_notices, skipped_notices
from shardmill.transforms.layout.objects import find_objects
from shardmill.transforms.layout.splits import check_split_shards, splits_of_tables
from shardmill.transforms.layout.table_layout import TableLayout
from shardmill.transforms.layout.table_options import OBJECTS, TableOptions
from shardmill.transforms.layout.timestamps import is_time, with_times
from shardmill.transforms.layout.told import mark_columns


def make_table_layout(summary: InputSummary, inferred: Inferred, options: TableOptions, _: bool = False) -> TableLayout:
    """Decide how to read the table that `summary` and `inferred` describe.

    Args:
      summary: of the files.
      inferred: of their columns; nothing where --schema makes inference needless.
      options: what the user said of them.

    Raises:
      UserError: a column that does not exist, headers that differ, a new class, or no rows.
    """
    header = common_header(summary, options)
    # Where there are bytes but no rows, staging finds out why of each.
    if options.schema is None and not inferred.rows and not summary.rejected and not summary.size_bytes:
        raise UserError(f"{options.source} has no rows")
    chosen = with_times(choose_columns(header, inferred, options), inferred, options)
    times = [feature for feature in chosen.features if is_time(feature, options)]
    labels = resolve_labels(chosen, inferred, options)
    marked = mark_columns(labels.columns, inferred, options)
    columns = marked.columns
    splits = splits_of_tables(summary, options.source, options.split.splits)
    check_split_shards(splits.names, options.split_shards)
    scalars = [item.name for item in columns.features if item.name in options.label_columns and not item.shape]
    named = [name for name in scalars if name in (*labels.class_names, *marked.classes)]
    objects = find_objects(inferred, columns.features, marked.images, options)
    helpers = [name for name in options.helpers if not header or name in header]  # of `content` there may be none
    return TableLayout(
        types=columns.types if objects is None else {**columns.types, OBJECTS: ColumnType("bytes", None, 0)},
        features=columns.features,
        labels=(*labels.class_names, *marked.classes),
        class_names=labels.class_names,
        splits=splits.names,
        fractions=splits.fractions,
        notices=(
            *skipped_notices(summary),
            *noted_notices(summary),
            *columns.notices,
            *marked.notices,
            *(notice for name, classes in labels.class_names.items() for notice in list_notices(name, classes.names)),
            *(objects.notices if objects is not None else ()),
            *splits.notices,
        ),
        images=marked.images,
        objects=objects,
        pictures=options.pictures,
        calls_rows=options.calls_rows if options.calls_rows in columns.types else "",
        # There is no such column where no row could be read
        required_labels=tuple(
            feature.name
            for feature in columns.features
            if feature.name in (*options.label_columns, *marked.complete) and None not in feature.shape
        ),
        separated=labels.separated,
        keys=tuple(KeyColumn(name, holds_numbers_by(options.schema, name)) for name in helpers),
        schema_said=options.schema_said,
        target=next(iter((*named, *scalars)), None),
        times={item.name: item.time for item in times},
        counted=tuple(item.name for item in times if item.name not in options.times),
    )
