"""Statistics of strings: how long they are, how many differ, and which are frequent. Mergeable, in any order."""

import codecs
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shardmill.statistics.feature_summary import FeatureSummary
from shardmill.statistics.values import FEWEST_SAMPLED, SAMPLED, TopValue
from shardmill.transforms.columns.buffers import offsets_of
from shardmill.transforms.statistics.hashes import hash_bytes
from shardmill.transforms.statistics.sketches import KEPT, DistinctValues, Sample, unique_hashes
from shardmill.transforms.statistics.values import Codes, RangeStats, Ties, distinct_of, most_frequent

SHOWN_BYTES = 48  # of a string, in stats.json
_FIRST = 2048  # values looked at to tell whether finding equal ones pays


@dataclass(slots=True)
class StringStats:
    """Statistics of strings of bytes.

    Attributes:
      lengths: in bytes.
      distinct: the values by hash.
      sample: some of the values, for those that occur most often where there are too many to count each.
      texts: the first 49 bytes of each value that `distinct` counts or that is in the sample, by hash.
    """

    lengths: RangeStats = field(default_factory=RangeStats)
    distinct: DistinctValues = field(default_factory=DistinctValues)
    sample: Sample = field(default_factory=Sample)
    texts: dict[int, bytes] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """A word for strings."""
        return "bytes"

    def add(self, values: pa.Array, ties: Ties) -> Codes | None:
        """Count values, of type large_binary; returns which are equal, where that was found."""
        if not len(values):
            return None
        self.lengths.add(np.diff(offsets_of(values)))
        # Where a part shows that there are too many values to count each, hashing all of them is cheaper than finding
        # equal ones.
        many = len(values[:_FIRST].dictionary_encode().dictionary) > KEPT
        encoded = None if many else values.dictionary_encode()
        named = values if encoded is None else encoded.dictionary
        hashes = hash_bytes(named)
        near = self.sample.near(ties)
        if encoded is None:
            self.distinct.add(hashes, None)
            rows = near
        else:
            indices = encoded.indices.to_numpy()
            self.distinct.add(hashes, np.bincount(indices))
            rows = indices[near]
        self.sample.add(ties[near], hashes[rows])
        if encoded is not None and self.distinct.counts is not None:
            rows = np.arange(len(hashes))
        texts = (text[: SHOWN_BYTES + 1] for text in named.take(pa.array(rows)).to_pylist())
        self._keep(self.texts | dict(zip(hashes[rows].tolist(), texts)))
        return None if encoded is None else Codes(indices.astype(np.int64), hashes)

    def merge(self, other: "StringStats") -> None:
        """Add what `other` counted."""
        self.lengths.merge(other.lengths)
        self.distinct.merge(other.distinct)
        self.sample.merge(other.sample)
        self._keep(self.texts | other.texts)

    def _named(self) -> NDArray[np.uint64]:
        """The hashes whose texts are needed: no count is known of the values when there are too many of them."""
        if self.distinct.counts is None:
            return unique_hashes(self.sample.hashes)
        return unique_hashes(np.concatenate([self.sample.hashes, self.distinct.hashes]))

    def _keep(self, texts: dict[int, bytes]) -> None:
        self.texts = {hashed: texts[hashed] for hashed in self._named().tolist()}

    def summary(self, class_names: Sequence[str] | None) -> FeatureSummary:
        """What stands in stats.json; long values are cut."""
        count = self.lengths.sums.count
        if not count:
            return FeatureSummary()
        strings = FeatureSummary(distinct=distinct_of(self.distinct, count), length_bytes=self.lengths.summary())
        if self.distinct.counts is not None:
            counted = zip(self.distinct.hashes.tolist(), self.distinct.counts.tolist())
            return replace(strings, top_values=self._top(counted))
        sampled = Counter(self.sample.hashes.tolist()).items()
        scaled = [(hashed, round(found * count / SAMPLED)) for hashed, found in sampled if found >= FEWEST_SAMPLED]
        return replace(
            strings,
            top_values=self._top(scaled),
            top_values_from=f"a sample of {SAMPLED:,} values, counts scaled up",
        )

    def _top(self, counted: Iterable[tuple[int, int]]) -> tuple[TopValue, ...]:
        ordered = most_frequent(((self.texts[hashed], hashed), count) for hashed, count in counted)
        return tuple(TopValue(_shown(text), count) for (text, _), count in ordered)


def _shown(text: bytes) -> str:
    """A string as stats.json shows it: bytes that are not UTF-8 by number, and a long one cut between characters."""
    if len(text) <= SHOWN_BYTES:
        return text.decode(errors="backslashreplace")
    return codecs.getincrementaldecoder("utf-8")("backslashreplace").decode(text[:SHOWN_BYTES]) + "…"
