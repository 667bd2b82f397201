"""Tests of src/shardmill/quality/limits.py."""

import json
from typing import Any

import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import anomalies_pb2

from shardmill.data.features import Feature
from shardmill.quality.constraints import anomalies_pbtxt
from shardmill.quality.limits import CheckResult, Limits, Severity, worst_severity

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


BOTH = Limits(warn=0.1, error=0.3)
GROUND = Limits(warn=0.9, error=0.5)


@pytest.mark.parametrize(
    ("limits", "check", "value", "floor", "expected"),
    [
        (BOTH, Limits.check_maximum, 0.1, 0.0, ("ok", 0.1)),
        (BOTH, Limits.check_maximum, 0.2, 0.0, ("warn", 0.1)),
        (BOTH, Limits.check_maximum, 0.4, 0.0, ("error", 0.3)),
        (BOTH, Limits.check_maximum, 0.2, 0.25, ("ok", 0.1)),
        (BOTH, Limits.check_maximum, 0.4, 0.5, ("ok", 0.1)),
        (Limits(error=0.3), Limits.check_maximum, 0.2, 0.0, ("ok", 0.3)),
        (Limits(), Limits.check_maximum, 9.0, 0.0, ("ok", None)),
        (GROUND, Limits.check_minimum, 0.9, None, ("ok", 0.9)),
        (GROUND, Limits.check_minimum, 0.8, None, ("warn", 0.9)),
        (GROUND, Limits.check_minimum, 0.8, 0.7, ("ok", 0.9)),
        (GROUND, Limits.check_minimum, 0.4, 0.7, ("error", 0.5)),
        (GROUND, Limits.check_minimum, 0.4, 0.3, ("ok", 0.9)),
        (GROUND, Limits.check_minimum, 0.0, None, ("error", 0.5)),
    ],
)
def test_limits(limits: Limits, check: Any, value: float, floor: float | None, expected: Any) -> None:
    assert check(limits, value, floor) == expected


def test_off() -> None:
    assert Limits().is_off
    assert not Limits(warn=0.0).is_off


FULL = CheckResult("drift", "error", "it moved", "amount", "train", value=0.5, threshold=0.1, noise_floor=0.01)


def test_a_result_is_read_as_it_was_written() -> None:
    for result in (FULL, CheckResult("columns", "unknown", "nobody knows")):
        assert CheckResult.from_json(json.loads(json.dumps(result.to_json()))) == result
    assert CheckResult.from_json(FULL.to_json() | {"since": "1.0.0"}) == FULL  # a key of a later version
    assert CheckResult("examples", "error", "from none", value=float("inf")).to_json()["value"] is None


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"check": "drift"}, "not only check"),
        (FULL.to_json() | {"severity": "bad"}, "severity 'bad': expected one of ok"),
    ],
)
def test_what_is_no_result_is_refused(content: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        CheckResult.from_json(content)


@pytest.mark.parametrize(
    ("severities", "worst"), [([], "ok"), (["ok", "unknown"], "unknown"), (["warn", "error", "unknown"], "error")]
)
def test_the_worst_of_some_results(severities: list[Severity], worst: str) -> None:
    assert worst_severity([CheckResult("x", severity, "") for severity in severities]) == worst
