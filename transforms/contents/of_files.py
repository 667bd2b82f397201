"""What the files of a shard hold, gathered as its records are written."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transforms.contents.hashes import of_digests
from transforms.contents.places import hashes_of, places_of
from transforms.contents.section import Section, layout_section, names_blob
from transforms.stores import storage

_FIRST_LINE = 1  # a file that is no line of a manifest has 0


@dataclass(frozen=True, slots=True, eq=False)
class FileContents:
    """The contents of some files, as they come: what is computed of them is computed for all of a shard at once.

    Attributes:
      digests: of what became of them, 16 bytes each.
      names: as they stand in a section.
      hashes: of their names: uint64, shape (n,).
      lines: of a manifest: int64, shape (n,).
    """

    digests: bytes
    names: bytes
    hashes: NDArray[np.uint64]
    lines: NDArray[np.int64]

    @classmethod
    def of(cls, names: Sequence[str], lines: Sequence[int | None], digests: Sequence[bytes]) -> "FileContents":
        """Those of files, at least one, with the lines of a manifest that name them and what
        transforms.contents.hashes.digest gave of each."""
        numbers = np.array([0 if line is None else line + _FIRST_LINE for line in lines], np.int64)
        return cls(b"".join(digests), names_blob(names), hashes_of(names), numbers)


class ContentsWriter:
    """Gathers the contents of one shard."""

    def __init__(self) -> None:
        self._parts: list[FileContents] = []

    def add(self, part: FileContents | None) -> None:
        """Take those of some more files, if there are any."""
        if part is not None:
            self._parts.append(part)

    def write(self, path: str, split: str) -> Section | None:
        """Write them to `path`, a new file; None where there are none."""
        if not self._parts:
            return None
        hashes, lines = (np.concatenate([getattr(part, name) for part in self._parts]) for name in ("hashes", "lines"))
        contents = of_digests(b"".join(part.digests for part in self._parts), places_of(hashes, lines))
        names = b"\0".join(part.names for part in self._parts)
        section, parts = layout_section(contents, split, path, 0, names, _FIRST_LINE)
        storage.write_parts(path, parts)
        return section
