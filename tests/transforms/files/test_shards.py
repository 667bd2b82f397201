"""Shards that take records from an older version are those of a full build, byte for byte, whatever changed."""

import os
import tempfile
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.metadata.labels import ClassNames
from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.arrow import concatenate
from shardmill.transforms.columns.example_encoding import MAX_RECORD_BYTES
from shardmill.transforms.files.encoding import TextFileEncoder
from shardmill.transforms.files.references import SHARD, PlanOptions, resolve_files
from shardmill.transforms.files.shards import FileShards, PreviousVersion
from shardmill.transforms.inputs.folders import CLASSES, FileKind
from shardmill.transforms.inputs.listing import list_input
from shardmill.transforms.inputs.sources import index_listing
from shardmill.transforms.layout.files import Layout
from shardmill.transforms.options.job_options import SplitOptions
from shardmill.transforms.shards.sources import FileIndex, IndexedPiece, PieceWriter
from shardmill.transforms.workers.elements import RecordBatchCoder

TEXTS = FileKind("text files", "txt")
SPLITS = ("train", "test")
OLD = 10**18  # nanoseconds since 1970: long ago
CONTENTS = (b"one %06d", b"caf\xc3\xa9 %06d", b" \n", b"\xff %06d")  # the last two are rejected


@dataclass
class Tree:
    """A folder of texts, each with what tells its states apart."""

    root: Path
    files: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    clock: int = 0

    def write(self, name: str, kind: int) -> None:
        self.clock += 1
        content = CONTENTS[kind % len(CONTENTS)]
        self._put(name, content % self.clock if b"%" in content else content)

    def touch(self, name: str) -> None:
        self.clock += 1
        self._put(name, self.files[name][0])

    def delete(self, name: str) -> None:
        del self.files[name]
        (self.root / name).unlink()

    def rename(self, name: str, to: str) -> None:
        if to not in self.files:
            self.files[to] = self.files.pop(name)
            (self.root / to).parent.mkdir(exist_ok=True)
            (self.root / name).rename(self.root / to)

    def _put(self, name: str, data: bytes) -> None:
        path = self.root / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(data)
        os.utime(path, ns=(OLD + self.clock, OLD + self.clock))
        self.files[name] = data, self.clock


@dataclass
class Version:
    """A build: the bytes of its shards, and all else that comes of it."""

    shards: dict[str, bytes]
    rejects: list[Reject]
    stats: list[Any]
    reused: int = 0
    damaged: int = 0
    pieces: tuple[IndexedPiece, ...] = ()


def planned(tree: Tree, seed: int) -> pa.RecordBatch:
    classes = tuple(sorted({name.split("/")[0] for name in tree.files}))
    layout = Layout(SPLITS, (Fraction(3, 4), Fraction(1, 4)), CLASSES, ClassNames(classes))
    found = index_listing(list_input(str(tree.root), TEXTS), identities=True)
    batches = [item for item in found if isinstance(item, pa.RecordBatch)]
    parts = [part for batch in batches for part in resolve_files(batch, layout, PlanOptions(SplitOptions(seed=seed)))]
    return concatenate([part for part in parts if isinstance(part, pa.RecordBatch)])


def build(tree: Tree, seed: int, count: int, source: Any, folder: Path | None = None) -> Version:
    """Write the shards of a tree, `count` a split, and what is remembered of them, to `folder`."""
    batch = planned(tree, seed)
    version = Version({}, [], [])
    pieces = []
    if folder is not None:
        folder.mkdir()
    for split in SPLITS:
        rows = batch.filter(pc.equal(batch["split"].dictionary_decode(), split)).select(SHARD.names)
        rows = rows.take(pc.sort_indices(rows, sort_keys=[("key", "ascending")]))
        for shard in range(count):
            start, stop = len(rows) * shard // count, len(rows) * (shard + 1) // count
            if start == stop:
                continue
            name = f"n-{split}.tfrecord-{shard:05}-of-{count:05}"
            number, tasks = source.plan([RecordBatchCoder().encode(rows.slice(start, stop - start))])
            data, writer, done = b"", PieceWriter(), 0
            for chunk in map(source.encode, tasks):
                writer.add(chunk, len(data))
                data += bytes(chunk.framed)
                done += chunk.examples + len(chunk.rejects)
                version.rejects += chunk.rejects
                version.stats.append(chunk.stats)
                version.reused += chunk.reused
                version.damaged += chunk.damaged
            assert done == number == stop - start
            version.shards[name] = data
            if folder is not None:
                (folder / name).write_bytes(data)
                piece = writer.write(str(folder / f"{name}.parquet"))
                assert piece is not None
                if piece.path:
                    pieces.append(IndexedPiece(f"{name}.parquet", piece.crc32c, name, piece.low, piece.high))
    version.pieces = tuple(pieces)
    return version


def merged(version: Version) -> Any:
    total, *others = version.stats
    for other in others:
        total.merge(other)
    return total


def shards_of(tree: Tree, seed: int, former: PreviousVersion | None = None, **changes: Any) -> FileShards:
    return replace(FileShards(TextFileEncoder(str(tree.root)), 3, seed, {"shardmill": "1"}, previous=former), **changes)


def former_of(folder: Path, tree: Tree, seed: int, version: Version) -> PreviousVersion:
    return PreviousVersion(
        "1.0.0", str(folder), str(folder), FileIndex(str(tree.root), seed, {}, pieces=version.pieces)
    )


NUMBER = st.integers(0, 7)
EDITS = st.lists(
    st.tuples(st.sampled_from(["write", "touch", "delete", "rename", "relabel", "new class"]), NUMBER, NUMBER),
    max_size=8,
)
NIGHTS = st.lists(st.tuples(EDITS, st.integers(0, 2), st.integers(1, 3)), min_size=1, max_size=3)


def edit(tree: Tree, what: str, one: int, other: int) -> None:
    names = sorted(tree.files)
    name = names[one % len(names)]
    if what == "write":
        tree.write(f"{'abc'[one % 3]}/{other}.txt", one + other)
    elif what == "touch":
        tree.touch(name)
    elif what == "delete" and len(names) > 1:
        tree.delete(name)
    elif what == "rename":
        tree.rename(name, f"{name.split('/')[0]}/{other}-{one}.txt")
    elif what == "relabel":
        tree.rename(name, f"{'abc'[other % 3]}/{name.split('/')[1]}")
    elif what == "new class":  # before, between and behind the others: their ids move
        tree.write(f"{('A', 'bb', 'd')[one % 3]}/{other}.txt", 0)


@given(NIGHTS)
@settings(max_examples=25)
def test_any_script_of_edits_gives_the_bytes_of_full_builds(nights: list[tuple[list[Any], int, int]]) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        tree = Tree(Path(temporary) / "texts")
        for number in range(12):
            tree.write(f"{'abc'[number % 3]}/{number}.txt", number)
        former, before = None, dict[str, tuple[bytes, int]]()
        for night, (edits, seed, count) in enumerate([([], 0, 2), *nights]):
            for words in edits:
                edit(tree, *words)
            folder = Path(temporary) / str(night)
            made = build(tree, seed, count, shards_of(tree, seed, former), folder)
            full = build(tree, seed, count, FileShards(TextFileEncoder(str(tree.root)), 3))

            assert made.shards == full.shards
            assert made.rejects == full.rejects
            assert merged(made) == merged(full)
            assert made.reused == sum(tree.files[name] == before.get(name) for name in tree.files)
            assert made.damaged == full.reused == 0
            former, before = former_of(folder, tree, seed, made), dict(tree.files)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    made = Tree(tmp_path / "texts")
    for number in range(40):
        made.write(f"{'abc'[number % 3]}/{number}.txt", number)
    return made


@pytest.fixture
def older(tree: Tree, tmp_path: Path) -> tuple[PreviousVersion, Version]:
    folder = tmp_path / "older"
    made = build(tree, 0, 2, shards_of(tree, 0), folder)
    return former_of(folder, tree, 0, made), made


def test_what_was_encoded_otherwise_is_read(tree: Tree, older: tuple[PreviousVersion, Version]) -> None:
    former, made = older

    def reused(**changes: Any) -> int:
        version = build(tree, 0, 2, shards_of(tree, 0, former, **changes))
        assert version.shards == made.shards
        return version.reused

    assert reused() == 40
    assert reused(versions={"shardmill": "2"}) == 0
    assert reused(encoder=TextFileEncoder(str(tree.root), "utf-8-sig")) == 0


def test_rejects_that_would_say_something_else_are_read(tree: Tree, older: tuple[PreviousVersion, Version]) -> None:
    former, made = older
    batch = planned(tree, 0).select(SHARD.names)
    encoding = shards_of(tree, 0)._encoding

    found = former.find(batch, encoding, "{}", MAX_RECORD_BYTES)
    others = former.find(batch, encoding, '{"because": "another"}', MAX_RECORD_BYTES)

    assert found["shard"].null_count == 0
    assert found["reason"].null_count == 40 - len(made.rejects) == 20
    assert others["shard"].null_count == len(made.rejects)
    assert others["reason"].null_count == 40


def test_a_record_that_fails_its_checksum_is_read_from_its_file(
    tree: Tree, older: tuple[PreviousVersion, Version]
) -> None:
    former, made = older
    for name, data in made.shards.items():
        path = Path(former.directory) / name
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))  # the checksum of the last record

    version = build(tree, 0, 2, shards_of(tree, 0, former))

    assert version.shards == made.shards
    assert (version.reused, version.damaged) == (40 - len(made.shards), len(made.shards))


@pytest.mark.parametrize("what", ["shards", "pieces", "piece"])
def test_what_is_gone_or_another_is_done_without(tree: Tree, older: tuple[PreviousVersion, Version], what: str) -> None:
    former, made = older
    for path in Path(former.directory).iterdir():
        if path.name.endswith(".parquet") == (what != "shards"):
            path.unlink() if what != "piece" else path.write_bytes(path.read_bytes() + b"\0")

    version = build(tree, 0, 2, shards_of(tree, 0, former))

    assert version.shards == made.shards
    assert version.rejects == made.rejects
    assert version.reused == (len(made.rejects) if what == "shards" else 0)


def test_what_is_not_to_be_remembered_is_not(
    tree: Tree, older: tuple[PreviousVersion, Version], tmp_path: Path
) -> None:
    former, made = older

    version = build(tree, 0, 2, shards_of(tree, 0, former, writes_index=False), tmp_path / "newer")

    assert (version.reused, version.shards, version.pieces) == (40, made.shards, ())


def test_a_file_that_changed_a_moment_ago_is_not_remembered(tree: Tree, tmp_path: Path) -> None:
    (tree.root / "a/0.txt").write_bytes(b"now")
    folder = tmp_path / "older"
    made = build(tree, 0, 2, shards_of(tree, 0), folder)

    version = build(tree, 0, 2, shards_of(tree, 0, former_of(folder, tree, 0, made)))

    assert version.reused == 39
