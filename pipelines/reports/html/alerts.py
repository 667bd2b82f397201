"""What is odd about a feature, in words. Pure."""

from collections.abc import Iterator, Mapping

from shardmill.checks.limits import LOOKS_LIKE_LABEL
from shardmill.checks.profile import number_of_values
from shardmill.pipelines.reports.figures import share
from shardmill.statistics.feature_summary import FeatureSummary

_MOSTLY = 0.5  # of the examples
_FEWEST = 20  # values, below which it is no wonder that all differ


def alerts(summaries: Mapping[str, tuple[int, FeatureSummary]], role: str = "") -> list[str]:
    """What is odd about a feature.

    Args:
      summaries: by split, how many examples it has, and what is known of the feature in them; splits without examples
        are left out.
      role: of the feature; what shardmill itself added, such as `filename`, may well tell the label, as
        may another label.
    """
    told = _label(summaries) if role not in ("source", "label") else ()
    return [*told, *_missing(summaries), *_distinct(summaries), *_not_finite(summaries), *_without_name(summaries)]


def _label(summaries: Mapping[str, tuple[int, FeatureSummary]]) -> Iterator[str]:
    found = {split: one.label_association for split, (_, one) in summaries.items() if one.label_association is not None}
    best = max(found, key=lambda split: found[split], default="")
    if best and found[best] > LOOKS_LIKE_LABEL:
        yield f"looks like the label: tells {found[best]:.1%} of what there is to guess in {best}"


def _missing(summaries: Mapping[str, tuple[int, FeatureSummary]]) -> Iterator[str]:
    counted = {split: (examples, one.missing) for split, (examples, one) in summaries.items() if one.missing}
    everywhere = len(counted) == len(summaries) and all(missing == examples for examples, missing in counted.values())
    if counted and everywhere:
        yield "missing everywhere"
        return
    for split, (examples, missing) in counted.items():
        if missing == examples:
            yield f"missing in all of {split}"
        elif missing is not None and missing > _MOSTLY * examples:
            yield f"mostly missing: {share(missing, examples)} of {split}"


def _distinct(summaries: Mapping[str, tuple[int, FeatureSummary]]) -> Iterator[str]:
    constant = [split for split, (_, one) in summaries.items() if _is_constant(one)]
    if constant and len(constant) == len(summaries):
        yield "constant"  # or one value a split, which the top values show
    elif constant:
        yield f"one value in {', '.join(constant)}"
    unique = [split for split, (examples, one) in summaries.items() if _is_unique(one, examples)]
    if unique and len(unique) == len(summaries):
        exact = all(one.distinct is not None and one.distinct.is_exact for _, one in summaries.values())
        yield "unique: every value differs" if exact else "unique or nearly so, by an estimate"


def _is_constant(summary: FeatureSummary) -> bool:
    """Whether there is one value; those that are not finite are not among the distinct ones."""
    others = summary.numbers.infinity + summary.numbers.nan if summary.numbers is not None else 0
    return summary.distinct is not None and summary.distinct.count == 1 and not others


def _is_unique(summary: FeatureSummary, examples: int) -> bool:
    values = number_of_values(summary, examples)
    if summary.distinct is None or values < _FEWEST or summary.per_example is not None:
        return False
    if summary.numbers is not None and isinstance(summary.numbers.minimum, float):
        return False  # of fractions it is no wonder
    return summary.distinct.count >= values * (1 - 2 * (summary.distinct.relative_error or 0.0))


def _not_finite(summaries: Mapping[str, tuple[int, FeatureSummary]]) -> Iterator[str]:
    for split, (_, one) in summaries.items():
        for word, count in (("NaN", one.numbers.nan), ("infinite", one.numbers.infinity)) if one.numbers else ():
            if count:
                yield f"{count:,} {word} in {split}"


def _without_name(summaries: Mapping[str, tuple[int, FeatureSummary]]) -> Iterator[str]:
    for split, (_, one) in summaries.items():
        if one.is_mixed:
            yield f"of different types in {split}"
        if one.without_name:
            yield f"{one.without_name:,} ids without a name in {split}"
