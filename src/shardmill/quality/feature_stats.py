"""Convert stats.json to TensorFlow Metadata statistics protos."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tensorflow_metadata.proto.v0 import statistics_pb2 as pb

from shardmill.data.features import Feature, Features
from shardmill.data.kinds import kind_of
from shardmill.quality.stats_file import FeatureSummary, SplitSummary, StatsFile
from shardmill.quality.stats_values import Bucket, Numbers

_Counts = Iterable[tuple[str, int]]


def to_bytes(stats: StatsFile, features: Features) -> bytes:
    """Return the serialized proto of a data set's statistics, the same bytes for the same statistics."""
    return to_proto(stats, features).SerializeToString(deterministic=True)


def to_proto(stats: StatsFile, features: Features) -> pb.DatasetFeatureStatisticsList:
    """Return a data set's statistics as TFDV's proto, with splits and features in order."""
    statistics = pb.DatasetFeatureStatisticsList()
    for name, split in stats.splits.items():
        dataset = statistics.datasets.add(name=name, num_examples=split.examples)
        dataset.features.extend(_features(split, features) if split.examples else ())
    return statistics


def _features(split: SplitSummary, features: Features) -> Iterator[pb.FeatureNameStatistics]:
    for feature in features:
        summary = split.features.get(feature.name, FeatureSummary())
        common = _make_common(feature, summary, split.examples)
        if common is not None:
            yield _make_feature(feature, summary, common)


def _make_feature(feature: Feature, summary: FeatureSummary, common: pb.CommonStatistics) -> pb.FeatureNameStatistics:
    statistics = pb.FeatureNameStatistics(type=_type(feature))
    statistics.path.step.append(feature.name)
    if kind_of(feature).has_classes:
        statistics.string_stats.common_stats.CopyFrom(common)
        _add_classes(statistics.string_stats, feature, summary)
    elif statistics.type == pb.FeatureNameStatistics.STRING:
        statistics.string_stats.common_stats.CopyFrom(common)
        _add_strings(statistics.string_stats, summary)
    elif statistics.type == pb.FeatureNameStatistics.BYTES:
        statistics.bytes_stats.common_stats.CopyFrom(common)
        _add_files(statistics.bytes_stats, summary)
    else:
        statistics.num_stats.common_stats.CopyFrom(common)
        if summary.numbers is not None:
            _add_numbers(statistics.num_stats, summary.numbers, int(common.tot_num_values))
    classes = {name: count for name, count in (summary.classes or {}).items() if count}
    for name, counts in (("classes", classes), ("formats", summary.formats), ("encodings", summary.encodings)):
        if counts:
            _rank(statistics.custom_stats.add(name=name).rank_histogram, counts.items())
    if summary.values is not None:
        statistics.custom_stats.add(name="values").histogram.CopyFrom(_make_histogram(summary.values))
    return statistics


def _type(feature: Feature) -> int:
    if feature.dtype == "bytes":
        has_strings = kind_of(feature).bytes_are_strings
        return pb.FeatureNameStatistics.STRING if has_strings else pb.FeatureNameStatistics.BYTES
    return pb.FeatureNameStatistics.INT if feature.dtype == "int64" else pb.FeatureNameStatistics.FLOAT


def _make_common(feature: Feature, summary: FeatureSummary, examples: int) -> pb.CommonStatistics | None:
    """Return how many examples have a feature, and how many values each has; None if that is unknown."""
    if summary.missing is not None:
        present = examples - summary.missing
    elif feature.required or summary != FeatureSummary():  # with no count of its own, every example has it
        present = examples
    else:
        return None
    common = pb.CommonStatistics(num_non_missing=present, num_missing=examples - present)
    lengths = summary.per_example
    if lengths is not None and lengths.mean is not None:
        common.min_num_values, common.max_num_values = int(lengths.minimum or 0), int(lengths.maximum or 0)
        common.avg_num_values = lengths.mean
        common.tot_num_values = round(lengths.mean * present)
    elif None not in feature.list_shape:
        size = math.prod(size for size in feature.list_shape if size is not None)
        common.min_num_values = common.max_num_values = size
        common.avg_num_values = size
        common.tot_num_values = size * present
    return common


def _add_classes(statistics: pb.StringStatistics, feature: Feature, summary: FeatureSummary) -> None:
    """Add classes as categorical integers, which TFDV compares with the schema; `_make_feature` adds the names."""
    ids = {name: index for index, name in enumerate(feature.class_names)}
    found = [(-count, ids[name]) for name, count in (summary.classes or {}).items() if count and name in ids]
    statistics.unique = len(found)
    _add_top_values(statistics, [(str(index), -negative) for negative, index in sorted(found)])


def _add_top_values(statistics: pb.StringStatistics, counts: Sequence[tuple[str, int]]) -> None:
    for value, count in counts:
        statistics.top_values.add(value=value, frequency=count)
    _rank(statistics.rank_histogram, counts)


def _add_strings(statistics: pb.StringStatistics, summary: FeatureSummary) -> None:
    if summary.distinct is not None:
        statistics.unique = summary.distinct.count
    if summary.length_bytes is not None and summary.length_bytes.mean is not None:
        statistics.avg_length = summary.length_bytes.mean
    if summary.top_values and not summary.top_values_from:
        _add_top_values(statistics, [(str(entry.value), entry.count) for entry in summary.top_values])


def _add_files(statistics: pb.BytesStatistics, summary: FeatureSummary) -> None:
    if summary.distinct is not None:
        statistics.unique = summary.distinct.count
    sizes = summary.size_bytes or summary.length_bytes
    if sizes is not None and sizes.maximum is not None:
        statistics.min_num_bytes, statistics.max_num_bytes = sizes.minimum or 0, sizes.maximum
        statistics.max_num_bytes_int = int(sizes.maximum)
        statistics.avg_num_bytes = sizes.mean or 0.0


def _add_numbers(statistics: pb.NumericStatistics, numbers: Numbers, count: int) -> None:
    values: Mapping[str, float | None] = {
        "mean": numbers.mean,
        "std_dev": numbers.std_dev,
        "min": numbers.minimum,
        "max": numbers.maximum,
        "median": (numbers.quantiles or {}).get("0.5"),
    }
    for name, value in values.items():
        if value is not None:
            setattr(statistics, name, value)
    statistics.num_zeros = numbers.zeros or 0
    if numbers.histogram is not None or numbers.nan:
        statistics.histograms.append(_make_histogram(numbers))
    if numbers.quantiles and numbers.minimum is not None and numbers.maximum is not None:
        statistics.histograms.append(_make_quantiles(numbers, count - numbers.nan - numbers.infinity))


def _make_histogram(numbers: Numbers) -> pb.Histogram:
    """Return a histogram of adjacent buckets, as readers expect: empty ones fill the gaps in that of stats.json."""
    histogram = pb.Histogram(type=pb.Histogram.STANDARD, num_nan=numbers.nan)
    before: Bucket | None = None
    for bucket in numbers.histogram or ():
        if before is not None and before.high < bucket.low:
            histogram.buckets.add(low_value=before.high, high_value=bucket.low)
        histogram.buckets.add(low_value=bucket.low, high_value=bucket.high, sample_count=bucket.count)
        before = bucket
    return histogram


def _make_quantiles(numbers: Numbers, count: int) -> pb.Histogram:
    """Return buckets between neighbouring quantiles, each with its share of all numbers."""
    assert numbers.quantiles is not None
    histogram = pb.Histogram(type=pb.Histogram.QUANTILES, num_nan=numbers.nan)
    edges = sorted((float(fraction), value) for fraction, value in numbers.quantiles.items())
    low, below = numbers.minimum, 0.0
    for fraction, high in [*edges, (1.0, numbers.maximum)]:
        histogram.buckets.add(low_value=low, high_value=high, sample_count=count * (fraction - below))
        low, below = high, fraction
    return histogram


def _rank(rank_histogram: pb.RankHistogram, counts: _Counts) -> None:
    for rank, (label, count) in enumerate(counts):
        rank_histogram.buckets.add(low_rank=rank, high_rank=rank, label=label, sample_count=count)
