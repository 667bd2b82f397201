"""64-bit hashes of many values at once: the same value has the same hash in every batch, process and version of a
library."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shardmill.records import spans
from shardmill.transforms.columns.buffers import data_of, offsets_of

# Of the finalizer of splitmix64 (https://prng.di.unimi.it/splitmix64.c). Its last step, which spreads what is in the
# highest bits, is left out: hashes are compared, and the highest bits decide.
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_SHIFTS = (30, 27)  # bits, before each multiplication
_AT_ONCE = 1 << 13  # numbers mixed at once: few enough to stay in a processor's nearest cache through all steps


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
        # Undoes x ^ x >> shift: 3 * shift is above 64
        mixed ^= (mixed >> np.uint64(shift)) ^ (mixed >> np.uint64(2 * shift))
    return mixed


def hashes_of(values: pa.Array) -> NDArray[np.uint64]:
    """The hash of each value, none of them null: int64, float32 or large_binary. Both zeros are one, all NaN too."""
    if not (pa.types.is_int64(values.type) or pa.types.is_float32(values.type)):
        return hash_bytes(values)
    numbers = values.to_numpy()
    if numbers.dtype == np.float32:
        numbers = np.where(np.isnan(numbers), np.float32(np.nan), numbers + np.float32(0))
        return mix(numbers.view(np.uint32).astype(np.uint64))
    return mix(numbers.view(np.uint64))


def hash_bytes(values: pa.LargeBinaryArray) -> NDArray[np.uint64]:
    """The hash of each value, none of them null."""
    offsets = offsets_of(values)
    return spans.hashes(data_of(values), offsets[:-1], offsets[1:])
