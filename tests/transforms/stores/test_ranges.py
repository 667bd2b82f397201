"""Parts of many files read at once are what each alone would give, and so is what is said of those that cannot be."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shardmill.transforms.stores import streams
from shardmill.transforms.stores.streams import read_ranges


@pytest.fixture(params=["at once", "each alone"])
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "each alone":
        monkeypatch.setattr(streams, "_read_some", lambda *_: 0)


def read(parts: list[tuple[str, int, int]]) -> list[bytes]:
    places = np.cumsum([0, *(size for _, _, size in parts)])
    target = np.zeros(places[-1], np.uint8)
    offsets = np.array([offset for _, offset, _ in parts], np.int64)
    read_ranges([path for path, _, _ in parts], offsets, target, places)
    return [target[start:stop].tobytes() for start, stop in pairwise(places)]


@pytest.mark.usefixtures("how")
def test_parts_are_those_of_the_files(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    files = [tmp_path / f"{n} é" for n in range(5)]
    for file in files:
        file.write_bytes(random.bytes(10_000))
    parts = [
        (str(files[n % 5]), int(offset), int(size))
        for n, (offset, size) in enumerate(zip(random.integers(0, 5_000, 50), random.integers(0, 5_000, 50)))
    ]

    assert read(parts) == [Path(path).read_bytes()[offset : offset + size] for path, offset, size in parts]
    assert read([]) == []


@pytest.mark.usefixtures("how")
def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    whole, short, missing = (str(tmp_path / name) for name in ("whole", "short", "missing"))
    Path(whole).write_bytes(bytes(100))
    Path(short).write_bytes(bytes(60))

    with pytest.raises(EOFError, match=r"short: 10 bytes fewer at 60 than expected"):
        read([(whole, 0, 100), (short, 50, 20)])
    with pytest.raises(FileNotFoundError, match="missing"):
        read([(whole, 0, 100), (missing, 0, 1), (short, 0, 60)])


def test_places_outside_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(100))
    target = np.zeros(10, np.uint8)

    def refused(*places: int) -> Any:
        return pytest.raises(ValueError, match="outside its buffer"), np.array(places, np.int64)

    for raises, places in (refused(0, 11), refused(-1, 5), refused(5, 4), refused(0, 1, 2)):
        with raises:
            read_ranges([str(path)], np.zeros(1, np.int64), target, places)
