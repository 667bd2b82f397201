"""How well a feature's values tell the label: each value with each label is counted, as long as there are few such
pairs. Exact, and the same in whatever order parts are merged: too many pairs of a part are too many of all.

How well is Goodman and Kruskal's lambda ("Measures of association for cross classifications", 1954): by what share
fewer labels are guessed wrongly by who knows the value, and names its most frequent label, than by who knows none.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shardmill.transforms.statistics.hashes import hashes_of

Hashes = NDArray[np.uint64]
Numbers = NDArray[np.int64]

MOST_PAIRS = 1024
FEWEST = 10  # examples of a value, of less of which its label may be chance: each of an identifier's has one
_DIGITS = 6  # of the share


class Labels(NamedTuple):
    """The labels of some rows: by row the index in `ids`, -1 of a row that has none, and what there are: integers, or
    hashes of strings."""

    codes: Numbers
    ids: "Numbers | Hashes"

    @classmethod
    def of(cls, labels: pa.Array, most: int | None = None) -> "Labels | None":
        """Those of rows, each an int64 or a large_binary, or null; None where more than `most` differ."""
        if most is not None and len(labels[: 2 * most].dictionary_encode().dictionary) > most:  # soon said of most
            return None
        encoded = labels.dictionary_encode()  # a quarter of the time that sorting them takes
        if most is not None and len(encoded.dictionary) > most:
            return None
        named = encoded.dictionary
        ids = named.to_numpy() if pa.types.is_int64(named.type) else hashes_of(named)
        return cls(encoded.indices.fill_null(-1).to_numpy().astype(np.int64), ids)

    def of_rows(self, rows: "slice | NDArray[np.bool_]") -> "Labels":
        """Those of some of the rows."""
        return Labels(self.codes[rows], self.ids)


@dataclass(slots=True)
class LabelPairs:
    """How often each value of a feature goes with each label.

    Attributes:
      counts: by (hash of the value, label); None where there are more than MOST_PAIRS.
    """

    counts: dict[tuple[int, int], int] | None = field(default_factory=dict)

    def add(self, codes: Numbers, hashes: Hashes, labels: Labels) -> None:
        """Count rows.

        Args:
          codes: of each row the index of its value in `hashes`.
          hashes: of the values, each once.
          labels: of the rows.
        """
        if self.counts is None:
            return
        if len(hashes) > MOST_PAIRS:
            self.counts = None
            return
        width, known = len(labels.ids), labels.codes >= 0
        if not known.all():
            codes, labels = codes[known], labels.of_rows(known)
        if not len(codes):
            return
        pairs, numbers = _counted(codes * width + labels.codes, len(hashes) * width)
        if len(pairs) > MOST_PAIRS:
            self.counts = None
            return
        values, ids = hashes[pairs // width].tolist(), labels.ids[pairs % width].tolist()
        self._take(dict(zip(zip(values, ids, strict=True), numbers.tolist(), strict=True)))

    def give_up(self) -> None:
        """Say that there are more values than pairs are counted."""
        self.counts = None

    def merge(self, other: "LabelPairs") -> None:
        """Add what `other` counted."""
        if other.counts is None:
            self.counts = None
        else:
            self._take(other.counts)

    def _take(self, counts: dict[tuple[int, int], int]) -> None:
        if self.counts is None:
            return
        if not self.counts:
            self.counts = dict(counts)
            return
        for pair, number in counts.items():
            self.counts[pair] = self.counts.get(pair, 0) + number
        if len(self.counts) > MOST_PAIRS:
            self.counts = None

    def association(self, labels: Mapping[int, int]) -> float | None:
        """How well the values tell the label, 0 to 1; None where there are no values or too many
        pairs, or no two labels.

        A value of fewer than FEWEST examples tells nothing; that there is none is a value, too.

        Args:
          labels: how many of all examples have each.
        """
        if not self.counts or sum(number > 0 for number in labels.values()) < 2:
            return None
        of_value: dict[int | None, Counter[int]] = defaultdict(Counter)
        missing = Counter(labels)
        for (value, label), number in self.counts.items():
            of_value[value][label] += number
            missing[label] -= number
        of_value[None] = missing
        usual = min(labels, key=lambda label: (-labels[label], label))
        total, most = sum(labels.values()), labels[usual]
        right = sum(max(found.values()) if found.total() >= FEWEST else found[usual] for found in of_value.values())
        return round((right - most) / (total - most), _DIGITS)


def _counted(pairs: Numbers, most: int) -> tuple[Numbers, Numbers]:
    """Which numbers below `most` there are, and how often."""
    if most > max(4 * len(pairs), MOST_PAIRS):
        return np.unique(pairs, return_counts=True)
    counts = np.bincount(pairs, minlength=most)
    found = np.flatnonzero(counts)
    return found, counts[found]
