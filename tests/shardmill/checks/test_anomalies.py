from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import anomalies_pb2

from shardmill.data.features import Feature
from shardmill.quality.constraints import anomalies_pbtxt
from shardmill.quality.limits import CheckResult

RESULTS = [
    CheckResult("examples_under", "error", "there are 4 of 10", value=0.4, threshold=0.5),
    CheckResult("numeric_drift", "error", "amount moved", "amount", "train", 0.9, 0.3, 0.01),
    CheckResult("presence_drop", "warn", "amount is rarer", "amount", "train", 0.1, 0.05, 0.01),
    CheckResult("label_skew", "ok", "labels are alike", "action", "test", 0.01, 0.2, 0.02),
    CheckResult("classes_gone", "warn", "buy is gone", "action", value=1, threshold=0),
    CheckResult("numeric_drift", "unknown", "nobody knows", "words", "train"),
]


def test_tensorflow_metadata_reads_it() -> None:
    baseline = (Feature("amount", "float32"),)
    made = text_format.Parse(anomalies_pbtxt(RESULTS, baseline), anomalies_pb2.Anomalies())
    info = anomalies_pb2.AnomalyInfo

    assert [feature.name for feature in made.baseline.feature] == ["amount"]
    assert made.dataset_anomaly_info.severity == info.ERROR
    assert made.dataset_anomaly_info.reason[0].type == info.COMPARATOR_LOW_NUM_EXAMPLES
    assert set(made.anomaly_info) == {"amount", "action"}
    amount = made.anomaly_info["amount"]
    assert amount.severity == info.ERROR
    assert list(amount.path.step) == ["amount"]
    assert [reason.type for reason in amount.reason] == [
        info.COMPARATOR_JENSEN_SHANNON_DIVERGENCE_HIGH,
        info.FEATURE_TYPE_LOW_FRACTION_PRESENT,
    ]
    assert amount.description == "amount moved; amount is rarer"
    assert made.anomaly_info["action"].severity == info.WARNING
    assert made.anomaly_info["action"].reason[0].type == info.CUSTOM_VALIDATION


def test_distances_are_measurements() -> None:
    made = text_format.Parse(anomalies_pbtxt(RESULTS), anomalies_pb2.Anomalies())
    measured = {tuple(found.path.step): found for found in made.drift_skew_info}

    (drift,) = measured[("amount",)].drift_measurements
    assert (drift.type, drift.value, drift.threshold) == (drift.JENSEN_SHANNON_DIVERGENCE, 0.9, 0.3)
    (skew,) = measured[("action",)].skew_measurements
    assert skew.type == skew.L_INFTY
    assert ("words",) not in measured


def test_all_is_well() -> None:
    assert anomalies_pbtxt([]) == ""
