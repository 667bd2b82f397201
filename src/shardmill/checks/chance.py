"""How far distributions of so many examples lie apart by chance: a difference below that says nothing.

Each floor is one that two random samples of the same data exceed less than once in 10,000 comparisons: for a hundred
columns a night, once in months. Examples are taken to be independent of each other; where they come in groups, such as
frames of a video, chance reaches further.
"""

import math

_CHANCE = 1e-4  # of one comparison of two samples of the same data to be beyond the floor


def share_floor(share: float, one: float, other: float, values: int = 1) -> float:
    """What the difference of one value's share in two samples exceeds by chance.

    Bernstein's inequality, which also holds where few examples are: the normal distribution does not.

    Args:
      share: of the value, in both together.
      one, other: examples of the samples; at least one each.
      values: how many values are compared, the largest of whose differences is looked at.
    """
    bound = math.log(2 * max(values, 1) / _CHANCE)
    variance = share * (1 - share) * (1 / one + 1 / other)
    return min(math.sqrt(2 * variance * bound) + bound / (3 * min(one, other)), 1.0)


def divergence_floor(bins: int, one: float, other: float, tried: int = 1) -> float:
    """What the Jensen-Shannon divergence of two samples in so many bins exceeds by chance, in bits.

    Where bins hold many, it is chi-squared of `bins - 1` degrees of freedom, times (1/one + 1/other) / (8 ln 2). Of
    bins of a single example it is larger, by 2 ln 2 at most; that is added throughout.

    Args:
      bins: of each divergence.
      one, other: examples of the samples; at least one each.
      tried: how many divergences were measured, the largest of which is looked at.
    """
    if bins < 2:
        return 0.0
    return min(_chi_squared(bins - 1, _CHANCE / max(tried, 1)) * (1 / one + 1 / other) / 4, 1.0)


def _chi_squared(freedom: int, chance: float) -> float:
    """What chi-squared exceeds with this probability: Wilson and Hilferty's approximation, exact of one degree."""
    if freedom == 1:
        return _quantile(1 - chance / 2) ** 2
    spread = 2 / (9 * freedom)
    return float(freedom * (1 - spread + _quantile(1 - chance) * math.sqrt(spread)) ** 3)


def ratio_floor(examples: float) -> float:
    """To what share of `examples` their number sinks by chance, where a hash deals them out anew."""
    if not examples:
        return 0.0
    reach = _quantile(1 - _CHANCE) ** 2 / examples
    return max(1 - (math.sqrt(reach * (reach + 8)) - reach) / 2, 0.0)


def ratio_ceiling(examples: float) -> float:
    """To how many times `examples` their number rises by chance: where it would have sunk from."""
    if not examples:
        return math.inf
    reach = _quantile(1 - _CHANCE) ** 2 / examples
    return 1 + (math.sqrt(reach * (reach + 8)) + reach) / 2


def _quantile(share: float) -> float:
    """Of the standard normal distribution."""
    from statistics import NormalDist  # whose module takes longer to import than most pages, which ask for none

    return NormalDist().inv_cdf(share)
