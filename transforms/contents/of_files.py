"""What the files, or the sequences, of a shard hold, gathered as its records are written."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shardmill.transforms.contents.hashes import of_digests
from shardmill.transforms.contents.places import hashes_of, places_of
from shardmill.transforms.contents.section import Section, in_parts, layout_section, names_blob
from shardmill.transforms.stores import storage

_FIRST_LINE = 1  # a file that is no line of a manifest has 0


@dataclass(frozen=True, slots=True, eq=False)
class FileContents:
    """The contents of some files or sequences, as they come: what is computed of them is computed for all of a shard at
    once.

    Attributes:
      digests: of what became of them, 16 bytes each.
      names: of the files, as they stand in a section.
      hashes: of the name of the file of each: uint64, shape (n,).
      lines: of a manifest, or of that file: int64, shape (n,).
      labels: 1 more than the id of the class of each, 0 of one that has none: uint64, shape (n,).
    """

    digests: bytes
    names: bytes
    hashes: NDArray[np.uint64]
    lines: NDArray[np.int64]
    labels: NDArray[np.uint64]

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        lines: Sequence[int | None],
        digests: Sequence[bytes],
        labels: Sequence[int | None],
    ) -> "FileContents":
        """Those of files, at least one, with the lines of a manifest that name them, what
        shardmill.transforms.contents.hashes.digest gave of each, and the ids of their classes."""
        numbers = np.array([0 if line is None else line + _FIRST_LINE for line in lines], np.int64)
        ids = np.array([0 if label is None else label + 1 for label in labels], np.uint64)
        return cls(b"".join(digests), names_blob(names), hashes_of(names), numbers, ids)

    @classmethod
    def of_hashes(
        cls, hashes: NDArray[np.uint64], names: Sequence[str], files: NDArray[np.integer], lines: NDArray[np.int64]
    ) -> "FileContents":
        """Those of examples of which more is known than their digests, at least one; labels are part of them.

        Args:
          hashes: the halves of their hashes, shape (2, n).
          names: of the files that they come from, each once.
          files: of each example the index of its file in `names`, shape (n,).
          lines: of each example there, shape (n,).
        """
        digests = np.ascontiguousarray(hashes.T.astype(">u8")).tobytes()
        labels = np.zeros(len(lines), np.uint64)
        return cls(digests, names_blob(names), hashes_of(names)[files], lines + _FIRST_LINE, labels)


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
        columns = ([getattr(part, name) for part in self._parts] for name in ("hashes", "lines", "labels"))
        hashes, lines, labels = map(np.concatenate, columns)
        digests = b"".join(part.digests for part in self._parts)
        contents = of_digests(digests, places_of(hashes, lines), labels if labels.any() else None)
        (ordered,) = in_parts(contents, np.zeros(len(contents), np.int64), 1)
        names = b"\0".join(part.names for part in self._parts)
        section, parts = layout_section(ordered, split, path, 0, names, _FIRST_LINE)
        storage.write_parts(path, parts)
        return section
