"""What WriteShards takes of `beam.io.WriteToTFRecord` beyond its public constructor: its sink, which Beam keeps in
`_sink`.

The sink is a `FileBasedSink`, a public class: it opens temporary files on any file system that Beam knows, and names
them.
"""

from typing import Any

import apache_beam as beam
from apache_beam.io.filebasedsink import FileBasedSink

from transforms.stores import local, storage


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
    """A file of a sink, under its temporary name, written without the framing that the sink's own records get.

    Attributes:
      path: where it lies, but for a suffix.
    """

    def __init__(self, sink: FileBasedSink, directory: str, name: str) -> None:
        """Create the file in `directory`; the sink puts its own name before `name`, or no more than a suffix after
        it."""
        self._writer = sink.open_writer(directory, name)
        self._handle: Any = self._writer.temp_handle
        self.path = storage.join(directory, name)

    def write(self, data: bytes) -> None:
        """Write more of it; raises OSError, which names the file."""
        with local.writing(self.path):
            self._handle.write(data)

    def close(self) -> str:
        """The path of the file, written whole; raises as `write`."""
        with local.writing(self.path):
            return str(self._writer.close())
