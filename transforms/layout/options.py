"""Options of layouts, and the notices about ignored input."""

import math
import posixpath
import re
import shlex
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

from shardmill.addons import registry
from shardmill.data.features import Feature, Features
from shardmill.data.kinds import kind_of
from shardmill.errors import UserError
from shardmill.flag_values import assign, quote
from shardmill.metadata.labels import CATEGORY, ClassNames, resolve_class_names
from shardmill.text import plural
from shardmill.transforms.columns.nested import Nesting
from shardmill.transforms.columns.types import DeclaredColumn, Inferred, ValuesOf
from shardmill.transforms.findings import NO_CLASS, LabelLists, joined_class_notices
from shardmill.transforms.formats.conventions import describe_foreign_format
from shardmill.transforms.formats.format import OBJECTS
from shardmill.transforms.inputs.folders import IMAGES, FileKind, FolderRoles, folder_notices, quote_names
from shardmill.transforms.inputs.listing import NO_MATCH, OF_DATA_SET
from shardmill.transforms.inputs.summary import DECOMPOSED, InputSummary
from shardmill.transforms.options.image_options import BoxOptions, LabelOptions, PictureOptions
from shardmill.transforms.options.job_options import DEFAULT_REJECT_FRACTION, FOLDER, SplitOptions, Stack, allow_rejects
from shardmill.transforms.options.table_options import TableReadOptions
from shardmill.transforms.stores import storage

if TYPE_CHECKING:
    from shardmill.transforms.inputs.manifest_files import ObjectsColumn


@dataclass(frozen=True, slots=True)
class FileLayoutOptions:
    """User options about the splits and labels of files."""

    source: str  # name of the input in messages
    split: SplitOptions = field(default_factory=SplitOptions)  # assignment of files to splits
    classes: LabelOptions = field(default_factory=LabelOptions)  # allowed class names
    split_shards: tuple[tuple[str, int], ...] = ()  # splits named by --num_shards, with their numbers
    kind: FileKind = IMAGES  # of the files
    folders: FolderRoles | None = None  # folder roles of --folders; None to guess them
    root: str = ""  # folder that names are relative to
    input: str | None = None  # folder or glob of the files; None if something else lists them
    has_companions: bool = False  # True if an add-on gives each image a companion
    annotation_flag: str = ""  # flag of what annotates the images; "" for none
    objects_column: "ObjectsColumn | None" = None  # column of a manifest with objects in images; None without one
    imagefolder: str | None = None  # folder whose metadata files are the manifest
    class_separator: str = ""  # separator of classes in a manifest's label; "" for one class
    file_column: str = ""  # manifest column of file names; "" for file_name
    input_notices: tuple[str, ...] = ()  # notices about how the input was found
    label_pattern: str = ""  # regular expression by which names of files give labels; "" for none
    split_lists: tuple[tuple[str, str], ...] = ()  # files that list the files of splits
    on_duplicate_key: str = "allow"  # action for several rows of a manifest about one file
    split_source: str = "the manifest's column 'split'"  # description of where a manifest's rows get their splits

    @property
    def is_annotated(self) -> bool:
        """True if objects in images are annotated."""
        return bool(self.annotation_flag) or self.objects_column is not None

    @property
    def are_files_drawn(self) -> bool:
        """True if each file is drawn for one of several splits, not a group or a stratum of files."""
        split = self.split
        return split.splits is not None and len(split.splits) > 1 and split.group_by is None


OBJECT_LABEL = f"{OBJECTS}/label"  # the feature of classes of objects, and its name in --labels_file


@dataclass(frozen=True, slots=True)
class TableOptions(TableReadOptions):
    """User options about the columns, labels and splits of a table."""

    source: str  # name of the input in messages
    # features of --schema, None if not given; objects as one column, see split_object_features
    schema: Features | None = None
    objects: Features = ()  # features of objects in images in --schema
    on_other_columns: str = ""  # --on_other_columns; "" if the command has no such flag
    nesting: Nesting | None = None  # how nested values are stored; None if no flag about them exists
    label_columns: tuple[str, ...] = ()
    key: str | None = None  # column that identifies a record; need not be a feature
    # assignment of records to splits; its columns need not be features
    split: SplitOptions = field(default_factory=SplitOptions)
    classes: LabelOptions = field(default_factory=LabelOptions)  # allowed class names
    split_shards: tuple[tuple[str, int], ...] = ()  # splits named by --num_shards, with their numbers
    folders: FolderRoles | None = None  # folder roles of --folders; None to guess them
    plural: str = "files"  # name of the files in messages
    image: tuple[str, ...] = ()  # columns of --image
    pictures: PictureOptions = field(default_factory=PictureOptions)  # how images in columns are checked
    boxes: BoxOptions = field(default_factory=BoxOptions)  # handling of boxes in images
    row_name_column: str = ""  # column that names a row in messages; "" for none
    label_alias_flags: tuple[str, ...] = ()  # flags given as `label`, the first column of --label
    records: str = ""  # folder, file or glob of existing records; "" for rows
    schema_name: str = "--schema"  # name of the schema in messages; it may be a version's
    is_schema_partial: bool = False  # True if examples may have features that the schema does not declare
    key_flag: str = "--key"  # flag that names the key
    columns_by_flag: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # columns of flags of add-ons
    column_changes: tuple[Callable[..., Any], ...] = ()  # of add-ons: see RowAddOn.change_columns
    stack: tuple[Stack, ...] = ()  # columns that become one feature
    column_order: tuple[str, ...] = ()  # columns of rows without a header, if they have an order
    keeps_splits: bool = False  # files are named after the splits that --input or the data gives
    hive_partitioning: bool = False  # folders such as year=2024 are columns
    missing: tuple[str, ...] = field(default=(), kw_only=True)  # texts that mean a missing value; () except for CSV
    languages: tuple[str, ...] = ()  # names of parallel texts; () for lines of one text

    @property
    def separators(self) -> dict[str, str]:
        """The separator of classes in a label, by column."""
        return {name or self.label_columns[0]: text for name, text in (self.label_separator or {}).items()}

    @property
    def flagged(self) -> tuple[str, ...]:
        """The columns that flags of add-ons name."""
        return tuple(chain.from_iterable(self.columns_by_flag.values()))

    def reject_flag(self, rejects: int, rows: int) -> str:
        """Return the flag that lets a job publish without so many of its rows; "" if none is needed."""
        is_allowed = allow_rejects(rejects, rows, DEFAULT_REJECT_FRACTION)
        return "" if is_allowed else f" --max_reject_fraction {min(math.ceil(10 * rejects / rows) / 10, 1)}"

    def extra_column_notices(self, names: Iterable[str]) -> list[str]:
        """Return a notice of columns that neither the schema nor a flag names."""
        named = {feature.name for feature in self.schema or ()} | {*self.drop, *self.helper_columns}
        extra = [name for name in names if name not in named]
        if not extra or self.only or self.schema is None:
            return []
        columns = f"{'column' if len(extra) == 1 else 'columns'} {quote_names(extra)}"
        return [f"left out what {self.schema_name} does not have: {columns}"]

    @property
    def helper_columns(self) -> list[str]:
        """Columns that must be read although they may not be features."""
        columns = (self.key, self.split.group_by, self.split.stratify_by)
        return list(dict.fromkeys(name for name in columns if name is not None))

    @property
    def needs_classes(self) -> list[str]:
        """Columns whose class names must be collected from the data although --schema gives their types.

        These are open labels and the column of objects in images. Labels with frozen names count too, because only a
        pass over all rows finds new names. If new names are rejected, each row is checked alone.
        """
        return [
            feature.name
            for feature in self.schema or ()
            if (feature.name in self.label_columns and self._is_open(feature)) or is_objects_column(feature)
        ]

    def _is_open(self, feature: Feature) -> bool:
        frozen = self.classes.class_names(feature.name, self.label_columns)
        if frozen is not None and self.classes.on_new_label == "reject":
            return False
        return feature.dtype == "bytes" or (kind_of(feature).has_classes and frozen is not None)

    @property
    def label_values(self) -> list[ValuesOf]:
        """Columns whose distinct values are the classes."""
        return [ValuesOf(name, self.separators.get(name, "")) for name in self.label_columns]

    @property
    def needs_inference(self) -> bool:
        """True if the data must be read once before it is encoded."""
        return self.schema is None or bool(self.needs_classes)


def resolve_classes(found: Iterable[str], options: LabelOptions) -> ClassNames:
    """Return the class table of the only label, from the classes found and the names given."""
    return resolve_class_names(found, options.class_names(), options.on_new_label, options.source)


def split_object_features(features: Features) -> tuple[Features, Features]:
    """Split the features of examples into those of rows, with one column for all objects, and those of objects."""
    prefix = f"{OBJECTS}/"
    if not any(feature.name == f"{prefix}bbox" and feature.kind == "bbox" for feature in features):
        return features, ()
    objects = tuple(feature for feature in features if feature.name.startswith(prefix))
    column = Feature(OBJECTS, "bytes", "bbox", required=False)
    return (*(feature for feature in features if feature not in objects), column), objects


def is_objects_column(feature: Feature) -> bool:
    """Return True if a feature of rows is the column of objects in images, see split_object_features."""
    return feature.name == OBJECTS and feature.kind == "bbox" and not feature.shape


def declared_objects(inferred: Inferred) -> DeclaredColumn | None:
    """Return the files' metadata about a column of objects in images; None without any."""
    declared = inferred.declared.get(OBJECTS)
    return declared if declared is not None and declared.kind == "bbox" else None


def partition_notices(summary: InputSummary, options: TableOptions) -> list[str]:
    """Return a notice of folders such as year=2024 whose values are not read."""
    named = sorted(folder for folder in summary.folders if re.match(r"(.*/)?[^/=]+=[^/]", folder))
    splits = [name for name in named if re.search("(^|/)split=", name) and options.split.splits is None]
    if splits and options.hive_partitioning and "split" not in options.drop:
        return [f"folders such as {splits[0]!r} are a column and no splits; folders called train and test are splits"]
    if not named or options.hive_partitioning:
        return []
    return [f"files lie in folders such as {named[0]!r}, which are no columns; --hive_partitioning reads them"]


_SKIPPED_PREFIX = "passed over "


def skipped_notices(summary: InputSummary) -> list[str]:
    """Return notices of what was skipped."""
    return [
        f"{_SKIPPED_PREFIX}{plural(number, kind)}, such as {name!r}"
        f"{describe_foreign_format(name)}{'; to read it, give the folder of a version' if kind == OF_DATA_SET else ''}"
        for kind, (number, name) in sorted(summary.skipped.items())
    ]


def peculiarity_notices(summary: InputSummary) -> list[str]:
    """Return notices of records that were read despite a peculiarity."""
    return [
        f"{plural(number, 'record')}, such as {name!r}: {what}"
        for what, (number, name) in sorted(summary.peculiarities.items())
    ]


def is_missing_choice(notice: str) -> bool:
    """Return True if a notice reports choices of a glob, such as days of a window, that match no file."""
    kinds = (f" {NO_MATCH}, ", f"{plural(2, NO_MATCH).removeprefix('2')}, ")
    return notice.startswith(_SKIPPED_PREFIX) and any(kind in notice for kind in kinds)


def ignored_value_notices(counts: Mapping[str, int]) -> list[str]:
    """Return a notice of annotated facts that no example holds, with numbers of objects."""
    if not counts:
        return []
    listing = ", ".join(f"{name} of {count:,}" for name, count in sorted(counts.items()))
    return [f"left out of annotations of objects, of which the boxes are kept: {listing}"]


def unnamed_classes_notice(classes: int) -> str:
    """Return the notice that object classes have ids but no names."""
    return f"classes of objects have no names but their ids, 0 to {classes - 1}; --labels_file gives them names"


_MANY_CLASSES, _FEW_EXAMPLES = 30, 5  # classes of a column that may hold ids, and examples of each, on average


def class_notices(
    label: str, classes: ClassNames, frozen: Sequence[str] | None, examples: int, has_types: bool = False
) -> Iterator[str]:
    """Yield a notice for each doubt about classes, which may be `frozen`, of so many examples.

    Their names look like lists as pandas writes them, or are nearly the same; their order is that of a category, or of
    texts though they are numbers, which --types changes if it `has_types`; or they are so many that they may be ids.
    """
    names = classes.names
    if lists := [name for name in names if re.fullmatch(r"\[.*\]", name)]:
        are = plural(len(lists), f"class of {label!r} is", f"classes of {label!r} are")
        yield (
            f"{are} called as a list is written, such as"
            f" {lists[0]!r}, and each is one class; rows of several classes are lists in JSON lines and Parquet, or"
            " texts that --label_separator splits"
        )
    alike = defaultdict[str, list[str]](list)
    for name in names:
        alike["".join(unicodedata.normalize("NFKC", name).casefold().split())].append(name)
    if same := [group for group in alike.values() if len(group) > 1]:
        are = f"{sum(map(len, same))} classes of {label!r} differ"
        yield f"{are} in case, spaces or Unicode form only, such as {' and '.join(map(ascii, same[0]))}"
    if classes.source == CATEGORY:
        yield f"the ids of {label!r} follow the order of its categories, from {names[0]!r} to {names[-1]!r}"
    elif frozen is None and all(map(str.isdecimal, names)):
        types = f", or --types {assign(label, 'int64')} for the numbers themselves" if has_types else ""
        yield from [
            f"all class names are numbers, but ids follow the sorted names: class {name!r} has id {index}; give"
            f" --labels_file for another order{types}"
            for index, name in enumerate(names)
            if int(name) != index
        ][:1]
    if frozen is None and len(names) >= _MANY_CLASSES and 0 < examples < _FEW_EXAMPLES * len(names):
        yield (
            f"label {label!r} has {len(names):,} classes in {plural(examples, 'example')}, such as {names[0]!r} and"
            f" {names[1]!r}; leave the label out if these are ids or texts, or name the classes with --labels_file"
        )


def file_notices(
    summary: InputSummary,
    options: FileLayoutOptions,
    folders: FolderRoles,
    class_names: ClassNames | None,
    objects: ClassNames | None,
) -> list[str]:
    """Return the notices about an input of files, its folders and its classes."""
    has_separator_flag = options.input is None and not options.annotation_flag
    is_split_by_flag = has_separator_flag and not summary.label_lists["lists"]
    frozen = options.classes.class_names()
    is_unnamed = options.objects_column is not None and options.objects_column.has_unnamed_ids
    return [
        *sorted(summary.notices),
        *(["there is no object in any image"] if objects is not None and not summary.objects else []),
        *([unnamed_classes_notice(len(objects))] if objects is not None and is_unnamed else []),
        *skipped_notices(summary),
        *ignored_value_notices(summary.ignored_properties),
        *(
            f"{plural(number, 'file')}, such as {name!r}, {what}"
            for what, (number, name) in summary.peculiarities.items()
            if what != DECOMPOSED or options.split.group_by is not None
        ),
        *_ungrouped_notices(summary, options, folders),
        *folder_notices(summary.folders, folders, options.folders is None, options.are_files_drawn),
        *_id_notices(summary, options),
        *(() if class_names is None else class_notices("label", class_names, frozen, summary.records)),
        *(() if objects is None else class_notices("objects", objects, objects.names, 0)),
        *(joined_class_notices(class_names.names) if class_names is not None and is_split_by_flag else ()),
        *_label_list_notices(summary, options),
        *_image_name_notices(summary, options),
    ]


def _ungrouped_notices(summary: InputSummary, options: FileLayoutOptions, folders: FolderRoles) -> list[str]:
    paths = {folder: posixpath.join(folder, "x") for folder in summary.folders}
    alone = [folder for folder, path in paths.items() if folders.find_group(path) == path]
    if not alone or options.split.group_by != FOLDER:
        return []
    are = plural(sum(summary.folders[folder] for folder in alone), "file is", "files are")
    return [f"{are} in no folder of a group, such as those in {min(alone) or '.'!r}, and each is a group of its own"]


# An id at the beginning of a file's name, such as that of a patient, before other words
_ID = r"(?P<group>\D*\d[^-_ ]*)[-_ ].*"


def _id_notices(summary: InputSummary, options: FileLayoutOptions) -> list[str]:
    """Return a notice if most names begin with an id that others in the folder have, and each file is drawn alone."""
    ids = defaultdict[tuple[str, str], list[str]](list)
    for name in summary.sample if options.are_files_drawn else ():
        folder, _, base = name.rpartition("/")
        if found := re.fullmatch(_ID, base):
            ids[folder, found["group"]].append(name)
    folders = Counter(folder for folder, _ in ids)
    shared = [names for (folder, _), names in ids.items() if len(names) > 1 and folders[folder] > 1]
    if len(ids) < 2 or 2 * sum(map(len, shared)) <= len(summary.sample):
        return []
    return [
        f"names begin with ids, such as {shared[0][0]!r} and {shared[0][1]!r}, and files of one id may be in several"
        f" splits; --group_by {shlex.quote(_ID)} keeps the files of each id in one split"
    ]


def missing_notices(summary: InputSummary, options: FileLayoutOptions) -> list[str]:
    """Return notices of files that the manifest names and that do not exist; raise a UserError if none exists."""
    notices = []
    lister = lister_name(options)
    for number, name in summary.missing_files.values():
        elsewhere = name.startswith("/") or not storage.is_local(name)
        where = f"{name!r} was looked for" + ("" if elsewhere else f" in {options.root}/")
        if not summary.records:
            raise UserError(
                f"{options.source}: none of its {number:,} files is there; {where}; --file_root is the folder of the"
                " files, seen from the manifest's, --file_suffix what their names lack, such as .jpg"
            )
        missing = plural(number, f"file of {lister} is", f"files of {lister} are")
        notices.append(f"{missing} missing: {where}")
    return notices


def lister_name(options: FileLayoutOptions) -> str:
    """Return the name of what lists the files, for messages."""
    return "the annotations" if options.annotation_flag else "the manifest"


def _image_name_notices(summary: InputSummary, options: FileLayoutOptions) -> list[str]:
    main, ways = options.file_column or "file_name", "; --file_column {1},{2} makes further images of them"
    if registry.has_flag("mask_column"):
        ways = "; --mask_column {0} makes masks of them, --file_column {1},{2} further images"
    return [
        f"column {column!r} names image files, such as {name!r}, and is stored as their names: what these files hold is"
        " in no example" + (ways.format(quote(column), main, column) if options.kind == IMAGES else "")
        for column, (number, name) in sorted(summary.image_names.items())
        if number == summary.columns[column].present
    ]


def _label_list_notices(summary: InputSummary, options: FileLayoutOptions) -> list[str]:
    if not summary.label_lists["lists"]:
        return []
    separators = {"label": options.class_separator} if options.class_separator else {}
    list_counts = {("label", kind): number for kind, number in summary.label_lists.items()}
    return list(LabelLists({**list_counts, ("label", NO_CLASS): summary.labels[""]}, separators).notices())
