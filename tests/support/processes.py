"""Commands in processes of their own: stopped at a moment, at a rename of a shard, or by a disk that is soon full."""

import ctypes
import importlib
import json
import multiprocessing
import os
import re
import resource
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardmill.pipelines import cli
from tests.support.command import Process, Result, bind_root_to_permissions


def is_there(pid: int) -> bool:
    """Whether a process runs. One that has ended keeps its number until somebody asks how, which not every container's
    first process does for those whose parent is gone. Source: proc(5), the state after the name in parentheses."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_for(sign: Path, is_alive: Callable[[], bool]) -> None:
    """Wait for a sign as long as the process that is to give it is alive."""
    while not sign.exists():
        assert is_alive() or sign.exists(), f"{sign.name}: the process that was to say so has ended"
        time.sleep(0.0005)


def stop_at(module: str, name: str, reached: Path, go_on: Path) -> None:
    """Let this process stop each time it calls a function, until another lets it go on."""
    place = importlib.import_module(module)
    then = getattr(place, name)
    tests = multiprocessing.parent_process()
    assert tests is not None

    def stop(*arguments: Any, **more: Any) -> Any:
        reached.touch()
        wait_for(go_on, tests.is_alive)
        return then(*arguments, **more)

    setattr(place, name, stop)


def forbid_at(event: str, part: str, paths: list[Path], mode: int = 0, after: int = 0) -> None:
    """Give up root's rights, and take away those to `paths` as this process comes to use a path that contains `part`.

    The `event` is one of Python's audit events, such as `open` or `os.mkdir`; "" for any. The first `after` count not.
    """
    bind_root_to_permissions()
    uses = iter(range(after, -1, -1))

    def watch(now: str, arguments: tuple[Any, ...]) -> None:
        is_path = (event or "open os.mkdir os.rename os.remove os.scandir os.rmdir os.link").find(now) >= 0
        if is_path and arguments and part in str(arguments[0]) and next(uses, None) == 0:
            for path in paths:
                path.chmod(mode)

    sys.addaudithook(watch)


_NEW_MOUNTS, _NEW_USER = 0x00020000, 0x10000000  # linux/sched.h
_PRIVATE = 1 << 18 | 1 << 14  # MS_PRIVATE | MS_REC, linux/mount.h


@dataclass(frozen=True)
class SmallDisk:
    """Called in a process before its command: from then on a folder of its is a small disk, which ends with it.

    Attributes:
      folder: that is the disk; what is in it is copied there.
      size_bytes: of the disk.
      listing: a file elsewhere, which holds what is on the disk once the command has ended.
      filled: whether it is full from the beginning.
    """

    folder: Path
    size_bytes: int
    listing: Path
    filled: bool = False

    def __call__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        before = self.folder.with_name(f"{self.folder.name}-before")
        shutil.copytree(self.folder, before)
        if self._is_mounted():
            shutil.copytree(before, self.folder, dirs_exist_ok=True)
        else:
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.size_bytes // 4, resource.RLIM_INFINITY))
        if self.filled:
            self._fill()
        real = cli.main

        def main(*arguments: Any) -> int:
            try:
                return real(*arguments)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
                names = sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file())
                self.listing.write_text(json.dumps(names))

        cli.main = main  # type: ignore[assignment]

    def _is_mounted(self) -> bool:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(_NEW_MOUNTS | (0 if os.geteuid() == 0 else _NEW_USER)) != 0:
            return False
        libc.mount(b"none", b"/", None, _PRIVATE, None)
        size = f"size={self.size_bytes}".encode()
        return bool(libc.mount(b"tmpfs", os.fsencode(self.folder), b"tmpfs", 0, size) == 0)

    def _fill(self) -> None:
        try:
            with open(self.folder / "filling", "wb", buffering=0) as file:
                while file.write(bytes(1 << 12)):
                    pass
        except OSError:
            pass


SHARD = re.compile(r"n-train\.tfrecord-\d{5}-of-00004|\d{5}=00004\.train")
OTHER = ("--seed", "7")  # so that the newer version has other bytes in files of the same names


def command(source: Path, output: Path, *flags: object) -> tuple[object, ...]:
    return ("images", "--input", source, "--output", output, "--name", "n", "--num_shards", "4", *flags)


def strike_at_rename(number: int, strike: Callable[[], None]) -> None:
    """Let `strike` be called in this process just before a shard's rename `number` of a publication."""
    replace = os.replace
    seen = []

    def struck(source: Any, destination: Any, **more: Any) -> None:
        if SHARD.fullmatch(os.path.basename(destination)) and "beam-temp-" in os.fspath(source):
            if "beam-temp-" not in os.fspath(destination):
                seen.append(destination)
            if len(seen) == number + 1:
                strike()
        replace(source, destination, **more)

    os.replace = struck  # type: ignore[assignment]


def stopped(folder: Path, before: Callable[[], None], *arguments: object) -> Result:
    return Process(folder / "process", *arguments, before=before).result()


def version_of(output: Path) -> Path:
    return output / "n" / "1.0.0"
