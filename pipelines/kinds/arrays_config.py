"""What an arrays job is told, validated."""

from dataclasses import dataclass
from typing import Any

from pipelines.config.files import ListedFilesConfig
from pipelines.config.job import JobConfig, check
from shardmill.errors import UserError
from transforms.files.arrays.layout import ArrayOptions
from transforms.files.arrays.limits import ELEMENTS, MAX_DIMENSIONS
from transforms.files.arrays.npy import ArrayType
from transforms.inputs.listing import ARRAYS, FileKind

RESERVED = ("label", "filename", "split")  # features that every array has, or columns that mean something else


@dataclass(frozen=True, slots=True, kw_only=True)
class ArraysConfig(ListedFilesConfig):
    """The flags of `shardmill arrays`; see pipelines.kinds.arrays_options for what each means."""

    feature: str = "image"
    shape: tuple[int, ...] | None = None
    dtype: str | None = None

    def __post_init__(self) -> None:
        ListedFilesConfig.__post_init__(self)
        check(self.feature.isprintable() and self.feature != "", f"--feature {self.feature!r}: expected a name")
        check(self.feature not in RESERVED, f"--feature {self.feature}: that is another feature's name; give another")
        if (self.shape is None) != (self.dtype is None):
            missing = "--dtype" if self.dtype is None else "--shape"
            raise UserError(f"--shape and --dtype go together; {missing} is missing (without both, the first file says them)")
        if self.shape is not None:
            check(len(self.shape) <= MAX_DIMENSIONS, f"--shape: expected {MAX_DIMENSIONS} sizes at most")
        check(self.dtype in (None, *ELEMENTS), f"--dtype {self.dtype}: expected one of {', '.join(ELEMENTS)}")

    @property
    def array_options(self) -> ArrayOptions:
        """What the layout is decided with, beside folders and labels."""
        given = ArrayType(self.dtype, self.shape) if self.shape is not None and self.dtype is not None else None
        return ArrayOptions(self.root, self.feature, given)

    @property
    def kind(self) -> FileKind:
        """The files that a folder is searched for."""
        return ARRAYS

    @property
    def read_threads(self) -> int:
        """How many threads of a worker read; of local files, one is fastest."""
        return self.threads or (32 if self.is_remote else 1)

    @property
    def files_per_task(self) -> int:
        """How many files a thread takes at once."""
        return 4 if self.is_remote else 64

    def to_json(self) -> dict[str, Any]:
        """The options that shape the output, for the manifest."""
        return {
            **JobConfig.to_json(self),
            "format": "arrays",
            **self.manifest_json,
            "feature": self.feature,
            "shape": list(self.shape) if self.shape is not None else None,
            "dtype": self.dtype,
        }
