"""Renames on a local disk: again where they were done, and none where a file is lost."""

from pathlib import Path

import pytest

from shardmill.transforms.stores import storage
from shardmill.transforms.stores import storage as renames


def test_rename_twice(tmp_path: Path) -> None:
    sources, destinations = ([str(tmp_path / f"{kind}{i}") for i in range(3)] for kind in ("temporary", "final"))
    for index, source in enumerate(sources):
        Path(source).write_text(str(index))
    Path(destinations[0]).write_text("an earlier build's")
    Path(sources[1]).rename(destinations[1])

    for _ in range(2):
        renames.rename(sources, destinations)

    assert [Path(path).read_text() for path in destinations] == ["0", "1", "2"]
    assert not any(map(storage.exists, sources))


def test_rename_moves_nothing_where_one_is_lost(tmp_path: Path) -> None:
    (tmp_path / "a").touch()

    with pytest.raises(FileNotFoundError, match=f"neither {tmp_path}/b nor {tmp_path}/y exists"):
        renames.rename([str(tmp_path / name) for name in "ab"], [str(tmp_path / name) for name in "xy"])
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
