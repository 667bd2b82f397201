"""Every format of shards: what it writes it reads, and nobody else knows which formats there are."""

import ast
import io
import pickle
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.data.codecs import CODECS, CODECS_BY_OPTION, PLAIN_CODEC, Codec
from shardmill.data.tfrecord import OVERHEAD, frame_record
from shardmill.errors import CorruptDataError
from shardmill.metadata.file_names import ShardName
from tests.support.command import REPOSITORY

every = pytest.mark.parametrize("codec", CODECS.values(), ids=map(" ".join, CODECS_BY_OPTION))


def written(codec: Codec, *parts: bytes) -> bytes:
    encoder = codec.encoder()
    return b"".join([*map(encoder.compress, parts), encoder.flush()])


@every
@given(st.lists(st.binary(max_size=300), max_size=9), st.integers(0, 9))
@settings(max_examples=30)
def test_what_is_written_is_read(codec: Codec, records: list[bytes], cut: int) -> None:
    framed = list(map(frame_record, records))
    data = written(codec, b"".join(framed[:cut]), b"".join(framed[cut:]))

    assert data == written(codec, *framed)  # however records come, the bytes are the same
    assert list(codec.read_records(io.BytesIO(data), "s")) == records
    assert [record for block in codec.read_blocks(io.BytesIO(data), "s") for record in block] == records


@every
def test_a_file_cut_short_is_told_after_all_that_came_before(codec: Codec) -> None:
    data = written(codec, *map(frame_record, (b"one", b"two" * 100)))[:-1]
    found: list[bytes] = []

    with pytest.raises(CorruptDataError, match=r"^s: "):
        found.extend(codec.read_records(io.BytesIO(data), "s"))
    with pytest.raises(CorruptDataError, match=r"^s: "):
        list(codec.read_blocks(io.BytesIO(data), "s"))
    assert found[:1] == ([] if codec.has_index else [b"one"])  # without its index, no record is found


@every
@pytest.mark.parametrize("size", [5, 3000, 70_000])
def test_records_before_the_damage_are_read(codec: Codec, size: int) -> None:
    """Wherever a file was damaged, the records before come, and then the error."""
    chance = random.Random(size)
    records = [chance.randbytes(size) for _ in range(400_000 // (size + 100))]
    sound = written(codec, *map(frame_record, records))
    for _ in range(30):
        data = bytearray(sound)
        place = chance.randrange(len(data))
        if chance.random() < 0.3:
            del data[place:]
        elif chance.random() < 0.2:
            data += b"garbage"
        else:
            data[place] ^= 1 << chance.randrange(8)
        found: list[bytes] = []
        error = ""
        try:
            found.extend(codec.read_records(io.BytesIO(data), "s"))
        except CorruptDataError as damage:
            error = str(damage)
        assert found == records[: len(found)]
        assert error.startswith("s: ") or found == records
        if codec.keeps_offsets:
            is_longer = len(data) > len(sound)
            assert len(found) == (len(records) if is_longer else place // (size + OVERHEAD))


@every
def test_names_say_the_format(codec: Codec) -> None:
    name = ShardName("flowers", "train", 1, 2, codec)

    assert ShardName.parse(str(name)) == name
    assert pickle.loads(pickle.dumps(codec)) == codec
    assert codec == PLAIN_CODEC or str(name) != str(ShardName("flowers", "train", 1, 2))
    assert len(CODECS) == len(CODECS_BY_OPTION) == len({(each.file_format, each.suffix) for each in CODECS.values()})


@pytest.mark.slow
@every
def test_the_lines_for_others_read_the_shards(codec: Codec, tmp_path: Path) -> None:
    (tmp_path / "d-train-0").write_bytes(written(codec, frame_record(b"one")))
    names: dict[str, object] = {}

    exec("\n".join(codec.reading_code_lines(f"{tmp_path}/d-*")), names)

    found = list(names["examples"])  # type: ignore[call-overload]
    if codec.is_read_by_tensorflow:
        found = [record.numpy() for record in found]
        assert [record.numpy() for record in codec.tensors([str(tmp_path / "d-train-0")], 1 << 10)] == [b"one"]
    assert found == [b"one"]


def test_nobody_else_asks_which_format_it_is() -> None:
    """Another format is one more module: no code compares a codec's name, or that of its option, with a text."""
    names = {name for key in (*CODECS, *CODECS_BY_OPTION) for name in key} - {"", "none"}
    found = [
        f"{path}:{node.lineno}"
        for package in ("src/shardmill", "transforms", "pipelines")
        for path in (REPOSITORY / package).rglob("*.py")
        if path.stem != "codecs"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Compare)
        and any(isinstance(side, ast.Constant) and side.value in names for side in (node.left, *node.comparators))
    ]

    assert found == []
