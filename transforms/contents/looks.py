"""How the pictures of a shard look, by a hash each, in a file of the job's temporary directory: nothing but where it
lies travels between stages.

Columns of eight bytes a picture (hash, hash of the content, place, offset and length of the record), then the names of
the files with NUL between them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from shardmill.transforms.contents.hashes import Hashes
from shardmill.transforms.contents.places import find_places, hashes_of, places_of
from shardmill.transforms.contents.section import SEPARATOR, names_blob
from shardmill.transforms.stores import storage

FLAT, UNDECODABLE = "flat", "undecodable"  # in place of a hash; what else a look may be is 16 hexadecimal digits
_ITEM = 8  # bytes of a uint64
_COLUMNS = 5  # see above


@dataclass(frozen=True, slots=True)
class LooksSection:
    """Where the looks of some pictures lie.

    Attributes:
      split, shard: of all of these pictures; the shard by the name of its file.
      path: of the file.
      compared: pictures in it, which have a hash.
      flat, undecodable: pictures that have none.
      names_bytes: of the names.
    """

    split: str
    shard: str
    path: str
    compared: int
    flat: int
    undecodable: int
    names_bytes: int

    def looks(self) -> tuple[Hashes, Hashes, Hashes]:
        """Hashes, hashes of contents, and places: uint64, shape (compared,) each."""
        if not self.compared:
            return (np.empty(0, np.uint64),) * 3
        data = np.frombuffer(storage.read_range(self.path, 0, 3 * self.compared * _ITEM), "<u8")
        high, content, place = data.reshape(3, self.compared)
        return high, content, place

    def find(self, places: Iterable[int]) -> dict[int, tuple[str, int | None, int, int]]:
        """The file and line of each place, None for the line where the file is all of it, and offset and length of its
        record."""
        start = 2 * self.compared * _ITEM
        data = storage.read_range(self.path, start, (_COLUMNS - 2) * self.compared * _ITEM + self.names_bytes)
        columns = np.frombuffer(data[: (_COLUMNS - 2) * self.compared * _ITEM], "<u8").reshape(3, self.compared)
        found = {}
        for place, (name, line) in find_places(places, data[columns.nbytes :]).items():
            row = int(np.flatnonzero(columns[0] == np.uint64(place))[0])
            found[place] = (name, line - 1 if line else None, int(columns[1, row]), int(columns[2, row]))
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Looks:
    """How some pictures look.

    Attributes:
      columns: uint64, shape (_COLUMNS, n), as they stand in a section.
      names: of their files, as they stand in a section; b"" of none.
      flat, undecodable: pictures that have no hash.
    """

    columns: NDArray[np.uint64] = field(default_factory=lambda: np.empty((_COLUMNS, 0), np.uint64))
    names: bytes = b""
    flat: int = 0
    undecodable: int = 0

    @classmethod
    def of(
        cls,
        looks: Sequence[str],
        digests: Sequence[bytes],
        names: Sequence[str],
        lines: Sequence[int | None],
        laid: Sequence[Sequence[int]],
    ) -> "Looks":
        """Those of some pictures.

        Args:
          looks: of each its hash in hexadecimal digits, FLAT or UNDECODABLE.
          digests: what shardmill.transforms.contents.hashes.digest gave of each.
          names, lines: of the file of each, and the line of a manifest that names it.
          laid: offset and length of each record.
        """
        unseen = cls(flat=looks.count(FLAT), undecodable=looks.count(UNDECODABLE))
        rows = [row for row, look in enumerate(looks) if look not in (FLAT, UNDECODABLE)]
        if not rows:
            return unseen
        chosen = [names[row] for row in rows]
        of_rows = (lines[row] for row in rows)
        numbers = np.array([0 if line is None else line + 1 for line in of_rows], np.int64)
        columns = np.empty((_COLUMNS, len(rows)), np.uint64)
        columns[0] = [int(looks[row], 16) for row in rows]
        columns[1] = np.frombuffer(b"".join(digests[row][:_ITEM] for row in rows), ">u8")
        columns[2] = places_of(hashes_of(chosen), numbers)
        columns[3:] = np.array([laid[row] for row in rows], np.uint64).T
        return replace(unseen, columns=columns, names=names_blob(chosen))


class LooksWriter:
    """Gathers the looks of one shard."""

    def __init__(self) -> None:
        self._parts: list[Looks] = []

    def add(self, part: Looks | None, start: int) -> None:
        """Take those of some more pictures, if there are any, whose records begin at byte `start` of the shard."""
        if part is not None:
            part.columns[3] += np.uint64(start)
            self._parts.append(part)

    def write(self, path: str, split: str, shard: str) -> LooksSection | None:
        """Write them to `path`, a new file, if any has a hash; None where nobody looked."""
        if not self._parts:
            return None
        columns = np.concatenate([part.columns for part in self._parts], axis=1)
        names = SEPARATOR.join(part.names for part in self._parts if part.names)
        if columns.shape[1]:
            storage.write_parts(path, [columns.astype("<u8", copy=False).tobytes(), names])
        flat, undecodable = (sum(getattr(part, name) for part in self._parts) for name in ("flat", "undecodable"))
        return LooksSection(split, shard, path, columns.shape[1], flat, undecodable, len(names))
