"""64-bit hashes of many values at once: the same value has the same hash in every batch, process and version of a library."""

from typing import Any

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from transforms.byte_pieces import cut_pieces

# Of the finalizer of splitmix64 (https://prng.di.unimi.it/splitmix64.c). Its last step, which spreads what is in the highest
# bits, is left out: hashes are compared, and the highest bits decide.
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_SHIFTS = (30, 27)
_AT_ONCE = 1 << 13  # numbers mixed at once: few enough to stay in a processor's nearest cache through all steps
_WORD = 8
# Up to here a value is hashed in words of 8 bytes, all values side by side; longer ones by xxh3_64, one by one.
_SHORT_BYTES = 64
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(_WORD + 1)], np.uint64)  # what of a word is a value's last bytes


def mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A bijection of 64-bit integers whose results, above all their highest bits, look random."""
    mixed = values.copy()
    for start in range(0, len(mixed), _AT_ONCE):
        part = mixed[start : start + _AT_ONCE]
        for shift, multiplier in zip(_SHIFTS, _MULTIPLIERS):
            part ^= part >> np.uint64(shift)
            part *= np.uint64(multiplier)
    return mixed


def unmix(mixed: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The integers that `mix` made these of."""
    for shift, multiplier in zip(reversed(_SHIFTS), reversed(_MULTIPLIERS)):
        mixed = mixed * np.uint64(pow(multiplier, -1, 1 << 64))
        mixed ^= (mixed >> np.uint64(shift)) ^ (mixed >> np.uint64(2 * shift))  # undoes x ^ x >> shift: 3 * shift is above 64
    return mixed


def hash_bytes(values: pa.LargeBinaryArray) -> NDArray[np.uint64]:
    """The hash of each value, none of them null. A column of words takes a tenth of the time that hashing one by one would."""
    offsets, data = offsets_and_data(values)
    short = np.diff(offsets) <= _SHORT_BYTES
    if short.all():
        return _hash_short(offsets, data)
    hashes = np.empty(len(values), np.uint64)
    hashes[short] = _hash_short(*offsets_and_data(values.filter(pa.array(short))))
    hashes[~short] = _hash_long(data, offsets[:-1][~short], offsets[1:][~short])
    return hashes


def _hash_long(data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.uint64]:
    hashes = np.empty(len(starts), np.uint64)
    for rows, pieces in cut_pieces(pa.py_buffer(data), starts, ends):
        hashes[rows] = np.fromiter(map(xxhash.xxh3_64_intdigest, pieces), np.uint64, len(pieces))
    return hashes


def offsets_and_data(values: pa.LargeBinaryArray) -> tuple[NDArray[np.int64], Any]:
    """The buffers of an array without nulls: the offset of each value and of the end, and bytes as an array of uint8."""
    _, offsets, data = values.buffers()
    return np.ndarray(len(values) + 1, np.int64, offsets, 8 * values.offset), np.frombuffer(data or b"", np.uint8)


def _hash_short(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Sums over a value's words, each mixed; a word of zeros adds nothing, so that all values go through as many rounds."""
    size = int(offsets[-1] - offsets[0])
    padded = np.zeros(size + _SHORT_BYTES + _WORD, np.uint8)
    padded[:size] = data[offsets[0] : offsets[-1]]
    words: NDArray[np.uint64] = np.ndarray((size + _SHORT_BYTES,), "<u8", padded, 0, (1,))  # the 8 bytes from each byte on
    hashes = np.diff(offsets).astype(np.uint64)  # tells values apart that end in zeros
    for start in range(0, len(hashes), _AT_ONCE):
        part = offsets[start : start + _AT_ONCE + 1]
        at, left = part[:-1] - offsets[0], np.diff(part)
        sums: NDArray[np.uint64] = hashes[start : start + _AT_ONCE]
        rows: Any = slice(None)
        step = left[0] if left.min() == left.max() else 0  # values of one length stand at even distances: no index for each
        for place in range(-(-int(left.max()) // _WORD)):
            if 4 * np.count_nonzero(left > 0) < len(left):
                longer = np.flatnonzero(left > 0)
                at, left, rows = at[longer], left[longer], longer if isinstance(rows, slice) else rows[longer]
            word = words[at[0] : at[-1] + 1 : step].copy() if step else words[at]
            if left.min() < _WORD:
                word &= _MASKS.take(left, mode="clip")
            word *= np.uint64(_MULTIPLIERS[0] + 2 * place)
            word ^= word >> np.uint64(_SHIFTS[0])
            word *= np.uint64(_MULTIPLIERS[1])
            sums[rows] += word
            at, left = at + _WORD, left - _WORD
    return mix(hashes)
