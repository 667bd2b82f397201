"""Sums of numbers without rounding: integers only, so that neither batches nor the order of merging change a digit."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shardmill.transforms.statistics.sketches import run_starts

# Every float32 is a whole multiple of 2**-149, its smallest denormal (IEEE 754 binary32).
FLOAT32_FRACTION_BITS = 149
_MANTISSA_BITS = 23  # of a float32, without the one that is not written
# Sign, exponent, and the first 12 bits of the mantissa, the one that is not written among them
_FIRST_HALF = 0xFFFFF000
_AT_ONCE = 1 << 13  # numbers added at once: at most 2**16; of these, what is computed stays in a processor's cache
# Integers are squared in limbs: a product of two stays within 2**44, so that 2**16 of them fit an int64.
_LIMB_BITS = 22


@dataclass(slots=True)
class ExactSums:
    """Count, sum and sum of squares of numbers.

    Attributes:
      fraction_bits: numbers are counted in units of 2**-fraction_bits; 0 for integers.
      count: how many numbers.
      total: their sum, in those units.
      squares: the sum of their squares, in those units squared.
    """

    fraction_bits: int = 0
    count: int = 0
    total: int = 0
    squares: int = 0

    def add_integers(self, values: NDArray[np.int64]) -> None:
        """Count integers, of sums where fraction_bits is 0."""
        for start in range(0, len(values), _AT_ONCE):
            limbs = _limbs(values[start : start + _AT_ONCE])
            for place, limb in enumerate(limbs):
                self.total += int(limb.sum()) << _LIMB_BITS * place
                for lower in range(place):
                    self.squares += int(np.dot(limb, limbs[lower])) << _LIMB_BITS * (place + lower) + 1
                self.squares += int(np.dot(limb, limb)) << 2 * _LIMB_BITS * place
        self.count += len(values)

    def add_floats(self, values: NDArray[np.float32]) -> None:
        """Count finite numbers, of sums where fraction_bits is 149; in any order, fastest in ascending order."""
        for start in range(0, len(values), _AT_ONCE):
            part = np.ascontiguousarray(values[start : start + _AT_ONCE])
            bits = part.view(np.uint32)
            powers = bits >> np.uint32(_MANTISSA_BITS)  # sign and exponent
            runs = run_starts(powers)
            # Where all have one exponent, sums of 2**16 mantissas of 24 bits are exact in float64. So are those of
            # squares once they are split: the square of a mantissa's first half has 24 bits, and what it lacks has 37.
            wide = part.astype(np.float64)
            heads = (bits & np.uint32(_FIRST_HALF)).view(np.float32).astype(np.float64)
            heads *= heads
            rests = wide * wide
            rests -= heads
            self.total += _exact_sum(np.add.reduceat(wide, runs), self.fraction_bits)
            for squares in (heads, rests):
                self.squares += _exact_sum(np.add.reduceat(squares, runs), 2 * self.fraction_bits)
        self.count += len(values)

    def merge(self, other: "ExactSums") -> None:
        """Add what `other` counted, in the same units."""
        if self.fraction_bits != other.fraction_bits:
            raise ValueError(
                f"sums in units of 2**-{self.fraction_bits} cannot take sums in units of 2**-{other.fraction_bits}"
            )
        self.count += other.count
        self.total += other.total
        self.squares += other.squares

    def mean(self) -> float:
        """The mean of at least one number, as the nearest float."""
        return self.total / (self.count << self.fraction_bits)

    def std_dev(self) -> float:
        """The population standard deviation of at least one number, as the nearest float."""
        return _square_root(self.count * self.squares - self.total**2, self.count << self.fraction_bits)


def _exact_sum(parts: NDArray[np.float64], fraction_bits: int) -> int:
    return sum(int(math.ldexp(part, fraction_bits)) for part in parts.tolist())


def _limbs(values: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Integers as sums of limbs times powers of 2**22: the last limb signed, the others not."""
    bits = max(int(values.max()).bit_length(), int(~values.min()).bit_length())
    limbs = []
    while bits > _LIMB_BITS:
        limbs.append(values & ((1 << _LIMB_BITS) - 1))
        values = values >> _LIMB_BITS
        bits -= _LIMB_BITS
    return [*limbs, values]


def _square_root(square: int, divisor: int) -> float:
    """The float nearest to sqrt(square) / divisor."""
    # 64 bits of the root, and one more that says whether anything follows: then the division rounds as if it saw all.
    shift = max(0, 64 + divisor.bit_length() - square.bit_length() // 2)
    quotient, rest = divmod(square << 2 * shift, divisor**2)
    root = math.isqrt(quotient)
    return (2 * root + (rest > 0 or root * root != quotient)) / (1 << shift + 1)
