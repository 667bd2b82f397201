"""What the rows of a task hold, by hash, written where equal contents are looked for."""

import uuid
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from shardmill.transforms.contents.hashes import Contents
from shardmill.transforms.contents.section import Section, in_parts, layout_section
from shardmill.transforms.stores import storage

_MOST_ROWS = 1 << 20  # held at once: 24 MB


class ContentsOfTask:
    """Gathers the contents of a task's rows, and writes them when they are many, and at the end."""

    def __init__(self, folder: str, names: bytes, splits: Sequence[str]) -> None:
        """Args:

        folder: that files are written to.
        names: of the files of the task, as they stand in a section.
        splits: by their number.
        """
        self._folder, self._names, self._splits = folder, names, splits
        self._held: list[tuple[Contents, NDArray[np.int64]]] = []
        self._rows = 0
        self._sections: list[Section] = []

    def add(self, contents: Contents, splits: NDArray[np.int64]) -> None:
        """Take some rows, and the number of the split of each."""
        self._held.append((contents, splits))
        self._rows += len(contents)
        if self._rows >= _MOST_ROWS:
            self._write()

    def close(self) -> list[Section]:
        """Where all of them lie."""
        if self._held:
            self._write()
        return self._sections

    def _write(self) -> None:
        contents = Contents.joined([part for part, _ in self._held])
        splits = np.concatenate([part for _, part in self._held])
        # A random name keeps attempts apart
        path, offset = storage.join(self._folder, uuid.uuid4().hex), 0
        written: list[object] = []
        for split, mine in zip(self._splits, in_parts(contents, splits, len(self._splits)), strict=True):
            if len(mine):
                section, parts = layout_section(mine, split, path, offset, self._names)
                offset += section.size_bytes
                written += parts
                self._sections.append(section)
        storage.write_parts(path, written)
        self._held, self._rows = [], 0
