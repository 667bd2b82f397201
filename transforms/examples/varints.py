"""Base-128 varints of many numbers at once, in NumPy; `shardmill.records.example` has them one at a time."""

import numpy as np

from shardmill.records.example import varint

Sizes = int | np.ndarray  # in bytes: of all rows, or each row's as int64


def largest(sizes: Sizes) -> int:
    """The most of `sizes`, of which there is at least one."""
    return sizes if isinstance(sizes, int) else int(sizes.max())


def varint_widths(values: Sizes) -> Sizes:
    """How many bytes each value takes as a varint, from 1 to 10; an int where that is the same for all.

    Args:
      values: uint64, or int64 that are not negative.
    """
    if isinstance(values, int):
        return len(varint(values))
    if not len(values):
        return 1
    low, high = len(varint(int(values.min()))), len(varint(int(values.max())))
    if low == high:
        return low
    widths = np.full(len(values), low, np.uint8)
    for width in range(low, high):
        widths += (values >= values.dtype.type(1 << 7 * width)).view(np.uint8)
    return widths.astype(np.int64)


def encode_varints(values: np.ndarray, widths: Sizes) -> np.ndarray:
    """The varints of `values`, each at the beginning of an item of one array.

    Args:
      values: uint64 (rows,).
      widths: the `varint_widths` of these.

    Returns:
      Shape (rows,), of a type whose items are as long as the longest varint or a few bytes longer; what is in the rest
      of an item is of no account.
    """
    width = largest(widths)
    if width == 1:
        return values.astype(np.uint8)
    word = np.dtype("<u4" if width <= 4 else "<u8")
    source = values.astype(word)
    spread = source & word.type(0x7F)
    for byte in range(1, min(width, 8)):
        spread |= (source << word.type(byte)) & word.type(0x7F << 8 * byte)
    more = np.array(
        [int.from_bytes(b"\x80" * (min(size, word.itemsize + 1) - 1), "little") for size in range(1, 11)], word
    )
    spread |= more[width - 1] if isinstance(widths, int) else more[widths - 1]
    if width <= 8:
        return spread
    items = np.empty(len(values), [("low", "<u8"), ("high", "<u2")])
    items["low"] = spread
    items["high"] = (values >> np.uint64(56) & np.uint64(0x7F)) | (values >> np.uint64(63)) * np.uint64(0x180)
    return items
