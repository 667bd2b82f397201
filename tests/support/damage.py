"""Seeded damages of data sets, and what readers may then do."""

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shardmill.errors import CorruptDataError
from shardmill.metadata.manifest import success_text


def _damage(data: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(data))
    before, after = data[:place], data[place:]
    bit = bytes([after[0] ^ 1 << chance.randrange(8)])
    some = chance.randbytes(chance.randrange(1, 40))
    ways = (before + bit + after[1:], before, data + some, before + some + after, before + after[1:2] + after[:1])
    return chance.choice((*ways, before + bytes(8) + after[8:], before + before[-16:] + after))


def _damaged(directory: Path, folder: Path, seeds: range) -> Iterator[Path]:
    """Yield copies of a version with one damaged file each; of some damaged manifests _SUCCESS was made anew."""
    files = sorted(path.relative_to(directory) for path in directory.rglob("*") if path.is_file())
    for seed in seeds:
        chance = random.Random(seed)
        shutil.rmtree(folder, ignore_errors=True)
        version = shutil.copytree(directory, folder / directory.name)
        path = version / chance.choice(files)
        path.write_bytes(damaged := _damage(path.read_bytes(), chance))
        if path.name == "manifest.json" and chance.random() < 0.7:
            (version / "_SUCCESS").write_text(success_text(damaged))
        yield version


def check_damages(
    directory: Path,
    folder: Path,
    seeds: range,
    read: Callable[[Path], list[Any]],
    others: tuple[type[Exception], ...] = (),
) -> int:
    """Check that `read` gives the examples that were written, or an error that names a file; return how many it finds.

    The error is a CorruptDataError, or of one of the types `others`.
    """
    errors: tuple[type[Exception], ...] = (CorruptDataError, *others)
    right, found = sorted(map(repr, read(directory))), 0
    names = [path.name for path in directory.rglob("*")]
    for seed, version in zip(seeds, _damaged(directory, folder, seeds), strict=True):
        try:
            assert sorted(map(repr, read(version))) == right, seed
        except errors as error:
            found += any(name in str(error) for name in names) or pytest.fail(f"{seed}: {error}")
    return found
