"""The sink that Beam's WriteToTFRecord keeps: where Beam changes it, these fail first."""

import pickle
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.io.filebasedsink import FileBasedSink
from apache_beam.io.filesystem import CompressionTypes

from shardmill.transforms.shards.writing import TemporaryFile, get_sink


def write_to(path: Path) -> beam.io.WriteToTFRecord:
    return beam.io.WriteToTFRecord(str(path), file_name_suffix=".gz", compression_type=CompressionTypes.UNCOMPRESSED)


def test_the_sink_is_that_of_the_constructor(tmp_path: Path) -> None:
    sink = get_sink(write_to(tmp_path / "flowers"))

    assert isinstance(sink, FileBasedSink)
    assert sink.file_path_prefix.get() == str(tmp_path / "flowers")
    assert sink.compression_type == CompressionTypes.UNCOMPRESSED


def test_a_temporary_file_holds_what_was_written_and_nothing_else(tmp_path: Path) -> None:
    """After the way to a worker too, and where the suffix says gzip: shards are compressed before."""
    sink = pickle.loads(pickle.dumps(get_sink(write_to(tmp_path / "flowers"))))
    (tmp_path / "temporary").mkdir()
    file = TemporaryFile(sink, str(tmp_path / "temporary"), "flowers-train-00000-x")
    file.write(b"any ")
    file.write(b"bytes")
    path = Path(file.close())

    assert path.parent == tmp_path / "temporary"
    assert path.name == "flowers-train-00000-x.flowers.gz"
    assert path.read_bytes() == b"any bytes"


def test_another_sink_is_named(tmp_path: Path) -> None:
    write = write_to(tmp_path / "flowers")
    write._sink = object()
    with pytest.raises(TypeError, match="keeps a object as its sink; expected a FileBasedSink"):
        get_sink(write)
