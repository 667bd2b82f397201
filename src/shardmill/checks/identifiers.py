"""Which numbers identify a record: nearly all of them distinct, and growing with the data, as ids and times do.

Their distribution is another one in each version, however well all went: a distance from the one before says nothing.
"""

from shardmill.statistics.feature_summary import FeatureSummary
from shardmill.statistics.numbers import Numbers

_DISTINCT = 0.9  # of the integers, at least: distinct ones are estimated in large splits, and some records come twice
_SPACING = 4.0  # how much wider or narrower the gaps may have become; a unit that changed is a factor of 60 or more
_MIDDLE = (0.2, 0.8)  # where in its range the mean of what is dealt out one by one lies; amounts have a long tail


def grows_like_an_identifier(now: FeatureSummary, then: FeatureSummary) -> bool:
    """Whether integers are nearly all distinct on both sides, begin and end no lower than before, end higher, and lie
    as densely as they did."""
    spacing = _spacing(now), _spacing(then)
    if spacing[0] is None or spacing[1] is None or now.numbers is None or then.numbers is None:
        return False
    (low, high), (low_before, high_before) = _range(now.numbers), _range(then.numbers)
    return low >= low_before and high > high_before and 1 / _SPACING <= spacing[0] / spacing[1] <= _SPACING


def _spacing(summary: FeatureSummary) -> float | None:
    """The mean gap between integers that are nearly all distinct; None of others, and of fewer than two."""
    numbers, count = summary.numbers, summary.count
    if numbers is None or numbers.mean is None or summary.distinct is None or count is None or count < 2:
        return None
    if summary.per_example is not None:
        return None  # lists
    if not isinstance(numbers.minimum, int) or not isinstance(numbers.maximum, int):
        return None
    low, high = _range(numbers)
    if high == low or summary.distinct.count < _DISTINCT * count:
        return None
    if not _MIDDLE[0] <= (numbers.mean - low) / (high - low) <= _MIDDLE[1]:
        return None
    return (high - low) / (count - 1)


def _range(numbers: Numbers) -> tuple[float, float]:
    assert numbers.minimum is not None
    assert numbers.maximum is not None
    return numbers.minimum, numbers.maximum
