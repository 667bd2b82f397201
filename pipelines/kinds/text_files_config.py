"""What a job over text files is told, an example for each file."""

from dataclasses import dataclass
from typing import Any

from pipelines.config.files import FilesConfig
from pipelines.config.job import JobConfig, check
from shardmill.errors import UserError
from transforms.formats.encodings import encoding_name
from transforms.inputs.listing import FileKind
from transforms.stores import storage

TEXT_FILES = FileKind("text files", "txt|text")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFilesConfig(FilesConfig):
    """The flags of `shardmill text --record file`."""

    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        JobConfig.__post_init__(self)
        check(self.input is not None, "give --input, a folder or a glob")
        try:
            encoding_name(self.encoding)
        except ValueError as error:
            raise UserError(f"--encoding {self.encoding}: {error}") from None

    @property
    def kind(self) -> FileKind:
        """The files that a folder is searched for."""
        return TEXT_FILES

    @property
    def files_per_task(self) -> int:
        """How many files a thread takes at once."""
        return 64 if storage.is_local(self.root) else 4

    @property
    def read_threads(self) -> int:
        """How many threads read; of small local files, one is fastest."""
        return self.threads or (1 if storage.is_local(self.root) else 32)

    def to_json(self) -> dict[str, Any]:
        """The options that shape the output, for the manifest."""
        return {**JobConfig.to_json(self), "format": "text files", "encoding": self.encoding}
