"""The folder that keeps parts of shards: what it holds, for whom, how much, and what happens to it."""

import os
import pickle
import resource
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardmill
from shardmill.errors import CorruptDataError, UserError
from shardmill.reading import shard_cache
from shardmill.reading.source import Source
from tests.support.reading import ROWS, CountedFiles, copy, flip, make_rows, shards

PART = 1000  # bytes, in these tests


class Remote:
    """A store, whose files are not taken for local ones."""

    def __init__(self) -> None:
        self.store = CountedFiles()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "store":
            raise AttributeError(name)
        return getattr(self.store, name)

    def read_range(self, path: str, start: int, size: int) -> bytes:
        return self.store.read_range(path, start, size)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_cache, "PART_BYTES", PART)
    monkeypatch.setattr(shard_cache, "LEAST_BYTES", 4 * PART)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_rows(tmp_path_factory.mktemp("rows"), "--num_shards", 4, "--index")


@pytest.fixture
def opened(rows: Path, tmp_path: Path) -> Callable[..., tuple[Source, list[tuple[str, int, int]]]]:
    def open_source(limit: int | None = None, directory: Path = rows) -> tuple[Source, list[tuple[str, int, int]]]:
        remote = Remote()
        folder = tmp_path / "cache"
        return shardmill.source(directory, cache_dir=folder, cache_limit=limit, files=remote), remote.store.ranges

    return open_source


def numbers(source: Source, order: Any) -> list[int]:
    return [int(found["n"]) for found in source.__getitems__(order)]


def kept(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.part"))


def test_each_byte_is_fetched_once(rows: Path, opened: Any, tmp_path: Path) -> None:
    expected = [int(found["n"]) for found in shardmill.examples(rows)]
    source, ranges = opened()
    order = np.random.default_rng(0).permutation(ROWS).tolist()

    assert [int(source[number]["n"]) for number in order] == [expected[number] for number in order]
    assert numbers(source, order) == [expected[number] for number in order]
    assert sum(size for *_, size in ranges) == sum(path.stat().st_size for path in shards(rows))
    assert len(kept(tmp_path / "cache")) == sum(-(-path.stat().st_size // PART) for path in shards(rows))

    again, ranges = opened()  # another process, later
    assert numbers(again, order) == [expected[number] for number in order]
    assert numbers(pickle.loads(pickle.dumps(again)), order) == [expected[number] for number in order]
    assert ranges == []


def test_neighbouring_parts_are_fetched_together(opened: Any) -> None:
    source, ranges = opened()
    source[:25]  # a shard
    assert len(ranges) == 1
    assert ranges[0][2] > 2 * PART


def test_versions_have_folders_of_their_own(rows: Path, opened: Any, tmp_path: Path) -> None:
    source, _ = opened()
    numbers(source, range(ROWS))
    other = make_rows(tmp_path / "other", "--num_shards", 4, rows=ROWS + 1)
    source, ranges = opened(directory=other)
    assert sorted(numbers(source, range(ROWS + 1))) == list(range(ROWS + 1))
    assert ranges != []
    folders = {path.parent.name for path in kept(tmp_path / "cache")}
    assert len(folders) == 2
    assert all(name.startswith("n-1.0.0-") for name in folders)


def test_the_limit_is_kept(rows: Path, opened: Any, tmp_path: Path) -> None:
    expected = [int(found["n"]) for found in shardmill.examples(rows)]
    limit = 6 * PART
    source, ranges = opened(limit)
    assert sum(path.stat().st_size for path in shards(rows)) > 2 * limit
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(ROWS).tolist()
        assert [int(source[number]["n"]) for number in order] == [expected[number] for number in order]
        assert numbers(source, order) == [expected[number] for number in order]
        assert 0 < sum(path.stat().st_size for path in kept(tmp_path / "cache")) <= limit
    ranges.clear()
    last = order[-1]
    assert numbers(opened(limit)[0], [last]) == [expected[last]]


def test_parts_that_are_used_stay(opened: Any, tmp_path: Path) -> None:
    source, _ = opened(6 * PART)
    source[0]
    (first,) = kept(tmp_path / "cache")[:1]
    before = first.stat().st_ino
    for number in (30, 55, 80, 40, 65, 90, 45):
        pickle.loads(pickle.dumps(source))[0]  # another process opens the part
        source[number]
    assert first.stat().st_ino == before


def test_several_processes(rows: Path, opened: Any, tmp_path: Path) -> None:
    expected = [int(found["n"]) for found in shardmill.examples(rows)]
    source, _ = opened(8 * PART)
    orders = [np.random.default_rng(seed).permutation(ROWS).tolist() for seed in range(6)]
    with ProcessPoolExecutor(3, get_context("fork")) as pool:
        answers = [pool.submit(numbers, source, order) for order in orders]
        for order, answer in zip(orders, answers, strict=True):
            assert answer.result() == [expected[number] for number in order]
    assert sum(path.stat().st_size for path in kept(tmp_path / "cache")) <= 8 * PART
    assert list((tmp_path / "cache").glob("*/*.tmp")) == []


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "checksum"])
def test_damaged_parts_are_fetched_anew(rows: Path, opened: Any, tmp_path: Path, damage: str) -> None:
    expected = [int(found["n"]) for found in shardmill.examples(rows)]
    source, ranges = opened()
    numbers(source, range(ROWS))
    for path in kept(tmp_path / "cache"):
        if damage == "flipped":
            flip(path, 10)
        elif damage == "checksum":
            flip(path, -1)
        else:
            os.truncate(path, path.stat().st_size - 5 if damage == "cut" else 0)
    source, ranges = opened()
    assert numbers(source, range(ROWS)) == expected
    assert ranges != []
    source, ranges = opened()
    assert numbers(source, range(ROWS)) == expected
    assert ranges == []


def test_parts_that_were_deleted_meanwhile(rows: Path, opened: Any, tmp_path: Path) -> None:
    expected = [int(found["n"]) for found in shardmill.examples(rows)]
    source, _ = opened()
    numbers(source, range(50))
    for path in kept(tmp_path / "cache"):
        path.unlink()
    assert numbers(source, range(ROWS)) == expected


def test_abandoned_files_are_deleted(opened: Any, tmp_path: Path) -> None:
    source, _ = opened(4 * PART)
    source[0]
    folder = kept(tmp_path / "cache")[0].parent
    left, recent = (folder / name for name in ("a.tmp", "b.tmp"))
    left.write_bytes(b"x")
    recent.write_bytes(b"x")
    os.utime(left, (1, 1))
    numbers(source, range(ROWS))
    assert (left.exists(), recent.exists()) == (False, True)


def test_a_folder_that_cannot_be_written(rows: Path, opened: Any, tmp_path: Path) -> None:
    (tmp_path / "cache").write_bytes(b"")
    with pytest.raises(UserError, match=r"^cache_dir .*/cache cannot be written: (Not a dir|File exists)"):
        opened()


def read_on_a_full_disk(source: Source) -> str:
    """Return the error of reading where no file can have 500 bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
    with pytest.raises(UserError) as raised:
        source[0]
    return str(raised.value)


def test_a_disk_that_is_full(opened: Any, tmp_path: Path) -> None:
    source, _ = opened()
    with ProcessPoolExecutor(1, get_context("fork")) as pool:
        message = pool.submit(read_on_a_full_disk, source).result()

    assert message == (
        f"cache_dir {tmp_path}/cache cannot be written: File too large; give another folder, or a smaller cache_limit"
        " if its disk is full"
    )
    assert list((tmp_path / "cache").glob("*/*")) == []
    assert isinstance(source[0], dict)


def test_a_shard_that_is_gone_or_shorter(rows: Path, opened: Any, tmp_path: Path) -> None:
    directory = copy(rows, tmp_path)
    source, _ = opened(directory=directory)
    kept_example = source[0]
    path = shards(directory)[0]
    os.truncate(path, path.stat().st_size - 3)
    with pytest.raises(CorruptDataError, match="00000-of-00004 was cut short while it was read"):
        source[24]
    path.unlink()
    with pytest.raises(CorruptDataError, match="00000-of-00004 is missing"):
        source[24]
    assert source[0].keys() == kept_example.keys()  # the folder has its part


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cache_limit": 10**9}, "^cache_limit is 1000000000, but nothing is kept; give cache_dir$"),
        ({"cache_limit": 3999, "cache_dir": "x"}, "^cache_limit is 3,999 bytes; expected at least 4,000$"),
    ],
)
def test_mistakes(rows: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        shardmill.source(rows, **options)
