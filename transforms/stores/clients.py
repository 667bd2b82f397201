"""What storage needs of an object store: operations on objects by their exact names, many at once where one request can.

Beam's FileSystems builds a client for every call (measured for S3: 0.2 s and 12 MB each), takes names for globs, and asks for an
object's metadata before it reads it. So what is done to one object after another goes through clients that are kept; shards
are still written by Beam's sink.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions

from shardmill.errors import UserError
from shardmill.extras import install_hint
from transforms.stores.beam_filesystems import BeamStore
from transforms.stores.s3_retries import set_retries


class ObjectStore(Protocol):
    """Objects by URL. All raise FileNotFoundError for what is missing, a bucket too, and OSError for other failures."""

    def read(self, url: str) -> bytes:
        """The bytes of an object, in one request."""

    def read_range(self, url: str, offset: int, length: int) -> bytes:
        """At least one byte of an object, in one request: `length` bytes from `offset`, fewer at its end."""

    def write(self, url: str, data: bytes) -> None:
        """Write an object, in one request: it is there whole or not at all."""

    def create(self, url: str, data: bytes) -> None:
        """As `write`, but raises FileExistsError if there is one already, wherever the store can tell."""

    def size(self, url: str) -> int:
        """The size of an object in bytes."""

    def list(self, prefix: str) -> Iterator[tuple[str, int]]:
        """(URL, bytes) of each object whose URL starts with `prefix`, sorted."""

    def folders(self, prefix: str) -> Sequence[str]:
        """What stands, in URLs of objects that start with `prefix`, between it and a further slash; sorted, each once."""

    def delete(self, urls: Sequence[str]) -> None:
        """Delete objects; one that is gone already is no error."""

    def rename(self, moves: Sequence[tuple[str, str]]) -> None:
        """Copy each source to its destination, then delete the sources."""

    def abort_uploads(self, prefix: str) -> None:
        """Forget uploads under `prefix` that were never completed, where the store keeps, and charges for, their parts."""


def object_store(url: str) -> ObjectStore:
    """The store that `url` lies on, with the pipeline options that FileSystems was given.

    Raises:
      UserError: there is none for its scheme, or its client library is not installed.
    """
    scheme = url.partition("://")[0]
    if scheme == "gs":
        try:
            from transforms.stores.gcs import GoogleStorage
        except ImportError:
            raise UserError(f"{url}: gs:// needs Google's clients; {install_hint('gcp')}") from None
        return GoogleStorage(_options())
    if scheme == "s3":
        set_retries(_options())
        try:
            from transforms.stores.s3 import S3
        except ModuleNotFoundError:
            raise UserError(f"{url}: s3:// needs boto3; {install_hint('aws')}") from None
        return S3(_options())
    try:
        FileSystems.get_filesystem(url)
    except ValueError:
        raise UserError(
            f"{url}: no file system for {scheme}://; expected a local path, gs://, s3://, or what Beam has installed"
        ) from None
    return BeamStore()


def set_options(options: PipelineOptions) -> None:
    """Reach object stores as `options` say (credentials, endpoint), before there is a pipeline that would set them."""
    FileSystems.set_options(options)
    if options is not None:
        set_retries(options)


def prepare_clients() -> None:
    """Let clients that Beam makes in this process, as it writes shards, repeat requests as ours do."""
    set_retries(_options())


def _options() -> PipelineOptions:
    # What Beam itself gives its file systems; a worker process sets it before any DoFn is built.
    return FileSystems._pipeline_options or _DEFAULTS


_DEFAULTS = PipelineOptions([])


def check_url(url: str) -> None:
    """Check that `url` can be opened at all: that its scheme is known and, where a scheme has buckets, that it names one.

    Raises:
      UserError: not so.
    """
    object_store(url)
    if url.startswith(("gs://", "s3://")):
        split_url(url)


def split_url(url: str) -> tuple[str, str]:
    """(bucket, name of the object) of `url`; the name is empty for a bucket.

    Raises:
      UserError: there is no bucket in it.
    """
    bucket, _, name = url.partition("://")[2].partition("/")
    if not bucket:
        raise UserError(f"{url}: there is no bucket in it; expected {url.partition('://')[0]}://bucket/path")
    return bucket, name
