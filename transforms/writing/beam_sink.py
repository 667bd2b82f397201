"""What WriteShards takes of `beam.io.WriteToTFRecord` beyond its public constructor: its sink, which Beam keeps in
`_sink`.

The sink is a `FileBasedSink`, a public class: it opens temporary files on any file system that Beam knows, and names
them.
"""

from typing import Any

import apache_beam as beam
from apache_beam.io.filebasedsink import FileBasedSink

from shardmill.transforms.stores import local, storage


def sink_of(write: beam.io.WriteToTFRecord) -> FileBasedSink:
    """The sink that the constructor of `write` made.

    Raises:
      TypeError: it is not what it was in the Beam that this was made for.
    """
    sink = write._sink
    if not isinstance(sink, FileBasedSink):
        raise TypeError(f"beam.io.WriteToTFRecord keeps a {type(sink).__name__} as its sink; expected a FileBasedSink")
    return sink


class TemporaryFile:
    """A file under its temporary name, written without the framing that a sink's own records get: by the sink, or by
    the store it lies on where that has a way of its own.

    Attributes:
      path: where it lies, but for a suffix.
    """

    def __init__(self, sink: FileBasedSink, directory: str, name: str) -> None:
        """Create the file in `directory`; the sink puts no more than a suffix after `name`."""
        self.path = storage.join(directory, name)
        self._upload = storage.upload(self.path)
        self._writer: Any = sink.open_writer(directory, name) if self._upload is None else None

    def write(self, data: bytes) -> None:
        """Write more of it; raises OSError, which names the file."""
        with local.writing(self.path):
            if self._upload is not None:
                self._upload.write(data)
                return
            view = memoryview(data).cast("B")
            for start in range(0, len(view), local.PIECE_BYTES):
                self._writer.temp_handle.write(view[start : start + local.PIECE_BYTES])

    def close(self) -> str:
        """The path of the file, written whole; raises as `write`."""
        with local.writing(self.path):
            if self._upload is None:
                return str(self._writer.close())
            self._upload.close()
            return self.path

    def abandon(self) -> None:
        """Let it be what it is: its folder is going to be deleted. Raises as `write`."""
        if self._upload is None:
            self.close()
        else:
            self._upload.abandon()
