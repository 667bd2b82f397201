"""az:// for Beam, whose sink writes shards; Beam imports it in workers by its name.

Beam's own uploader of azfs:// writes each file to the local disk first, and then holds it in memory whole.
"""

import io
import uuid
from typing import TYPE_CHECKING, Any, NoReturn

from apache_beam.io.filesystem import CompressedFile, CompressionTypes, FileSystem

if TYPE_CHECKING:
    from azure.storage.blob import BlobClient

_BLOCK_BYTES = 8 << 20  # of 50,000 blocks at most, which makes 390 GiB


class AzureFileSystem(FileSystem):
    """Writes files, which is all that steps ask of it: everything else goes through transforms.stores.azure."""

    def __init__(self, pipeline_options: Any) -> None:
        super().__init__(pipeline_options)
        self._options = pipeline_options

    @classmethod
    def scheme(cls) -> str:
        """The scheme by which FileSystems finds this class."""
        return "az"

    def join(self, basepath: str, *paths: str) -> str:
        """A URL of its parts."""
        return "/".join([basepath.rstrip("/"), *(path.strip("/") for path in paths)])

    def split(self, path: str) -> tuple[str, str]:
        """What comes before the last slash, and after it."""
        head, _, tail = path.rpartition("/")
        return head, tail

    def mkdirs(self, path: str) -> None:
        """There are no folders to make."""

    def has_dirs(self) -> bool:
        """As the store: no."""
        return False

    def create(
        self,
        path: str,
        mime_type: str = "application/octet-stream",
        compression_type: str = CompressionTypes.AUTO,
    ) -> Any:
        """A file to write, to the account and container of `path`."""
        from shardmill.transforms.stores.azure import blob_client

        kind = compression_type
        if kind == CompressionTypes.AUTO:
            kind = CompressionTypes.detect_compression_type(path)
        writer = io.BufferedWriter(_Blocks(path, blob_client(path, self._options)), _BLOCK_BYTES)
        return writer if kind == CompressionTypes.UNCOMPRESSED else CompressedFile(writer, compression_type=kind)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise OSError("az:// is read and listed by shardmill.transforms.stores.azure")

    _list = open = copy = rename = exists = size = last_updated = metadata = checksum = delete = _refuse


class _Blocks(io.RawIOBase):
    """An object that is written block by block, and there when it is closed."""

    def __init__(self, url: str, client: "BlobClient") -> None:
        self._url, self._client = url, client
        self._names: list[str] = []

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, data: Any) -> int:
        """Upload a block."""
        from shardmill.transforms.stores.azure import telling

        name, block = uuid.uuid4().hex, bytes(data)
        if block:
            with telling(self._url):
                self._client.stage_block(name, block)
            self._names.append(name)
        return len(block)

    def close(self) -> None:
        """Make an object of the blocks."""
        if self.closed:
            return
        from azure.storage.blob import BlobBlock

        from shardmill.transforms.stores.azure import telling

        super().close()
        with telling(self._url):
            self._client.commit_block_list([BlobBlock(name) for name in self._names])
