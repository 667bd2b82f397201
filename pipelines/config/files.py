"""What a job whose records are whole files is told, beside what every job is: how files are found, planned and read."""

from abc import ABC
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from pipelines.config.job import JobConfig
from shardmill.errors import UserError
from transforms.options.declare import flag
from transforms.options.labels import LabelOptions
from transforms.options.manifests import parse_manifests
from transforms.options.output import parse_path
from transforms.options.reuse import NO, ReuseOptions
from transforms.options.splits import SplitOptions
from transforms.preprocessing.options import DeclaredOptions
from transforms.stores import storage

if TYPE_CHECKING:
    from transforms.files.resolve import ResolveOptions
    from transforms.inputs.annotations.source import AnnotationSource
    from transforms.inputs.companions import Companion
    from transforms.inputs.manifests.given import LinesOf, ManifestFile
    from transforms.inputs.manifests.names import ManifestNames
    from transforms.layout.files import LayoutOptions
    from transforms.preprocessing.gather import Analysis

_REMOTE_THREADS = 64  # an object store answers after tens of milliseconds, in which each waits, whatever the machine


def is_on_disk(path: str) -> bool:
    """Whether what lies at `path`, or the archive that it is in, is on a local disk."""
    return storage.is_local(path.removeprefix("zip://"))


def inside_archive(path: str) -> str:
    """What a zip archive of files holds, where that is what `path` names; else `path`."""
    if not path.lower().endswith(".zip") or path.startswith("zip://"):
        return path
    from transforms.inputs.listing import is_file, is_glob
    from transforms.stores.clients import object_store
    from transforms.stores.zip_archive import folder_in

    try:
        return path if is_glob(path) or not is_file(path) else folder_in(path, object_store)
    except OSError:
        return path  # which is said where the input is checked


def _or_none(text: str) -> str | None:
    return text or None


@dataclass(frozen=True, kw_only=True)
class FilesConfig(JobConfig, ReuseOptions, ABC):
    """The configuration of jobs whose records are whole files."""

    @property
    def reuse_asked(self) -> str | None:
        """As the base says."""
        return self.reuse

    @property
    def decodes(self) -> bool:
        """Whether reading a file is work for a core, rather than waiting."""
        return False

    @property
    def is_remote(self) -> bool:
        """Whether reading a file, or its record in an older version, may be a request to an object store."""
        return not is_on_disk(self.root) or (self.remembers and not storage.is_local(self.output))

    @property
    def masks_asked(self) -> str:
        """The flag that says where masks of the files are; "" for none."""
        return ""

    @property
    def remembers(self) -> bool:
        """Whether files are known by their identities: to be found in an older version, or by the next build."""
        return self.reuse != NO

    @property
    def read_threads(self) -> int:
        """How many threads of a worker read and encode; 0 stands for the number of its cores.

        Reading small local files is a matter of microseconds, in which threads only contend for the interpreter;
        decoding runs outside it.
        """
        if self.is_remote:
            return self.threads or _REMOTE_THREADS
        return self.threads if self.decodes else self.threads or 1

    @property
    def files_per_task(self) -> int:
        """How many files a thread takes at once: few where each takes long."""
        return 4 if self.is_remote else 8 if self.decodes else 64

    @property
    def layout_options(self) -> "LayoutOptions":
        """What the layout is decided with."""
        from transforms.layout.files import LayoutOptions

        split_shards = tuple(name for name, _ in self.split_shards)
        split, classes = self.part(SplitOptions), self.part(LabelOptions)
        return LayoutOptions(
            self.source, split, classes, split_shards, self.kind, self.folders, self.root, separators=self.separators
        )

    @property
    def separators(self) -> dict[str, str]:
        """What stands between the classes of a label that names several, by what the label is called."""
        return {}

    @property
    def lines_of(self) -> "LinesOf | None":
        """Which of several manifests a line is of; None where there is one, or none."""
        return None

    @property
    def analysis(self) -> "Analysis | None":
        """What --transform takes constants of."""
        return None

    @property
    def resolve_options(self) -> "ResolveOptions":
        """What keys and sizes are computed with."""
        from transforms.files.resolve import ResolveOptions

        return ResolveOptions(self.part(SplitOptions), self.record_bytes, self.renames, self.root)

    @property
    def record_bytes(self) -> int | None:
        """The bytes of every encoded record, where they are not those of its file."""
        return None


@dataclass(frozen=True, kw_only=True)
class ListedFilesConfig(DeclaredOptions, FilesConfig, ABC):
    """The configuration of files that a --manifest may list."""

    title: ClassVar[str] = "input"

    manifest: tuple[tuple[str, str], ...] = flag(
        (),
        "a .csv, .jsonl or .parquet with file_name or image_uri, and label, split and further columns; a glob, or one"
        " for each split; repeat",
        parse=parse_manifests,
        repeats=True,
        metavar="[SPLIT=]FILE",
        shapes=False,
    )
    allow_outside: bool = flag(False, "files of a manifest may lie outside its folder, by their names or by links")
    file_column: str = flag(
        "",
        "of a manifest: names the files; of images left,right,…, each after the first a further image of its example",
        default_words="file_name or image_uri",
        to_json=_or_none,
    )
    label_column: str = flag("label", "of a manifest: holds the labels")
    label_separator: str | None = flag(
        None, "of a manifest: between the classes in a label that names several", group="labels", told=False
    )
    file_suffix: str = flag("", "what a manifest's file names lack, such as .jpg", to_json=_or_none)
    file_root: str = flag(
        "", "the folder of a manifest's files, as seen from its own, such as train/", to_json=_or_none
    )

    imagefolder: str | None = flag(
        None,
        "the folder that was searched for metadata files, which are the manifests",
        parse=parse_path,
        hidden=True,
        shapes=False,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.input is not None:
            object.__setattr__(self, "input", inside_archive(self.input))
        self._take_metadata()
        self._check_given()
        self._check_names()
        if self.manifest:
            from transforms.inputs.listing import is_glob
            from transforms.inputs.manifests.formats import is_textual

            for _, path in self.manifest:
                if not is_glob(path):
                    is_textual(path)
            if self.folders is not None:
                raise UserError(
                    f"--folders {self.folders} is about the folders of --input; of a --manifest, columns say it"
                )
        elif self.allow_outside and not self.annotations:
            raise UserError("--allow_outside is about the names in a --manifest; with --input it has no meaning")
        elif self.transform is not None:
            raise UserError("--transform is about the columns of a --manifest; with --input it has no meaning")

    @property
    def takes_archives(self) -> bool:
        """As the base says."""
        return True

    @property
    def annotations(self) -> str:
        """The flags by which files are found that annotate others, in words; "" where there are none."""
        return ""

    @property
    def annotation_source(self) -> "AnnotationSource | None":
        """Where it is annotated what is in files; None where nothing is."""
        return None

    def _take_metadata(self) -> None:
        """Of a folder with metadata files as Hugging Face's imagefolder has them, these are the manifests, and
        columns that end in _file_name name further files."""
        from transforms.inputs.listing import is_glob
        from transforms.inputs.manifests.given import metadata_of

        if self.input is None or self.manifest or self.folders is not None or self.annotations or self._has_masks:
            return
        if self.imagefolder is not None:  # a copy of a configuration, which looked already
            return
        found = () if is_glob(self.input) else metadata_of(self.input)
        object.__setattr__(self, "imagefolder", self.input)
        if not found:
            return
        object.__setattr__(self, "manifest", found)
        object.__setattr__(self, "input", None)
        if self._several_files and not self.file_column:
            from transforms.inputs.companions import further_files
            from transforms.inputs.manifests.formats import columns_told
            from transforms.inputs.manifests.names import FILE_COLUMNS

            columns = [name for name in further_files(columns_told(found[0][1])) if name not in self._other_files]
            if columns:
                object.__setattr__(self, "file_column", ",".join([FILE_COLUMNS[0], *columns]))

    @property
    def _other_files(self) -> tuple[str, ...]:
        """Columns that are known to name files."""
        return ()

    @property
    def _has_masks(self) -> bool:
        """Whether masks of the files lie in a folder."""
        return False

    def _check_given(self) -> None:
        """Check that there is an input, and one alone; raises UserError."""
        if (self.input is None) == (not self.manifest):
            raise UserError("give either --input, a folder or a glob, or --manifest, a .csv, .jsonl or .parquet file")

    def _check_names(self) -> None:
        """Check what is said of a manifest's columns and names."""
        from transforms.inputs.manifests.names import FILE_COLUMNS

        for name, value in (
            ("--file_column", self.file_column),
            ("--file_suffix", self.file_suffix),
            ("--file_root", self.file_root),
        ):
            about = self.manifest or (name == "--file_root" and self.annotations.startswith("--coco"))
            if value and not about:
                raise UserError(f"{name} {value} is about a --manifest; with --input it has no meaning")
        if self.label_column != "label" and not self.manifest:
            raise UserError(
                f"--label_column {self.label_column} is about a --manifest; of --input, folders are the labels"
            )
        if self.label_separator is not None and not self.manifest:
            raise UserError(
                f"--label_separator {self.label_separator!r} is about the labels of a --manifest; with --input it has"
                " no meaning"
            )
        if self.label_separator is not None and not self.label_separator.strip():
            raise UserError(
                f"--label_separator {self.label_separator!r}: expected what stands between classes, such as ';' or '|'"
            )
        if self.label_column in self.file_columns or self.label_column in ("", "split", *FILE_COLUMNS):
            raise UserError(f"--label_column {self.label_column!r}: expected a column of its own")
        for column in self.file_columns:
            if column in ("label", "split"):
                raise UserError(f"--file_column {column}: that column says something else; expected one of its own")
        if self.file_columns and not self._several_files and len(self.file_columns) > 1:
            raise UserError(
                f"--file_column {self.file_column}: expected one column; only an example of images has several files"
            )
        if "/" in self.file_suffix:
            raise UserError(
                f"--file_suffix {self.file_suffix}: expected the end of a name, such as .jpg; --file_root is for"
                " folders"
            )

    @property
    def separators(self) -> dict[str, str]:
        """As the base says."""
        return {} if self.label_separator is None else {"label": self.label_separator}

    @property
    def layout_options(self) -> "LayoutOptions":
        """As the base says."""
        from transforms.inputs.manifests.names import FILE_COLUMNS

        told: tuple[str, ...] = ()
        if self.imagefolder is not None and self.input is None:
            names = ", ".join(path for _, path in self.manifest)
            told = (
                f"--input {self.imagefolder}: {names} say{'s' if len(self.manifest) == 1 else ''} what its"
                f" {self.kind.plural} are, as --manifest does, and those that are not named there are left out;"
                " --folders any goes by the folders instead",
            )
        by_file = any(split for split, _ in self.manifest)
        return replace(
            super().layout_options,
            file_column=self.file_column or FILE_COLUMNS[0],
            told=told,
            splits_by="--manifest, by file," if by_file else "the manifest's column 'split'",
        )

    @property
    def file_columns(self) -> tuple[str, ...]:
        """The columns that name files, that of the example's own first; () for the usual one alone."""
        return tuple(self.file_column.split(",")) if self.file_column else ()

    @property
    def _several_files(self) -> bool:
        """Whether an example may have several files."""
        return False

    @property
    def companions(self) -> "tuple[Companion, ...]":
        """The further files that each example has."""
        return ()

    @property
    def manifest_names(self) -> "ManifestNames":
        """How the manifest names files and labels."""
        from transforms.inputs.manifests.names import ManifestNames

        return ManifestNames(
            next(iter(self.file_columns), ""),
            self.label_column,
            self.file_suffix,
            self.file_root.rstrip("/") or self.file_root,
            self.label_separator or "",
            self.companions,
        )

    @property
    def masks_folder(self) -> str | None:
        """The folder in which masks of the files lie, if they have any."""
        return None

    @property
    def source(self) -> str:
        """The input as errors call it."""
        if self.input is not None:
            return f"--input {self.input}"
        return " ".join(
            f"--manifest {split}={path}" if split else f"--manifest {path}" for split, path in self.manifest
        )

    @cached_property
    def manifests(self) -> "tuple[ManifestFile, ...]":
        """The manifests that files and globs name; raises UserError where a glob matches none."""
        from transforms.inputs.manifests.formats import is_textual
        from transforms.inputs.manifests.given import find_manifests

        found = find_manifests(self.manifest)
        for manifest in found:
            is_textual(manifest.path)
        return found

    @property
    def lines_of(self) -> "LinesOf | None":
        """As the base says."""
        from transforms.inputs.manifests.given import LinesOf

        several = self.manifest and len(self.manifests) > 1
        return LinesOf(tuple(manifest.path for manifest in self.manifests)) if several else None

    @cached_property
    def root(self) -> str:
        """The folder that names are relative to."""
        if self.input is not None:
            return super().root
        from transforms.inputs.manifests.formats import folder_of
        from transforms.inputs.manifests.given import common_folder

        return common_folder([folder_of(manifest.path) for manifest in self.manifests])

    @property
    def is_remote(self) -> bool:
        """As the base says; with `allow_outside`, files may lie anywhere."""
        return super().is_remote or self.allow_outside
