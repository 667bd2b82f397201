"""Check a version against the constraints of a schema."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2

from shardmill.data.features import Features
from shardmill.data.kinds import kind_of
from shardmill.metadata.schema import to_schema
from shardmill.quality.limits import COMPARISONS, CheckResult, Constraints, worst_severity
from shardmill.quality.profile import Profile, frequencies

_FLOAT32_ERROR = 1e-7  # by which a share is off that a proto holds as a float32, as it does 0.9
_UNCHECKED = ("unique_constraints", "value_counts")


def check_constraints(new: Profile, old: Profile | None, constraints: Constraints) -> Iterator[CheckResult]:
    """Check all constraints of a schema except the distances of comparators, and report those that are not covered."""
    schema = constraints.schema()
    yield from _check_examples(new, old, schema.dataset_constraints)
    domains = {domain.name: set(domain.value) for domain in schema.string_domain}
    for feature in schema.feature:
        if feature.lifecycle_stage in (schema_pb2.DEPRECATED, schema_pb2.DISABLED):
            continue
        if feature.name not in new.features:
            if feature.presence.min_fraction or feature.presence.min_count:
                message = f"the schema asks for feature {feature.name!r}, which is not there"
                yield CheckResult("columns_gone", "error", message, feature.name)
            continue
        yield from _report_unmeasured(new, feature)
        for name in (name for name in _UNCHECKED if feature.HasField(name)):
            message = f"the schema asks for {name} of {feature.name!r}, which is not checked"
            yield CheckResult(name, "unknown", message, feature.name)
        for split, examples in new.splits.items():
            if examples:
                yield from _check_presence(new, split, feature)
                yield from _check_lengths(new, split, feature)
                yield from _check_range(new, split, feature)
                yield from _check_values(new, split, feature, domains)


def _check_examples(
    new: Profile, old: Profile | None, constraints: schema_pb2.DatasetConstraints
) -> Iterator[CheckResult]:
    total = new.examples
    message = f"there are {total:,} examples"
    least, most = constraints.min_examples_count, constraints.max_examples_count
    if constraints.HasField("min_examples_count"):
        yield _compare_to_bound("min_examples_count", message, total, least, total < least)
    if constraints.HasField("max_examples_count"):
        yield _compare_to_bound("max_examples_count", message, total, most, total > most)
    for name in ("num_examples_drift_comparator", "num_examples_version_comparator"):
        if constraints.HasField(name):
            yield from _check_ratio(name, new, old, getattr(constraints, name))


def _check_ratio(
    name: str, new: Profile, old: Profile | None, constraints: schema_pb2.NumericValueComparator
) -> Iterator[CheckResult]:
    if old is None:
        message = f"the schema's {name} has nothing to compare with"
        yield CheckResult("examples_under", "unknown", message)
        return
    ratio = new.examples / old.examples if old.examples else float("inf")
    counts = f"{new.examples:,} examples, {old.examples:,} in {old.version}"
    message = f"there are {counts}: {ratio:.3g} times as many; {name}"
    least, most = constraints.min_fraction_threshold, constraints.max_fraction_threshold
    if constraints.HasField("min_fraction_threshold"):
        yield _compare_to_bound("examples_under", message, ratio, least, ratio < least)
    if constraints.HasField("max_fraction_threshold"):
        yield _compare_to_bound("examples_over", message, ratio, most, ratio > most)


def _check_domain(
    check: str, message: str, low: float, high: float, domain: Any, feature: str, split: str
) -> Iterator[CheckResult]:
    if domain.HasField("min"):
        yield _compare_to_bound(check, message, low, domain.min, low < domain.min, feature, split)
    if domain.HasField("max"):
        yield _compare_to_bound(check, message, high, domain.max, high > domain.max, feature, split)


def _compare_to_bound(
    check: str, message: str, value: float, bound: float, wrong: bool, feature: str = "", split: str = ""
) -> CheckResult:
    sentence = f"{message}; the schema's bound is {bound:g}"
    return CheckResult(check, "error" if wrong else "ok", sentence, feature, split, float(value), float(bound))


def _report_unmeasured(new: Profile, feature: schema_pb2.Feature) -> Iterator[CheckResult]:
    kind = new.features[feature.name]
    is_numeric = kind.dtype != "bytes" and not kind_of(kind).has_classes
    for check in COMPARISONS:
        comparator = getattr(feature, f"{check}_comparator")
        requested: Mapping[str, bool] = {
            "infinity_norm": comparator.infinity_norm.HasField("threshold") and is_numeric,
            "jensen_shannon_divergence": comparator.jensen_shannon_divergence.HasField("threshold") and not is_numeric,
            "normalized_abs_difference": comparator.normalized_abs_difference.HasField("threshold"),
        }
        for name in (name for name, is_wanted in requested.items() if is_wanted):
            message = f"the schema's {check}_comparator of {feature.name!r} asks for {name}, which is not measured"
            yield CheckResult(f"{'numeric' if is_numeric else 'string'}_{check}", "unknown", message, feature.name)


def _check_lengths(new: Profile, split: str, feature: schema_pb2.Feature) -> Iterator[CheckResult]:
    shape, name = new.features[feature.name].shape, feature.name
    if not feature.HasField("value_count"):
        return
    summary = new.summary(split, name)
    lengths = summary.per_example if summary is not None else None
    fewest, most = (None, None) if lengths is None else (lengths.minimum, lengths.maximum)
    if None not in shape:
        fewest = most = math.prod(size for size in shape if size is not None)
    if fewest is None or most is None:
        message = f"the number of values of {name!r} in each example of {split!r} is not on record"
        yield CheckResult("value_count", "unknown", message, name, split)
        return
    message = f"examples of {split!r} have {fewest:g} to {most:g} values of {name!r}"
    yield from _check_domain("value_count", message, fewest, most, feature.value_count, name, split)


def _check_presence(new: Profile, split: str, feature: schema_pb2.Feature) -> Iterator[CheckResult]:
    presence, name = feature.presence, feature.name
    if not presence.min_fraction and not presence.min_count:
        return
    share = new.presence(split, name)
    if share is None:
        message = f"the number of examples of {split!r} with {name!r} is not on record"
        yield CheckResult("min_fraction", "unknown", message, name, split)
        return
    count = round(share * new.splits[split])
    message = f"{count:,} of {new.splits[split]:,} examples of {split!r} have {name!r}"
    if presence.min_fraction:
        wrong = share < presence.min_fraction - _FLOAT32_ERROR or (
            presence.min_fraction == 1.0 and count < new.splits[split]
        )
        yield _compare_to_bound("min_fraction", message, share, presence.min_fraction, wrong, name, split)
    if presence.min_count:
        yield _compare_to_bound(
            "min_count", message, count, presence.min_count, count < presence.min_count, name, split
        )


def _check_range(new: Profile, split: str, feature: schema_pb2.Feature) -> Iterator[CheckResult]:
    kind = feature.WhichOneof("domain_info")
    if kind not in ("int_domain", "float_domain"):
        return
    summary = new.summary(split, feature.name)
    numbers = summary.numbers if summary is not None else None
    if summary is not None and (summary.count == 0 or summary.classes is not None):
        return
    if numbers is None or numbers.minimum is None or numbers.maximum is None:
        message = f"the range of {feature.name!r} in {split!r} is not on record"
        yield CheckResult("domain", "unknown", message, feature.name, split)
        return
    low, high = numbers.minimum, numbers.maximum
    message = f"{feature.name!r} in {split!r} is from {low:g} to {high:g}"
    yield from _check_domain("domain", message, low, high, getattr(feature, kind), feature.name, split)


def _check_values(
    new: Profile, split: str, feature: schema_pb2.Feature, domains: Mapping[str, set[str]]
) -> Iterator[CheckResult]:
    kind, name = feature.WhichOneof("domain_info"), feature.name
    if kind not in ("domain", "string_domain") or kind_of(new.features[name]).has_classes:
        return
    allowed = domains.get(feature.domain, set()) if kind == "domain" else set(feature.string_domain.value)
    summary = new.summary(split, name)
    if summary is not None and summary.count == 0:
        return
    counted = frequencies(summary, new.splits[split]).get("") if summary is not None else None
    constrained = feature.distribution_constraints
    most = 1 - constrained.min_domain_mass if constrained.HasField("min_domain_mass") else 0.0
    if counted is None:
        message = f"the values of {name!r} in {split!r} are not on record"
        yield CheckResult("string_domain", "unknown", message, name, split)
        return
    odd = {value: count for value, count in counted.counts.items() if value not in allowed}
    share, unseen = sum(odd.values()) / counted.total, 1 - sum(counted.counts.values()) / counted.total
    message = f"{share:.3g} of the values of {name!r} in {split!r} are not in its domain"
    message += f", such as {next(iter(odd))!r}" if odd else ""
    if share <= most < share + unseen and counted.unseen:
        message += f"; {unseen:.3g} of them are not on record"
        yield CheckResult("string_domain", "unknown", message, name, split, share, most)
        return
    yield _compare_to_bound("string_domain", message, share, most, share > most + _FLOAT32_ERROR, name, split)


_Type = anomalies_pb2.AnomalyInfo
_Measured = anomalies_pb2.DriftSkewInfo.Measurement

# What TFDV calls it; a check that it has not is a custom one.
_TYPES: dict[str, int] = {
    "examples_under": _Type.COMPARATOR_LOW_NUM_EXAMPLES,
    "examples_over": _Type.COMPARATOR_HIGH_NUM_EXAMPLES,
    "min_examples_count": _Type.DATASET_LOW_NUM_EXAMPLES,
    "max_examples_count": _Type.DATASET_HIGH_NUM_EXAMPLES,
    "columns_gone": _Type.SCHEMA_MISSING_COLUMN,
    "columns_new": _Type.SCHEMA_NEW_COLUMN,
    "types_changed": _Type.UNEXPECTED_DATA_TYPE,
    "presence_drop": _Type.FEATURE_TYPE_LOW_FRACTION_PRESENT,
    "min_fraction": _Type.FEATURE_TYPE_LOW_FRACTION_PRESENT,
    "min_count": _Type.FEATURE_TYPE_LOW_NUMBER_PRESENT,
    "string_domain": _Type.ENUM_TYPE_UNEXPECTED_STRING_VALUES,
    "classes_new": _Type.ENUM_TYPE_UNEXPECTED_STRING_VALUES,
}
_L_INFINITY = (_Type.COMPARATOR_L_INFTY_HIGH, _Measured.L_INFTY)
_JENSEN_SHANNON = (_Type.COMPARATOR_JENSEN_SHANNON_DIVERGENCE_HIGH, _Measured.JENSEN_SHANNON_DIVERGENCE)
_MEASURES: dict[str, tuple[int, int]] = {
    f"{values}_{check}": measure
    for values, measure in (("label", _L_INFINITY), ("string", _L_INFINITY), ("numeric", _JENSEN_SHANNON))
    for check in COMPARISONS
}


def anomalies_pbtxt(results: Sequence[CheckResult], baseline: Features | None = None) -> str:
    """Return the text of `anomalies.pbtxt`; `baseline` are the features of the version compared with."""
    anomalies = anomalies_pb2.Anomalies()
    if baseline is not None:
        anomalies.baseline.CopyFrom(to_schema(baseline))
    found = [result for result in results if result.severity in ("warn", "error")]
    for feature in dict.fromkeys(result.feature for result in found):
        feature_results = [result for result in found if result.feature == feature]
        if feature:
            _describe(anomalies.anomaly_info[feature], feature_results)
            anomalies.anomaly_info[feature].path.step.append(feature)
        else:
            _describe(anomalies.dataset_anomaly_info, feature_results)
    _add_distances(anomalies, [result for result in results if result.check in _MEASURES and result.value is not None])
    return text_format.MessageToString(anomalies, as_utf8=True)


def _describe(info: anomalies_pb2.AnomalyInfo, results: Sequence[CheckResult]) -> None:
    info.severity = _Type.ERROR if worst_severity(results) == "error" else _Type.WARNING
    info.description = "; ".join(result.sentence for result in results)
    info.short_description = results[0].check if len(results) == 1 else "Multiple errors"
    for result in results:
        type_ = _TYPES.get(result.check) or _MEASURES.get(result.check, (_Type.CUSTOM_VALIDATION, 0))[0]
        info.reason.add(type=type_, short_description=result.check, description=result.sentence)


def _add_distances(anomalies: anomalies_pb2.Anomalies, results: Iterable[CheckResult]) -> None:
    by_feature: dict[str, anomalies_pb2.DriftSkewInfo] = {}
    for result in results:
        if result.feature not in by_feature:
            by_feature[result.feature] = anomalies.drift_skew_info.add()
            by_feature[result.feature].path.step.append(result.feature)
        info = by_feature[result.feature]
        measurements = info.drift_measurements if result.check.endswith("drift") else info.skew_measurements
        measurements.add(type=_MEASURES[result.check][1], value=result.value, threshold=result.threshold or 0.0)
