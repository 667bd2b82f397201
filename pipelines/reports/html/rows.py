"""The rows of a page's tables of classes and of features, of what content says of each. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shardmill.checks.profile import number_of_values
from shardmill.pipelines.reports.figures import QUANTILES, distinct_words, figure, measured, share
from shardmill.pipelines.reports.html.charts import bars, shares_of_bins
from shardmill.statistics.feature_summary import FeatureSummary

_MANY_CLASSES = 50  # more are shown by their ends
_ENDS = 25  # classes at either end
_ABSENT_SHOWN = 12  # classes


def label_rows(label: Mapping[str, Any]) -> dict[str, Any]:
    """The rows of the classes that are shown, the most frequent first, and what the others are."""
    counts: dict[str, dict[str, int]] = {split: found or {} for split, found in label["splits"].items()}
    totals = {name: sum(found.get(name, 0) for found in counts.values()) for name in label["classes"]}
    order = sorted(totals, key=lambda name: -totals[name])
    shown = order if len(order) <= _MANY_CLASSES else [*order[:_ENDS], *order[-_ENDS:]]
    sums = {split: sum(found.values()) for split, found in counts.items()}
    largest = max((max(found.values()) / sums[split] for split, found in counts.items() if sums[split]), default=0.0)
    absent = {
        split: [name for name in label["classes"] if not found.get(name)] for split, found in counts.items() if found
    }
    return {
        "name": label["name"],
        "unit": label["of"].removesuffix("s"),
        "classes": len(order),
        "splits": list(counts),
        "unknown": [split for split, found in label["splits"].items() if found is None],
        "rows": [
            {
                "name": name,
                "gap": len(shown) < len(order) and index == _ENDS,
                "counts": [found.get(name, 0) for found in counts.values()],
            }
            for index, name in enumerate(shown)
        ],
        "left_out": len(order) - len(shown),
        "largest": largest,
        "sums": list(sums.values()),
        "absent": [(split, len(names), names[:_ABSENT_SHOWN]) for split, names in absent.items() if names],
        "smallest_class": min(totals.values(), default=0),
        "largest_class": max(totals.values(), default=0),
    }


@dataclass(frozen=True, slots=True)
class FeatureRow:
    """A row of the table of features.

    Attributes:
      name, kind: of the feature.
      of: what its numbers are, where they are not its values.
      alerts: in words.
      filled: the path of the first split's chart; "" where there is none.
      lines: those of the others'.
      splits: that are shown.
      columns: the figures, by column and split.
      top: the most frequent values: each, how often, and what share that is.
    """

    name: str
    kind: str
    of: str
    alerts: Sequence[str]
    filled: str
    lines: Sequence[str]
    splits: Sequence[str]
    columns: Sequence[tuple[str, ...]]
    top: Sequence[tuple[str, int, str]]


def feature_row(
    feature: Mapping[str, Any], summaries: Mapping[str, FeatureSummary], splits: int, top_values: int, bins: int
) -> FeatureRow:
    """A row: the first so many splits that have the feature in figures and in the chart, the first with its most
    frequent values."""
    first = next(iter(summaries.values()), FeatureSummary())
    series = shares_of_bins([measured(summary)[1] for summary in summaries.values()], bins)
    if not any(series):
        series = _value_shares(list(summaries.values()), bins)
    top = max((number for one in series for number in one), default=0.0)
    return FeatureRow(
        name=feature["name"],
        kind=feature["kind"] if feature["kind"] != "tensor" else feature["dtype"],
        of=measured(first)[0] or ("files" if first.files_by_channels else "frames" if first.frames_by_rate else ""),
        alerts=feature["alerts"],
        filled=bars(series[0], top) if series else "",
        lines=[path for one in series[1:3] if (path := bars(one, top))],
        splits=list(summaries)[:splits],
        columns=list(zip(*map(_figures, list(summaries.values())[:splits]))),
        top=_top_values(first, top_values),
    )


def _figures(summary: FeatureSummary) -> tuple[str, ...]:
    """Of one split: what is missing, zeros, distinct values, and the range with its quantiles."""
    _, numbers = measured(summary)
    whole = (summary.count or 0) + (summary.missing or 0)
    missing = "" if summary.missing is None else share(summary.missing, whole) if summary.missing else "none"
    if numbers is None:
        return (missing, "", distinct_words(summary.distinct), "", *("" for _ in QUANTILES), "")
    quantiles = numbers.quantiles or {}
    return (
        missing,
        share(numbers.zeros, whole_values) if numbers.zeros and (whole_values := _values(summary)) else "",
        distinct_words(summary.distinct),
        figure(numbers.minimum),
        *(figure(quantiles.get(name)) for name in QUANTILES),
        figure(numbers.maximum),
    )


def _values(summary: FeatureSummary) -> float:
    """How many values there are, of lists all that are in them; 0 where nobody counted the examples."""
    return number_of_values(summary, 0) if summary.count is not None else 0.0


def _value_shares(summaries: Sequence[FeatureSummary], bins: int) -> list[list[float]]:
    """The shares of the most frequent values, or of classes, of the first split, in all of them."""
    counts = [_counts(summary) for summary in summaries]
    if not counts or not counts[0]:
        return []
    order = list(counts[0])[:bins]
    totals = [sum(found.values()) for found in counts]
    return [[found.get(name, 0) / total for name in order] if total else [] for found, total in zip(counts, totals)]


def _counts(summary: FeatureSummary) -> dict[str, int]:
    if summary.classes is not None:
        return dict(summary.classes)
    if summary.top_values is not None:
        return {str(entry.value): entry.count for entry in summary.top_values}
    by_number = summary.files_by_channels or summary.frames_by_rate or {}
    return dict(summary.formats or summary.encodings or {f"{key:,}": count for key, count in by_number.items()})


def _top_values(summary: FeatureSummary, number: int) -> list[tuple[str, int, str]]:
    """The most frequent values: each, how often, and what share that is of all."""
    counts = _counts(summary) if summary.classes is None else {}
    whole = sum(counts.values()) if summary.frames_by_rate or summary.files_by_channels else _values(summary)
    if summary.top_values_from:  # a sample, of which nobody noted the size
        whole = 0
    top = sorted(counts.items(), key=lambda item: -item[1])[:number]
    return [(name, count, share(count, whole) if whole else "") for name, count in top]
