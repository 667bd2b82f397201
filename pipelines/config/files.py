"""Configurations of jobs that make one example per file: folders, manifests, zip archives."""

import posixpath
import re
from abc import ABC
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

from shardmill.errors import UserError
from shardmill.flag_values import OptionValueError, split_names
from shardmill.pipelines.config.job import JobConfig, input_flag
from shardmill.transforms.features.options import AddOnOptions, load
from shardmill.transforms.inputs.folders import ARRAYS, AUDIO, DECODED_AUDIO, FileKind, NameRules, is_name_pattern
from shardmill.transforms.options.declare import flag, name_flag, newer_flag, newer_name_flag, options_of, or_none
from shardmill.transforms.options.image_options import ELEMENTS, parse_array_name, parse_shape
from shardmill.transforms.options.job_options import NO, ReuseOptions, named_files, parse_manifests, parse_path
from shardmill.transforms.options.table_options import TableReadOptions

if TYPE_CHECKING:
    from shardmill.transforms.execution.running import Threads
    from shardmill.transforms.files.references import PlanOptions
    from shardmill.transforms.inputs.annotations import AnnotationSource
    from shardmill.transforms.inputs.found_files import AddedCompanions, Companion
    from shardmill.transforms.inputs.manifest_files import LineResolver
    from shardmill.transforms.inputs.manifest_table import ManifestNames
    from shardmill.transforms.layout.options import FileLayoutOptions


def inside_archive(path: str) -> str:
    """Return the folder in the zip archive at `path`, or `path` itself if it names no zip archive."""
    if not path.lower().endswith(".zip") or path.startswith("zip://"):
        return path
    from shardmill.transforms.inputs.listing import is_file, is_glob
    from shardmill.transforms.stores import storage
    from shardmill.transforms.stores.clients import object_store
    from shardmill.transforms.stores.zip_archive import content_folder

    try:
        return path if is_glob(path) or not is_file(path) else content_folder(path, object_store)
    except OSError as error:
        storage.raise_if_store_failed(error, path)
        return path  # the check of the input reports it


_LOCK_SHARE = 0.33  # part of the core time of writing images under Python's lock (bench_lock.py)
_REMOTE_THREADS = 64  # an object store answers after tens of milliseconds, in which each waits, whatever the machine


@dataclass(frozen=True, kw_only=True)
class FilesConfig(JobConfig, ReuseOptions, ABC):
    """The configuration of jobs that make one example per file."""

    root: str = field(default="", compare=False)  # folder that names of files are relative to
    manifests: tuple[Any, ...] = field(default=(), compare=False)  # of ManifestFile, one for each file given or matched

    def resolve(self) -> Self:
        """Return this configuration with the folder of the files; for a URL this may ask the store."""
        return replace(self, root=self._find_root())

    def _find_root(self) -> str:
        from shardmill.transforms.inputs.listing import input_root

        return "" if self.input is None else input_root(self.input)

    def check(self) -> None:
        super().check()
        try:
            _ = is_name_pattern(self.group_by) and parse_name_pattern(str(self.group_by), "group")
        except OptionValueError as mistake:
            raise UserError(f"--group_by: {mistake}") from None

    @property
    def is_decoding(self) -> bool:
        """Return True if reading a file is CPU work rather than waiting."""
        return False

    @property
    def is_remote(self) -> bool:
        """Return True if reading a file, or its record in the previous version, may be a request to an object store."""
        from shardmill.transforms.stores import storage

        is_on_disk = storage.is_local(self.root.removeprefix("zip://"))
        return not is_on_disk or (self.has_file_identities and not storage.is_local(self.output))

    @property
    def added(self) -> "AddedCompanions":
        """Return the companions that an add-on gives the files."""
        from shardmill.transforms.inputs.found_files import AddedCompanions

        return AddedCompanions()

    @property
    def has_file_identities(self) -> bool:
        """Return True if files get identities, so that this or the next build can reuse their records."""
        return self.reuse != NO

    @property
    def read_threads(self) -> "Threads":
        """Return the threads per worker that read and encode, which worker processes may replace."""
        from shardmill.transforms.execution.running import Threads  # which imports Beam

        # Small local files take microseconds to read: threads would contend for the interpreter, as decoding does not.
        number, lock_share = (_REMOTE_THREADS, 0.0) if self.is_remote else (int(not self.is_decoding), _LOCK_SHARE)
        return Threads(self.threads or number, lock_share)

    @property
    def files_per_task(self) -> int:
        """Return the number of files that a thread takes at once: fewer if each takes long."""
        return 4 if self.is_remote else 8 if self.is_decoding else 64

    @property
    def layout_options(self) -> "FileLayoutOptions":
        """Return the options that the layout is made with."""
        from shardmill.transforms.layout.options import FileLayoutOptions

        return self.subset(FileLayoutOptions, has_companions=bool(self.added.flag))

    @property
    def line_resolver(self) -> "LineResolver | None":
        """Return the mapping from lines to manifests; None for fewer than two manifests."""
        from shardmill.transforms.inputs.manifest_files import LineResolver

        several = len(self.manifests) > 1
        return LineResolver(tuple(manifest.path for manifest in self.manifests)) if several else None

    @property
    def resolve_options(self) -> "PlanOptions":
        """Return the options that keys and sizes are computed with."""
        from shardmill.transforms.files.references import PlanOptions

        return PlanOptions(self.split, None, self.renames)


def tree_flag(suffix: str) -> Any:
    """Declare the flag --input for a folder, or a glob, of files with one suffix."""
    return input_flag(f"Folder (<label>/*.{suffix}, <split>/<label>/*.{suffix}, or flat) or glob to read")


def parse_name_pattern(text: str, needed: str = "label") -> str:
    """Return a regular expression with the group `needed`, of `label` and `group`; raises OptionValueError."""
    try:
        groups = {*re.compile(text).groupindex} if text else {needed}
    except re.error as error:
        raise OptionValueError(f"{text!r} is no regular expression: {error}") from None
    if needed not in groups or not groups <= {"label", "group"}:
        raise OptionValueError(f"{text}: expected groups called label or group, as in '(?P<{needed}>[^_]*)_.*'")
    return text


def parse_split_lists(value: Any) -> tuple[tuple[str, str], ...]:
    """Parse (split, path) pairs from `[SPLIT=]FILE` items or pairs; a file without one names its split."""
    from shardmill.transforms.inputs.folders import split_of_file

    pairs = []
    for split, path in named_files(value):
        split = split or split_of_file(path) or ""
        if not split:
            raise OptionValueError(f"{path} does not say its split; give SPLIT=FILE, as in test={path}")
        pairs.append((split, parse_path(path)))
    return tuple(pairs)


@dataclass(frozen=True, kw_only=True)
class AnnotationOptions(AddOnOptions):
    """Options of an add-on that names annotations, which list the files; without one, its methods find none."""

    title: ClassVar[str] = "objects in images"
    precedes: ClassVar[str] = "on_bad_box"

    @property
    def flag(self) -> str:
        """Return the option that names annotations, as given on the command line; "" for none."""
        return ""

    @property
    def used(self) -> tuple[str, ...]:
        """Return the options of the job that have an effect on what `flag` reads."""
        return self.sources.get(self.flag.partition(" ")[0].removeprefix("--"), ())

    def find_source(self, config: Any) -> "AnnotationSource | None":
        """Return the source of annotations for a configuration; None for none."""
        return None


@dataclass(frozen=True, kw_only=True)
class ListedFilesConfig(TableReadOptions, FilesConfig, ABC):
    """The configuration of jobs whose files a --manifest may list."""

    title: ClassVar[str] = "input"
    takes_archives: ClassVar[bool] = True
    _has_several_files: ClassVar[bool] = False  # True if an example may have several files

    manifest: tuple[tuple[str, str], ...] = flag(
        (),
        "File or glob (.csv, .jsonl, .parquet) that lists the input in a column file_name or image_uri, with "
        "columns such as label; repeatable",
        parse=parse_manifests,
        reads_file=True,
        repeats=True,
        metavar="[SPLIT=]FILE",
        affects_output=False,
    )
    allow_outside: bool = flag(False, "Allow file names and links in a manifest to lead outside the manifest's folder")
    file_column: str = flag(
        "",
        "Manifest column with the file names; for images also several columns, for example left,right",
        default_words="file_name or image_uri",
        to_json=or_none,
    )
    label_column: str = name_flag("label", "Column of a manifest, or attribute of a VIA export, with the classes")
    label_pattern: str = newer_flag(
        "",
        r"Regular expression for file names, whose group `label` is the class, for example '(?P<label>\d)_.*'",
        parse=parse_name_pattern,
        group="labels",
    )
    split_lists: tuple[tuple[str, str], ...] = newer_flag(
        (),
        "Text file with the names of a split's files, one a line, relative to --input; other files are in train;"
        " repeatable",
        parse=parse_split_lists,
        repeats=True,
        metavar="[SPLIT=]FILE",
        default_words="none",
        to_json=lambda pairs: [split for split, _ in pairs],
    )
    file_suffix: str = flag("", "Suffix to append to file names in a manifest, for example .jpg", to_json=or_none)
    file_root: str = flag(
        "", "Folder of a manifest's files, relative to the manifest's folder, for example train/", to_json=or_none
    )
    split_column: str = newer_name_flag("split", "Manifest column with the splits")
    imagefolder: str | None = flag(
        None,
        "Folder that was searched for metadata files, which are used as manifests",
        parse=parse_path,
        hidden=True,
        affects_output=False,
    )

    objects_column: Any = field(default=None, compare=False)  # ObjectsColumn of a manifest; None for none
    # how names of files give labels and splits; None if they do not
    name_rules: NameRules | None = field(default=None, compare=False)

    def resolve(self) -> Self:
        """Return this configuration inside the zip archive of --input, with metadata files of a folder as manifests."""
        from shardmill.transforms.inputs.manifest_files import find_manifests

        given = self if self.input is None else replace(self, input=inside_archive(self.input))._with_metadata()
        if is_name_pattern(given.label_pattern):
            if given.group_by is not None:
                raise UserError(f"--label_pattern has a group, and --group_by {given.group_by} is another; give one")
            if given.splits is None:
                raise UserError("--label_pattern has a group, which needs --splits: files of a group are in one split")
            given = replace(given, group_by=given.label_pattern)
        by_label = (name for name in ("group_by", "stratify_by") if getattr(given, name) == given.label_column)
        labels: dict[str, Any] = dict.fromkeys(by_label, "label")
        manifests = find_manifests(given.manifest) if given.manifest else ()
        found = replace(given, manifests=manifests, name_rules=given._read_name_rules(), **labels)
        return super(ListedFilesConfig, found).resolve()

    def check(self) -> None:
        super().check()
        self._check_inputs()
        self._check_names()
        if self.manifest:
            from shardmill.transforms.inputs.manifest_table import manifest_format

            for manifest in self.manifests:
                self.check_format(manifest_format(manifest.path), f"--manifest {manifest.path}")
            if self.folders is not None:
                raise UserError(
                    f"--folders {self.folders} is about the folders of --input; leave it out with a --manifest,"
                    " whose columns have the labels and splits"
                )
        elif self.allow_outside and not self.annotation_flag:
            raise UserError("--allow_outside is about the names in a --manifest; leave it out with --input")
        for name in ("label_pattern", "split_lists"):
            if getattr(self, name) and self.input is None:
                raise UserError(f"--{name} is about the files of --input; {self.source} says the labels and splits")
        if self.label_pattern and self.folders is not None and self.folders.label is not None:
            raise UserError(f"--label_pattern and --folders {self.folders} both say the labels; leave one of them out")
        if self.split_lists and self.splits is not None:
            raise UserError("--split_lists and --splits both say the splits; leave one of them out")
        if self.exclude and (self.manifest or self.annotation_flag):
            listed = self.source if self.imagefolder is None else f"--input {self.imagefolder}"
            raise UserError(
                f"--exclude {self.exclude[0]}: {listed} says which {self.kind.plural} there are"
                + (
                    f"; give --exclude {posixpath.basename(self.manifest[0][1])}, too, to go by the folders"
                    if self.imagefolder is not None
                    else "; leave out those that are not wanted there"
                )
            )

    @property
    def file_columns(self) -> tuple[str, ...]:
        """Return the columns that name files, the example's main file first; () for the default column."""
        return split_names(self.file_column) if self.file_column else ()

    @property
    def annotating(self) -> AnnotationOptions:
        """Return the options of an add-on that annotates files."""
        return next((each for each in self.add_ons if isinstance(each, AnnotationOptions)), AnnotationOptions())

    @property
    def annotation_flag(self) -> str:
        """Return the annotation option as given on the command line; "" for none."""
        return self.annotating.flag

    def _with_metadata(self) -> Self:
        from shardmill.pipelines.config.imagefolder import find_metadata_files
        from shardmill.transforms.inputs.found_files import file_name_columns
        from shardmill.transforms.inputs.listing import find_exclusion, is_glob
        from shardmill.transforms.inputs.manifest_table import FILE_COLUMNS, peek_columns

        assert self.input is not None
        given = self.manifest or self.folders is not None or self.annotation_flag or self.added.folder
        found = () if given or is_glob(self.input) else find_metadata_files(self.input)
        root = f"{self.input.rstrip('/')}/"
        named = peek_columns(found[0][1]) if found and not self.file_column else ()
        further = file_name_columns(named)
        is_other = named and not {*FILE_COLUMNS, *further} & {*named}  # not Hugging Face's
        if not found or is_other or any(find_exclusion(path.removeprefix(root), self.exclude) for _, path in found):
            return self
        known = {item.column for item in self.added.companions}
        first = [name for name in FILE_COLUMNS if name in named][:1]
        others = [name for name in further if name not in known]
        several = (*first, *others) if self._has_several_files and first and others else ()
        columns = self.file_column or ",".join(several)
        return replace(self, imagefolder=self.input, manifest=found, input=None, file_column=columns)

    def _check_inputs(self) -> None:
        if (self.input is None) == (not self.manifest):
            raise UserError("give either --input, a folder or a glob, or --manifest, a .csv, .jsonl or .parquet file")

    def _check_names(self) -> None:
        """Check the flags for a manifest's columns and file names, some of which its folder's metadata may have set."""
        from shardmill.transforms.inputs.manifest_table import FILE_COLUMNS

        for name, value in (
            ("--file_column", self.file_column),
            ("--file_suffix", self.file_suffix),
            ("--file_root", self.file_root),
            ("--split_column", "" if self.split_column == "split" else self.split_column),
        ):
            if value and not self.manifest and name[2:] not in self.annotating.used:
                raise UserError(f"{name} {value} is about a --manifest; leave it out with --input")
        if self.label_column != "label" and not self.manifest and "label_column" not in self.annotating.used:
            raise UserError(
                f"--label_column {self.label_column} is about a --manifest; of --input, folders are the labels"
            )
        of_columns = (self.subset(TableReadOptions), *(each for each in self.add_ons if each.by_column))
        given = next(filter(None, (each.first_given_flag for each in of_columns)), "")
        if given and not self.manifest:
            raise UserError(f"{given} is about a --manifest; leave it out with --input")
        for name, separator in (self.label_separator or {}).items():
            if name not in ("", self.label_column):
                raise UserError(f"--label_separator {name}={separator}: --label_column is {self.label_column}")
        if self.drop and self.only:
            raise UserError("give --drop or --only, not both")
        if self.label_column in self.file_columns or self.label_column in ("", self.split_column, *FILE_COLUMNS):
            raise UserError(
                f"--label_column {self.label_column!r}: that column is used for something else already; give"
                " another one"
            )
        for column in self.file_columns:
            if column in (self.label_column, self.split_column):
                raise UserError(
                    f"--file_column {column}: that column is used for something else already; give another one"
                )
        if "/" in self.file_suffix:
            raise UserError(
                f"--file_suffix {self.file_suffix}: expected the end of a name, such as .jpg; --file_root is for"
                " folders"
            )
        if self.file_columns and not self._has_several_files and len(self.file_columns) > 1:
            raise UserError(
                f"--file_column {self.file_column}: expected one column; only an example of images has several files"
            )

    @property
    def input_notices(self) -> tuple[str, ...]:
        """Return notices about how the input was found."""
        if self.imagefolder is None or self.input is not None:
            return ()
        names = ", ".join(path for _, path in self.manifest)
        return (
            f"--input {self.imagefolder}: {names} say{'s' if len(self.manifest) == 1 else ''} what its"
            f" {self.kind.plural} are, as --manifest does;"
            f" --exclude {posixpath.basename(self.manifest[0][1])} goes by the folders instead",
        )

    @property
    def split_source(self) -> str:
        """Return a description of where files get their splits."""
        if self.annotation_flag or self.split_lists:
            return "the annotations" if self.annotation_flag else "--split_lists"
        if self.label_pattern:
            return "the input's split folders"
        by_file = any(split for split, _ in self.manifest)
        return "--manifest, by file," if by_file else f"the manifest's column {self.split_column!r}"

    def _read_name_rules(self) -> NameRules | None:
        from shardmill.transforms.inputs.folders import normalize_split
        from shardmill.transforms.inputs.listing import read_flag_text

        if not self.label_pattern and not self.split_lists:
            return None
        splits: dict[str, str] = {}
        for split, path in self.split_lists:
            for name in filter(None, map(str.strip, read_flag_text("--split_lists", path).splitlines())):
                if splits.setdefault(name, normalize_split(split)) != normalize_split(split):
                    raise UserError(f"--split_lists: {name!r} is in the lists of {splits[name]} and of {split}")
        return NameRules(self.label_pattern, splits)

    def to_json(self) -> dict[str, Any]:
        """Return the options that shape the output; those of tables only if they are given."""
        table = {option.field: option.default for option in options_of(TableReadOptions)}
        return {
            name: value
            for name, value in super().to_json().items()
            if name not in table or getattr(self, name) != table[name]
        }

    @property
    def companions(self) -> "tuple[Companion, ...]":
        """Return the further files of each example."""
        return ()

    @property
    def manifest_names(self) -> "ManifestNames":
        """Return how the manifest names files and labels."""
        from shardmill.transforms.columns.nested import Nesting
        from shardmill.transforms.inputs.manifest_table import ManifestNames
        from shardmill.transforms.layout.options import TableOptions

        flags, lay_out = self.subset(TableOptions, nesting=self.subset(Nesting)), None
        if add_ons := [load(each.rows).of(each, self) for each in self.add_ons if each.rows]:
            from shardmill.transforms.features.rows import lay_out_rows

            lay_out = partial(lay_out_rows, add_ons, flags)
        return self.subset(ManifestNames, flags=flags, lay_out=lay_out)

    @property
    def source(self) -> str:
        if self.input is not None:
            return f"--input {self.input}"
        return " ".join(f"--manifest {f'{split}=' if split else ''}{path}" for split, path in self.manifest)

    def _find_root(self) -> str:
        if (source := self.annotating.find_source(self)) is not None:
            return source.root
        if not self.manifests:
            return super()._find_root()
        from shardmill.transforms.inputs.manifest_files import common_folder
        from shardmill.transforms.inputs.manifest_table import manifest_folder

        return common_folder([manifest_folder(manifest.path) for manifest in self.manifests], "--manifest")

    @property
    def local_files(self) -> tuple[tuple[str, str], ...]:
        folder = self.added.folder
        return super().local_files if folder is None else ((self.added.flag.partition(" ")[0], folder),)

    @property
    def is_remote(self) -> bool:
        """Return True if files or reused records may be in an object store, or anywhere (`allow_outside`)."""
        from shardmill.transforms.stores import storage

        return super().is_remote or self.allow_outside or not storage.is_local(self.added.folder or "")


AUDIO_RESERVED = ("audio", "filename", "sample_rate", "channels", "frames")  # features, which a column cannot also be


@dataclass(frozen=True, kw_only=True)
class AudioConfig(ListedFilesConfig):
    """The configuration of `shardmill audio`."""

    title: ClassVar[str] = "audio"
    file_kind: ClassVar[FileKind] = AUDIO
    format_name: ClassVar[str] = "audio"

    input: str | None = tree_flag("wav")
    decode_audio: bool = flag(False, "Store float32 samples in [-1, 1] instead of the files' bytes")

    @property
    def kind(self) -> FileKind:
        return replace(super().kind, suffixes=f"{AUDIO.suffixes}{f'|{DECODED_AUDIO}' * self.decode_audio}")


@dataclass(frozen=True, kw_only=True)
class ArraysConfig(ListedFilesConfig):
    """The configuration of `shardmill arrays`."""

    title: ClassVar[str] = "arrays"
    file_kind: ClassVar[FileKind] = ARRAYS
    format_name: ClassVar[str] = "arrays"

    input: str | None = tree_flag("npy")
    feature: str = flag("image", "Name of the array's feature", parse=parse_array_name)
    shape: tuple[int | None, ...] | None = flag(
        None,
        "Shape of every array, for example 64,64, or None,3 if the first dimension varies",
        parse=parse_shape,
        default_words="taken from the first file by name",
    )
    dtype: str | None = flag(
        None,
        "Data type of every array, for example float32",
        choices=ELEMENTS,
        metavar="DTYPE",
        default_words="taken from the first file by name",
    )

    stacked: bool = newer_flag(
        False,
        "Make each row of an array an example, with labels from a second one, as in X_train.npy and "
        "y_train.npy; reads .npz and idx files, too",
    )

    def check(self) -> None:
        super().check()
        others = ("manifest", "folders", "shape", "dtype")
        if self.stacked and (other := next((name for name in others if getattr(self, name)), "")):
            raise UserError(f"--stacked and --{other}: names of arrays give splits and labels of rows; leave one out")
        if (self.shape is None) != (self.dtype is None):
            missing = "--dtype" if self.dtype is None else "--shape"
            raise UserError(f"--shape and --dtype go together; {missing} is missing (the first file says both)")

    @property
    def kind(self) -> FileKind:
        if not self.stacked:
            return super().kind
        from shardmill.transforms.files.stacked import StackedKind

        return StackedKind(ARRAYS.plural, ARRAYS.suffixes, exclude=self.exclude)


@dataclass(frozen=True, kw_only=True)
class TextFilesConfig(FilesConfig):
    """The configuration of `shardmill text --record file`."""

    file_kind: ClassVar[FileKind] = FileKind("text files", "txt|text")
    format_name: ClassVar[str] = "text files"

    encoding: str = flag("utf-8", "Text encoding of the input, for example latin-1", group="input")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.input is None:
            raise UserError("give --input, a folder or a glob")
        from shardmill.transforms.encodings import encoding_name

        try:
            encoding_name(self.encoding)
        except ValueError as error:
            raise UserError(f"--encoding {self.encoding}: {error}") from None
