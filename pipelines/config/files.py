"""What a job whose records are whole files is told, beside what every job is: how files are found, planned and read."""

from abc import ABC
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardmill.pipelines.config.archives import is_on_disk
from shardmill.pipelines.config.job import JobConfig
from shardmill.transforms.options.labels import LabelOptions
from shardmill.transforms.options.reuse import NO, ReuseOptions
from shardmill.transforms.options.splits import SplitOptions
from shardmill.transforms.stores import storage

if TYPE_CHECKING:
    from shardmill.transforms.files.resolve import ResolveOptions
    from shardmill.transforms.inputs.manifests.given import LinesOf
    from shardmill.transforms.layout.file_options import LayoutOptions
    from shardmill.transforms.preprocessing.gather import Analysis

_REMOTE_THREADS = 64  # an object store answers after tens of milliseconds, in which each waits, whatever the machine


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
        from shardmill.transforms.layout.file_options import LayoutOptions

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
        from shardmill.transforms.files.resolve import ResolveOptions

        return ResolveOptions(self.part(SplitOptions), self.record_bytes, self.renames, self.root)

    @property
    def record_bytes(self) -> int | None:
        """The bytes of every encoded record, where they are not those of its file."""
        return None
