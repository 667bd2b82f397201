"""Writers of shards leave a piece beside each, and count what they took from an older version."""

import pickle
from pathlib import Path
from typing import Any

import apache_beam as beam
import google_crc32c
import pyarrow.parquet as pq
from apache_beam.metrics import MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions

from shardmill.data.tfrecord import is_valid_record
from shardmill.pipelines.jobs.runner import make_runner
from shardmill.transforms.columns.arrow import convert_batch
from shardmill.transforms.files.encoding import TextFileEncoder
from shardmill.transforms.files.references import PLANNED
from shardmill.transforms.files.shards import FileShards, PreviousVersion
from shardmill.transforms.shards.divisions import Division, to_cuts
from shardmill.transforms.shards.sources import FileIndex, IndexedPiece, ShardInfo
from shardmill.transforms.shards.writing import WriteShards

NAMES = ("a.txt", "b.txt", "empty.txt", "young.txt")


def planned() -> Any:
    identities = {"young.txt": None}
    rows = [
        (name, 9, None, None, None, None, "train", key, 0, None, None, identities.get(name, key))
        for key, name in enumerate(NAMES)
    ]
    return convert_batch([list(column) for column in zip(*rows, strict=True)], PLANNED)


def write(source: FileShards, output: Path) -> tuple[ShardInfo, int]:
    """The one shard, and how many files Beam was told to have been reused."""
    output.mkdir()
    pipeline = beam.Pipeline(runner=make_runner(PipelineOptions([])))
    divisions = pipeline | "Divisions" >> beam.Create([{"train": Division(len(NAMES), 0, to_cuts([]))}])
    shards = pipeline | "Shards" >> beam.Create([(("train", 0), [planned()])])
    written = shards | WriteShards(str(output), "n", source, divisions, str(output))
    _ = written["shards"] | beam.Map(lambda info: (output / "info").write_bytes(pickle.dumps(info)))
    result = pipeline.run()
    result.wait_until_finish()
    found = result.metrics().query(MetricsFilter().with_name("files_reused"))["counters"]
    return pickle.loads((output / "info").read_bytes()), sum(counter.committed for counter in found)


def test_a_piece_says_where_records_lie_and_the_next_build_takes_them(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name in NAMES:
        (folder / name).write_text("" if name == "empty.txt" else name)
    source = FileShards(TextFileEncoder(str(folder)), 64, 0, {})

    info, reused = write(source, tmp_path / "first")

    assert (reused, info.examples, info.rejected) == (0, 3, 1)
    assert info.piece is not None
    data = Path(info.piece.path).read_bytes()
    assert info.piece.crc32c == google_crc32c.value(data)
    rows = {row["name"]: row for row in pq.read_table(info.piece.path).to_pylist()}
    assert set(rows) == {"a.txt", "b.txt", "empty.txt"}, "what may change again unseen is not remembered"
    assert (rows["empty.txt"]["offset"], rows["empty.txt"]["reason"]) == (None, "the file is empty")
    assert (info.piece.low, info.piece.high) == tuple(f(row["key"] for row in rows.values()) for f in (min, max))
    shard = Path(info.temporary).read_bytes()
    for name in ("a.txt", "b.txt"):
        record = shard[rows[name]["offset"] :][: rows[name]["length"]]
        assert is_valid_record(record)
        assert record[rows[name]["value_offset"] :][: rows[name]["value_length"]] == name.encode()

    piece = IndexedPiece(Path(info.piece.path).name, info.piece.crc32c, str(info.name), info.piece.low, info.piece.high)
    Path(info.temporary).rename(tmp_path / str(info.name))
    former = PreviousVersion(
        "1.0.0", str(tmp_path), str(Path(info.piece.path).parent), FileIndex(str(folder), 0, {}, pieces=(piece,))
    )
    for name in ("a.txt", "b.txt", "empty.txt"):
        (folder / name).unlink()
    again, reused = write(FileShards(TextFileEncoder(str(folder)), 64, 0, {}, previous=former), tmp_path / "second")

    assert reused == 3
    assert (again.crc32c, again.size_bytes, again.rejected) == (info.crc32c, info.size_bytes, 1)
    assert again.stats == info.stats
