"""What a job whose records are whole files is told, beside what every job is: how files are found, planned and read."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from pipelines.config import JobConfig
from transforms.layout import LayoutOptions
from transforms.listing import FileKind
from transforms.resolve import ResolveOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesConfig(JobConfig, ABC):
    """The configuration of `shardmill images` and of `shardmill text --record file`."""

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
            self.source, self.splits, self.group_by, self.stratify_by, self.labels, self.on_new_label, split_shards, self.kind
        )

    @property
    def resolve_options(self) -> ResolveOptions:
        """What keys and sizes are computed with."""
        return ResolveOptions(self.seed, self.split_seed, self.group_by, self.stratify_by, self.record_bytes)

    @property
    def record_bytes(self) -> int | None:
        """The bytes of every encoded record, where they are not those of its file."""
        return None
