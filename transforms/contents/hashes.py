"""128 bits of what each of many examples holds, in two columns: equal contents are equal in both, others in hardly one.

Of 3 * 10^9 different contents two are taken for equal once in 10^19 times.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import xxhash
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
SEEDS = (0x2545F4914F6CDD1D, 0xD6E8FEB86659FD93)  # any two; results are compared within one job alone


def _none() -> Hashes:
    return np.empty(0, np.uint64)


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """The contents of some examples.

    Attributes:
      high, low: the halves of their hashes: uint64, shape (n,).
      places: see transforms.contents.places, which is all that orders members of equal content: uint64, shape (n,).
      labels: of each 1 more than the id of its class, 0 of one that has none: uint64, shape (n,); None where they are
        part of the content, or there are none.
    """

    high: Hashes = field(default_factory=_none)
    low: Hashes = field(default_factory=_none)
    places: Hashes = field(default_factory=_none)
    labels: Hashes | None = None

    def __len__(self) -> int:
        """How many examples."""
        return len(self.high)

    def take(self, rows: NDArray[np.int64]) -> "Contents":
        """Those of `rows`."""
        labels = self.labels if self.labels is None else self.labels.take(rows)
        return Contents(self.high.take(rows), self.low.take(rows), self.places.take(rows), labels)

    def between(self, start: int, stop: int) -> "Contents":
        """Those of rows `start` to `stop`, not copied."""
        labels = self.labels if self.labels is None else self.labels[start:stop]
        return Contents(self.high[start:stop], self.low[start:stop], self.places[start:stop], labels)

    @classmethod
    def joined(cls, parts: Sequence["Contents"]) -> "Contents":
        """All of `parts`, in their order."""
        if not parts:
            return cls()
        high, low, places = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("high", "low", "places")
        )
        labels = [part.labels for part in parts if part.labels is not None]
        return cls(high, low, places, np.concatenate(labels) if len(labels) == len(parts) else None)


def digest(*parts: bytes) -> bytes:
    """The xxh3_128 of what the file of one example became: 16 bytes."""
    if len(parts) == 1:
        return xxhash.xxh3_128_digest(parts[0])
    hashed = xxhash.xxh3_128(parts[0])
    for part in parts[1:]:
        hashed.update(part)
    return hashed.digest()


def of_digests(digests: bytes, places: Hashes, labels: Hashes | None = None) -> Contents:
    """Contents from what `digest` gave, one behind the other."""
    halves = np.frombuffer(digests, ">u8").reshape(-1, 2).astype(np.uint64)
    return Contents(halves[:, 0].copy(), halves[:, 1].copy(), places, labels)
