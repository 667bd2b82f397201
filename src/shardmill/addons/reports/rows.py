"""Table rows and SVG charts for the HTML report."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shardmill.addons.reports.pictures import Picture, Pictures
from shardmill.pipelines.reports.summary import (
    format_distinct,
    format_number,
    format_share,
    human_size,
    main_numbers,
    range_figures,
)
from shardmill.quality.profile import Profile, number_of_values
from shardmill.quality.stats_file import FeatureSummary
from shardmill.quality.stats_values import Bucket, BucketColumns, Number, Numbers, columns_of
from shardmill.text import listed

WIDTH, HEIGHT = 96, 24  # of a chart, in units of its view box


def bars_path(series: Sequence[float], top: float | None = None) -> str:
    """Return the outline path of bars, one per non-negative number, left to right; "" if all are 0.

    `top` is the value at the upper edge; None means the largest.
    """
    top = max(series, default=0.0) if top is None else top
    if not top:
        return ""
    path, level = f"M0 {HEIGHT}", 0
    for index, number in enumerate(series):
        # What is there has a height, however small
        height = min(round(number / top * HEIGHT) or 1, HEIGHT) if number > 0 else 0
        if height != level:
            left = f"{index * WIDTH / len(series):.1f}".removesuffix(".0")
            path, level = f"{path}H{left}V{HEIGHT - height}", height
    return f"{path}H{WIDTH}V{HEIGHT}"


def compute_bin_shares(all_numbers: Sequence[Numbers | None], bins: int) -> list[list[float]]:
    """Return histograms of a feature in several splits, over the same bins, as shares; [] for a split without one.

    Bins are equally wide, or powers of 2 if the histograms are.
    """
    histograms = [
        _drop_empty_buckets(numbers.histogram or () if numbers is not None else ()) for numbers in all_numbers
    ]
    some = [histogram for histogram in histograms if len(histogram)]
    if not some:
        return [[] for _ in histograms]
    if not any(isinstance(histogram, BucketColumns) for histogram in some):
        every = [bucket for histogram in some for bucket in histogram]
        if all(bucket.by_powers for bucket in every):
            return [_count_by_powers(histogram, every) for histogram in histograms]
    columns = [columns_of(histogram) for histogram in histograms]
    low = float(min(min(lows) for lows, _, _ in columns if lows))
    high = float(max(max(highs) for _, highs, _ in columns if highs))
    return [_spread_counts(*one, low, high, bins) for one in columns]


def _drop_empty_buckets(histogram: Sequence[Bucket]) -> Sequence[Bucket]:
    if isinstance(histogram, BucketColumns) and all(histogram.counts):  # as nearly every one is
        return histogram
    return [bucket for bucket in histogram if bucket.count]


def _count_by_powers(histogram: Sequence[Bucket], every: Sequence[Bucket]) -> list[float]:
    bits = [int(bucket.high).bit_length() for bucket in every]
    found = [0.0] * (max(bits) - min(bits) + 1)
    for bucket in histogram:
        found[int(bucket.high).bit_length() - min(bits)] += bucket.count
    return _to_shares(found)


def _spread_counts(
    lows: Sequence[Number], highs: Sequence[Number], counts: Sequence[int], low: float, high: float, bins: int
) -> list[float]:
    found = [0.0] * bins
    width = high / bins - low / bins
    if not width or not math.isfinite(width):
        found[bins // 2] = math.fsum(counts)
        return _to_shares(found)
    base = low / width
    for lower, upper, count in zip(lows, highs, counts):
        first, last = lower / width - base, upper / width - base
        index, end = min(int(first), bins - 1), min(math.ceil(last), bins)
        if end <= index + 1 or last - first < 1e-9:
            found[index] += count
            continue
        last = min(last, end)
        each = count / (last - first)
        found[index] += each * (index + 1 - first)
        for between in range(index + 1, end - 1):
            found[between] += each
        found[end - 1] += each * (last - (end - 1))
    return _to_shares(found)


def _to_shares(counts: Sequence[float]) -> list[float]:
    total = math.fsum(counts)
    return [count / total for count in counts] if total else []


_MANY_CLASSES = 50  # more are shown by their ends
_ENDS = 25  # classes at either end
_ABSENT_SHOWN = 12  # classes


def label_rows(label: Mapping[str, Any]) -> dict[str, Any]:
    """Return table rows of classes and totals of those left out: first those that are gone, then those that lost half
    of their examples since the version compared with, then the others, the most frequent first.
    """
    counts: dict[str, dict[str, int]] = {split: found or {} for split, found in label["splits"].items()}
    totals = {name: sum(found.get(name, 0) for found in counts.values()) for name in label["classes"]}
    before: Mapping[str, int] = label["before"]["classes"] if label["before"] else {}
    changes = {name: _describe_change(before.get(name, 0), totals.get(name, 0)) for name in {**totals, **before}}
    gone = [name for name in changes if changes[name]["state"] == "gone"]
    ids = {name: index for index, name in enumerate(changes)}
    order = sorted(totals.keys() | gone, key=lambda name: (changes[name]["rank"], -totals.get(name, 0), ids[name]))
    shown = order if len(order) <= _MANY_CLASSES else [*order[:_ENDS], *order[-_ENDS:]]
    sums = {split: sum(found.values()) for split, found in counts.items()}
    largest = max((max(found.values()) / sums[split] for split, found in counts.items() if sums[split]), default=0.0)
    absent = {
        split: [name for name in label["classes"] if not found.get(name)] for split, found in counts.items() if found
    }
    return {
        "name": label["name"],
        "unit": label["of"].removesuffix("s"),
        "classes": len(totals),
        "changes": label["before"] is not None,
        "against": label["before"]["version"] if label["before"] else "",
        "gone": len(gone),
        "splits": list(counts),
        "unknown": [split for split, found in label["splits"].items() if found is None],
        "rows": [
            {
                "name": name,
                "gap": len(shown) < len(order) and index == _ENDS,
                "counts": [found.get(name, 0) for found in counts.values()],
                **changes[name],
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


_RANKS = {"gone": 0, "shrunk": 1}  # of rows; all others come after them
_SHRUNK = 0.5  # of its examples before: what a class has at least that did not shrink


def _describe_change(before: int, now: int) -> dict[str, Any]:
    if not before:
        state, words = ("new", "new") if now else ("", "")
    elif not now:
        state, words = "gone", "gone"
    else:
        state, words = ("shrunk" if now < _SHRUNK * before else "", f"{now / before - 1:+.1%}")
    return {
        "before": before,
        "now": now,
        "change": "0 %" if now == before else words.replace("%", " %"),
        "state": state,
        "rank": _RANKS.get(state, 2),
    }


@dataclass(frozen=True, slots=True)
class FeatureRow:
    """A row in the table of features."""

    name: str
    kind: str
    of: str  # what its numbers measure, if not its values
    alerts: Sequence[str]  # as text
    filled: str  # path of the first split's chart; "" for none
    lines: Sequence[str]  # paths of the other splits' charts
    splits: Sequence[str]  # that are shown
    columns: Sequence[tuple[str, ...]]  # the figures, by column and split
    top: Sequence[tuple[str, int, str]]  # the most frequent values: (value, count, share)


def feature_row(
    feature: Mapping[str, Any], summaries: Mapping[str, FeatureSummary], splits: int, top_values: int, bins: int
) -> FeatureRow:
    """Return a feature's row: the first `splits` splits in figures and chart, and the first one's top values."""
    first = next(iter(summaries.values()), FeatureSummary())
    series = compute_bin_shares([main_numbers(summary)[1] for summary in summaries.values()], bins)
    if not any(series):
        series = _compare_value_shares(list(summaries.values()), bins)
    if all(len(set(one) - {0}) < 2 for one in series):  # a solid block, which says nothing
        series = []
    top = max((number for one in series for number in one), default=0.0)
    return FeatureRow(
        name=feature["name"],
        kind=feature["kind"] if feature["kind"] != "tensor" else feature["dtype"],
        of=main_numbers(first)[0] or ("files" if first.files_by_channels else "frames" if first.frames_by_rate else ""),
        alerts=feature["alerts"],
        filled=bars_path(series[0], top) if series else "",
        lines=[path for one in series[1:3] if (path := bars_path(one, top))],
        splits=list(summaries)[:splits],
        columns=list(zip(*map(_format_figures, list(summaries.values())[:splits]))),
        top=_find_top_values(first, top_values),
    )


_FIGURES = ("missing", "zeros", "distinct", "smallest", "5 %", "median", "95 %", "largest")


def compare_figures(new: Profile, old: Profile) -> list[tuple[str, str, str]]:
    """Return (what, figure in `old`, figure in `new`): examples by split, and what differs among statistics."""
    names = dict.fromkeys([*old.splits, *new.splits])
    rows = [(f"{name}: examples", f"{old.splits.get(name, 0):,}", f"{new.splits.get(name, 0):,}") for name in names]
    for name in (name for name in new.features if name in old.features):
        for split in (split for split in new.splits if split in old.splits):
            one, other = old.summary(split, name), new.summary(split, name)
            if one is not None and other is not None:
                pairs = zip(_FIGURES, _format_figures(one), _format_figures(other))
                rows += [(f"{split}: {name}, {what}", before, now) for what, before, now in pairs if before != now]
    return rows


def _format_figures(summary: FeatureSummary) -> tuple[str, ...]:
    _, numbers = main_numbers(summary)
    total = (summary.count or 0) + (summary.missing or 0)
    missing = "" if summary.missing is None else format_share(summary.missing, total) if summary.missing else "none"
    values = _count_values(summary)
    zeros = format_share(numbers.zeros, values) if numbers is not None and numbers.zeros and values else ""
    return (missing, zeros, format_distinct(summary.distinct), *range_figures(numbers))


def _count_values(summary: FeatureSummary) -> float:
    """Return the number of values, counting those inside lists; 0 if the examples were not counted."""
    return number_of_values(summary, 0) if summary.count is not None else 0.0


def _compare_value_shares(summaries: Sequence[FeatureSummary], bins: int) -> list[list[float]]:
    """Return the shares, in all splits, of the first split's most frequent values or classes."""
    counts = [_count_top_values(summary) for summary in summaries]
    if not counts or not counts[0]:
        return []
    order = list(counts[0])[:bins]
    totals = [sum(found.values()) for found in counts]
    return [[found.get(name, 0) / total for name in order] if total else [] for found, total in zip(counts, totals)]


def _count_top_values(summary: FeatureSummary) -> dict[str, int]:
    if summary.classes is not None:
        return dict(summary.classes)
    if summary.top_values is not None:
        return {str(entry.value): entry.count for entry in summary.top_values}
    by_number = summary.files_by_channels or summary.frames_by_rate or {}
    return dict(summary.formats or summary.encodings or {f"{key:,}": count for key, count in by_number.items()})


def _find_top_values(summary: FeatureSummary, number: int) -> list[tuple[str, int, str]]:
    counts = _count_top_values(summary) if summary.classes is None else {}
    total = sum(counts.values()) if summary.frames_by_rate or summary.files_by_channels else _count_values(summary)
    if summary.top_values_from:  # a sample of unknown size
        total = 0
    top = sorted(counts.items(), key=lambda item: -item[1])[:number]
    return [(name, count, format_share(count, total) if total else "") for name, count in top]


_ALONE = 3  # up to this many unknown results of a check are listed one by one
_NAMED = 3  # features named when results are listed together


def check_rows(checks: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return table rows of the check results that are not `ok`, the most severe first."""

    def row(check: Mapping[str, Any]) -> dict[str, str]:
        return {key: str(check[key]) for key in ("severity", "check", "feature", "split", "sentence")}

    rows = [row(check) for severity in ("error", "warn") for check in checks if check["severity"] == severity]
    unknown: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for check in checks:
        if check["severity"] == "unknown":
            unknown[check["check"]].append(check)
    for found in unknown.values():
        rows += map(row, found) if len(found) <= _ALONE else [_make_grouped_row(found)]
    return rows


def _make_grouped_row(found: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    features = list(dict.fromkeys(check["feature"] for check in found if check["feature"]))
    splits = dict.fromkeys(check["split"] for check in found if check["split"])
    return {
        "severity": "unknown",
        "check": found[0]["check"],
        "feature": f"{len(features):,}: {listed(features, _NAMED, ', …')}" if features else "",
        "split": ", ".join(splits),
        "sentence": f"{len(found):,} times, such as: {found[0]['sentence']}",
    }


_NAMES = {"size_bytes": "size", "in_examples": "records in examples"}  # by the key in manifest.json
_SIZES = ("size_bytes", "shard_size")  # in bytes


def make_build_rows(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return a row for each entry of `input`, `configuration` or `versions` in manifest.json."""
    return [(_NAMES.get(key, key), _format_value(value, key)) for key, value in values.items()]


def _format_value(value: Any, key: str = "") -> str:
    if value is None or value == [] or value == {}:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and key in _SIZES:
        return human_size(value)
    if isinstance(value, (int, float)):
        return format_number(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_format_value(one)}" for name, one in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_format_value, value))
    return str(value) or '""'


_MAX_PAGE_BYTES = 900_000  # of all images on a page, as text


def picture_rows(pictures: Pictures) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return titled rows of images: pairs of add-ons, and the others, extreme ones first; a full page names them."""
    pairs = [(pair.title, shown) for pair, shown in pictures.pairs]
    groups: list[tuple[str, Sequence[Picture]]] = [(f"the {what}", shown) for what, shown in pictures.extremes]
    groups += [(name or "images", shown) for name, shown in pictures.classes]
    rows, left = [], _MAX_PAGE_BYTES
    for title, shown in (*pairs, *groups):
        images, left = _image_cells(shown, left)
        rows.append({"title": title, "images": images})
    return rows[: len(pairs)], rows[len(pairs) :]


def _image_cells(shown: Sequence[Picture], left: int) -> tuple[list[dict[str, Any]], int]:
    from shardmill.addons.reports.contact_sheet import thumbnail  # Pillow only where there are images

    images = []
    for picture in shown:
        small = thumbnail(picture.image, picture.objects, picture.masks, picture.others)
        fits = len(small.source) <= left
        size = f"{small.width:,} × {small.height:,} pixels" if small.width else "of no known size"
        label = f"{picture.label}, " if picture.label else ""
        why_none = "does not decode" if picture.image else "cannot be read"
        images.append(
            {
                "source": small.source if fits else "",
                "instead": "no room on this page" if not fits else why_none,
                "words": f"{label}{picture.file or 'an image'} in {picture.split}, {size}",
                "width": small.shown_width,
                "height": small.shown_height,
                "crisp": small.is_crisp,
                "split": picture.split,
                "size": size.removesuffix(" pixels"),
                "file": picture.file,
            }
        )
        left -= len(small.source) if fits else 0
    return images, left
