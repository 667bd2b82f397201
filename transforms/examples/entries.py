"""One feature in many Examples: entries whose header follows from the size of the values, whatever they are."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from shardmill.records.example import varint
from shardmill.transforms.examples.pieces import PieceWriter
from shardmill.transforms.examples.varints import Sizes, varint_widths

_NO_BOUNDS = np.zeros(1, np.int64)  # of a part without lists


class Payload(NamedTuple):
    """How many bytes each row's values take.

    Attributes:
      sizes: an int where they are the same in all rows.
      low, high: the least and the most of `sizes`.
      items: of lists, how many bytes each item takes, without a string's header.
      bounds: of lists, where each item begins and the last one ends, all laid end to end; int64 (items + 1,).
    """

    sizes: Sizes
    low: int
    high: int
    items: Sizes = 0
    bounds: np.ndarray = _NO_BOUNDS

    @classmethod
    def of(cls, sizes: Sizes) -> "Payload":
        """Values of `sizes` bytes, an array of which may hold the same number throughout; `items` and `bounds` are left
        out."""
        if isinstance(sizes, int):
            return cls(sizes, sizes, sizes)
        low, high = (int(sizes.min()), int(sizes.max())) if len(sizes) else (0, 0)
        return cls(low if low == high else sizes, low, high)


@dataclass(frozen=True, slots=True)
class FeatureEntries(ABC):
    """The entries of a feature, one a row: a header, which depends on the size of the values alone, and the values.

    Attributes:
      prefix: what stands between the sizes of entry and feature: the key, and the tag of the value.
      tag: of the feature's list.
      present: which rows have a value; None for all.
    """

    prefix: bytes
    tag: bytes
    present: np.ndarray | None

    @property
    def items(self) -> int:
        """How many items the lists of all rows hold; of no account where there are no lists."""
        return 0

    @abstractmethod
    def payload(self, rows: slice) -> Payload:
        """The sizes of the values in their list, without the tag and the size that a packed list or a string has
        first."""

    @abstractmethod
    def write_payload(self, writer: PieceWriter, rows: slice, payload: Payload) -> None:
        """Write the values, whose sizes are `payload`."""

    def is_headed(self, sizes: Sizes) -> bool | np.ndarray:
        """Whether the list has a tag and a size before `sizes` bytes of values."""
        return True

    def sizes(self, rows: slice) -> Sizes:
        """How many bytes the entries take, zero where there is none."""
        payload = self.payload(rows)
        low, high = self._header(payload.low), self._header(payload.high)
        if len(low) == len(high):  # and so between them: no header is shorter than that of a smaller payload
            sizes = payload.sizes + len(low)
        else:
            entry = self._nested(payload.sizes)[0]
            sizes = 1 + varint_widths(entry) + entry
        return sizes if self.present is None else np.where(self.present[rows], sizes, 0)

    def write(self, writer: PieceWriter, rows: slice) -> None:
        """Write the entries."""
        payload = self.payload(rows)
        writer.only(None if self.present is None else self.present[rows])
        low, high = self._header(payload.low), self._header(payload.high)
        if isinstance(payload.sizes, int):
            writer.literal(low)
        elif len(low) == len(high) and high[1] < 0x80:
            self._write_short_headers(writer, payload.sizes - payload.low, low, high)
        else:
            self._write_headers(writer, payload.sizes)
        self.write_payload(writer, rows, payload)

    def _header(self, payload: int) -> bytes:
        return _header(self.prefix, self.tag, bool(self.is_headed(payload)), payload)

    def _write_short_headers(self, writer: PieceWriter, more: np.ndarray, low: bytes, high: bytes) -> None:
        """Headers between `low` and `high` for `more` bytes than at `low`, where each size in them is one byte."""
        cut = 1 + len(self.prefix)  # keeps the last byte of the prefix with the sizes behind it: eight bytes at most
        steps = int.from_bytes([one != other for one, other in zip(low[cut:], high[cut:])], "little")
        writer.literal(low[:1])
        writer.field((more + low[1]).astype(np.uint8), 1)
        writer.literal(low[2:cut])
        writer.field(more * steps + int.from_bytes(low[cut:], "little"), len(low) - cut)

    def _write_headers(self, writer: PieceWriter, sizes: np.ndarray) -> None:
        entry, feature, values = self._nested(sizes)
        writer.literal(b"\x0a")
        writer.varint(entry)
        writer.literal(self.prefix)
        writer.varint(feature)
        writer.literal(self.tag)
        writer.varint(values)
        headed = self.is_headed(sizes)
        if isinstance(headed, np.ndarray):
            writer.only(headed)
        if headed is not False:
            writer.literal(b"\x0a")
            writer.varint(sizes)

    def _nested(self, sizes: Sizes) -> tuple[Sizes, Sizes, Sizes]:
        """The sizes of entry, feature and list around the values."""
        values = sizes + self.is_headed(sizes) * (1 + varint_widths(sizes))
        feature = 1 + varint_widths(values) + values
        return len(self.prefix) + varint_widths(feature) + feature, feature, values


@lru_cache(maxsize=1 << 14)
def _header(prefix: bytes, tag: bytes, headed: bool, payload: int) -> bytes:
    """What precedes `payload` bytes of values in an entry."""
    values = b"\x0a" + varint(payload) if headed else b""
    feature = tag + varint(len(values) + payload) + values
    value = prefix + varint(len(feature) + payload) + feature
    return b"\x0a" + varint(len(value) + payload) + value
