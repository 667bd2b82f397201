"""What checks found as tensorflow-metadata's Anomalies: `anomalies.pbtxt`, which TFDV's tools show."""

from collections.abc import Iterable, Sequence

from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import anomalies_pb2

from shardmill.checks.result import CheckResult, worst
from shardmill.features.feature import Features
from shardmill.metadata.schema import to_schema

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
_MEASURES: dict[str, tuple[int, int]] = {
    **{
        f"{values}_{check}": (_Type.COMPARATOR_L_INFTY_HIGH, _Measured.L_INFTY)
        for values in ("label", "string")
        for check in ("drift", "skew")
    },
    **{
        f"numeric_{check}": (_Type.COMPARATOR_JENSEN_SHANNON_DIVERGENCE_HIGH, _Measured.JENSEN_SHANNON_DIVERGENCE)
        for check in ("drift", "skew")
    },
}


def to_anomalies(results: Sequence[CheckResult], baseline: Features | None = None) -> anomalies_pb2.Anomalies:
    """The Anomalies proto: warnings and errors by feature, those of no feature as the data set's, all distances.

    Args:
      results: of the checks.
      baseline: the features of the version that was compared with; None if there is none.
    """
    made = anomalies_pb2.Anomalies()
    if baseline is not None:
        made.baseline.CopyFrom(to_schema(baseline))
    found = [result for result in results if result.severity in ("warn", "error")]
    for feature in dict.fromkeys(result.feature for result in found):
        of_feature = [result for result in found if result.feature == feature]
        if feature:
            _describe(made.anomaly_info[feature], of_feature)
            made.anomaly_info[feature].path.step.append(feature)
        else:
            _describe(made.dataset_anomaly_info, of_feature)
    _measure(made, [result for result in results if result.check in _MEASURES and result.value is not None])
    return made


def to_pbtxt(results: Sequence[CheckResult], baseline: Features | None = None) -> str:
    """The text of `anomalies.pbtxt`."""
    return text_format.MessageToString(to_anomalies(results, baseline), as_utf8=True)


def _describe(info: anomalies_pb2.AnomalyInfo, results: Sequence[CheckResult]) -> None:
    info.severity = _Type.ERROR if worst(results) == "error" else _Type.WARNING
    info.description = "; ".join(result.sentence for result in results)
    info.short_description = results[0].check if len(results) == 1 else "Multiple errors"
    for result in results:
        type_ = _TYPES.get(result.check) or _MEASURES.get(result.check, (_Type.CUSTOM_VALIDATION, 0))[0]
        info.reason.add(type=type_, short_description=result.check, description=result.sentence)


def _measure(made: anomalies_pb2.Anomalies, results: Iterable[CheckResult]) -> None:
    by_feature: dict[str, anomalies_pb2.DriftSkewInfo] = {}
    for result in results:
        if result.feature not in by_feature:
            by_feature[result.feature] = made.drift_skew_info.add()
            by_feature[result.feature].path.step.append(result.feature)
        info = by_feature[result.feature]
        measurements = info.drift_measurements if result.check.endswith("drift") else info.skew_measurements
        measurements.add(type=_MEASURES[result.check][1], value=result.value, threshold=result.threshold or 0.0)
