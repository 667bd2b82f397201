"""What a job is told whose records are the files of a folder, or those that manifests list."""

from abc import ABC
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from shardmill.errors import UserError
from shardmill.pipelines.config.archives import inside_archive
from shardmill.pipelines.config.files import FilesConfig
from shardmill.pipelines.config.job import input_flag
from shardmill.pipelines.config.manifests import ManifestOptions
from shardmill.transforms.options.declare import flag
from shardmill.transforms.options.output import parse_path
from shardmill.transforms.preprocessing.options import DeclaredOptions

if TYPE_CHECKING:
    from shardmill.transforms.inputs.annotations.huggingface import ObjectsColumn
    from shardmill.transforms.inputs.annotations.source import AnnotationSource
    from shardmill.transforms.inputs.companions import Companion
    from shardmill.transforms.inputs.manifests.given import LinesOf
    from shardmill.transforms.inputs.manifests.names import ManifestNames
    from shardmill.transforms.layout.file_options import LayoutOptions


def tree_flag(suffix: str) -> Any:
    """The field of --input, of a tree of files with a suffix."""
    return input_flag(f"a folder (<label>/*.{suffix}, <split>/<label>/*.{suffix}, or flat) or a glob")


@dataclass(frozen=True, kw_only=True)
class ListedFilesConfig(ManifestOptions, DeclaredOptions, FilesConfig, ABC):
    """The configuration of files that a --manifest may list."""

    title: ClassVar[str] = "input"

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
            from shardmill.transforms.inputs.listing import is_glob
            from shardmill.transforms.inputs.manifests.formats import is_textual

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
        from shardmill.transforms.inputs.listing import is_glob
        from shardmill.transforms.inputs.manifests.given import metadata_of

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
            from shardmill.transforms.inputs.companions import further_files
            from shardmill.transforms.inputs.manifests.formats import columns_told
            from shardmill.transforms.inputs.manifests.names import FILE_COLUMNS

            told = columns_told(found[0][1])
            columns = [
                name for name in further_files(told) if name not in self._other_files and name not in FILE_COLUMNS
            ]
            first = next((name for name in FILE_COLUMNS if name in told), None)
            if columns and first is not None:
                object.__setattr__(self, "file_column", ",".join([first, *columns]))

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
        """Check what is said of a manifest's columns and names; raises UserError."""
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
        self.check_manifest_names()
        if self.file_columns and not self._several_files and len(self.file_columns) > 1:
            raise UserError(
                f"--file_column {self.file_column}: expected one column; only an example of images has several files"
            )

    @property
    def separators(self) -> dict[str, str]:
        """As the base says."""
        return {} if self.label_separator is None else {"label": self.label_separator}

    @property
    def layout_options(self) -> "LayoutOptions":
        """As the base says."""
        from shardmill.transforms.inputs.manifests.names import FILE_COLUMNS

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
        from shardmill.transforms.inputs.manifests.names import ManifestNames

        return ManifestNames(
            next(iter(self.file_columns), ""),
            self.label_column,
            self.file_suffix,
            self.file_root.rstrip("/") or self.file_root,
            self.label_separator or "",
            self.companions,
            self.objects_column,
        )

    @property
    def objects_column(self) -> "ObjectsColumn | None":
        """What the manifest says of the objects in images; None where it says nothing of any."""
        return None

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

    @property
    def lines_of(self) -> "LinesOf | None":
        """As the base says."""
        from shardmill.transforms.inputs.manifests.given import LinesOf

        several = self.manifest and len(self.manifests) > 1
        return LinesOf(tuple(manifest.path for manifest in self.manifests)) if several else None

    @cached_property
    def root(self) -> str:
        """The folder that names are relative to."""
        if self.input is not None:
            return super().root
        from shardmill.transforms.inputs.manifests.formats import folder_of
        from shardmill.transforms.inputs.manifests.given import common_folder

        return common_folder([folder_of(manifest.path) for manifest in self.manifests])

    @property
    def is_remote(self) -> bool:
        """As the base says; with `allow_outside`, files may lie anywhere."""
        return super().is_remote or self.allow_outside
