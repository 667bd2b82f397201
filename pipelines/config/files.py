"""What a job whose records are whole files is told, beside what every job is: how files are found, planned and read."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from pipelines.config.job import JobConfig, check_path
from shardmill.errors import UserError
from transforms.files.resolve import ResolveOptions
from transforms.inputs.file_list import FILE_COLUMNS, ManifestNames, is_textual
from transforms.inputs.listing import FileKind, input_root
from transforms.layout.files import LayoutOptions
from transforms.stores import storage


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesConfig(JobConfig, ABC):
    """The configuration of `shardmill images`, `arrays` and `text --record file`."""

    @property
    @abstractmethod
    def kind(self) -> FileKind:
        """The files that a folder is searched for."""

    @property
    @abstractmethod
    def files_per_task(self) -> int:
        """How many files a thread takes at once: few where each takes long."""

    @property
    @abstractmethod
    def read_threads(self) -> int:
        """How many threads of a worker read and encode; 0 stands for the number of its cores."""

    @property
    def layout_options(self) -> LayoutOptions:
        """What the layout is decided with."""
        split_shards = tuple(name for name, _ in self.split_shards)
        return LayoutOptions(
            self.source,
            self.splits,
            self.group_by,
            self.stratify_by,
            self.labels,
            self.on_new_label,
            split_shards,
            self.kind,
            self.folders,
            self.root,
        )

    @property
    def resolve_options(self) -> ResolveOptions:
        """What keys and sizes are computed with."""
        return ResolveOptions(self.seed, self.split_seed, self.group_by, self.stratify_by, self.record_bytes, self.renames)

    @property
    def record_bytes(self) -> int | None:
        """The bytes of every encoded record, where they are not those of its file."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFilesConfig(FilesConfig, ABC):
    """The configuration of files that a --manifest may list."""

    manifest: str | None = None
    allow_outside: bool = False
    file_column: str = ""
    label_column: str = "label"
    file_suffix: str = ""
    file_root: str = ""

    def __post_init__(self) -> None:
        if (self.input is None) == (self.manifest is None):
            raise UserError("give either --input, a folder or a glob, or --manifest, a .csv or .jsonl file")
        check_path("--manifest", self.manifest)
        self._check_names()
        if self.manifest is not None:
            is_textual(self.manifest)
            if self.folders is not None:
                raise UserError(f"--folders {self.folders} is about the folders of --input; of a --manifest, columns say it")
        elif self.allow_outside:
            raise UserError("--allow_outside is about the names in a --manifest; with --input it has no meaning")
        JobConfig.__post_init__(self)

    def _check_names(self) -> None:
        """Check what is said of a manifest's columns and names."""
        for flag, value in (
            ("--file_column", self.file_column),
            ("--file_suffix", self.file_suffix),
            ("--file_root", self.file_root),
        ):
            if value and self.manifest is None:
                raise UserError(f"{flag} {value} is about a --manifest; with --input it has no meaning")
        if self.label_column != "label" and self.manifest is None:
            raise UserError(f"--label_column {self.label_column} is about a --manifest; of --input, folders are the labels")
        if self.label_column == (self.file_column or None) or self.label_column in ("", "split", *FILE_COLUMNS):
            raise UserError(f"--label_column {self.label_column!r}: expected a column of its own")
        if self.file_column in ("label", "split"):
            raise UserError(f"--file_column {self.file_column}: that column says something else; expected one of its own")
        if "/" in self.file_suffix:
            raise UserError(
                f"--file_suffix {self.file_suffix}: expected the end of a name, such as .jpg; --file_root is for folders"
            )

    @property
    def manifest_names(self) -> ManifestNames:
        """How the manifest names files and labels."""
        return ManifestNames(self.file_column, self.label_column, self.file_suffix, self.file_root.rstrip("/") or self.file_root)

    @property
    def manifest_json(self) -> dict[str, Any]:
        """What shapes how the manifest is read."""
        return {
            "allow_outside": self.allow_outside,
            "file_column": self.file_column or None,
            "label_column": self.label_column,
            "file_suffix": self.file_suffix or None,
            "file_root": self.file_root or None,
        }

    @property
    def source(self) -> str:
        """The input as errors call it."""
        return f"--input {self.input}" if self.input is not None else f"--manifest {self.manifest}"

    @property
    def root(self) -> str:
        """The folder that names are relative to."""
        if self.input is not None:
            return input_root(self.input)
        assert self.manifest is not None
        return self.manifest.rpartition("/")[0] or ("/" if self.manifest.startswith("/") else ".")

    @property
    def is_remote(self) -> bool:
        """Whether reading a file may be a request to an object store."""
        return not storage.is_local(self.root) or self.allow_outside
