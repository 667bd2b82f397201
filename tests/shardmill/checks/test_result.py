import json

import pytest

from shardmill.quality.limits import CheckResult, worst_severity

FULL = CheckResult("drift", "error", "it moved", "amount", "train", value=0.5, threshold=0.1, noise_floor=0.01)


@pytest.mark.parametrize("result", [FULL, CheckResult("columns", "unknown", "nobody knows")])
def test_a_result_is_read_as_it_was_written(result: CheckResult) -> None:
    assert CheckResult.from_json(json.loads(json.dumps(result.to_json()))) == result


def test_a_key_of_a_later_version_is_passed_over() -> None:
    assert CheckResult.from_json(FULL.to_json() | {"since": "1.0.0"}) == FULL


def test_what_is_not_finite_is_null_in_json() -> None:
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


def test_the_worst_of_some_results() -> None:
    def of(*severities: str) -> list[CheckResult]:
        return [CheckResult("x", severity, "") for severity in severities]  # type: ignore[arg-type]

    assert worst_severity([]) == "ok"
    assert worst_severity(of("ok", "unknown")) == "unknown"
    assert worst_severity(of("warn", "error", "unknown")) == "error"
