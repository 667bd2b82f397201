"""A module `os` that says what was done, and in what order, as the durability of a publication is a matter of order."""

import os
from pathlib import Path
from typing import Any


class RecordingOs:
    """The module `os`, which notes in `done` what was synced, renamed, linked and removed, and in what order."""

    def __init__(self, root: Path) -> None:
        self.done: list[tuple[str, str]] = []
        self._root, self._open = root, dict[int, str]()

    def open(self, path: str, *arguments: Any) -> int:
        descriptor = os.open(path, *arguments)
        self._open[descriptor] = path
        return descriptor

    def fsync(self, descriptor: int) -> None:
        self._note("sync", self._open[descriptor])
        os.fsync(descriptor)

    def replace(self, source: str, destination: str) -> None:
        self._note("rename from", source)
        self._note("rename to", destination)
        os.replace(source, destination)

    def link(self, source: str, destination: str) -> None:
        self._note("link", destination)
        os.link(source, destination)

    def remove(self, path: str) -> None:
        self._note("remove", path)
        os.remove(path)

    def _note(self, what: str, path: str) -> None:
        self.done.append((what, os.path.relpath(path, self._root)))

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def last(self, *wanted: tuple[str, str]) -> int:
        """When the last of these was done."""
        return max(self.done.index(step) for step in wanted)
