"""The pipeline options of this process, launcher or worker: credentials and endpoints of object stores.

Beam hands them to every file system that it makes, in each process that it starts, and has no other public way to them.
So this is a file system, of a scheme of its own, that holds nothing but what it was made with.
"""

from functools import cache
from typing import Any, NoReturn

from apache_beam.io.filesystem import FileSystem
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions

from shardmill.transforms.stores import azure_filesystem  # noqa: F401  # which Beam finds once it is imported

_SCHEME = "shardmill-options"


def process_options() -> PipelineOptions:
    """What FileSystems was given in this process; Beam's defaults before there is a pipeline."""
    return FileSystems.get_filesystem(f"{_SCHEME}://").options or _no_options()


@cache
def _no_options() -> PipelineOptions:
    return PipelineOptions([])


class OptionsFileSystem(FileSystem):
    """Holds no files; Beam imports it in workers by this name."""

    def __init__(self, pipeline_options: Any) -> None:
        super().__init__(pipeline_options)
        self.options = pipeline_options

    @classmethod
    def scheme(cls) -> str:
        """The scheme by which FileSystems finds this class."""
        return _SCHEME

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise OSError(f"{_SCHEME}:// holds no files")

    join = split = mkdirs = has_dirs = _list = create = open = _refuse
    copy = rename = exists = size = last_updated = metadata = checksum = delete = _refuse
