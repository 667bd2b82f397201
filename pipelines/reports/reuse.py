"""What a build took from an older version instead of reading files again, as the index beside it says."""

from shardmill.pipelines.config.job import JobConfig
from shardmill.transforms.options.reuse import NO, RECORD
from shardmill.transforms.publishing.file_index import FileIndex, read_index


def remembered(config: JobConfig, manifest_crc32c: str) -> FileIndex | None:
    """The index of the version that `config` has published, whose manifest has that checksum; None of a job that keeps
    none."""
    if config.reuse_asked in (None, NO):
        return None
    return read_index(config.parent, config.version, manifest_crc32c)


def reuse_lines(config: JobConfig, index: FileIndex | None) -> list[str]:
    """How many files were taken from an older version instead of being read, or why none was, as the index of the
    version that `config` has published says; nothing where none was to be."""
    return [index.said()] if index is not None and config.reuse_asked != RECORD else []
