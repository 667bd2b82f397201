"""A disk that is soon full: a tmpfs of its own for a process, or a limit on the size of its files where it may mount
none."""

import ctypes
import json
import os
import resource
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardmill.pipelines import cli

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
