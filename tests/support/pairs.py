"""Pairs of commands that start at once, on one version or on two, while somebody reads."""

import importlib
import multiprocessing
import os
import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from shardmill.metadata.file_names import LATEST
from shardmill.reading.dataset import Dataset, open_dataset
from shardmill.transforms.stores import storage
from tests.support.command import Process, image, write_files

NAME = "n"
_TAKE = "take_lease"


def make_source(folder: Path) -> Path:
    """A few images, of which each command makes a data set."""
    return write_files(folder, {f"{'ab'[n % 2]}/{n}.png": image(n, "PNG", (9 + n, 7)) for n in range(12)})


class Reader:
    """Opens what LATEST names and reads all of it, again and again, as a trainer that starts meanwhile would."""

    def __init__(self, parent: str) -> None:
        self._parent, self._ended = parent, threading.Event()
        self.named: list[str] = []
        self.reads = 0
        self.failures: list[BaseException] = []
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> "Reader":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _read(self) -> None:
        while not self._ended.is_set():
            self.reads += 1
            try:
                if storage.exists(storage.join(self._parent, LATEST)):
                    self.named.append(read_whole(self._parent).manifest.version)
            except Exception as error:
                self.failures.append(error)
            time.sleep(0.005)


def read_whole(directory: str) -> Dataset:
    """Open a data set, every record and checksum of it."""
    dataset = open_dataset(directory, storage.StorageFiles())
    for split in dataset.manifest.splits:
        for shard in split.shards:
            assert sum(1 for _ in dataset.records(shard)) == shard.examples
    return dataset


def race(
    folder: Path,
    source: Path,
    output: str,
    versions: Sequence[str],
    flags: Sequence[str] = (),
    environment: Mapping[str, str] = {},
) -> tuple[list[int], int]:
    """Start a command for each of `versions`, which all want the lease at the same moment, and check that all ended as
    they should; returns their exit statuses, and how often LATEST was read meanwhile.

    Args:
      folder: for what the processes say.
      source: the images.
      output: the folder of all data sets, where none is of that name.
      versions: which each command is told; each writes other bytes.
      flags, environment: of each command, to reach the store of `output`.
    """
    go = folder / "go"
    processes, signs = [], [folder / f"{number} is there" for number in range(len(versions))]
    parent = f"{output}/{NAME}"
    with Reader(parent) as reader:
        for number, version in enumerate(versions):
            words = ("images", "--input", source, "--output", output, "--name", NAME, "--version", version)
            before = partial(_meet, dict(environment), signs[number], go)
            more = ("--seed", number, "--num_shards", 2 + number)
            processes.append(Process(folder / f"process {number}", *words, *more, *flags, before=before))
        while not all(sign.exists() for sign in signs):
            assert all(process.is_alive() for process in processes), "a command ended before it took the lease"
            time.sleep(0.001)
        go.touch()
        results = [process.result() for process in processes]
    assert not reader.failures, reader.failures
    assert reader.named == sorted(reader.named), reader.named  # LATEST never goes back
    statuses = [result.status for result in results]
    for number, version in enumerate(versions):
        mine = [status for status, other in zip(statuses, versions, strict=True) if other == version]
        found = read_whole(f"{parent}/{version}")
        winner = found.manifest.configuration["seed"]
        assert len(found.manifest.split("train").shards) == 2 + winner, "of two jobs"
        if len(mine) > 1:
            assert mine.count(0) == 1, results
            assert statuses[winner] == 0, results
        if statuses[number] != 0:
            assert "built by process" in results[number].err or "published" in results[number].err, results
    assert set(statuses) <= {0, 2, 4}, results
    newest = max(versions)
    assert 0 in [status for status, version in zip(statuses, versions, strict=True) if version == newest], results
    assert open_dataset(parent, storage.StorageFiles()).manifest.version == newest
    names = [name for name, _ in storage.list_files(parent)]
    assert not [name for name in names if "beam-temp" in name or name.endswith(("LOCK", "_PUBLISHING", ".tmp"))]
    return statuses, reader.reads


def _meet(environment: dict[str, str], own: Path, go: Path) -> None:
    """Let this process come as far as taking the lease, and wait there."""
    os.environ.update(environment)
    convert = importlib.import_module("shardmill.pipelines.jobs.outcome")
    then, parent = getattr(convert, _TAKE), multiprocessing.parent_process()

    def take(config: Any, **more: Any) -> Any:
        own.touch()
        while not go.exists():
            assert parent is None or parent.is_alive(), "whoever was to let this process go on has ended"
            time.sleep(0.0005)
        return then(config, **more)

    setattr(convert, _TAKE, take)
