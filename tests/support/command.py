"""What the end-to-end tests share: the command line, images to feed it, and the data set that comes out, read back."""

import ctypes
import io
import json
import multiprocessing
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from multiprocessing import forkserver
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from shardmill.data.example import FeatureValue, decode_example
from shardmill.pipelines import cli
from shardmill.reading.dataset import Dataset, open_dataset
from tests.support.quick_beam import quicken_beam

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCE = REPOSITORY / "src"  # what PYTHONPATH names where shardmill is not installed
Example = dict[str, FeatureValue]
Run = Callable[..., "Result"]


class Result(NamedTuple):
    """How a command ended, and what it printed."""

    status: int
    out: str
    err: str

    @property
    def brief(self) -> "Result":
        """The same with the first line of what it printed."""
        return self._replace(out=f"{self.out.splitlines()[0]}\n")


def run_program(*arguments: object) -> Result:
    """The command as a shell would start it."""
    program = [sys.executable, "-m", "shardmill", *map(str, arguments)]
    done = subprocess.run(program, cwd=REPOSITORY, capture_output=True, text=True, timeout=300)
    return Result(done.returncode, done.stdout, done.stderr)


# Processes are forked from one that has imported everything but done nothing: each starts in milliseconds instead of
# seconds.
_forks = multiprocessing.get_context("forkserver")
_PRELOADED = ("commands.convert", "jobs.job", "jobs.launch", "jobs.runner", "reports.summary")
_preloaded = [__name__, "shardmill.addons.nightly.recipe", *(f"shardmill.pipelines.{module}" for module in _PRELOADED)]
assert all(map(find_spec, _preloaded)), "the fork server passes over what is not there, and each process is slow"
_forks.set_forkserver_preload(_preloaded)


# What a machine that is busy shows beside what a command says
PROGRESS = re.compile(r"^\S+: \d+ s, .*\n", re.MULTILINE)


class Process:
    """The command in a process of its own, which may be ended from outside.

    `before` is called there before the command is: to set limits, to give up privileges.
    """

    def __init__(self, folder: Path, *arguments: object, before: Callable[[], None] | None = None) -> None:
        self._out, self._err = folder / "stdout", folder / "stderr"
        folder.mkdir()
        self._out.touch()
        self._err.touch()
        words = [str(argument) for argument in arguments]
        with chdir(REPOSITORY):  # a server finds `tests` where it starts, and elsewhere one that others have installed
            forkserver.ensure_running()
        self._process = _forks.Process(
            target=_in_process, args=(str(self._out), str(self._err), words, dict(os.environ), before)
        )
        self._process.start()

    def is_alive(self) -> bool:
        return self._process.is_alive()

    def send_signal(self, number: int) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def result(self) -> Result:
        """Wait for the end; the status of a process ended by a signal is the signal's number, negative.

        Progress, which a machine that is busy shows, is not in it.
        """
        self._process.join(300)
        assert self._process.exitcode is not None
        return Result(self._process.exitcode, self._out.read_text(), PROGRESS.sub("", self._err.read_text()))


def _in_process(
    out: str, err: str, arguments: list[str], environment: dict[str, str], before: Callable[[], None] | None
) -> None:
    os.environ.clear()  # it is that of whoever started the first process of all
    os.environ.update(environment)
    for descriptor, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY), descriptor)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", buffering=1, closefd=False)
    quicken_beam()
    if before is not None:
        before()
    sys.argv = ["shardmill", *arguments]
    cli.program()


def bind_root_to_permissions() -> None:
    """Give up the two capabilities by which root may open what permission bits forbid. Source: linux/capability.h."""
    dac_override, dac_read_search, version_3 = 1, 2, 0x20080522
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(version_3, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; then the same of capabilities above 31
    libc.capget(header, sets)
    for index in range(3):
        sets[index] &= ~(1 << dac_override | 1 << dac_read_search)
    if libc.capset(header, sets) != 0:
        raise OSError(ctypes.get_errno(), "capset")


@cache
def image(
    number: int = 0, image_format: str = "JPEG", size: tuple[int, int] = (12, 9), mode: str = "RGB", **options: Any
) -> bytes:
    """A small image file, another one for each number."""
    width, height = size
    colours = bytes(
        (number * 31 + index * 7 + channel * 85) % 256 for index in range(width * height) for channel in range(3)
    )
    out = io.BytesIO()
    Image.frombytes("RGB", size, colours).convert(mode).save(out, image_format, **options)
    return out.getvalue()


def npy(array: Any, version: tuple[int, int] | None = None) -> bytes:
    """A file of an array, as NumPy writes it."""
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asanyarray(array), version)
    return out.getvalue()


LONG_AGO = 10**18  # nanoseconds since 1970


def age(folder: Path, when: int = LONG_AGO) -> None:
    """Let files have changed long ago: those of just now might change again in the same moment, and are not reused."""
    for path in folder.rglob("*"):
        os.utime(path, ns=(when, when))


def write_old_files(root: Path, files: Mapping[str, bytes], when: int = LONG_AGO) -> Path:
    """Write files that changed long ago."""
    write_files(root, files)
    for name in files:
        os.utime(root / name, ns=(when, when))
    return root


def write_files(root: Path, files: Mapping[str, bytes] | Iterable[tuple[str, bytes]]) -> Path:
    """Write each file below `root`, which is returned; folders are made."""
    for name, content in files.items() if isinstance(files, Mapping) else files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def image_tree(labels: Iterable[str], each: int, suffix: str = "jpg", image_format: str = "JPEG") -> dict[str, bytes]:
    """Names and contents of a tree `<label>/<number>.<suffix>`; every image is another."""
    names = [f"{label}/{number:03d}.{suffix}" for label in labels for number in range(each)]
    return {name: image(number, image_format, (8 + number % 5, 6)) for number, name in enumerate(names)}


@dataclass(frozen=True)
class WholeDataset:
    """A data set, read back whole."""

    dataset: Dataset

    @property
    def directory(self) -> Path:
        return Path(self.dataset.directory)

    def rejects(self) -> list[dict[str, Any]]:
        """The lines in rejects/."""
        return rejects_of(self.directory)


@dataclass(frozen=True)
class Contents(WholeDataset):
    """A data set of files.

    Attributes:
      records: serialized examples by file name, each in the list of its split's order.
      splits: file names by split, in the order of shards and records.
    """

    records: dict[str, list[bytes]]
    splits: dict[str, list[str]]

    @property
    def split_of(self) -> dict[str, str]:
        """The split of each file name."""
        return {name: split for split, names in self.splits.items() for name in names}

    def example(self, name: str) -> Example:
        """The one example of file `name`."""
        (record,) = self.records[name]
        return decode_example(record)

    def label_of(self, name: str) -> str:
        """The class name of file `name`."""
        (feature,) = (feature for feature in self.dataset.manifest.features if feature.name == "label")
        return feature.class_names[self.example(name)["label"][0]]  # type: ignore[index]


def rejects_of(directory: Path) -> list[dict[str, Any]]:
    """The lines in rejects/ of a version."""
    files = sorted(directory.glob("rejects/*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().split("\n")[:-1]]


def read_back(directory: Path) -> Contents:
    """Open a data set, decode every record, and check that every example is in its manifest."""
    dataset = open_dataset(str(directory))
    records: dict[str, list[bytes]] = {}
    splits: dict[str, list[str]] = {}
    for split in dataset.manifest.splits:
        names = splits.setdefault(split.name, [])
        for shard in split.shards:
            for record in dataset.records(shard):
                (filename,) = decode_example(record)["filename"]
                names.append(bytes(filename).decode())
                records.setdefault(names[-1], []).append(record)
    return Contents(dataset, records, splits)


def local_files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by its name relative to it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def open_files(folder: Path) -> int:
    """Return how many of this process's descriptors are of files in `folder`, deleted or not; Linux only."""
    return sum(link.resolve().is_relative_to(folder) for link in Path("/proc/self/fd").iterdir())


def tree_bytes(directory: Path) -> dict[str, bytes]:
    """Every file below `directory` but records of builds, which hold times."""
    return {name: data for name, data in local_files(directory).items() if "builds" not in Path(name).parts[-2:-1]}


def check_mistake(result: Result, *words: str) -> None:
    """Check that a command ended as it does for a user's mistake: status 2, and one sentence that holds `words`."""
    _check_sentence(result, 2, words)


def check_failure(result: Result, *words: str) -> None:
    """Check that a command ended as it does where a job must not publish: status 1, and one sentence that holds
    `words`."""
    _check_sentence(result, 1, words)


def _check_sentence(result: Result, status: int, words: Sequence[str]) -> None:
    assert (result.status, result.out) == (status, ""), result
    assert result.err.startswith("shardmill: error: "), result.err
    assert all(line.startswith("  ") for line in result.err.split("\n")[1:-1]), result.err
    for word in words:
        assert word in result.err, result.err
