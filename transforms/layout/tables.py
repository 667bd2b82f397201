"""Layouts of tables, lines of text and records.

Functions raise a UserError if columns, classes or splits are unknown, unsuitable or contradictory.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING

from shardmill.data.features import DType, Feature, Features
from shardmill.data.kinds import kind_of
from shardmill.errors import UserError
from shardmill.flag_values import quote
from shardmill.metadata.labels import ClassNames, check_label_name
from shardmill.text import plural
from shardmill.transforms.columns.arrow import Separated
from shardmill.transforms.columns.types import ColumnType, Inferred
from shardmill.transforms.findings import JoinedRows, Remarks, Undecodable, joined_class_notices
from shardmill.transforms.formats.format import OBJECTS, KeyColumn
from shardmill.transforms.inputs import folders as folder_roles
from shardmill.transforms.inputs.summary import InputCounts, InputSummary
from shardmill.transforms.layout import columns as layout_columns
from shardmill.transforms.layout import labels as layout_labels
from shardmill.transforms.layout import options as layout_options
from shardmill.transforms.layout import splits as layout_splits
from shardmill.transforms.layout.options import OBJECT_LABEL, TableOptions, class_notices
from shardmill.transforms.options.image_options import PictureOptions

if TYPE_CHECKING:
    from shardmill.transforms.layout.objects import RowObjects


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The layout of a table, of lines of text or of existing records."""

    types: Mapping[str, ColumnType]  # of the columns read as features, in order
    features: Features  # as published, in encoding order
    labels: tuple[str, ...]  # columns (or features of records) whose values are classes
    class_names: Mapping[str, ClassNames]  # by column, class tables of labels not stored as ids
    splits: tuple[str, ...]  # split names by id
    fractions: tuple[Fraction, ...] | None  # of the splits; None if folders give the splits
    notices: tuple[str, ...] = ()  # messages for the end of the job
    required_labels: tuple[str, ...] = ()  # labels without which a row is rejected
    # by column, how label texts are split into lists
    label_separators: Mapping[str, Separated] = field(default_factory=dict)
    # required kinds of features of existing records; others are rejected
    kinds: Mapping[str, DType] = field(default_factory=dict)
    folders: folder_roles.FolderRoles = folder_roles.SPLITS  # roles of the files' folders
    keys: tuple[KeyColumn, ...] = ()  # columns read as keys, groups and strata; need not be features
    schema_name: str = "--schema"  # name of the features' schema in rejects
    target: str | None = None  # label that other features are compared with; None for the first of `labels`
    # input totals; carried here because every side input costs memory in its consumer
    input_counts: InputCounts = field(default_factory=InputCounts)
    images: tuple[str, ...] = ()  # columns of images; each is checked, and rows without one are rejected
    pictures: PictureOptions = field(default_factory=PictureOptions)  # how images are checked
    objects: "RowObjects | None" = None  # objects in an image column; None without
    row_name_column: str = ""  # column that names a row in rejects, next to its number; "" for none

    @property
    def row_labels(self) -> tuple[str, ...]:
        """Labels other than those of objects in images."""
        return tuple(name for name in self.labels if self.objects is None or name != OBJECT_LABEL)


# How a route decides on its layout; whether an example of a line has its number concerns lines alone.
MakeLayout = Callable[[InputSummary, Inferred, TableOptions, bool], TableLayout]


def make_line_layout(
    summary: InputSummary, inferred: Inferred, options: TableOptions, line_numbers: bool
) -> TableLayout:
    """Decide the layout of lines of text; their label is the file's folder, if every file is in one."""
    notices = [*layout_options.skipped_notices(summary), *layout_options.peculiarity_notices(summary)]
    paths = folder_roles.parse_paths(summary.folders)
    roles = layout_splits.resolve_folders(summary.folders, options, options.plural, min(map(len, paths), default=None))
    if roles.split is None:
        splits = layout_splits.splits_by_fraction(options.split.splits)
    else:
        layout_splits.check_no_split_flags(options.split, "the input's split folders")
        splits = layout_splits.splits_of_folders(summary.folders, roles)
    layout_splits.check_split_shards(splits.names, options.split_shards)
    notices += splits.notices
    classes = [] if roles.label is None else folder_roles.names_at(paths, roles.label)
    notices += folder_roles.folder_notices(summary.folders, roles, options.folders is None)
    if roles.split is None and options.split.splits is None:
        notices += layout_splits.split_name_notices(summary)
    class_names = layout_options.resolve_classes(classes, options.classes) if classes else None
    if class_names is not None:
        notices += class_notices("label", class_names, options.classes.class_names(), 0)
    elif options.classes.labels is not None:
        raise UserError(f"{options.classes.error_prefix}, but not every file of {options.source} is in a class folder")
    texts = options.languages or ("text",)
    features = [Feature(name, "bytes", "text") for name in texts]
    if class_names is not None:
        features.append(Feature("label", "int64", "class_label", class_names=class_names.names))
    types = {name: ColumnType("bytes", None, 0) for name in texts}
    if line_numbers:
        features.append(Feature("filename", "bytes", "text", role="source"))
        features.append(Feature("line_number", "int64", role="source"))
        types["line_number"] = ColumnType("int64", None, 0)
    layout_columns.check_columns([feature.name for feature in features], options)
    names = {} if class_names is None else {"label": class_names}
    labels = tuple(names)
    return TableLayout(
        types, tuple(features), labels, names, splits.names, splits.fractions, tuple(notices), labels, folders=roles
    )


def _record_splits(summary: InputSummary, options: TableOptions) -> layout_splits.Splits:
    if options.keeps_splits:
        names = {
            folder: folder_roles.normalize_split(folder)
            for folder in (key.split("/")[0] for key in sorted(summary.folders))
        }
        renamed = tuple(f"split {given!r} is called {name!r}" for given, name in names.items() if given != name)
        return replace(layout_splits.splits_of_folders(summary.folders, folder_roles.SPLITS), notices=renamed)
    return layout_splits.splits_of_tables(summary, options.source, options.split.splits)


def make_record_layout(summary: InputSummary, inferred: Inferred, options: TableOptions, _: bool) -> TableLayout:
    """Decide the layout of existing records; only their splits and labels are open."""
    known = [feature.name for feature in options.schema or () if feature.class_names and all(feature.class_names)]
    notices = [
        *layout_options.skipped_notices(summary),
        *(layout_labels.ignored_schema_notices(summary, options.records) if options.schema is None else ()),
        *(() if known else layout_labels.label_map_notices(options)),
    ]
    splits = _record_splits(summary, options)
    layout_splits.check_split_shards(splits.names, options.split_shards)
    notices += splits.notices
    roles = [feature.name for feature in options.schema or () if feature.role == "label"]
    for feature in options.schema or ():
        has_no_file = feature.name not in options.label_columns or options.classes.labels is None
        if feature.name in known and has_no_file:
            continue
        if kind_of(feature).has_classes and has_no_file:
            raise UserError(
                f"{options.schema_name} says that {feature.name!r} holds ids of classes; give --label"
                f" {quote(feature.name)} and their names with --labels_file {layout_labels.labels_file_names(feature)},"
                " which is next to the schema"
            )
        layout_labels.check_labels_file(feature, options)
    labels = options.label_columns if options.classes.labels is not None else ()
    for label in labels:
        check_label_name(label)
    labels = tuple(dict.fromkeys((*labels, *known)))
    types = {"record": ColumnType("bytes", None, 0)}
    target = next((name for name in (*options.label_columns, *roles)), None)
    return TableLayout(types, (), labels, {}, splits.names, splits.fractions, tuple(notices), target=target)


_MOST_DIFFERING = 4  # columns that have a notice of their own


def differing_type_notices(inferred: Inferred, features: Features) -> list[str]:
    """Return notices of columns whose type is of another class in some files, such as integers and texts."""
    by_column: dict[str, dict[str, str]] = {}
    for types, file in sorted(inferred.file_types.items(), key=itemgetter(1, 0)):
        for name, word in types:
            if word:
                by_column.setdefault(name, {}).setdefault(word, file)
    stored = {feature.name: feature.dtype for feature in features}
    notices = [
        f"column {name!r} has {' and '.join(f'{word} in {file!r}' for word, file in found.items())}, and all are stored"
        f" as {stored[name]}; --drop {quote(name)} leaves it out"
        for name, found in by_column.items()
        if len(found) > 1 and name in stored
    ]
    more = len(notices) - _MOST_DIFFERING
    rest = [f"{plural(more, 'more column has', 'more columns have')} other types in some files"] if more > 0 else []
    return [*notices[:_MOST_DIFFERING], *rest]


def make_table_layout(summary: InputSummary, inferred: Inferred, options: TableOptions, _: bool = False) -> TableLayout:
    """Decide the layout of a table; `inferred` is empty if --schema makes inference unnecessary."""
    header = layout_columns.common_header(summary, options)
    inferred.findings.find(Undecodable).notices(options, inferred.rows)
    row_notices = [*inferred.findings.find(Remarks).notices(options, inferred.rows)]
    row_notices += inferred.findings.find(JoinedRows).notices()
    # Where there are bytes but no rows, staging finds out why of each.
    if options.schema is None and not inferred.rows and not summary.rejected and not summary.size_bytes:
        raise UserError(f"{options.source} has no rows")
    header, inferred, members = layout_columns.stack_columns(header, inferred, options)
    joined = frozenset(chain.from_iterable(members.values()))
    unjoined = replace(options, fill=tuple(pair for pair in options.fill if pair[0] not in joined))
    selected = layout_columns.join_members(layout_columns.choose_columns(header, inferred, unjoined), members, options)
    for change_columns in options.column_changes:
        selected = change_columns(selected, inferred, options)
    labelled, class_names, separators = layout_labels.resolve_labels(selected, inferred, options)
    frozen = {name: options.classes.class_names(name, options.label_columns) for name in class_names}
    marked = layout_columns.mark_columns(labelled, inferred, options)
    columns = marked.columns
    splits = _record_splits(summary, options)
    layout_splits.check_split_shards(splits.names, options.split_shards)
    scalars = [item.name for item in columns.features if item.name in options.label_columns and not item.shape]
    named = [name for name in scalars if name in (*class_names, *marked.classes)]
    objects = None
    if OBJECTS in columns.types or options.boxes.first_given_flag:
        from shardmill.transforms.layout.objects import find_objects

        objects = find_objects(inferred, columns.features, marked.images, options)
    # a column `content` need not exist
    helpers = [name for name in options.helper_columns if not header or name in header]
    return TableLayout(
        types=columns.types if objects is None else {**columns.types, OBJECTS: ColumnType("bytes", None, 0)},
        features=columns.features,
        labels=(*class_names, *marked.classes),
        class_names=class_names,
        splits=splits.names,
        fractions=splits.fractions,
        notices=(
            *layout_options.skipped_notices(summary),
            *layout_options.peculiarity_notices(summary),
            *layout_options.partition_notices(summary, options),
            *row_notices,
            *differing_type_notices(inferred, columns.features),
            *columns.notices,
            *layout_columns.numbered_notices(columns.features),
            *marked.notices,
            *chain.from_iterable(
                class_notices(name, table, frozen[name], inferred.rows, name in scalars and options.schema is None)
                for name, table in class_names.items()
            ),
            *chain.from_iterable(
                joined_class_notices(class_names[name].names, name if len(options.label_columns) > 1 else "")
                for name in scalars
                if name in class_names and name in options.label_columns and not options.records
            ),
            *(objects.notices if objects is not None else ()),
            *splits.notices,
        ),
        images=marked.images,
        objects=objects,
        pictures=options.pictures,
        row_name_column=options.row_name_column if options.row_name_column in columns.types else "",
        # There is no such column where no row could be read
        required_labels=tuple(
            feature.name
            for feature in columns.features
            if feature.name in (*options.label_columns, *marked.required) and None not in feature.shape
        ),
        label_separators=separators,
        keys=tuple(KeyColumn(name, layout_columns.is_declared_number(options, name)) for name in helpers),
        schema_name=options.schema_name,
        target=next(iter((*named, *scalars)), None),
    )
