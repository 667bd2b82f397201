from typing import Any

import pytest

from shardmill.quality import checks
from shardmill.quality.limits import CheckResult
from shardmill.transforms.options.job_options import CheckOptions
from tests.support.profiles import profile

LIMITS = CheckOptions().limits
OLD = {"x": [1] * 100, "text": ["a"] * 100, "boxes": [[1.0, 2.0]] * 100}


def results(now: dict[str, Any], **classes: Any) -> list[CheckResult]:
    new, old = profile({"train": now}, **classes), profile({"train": OLD}, version="1.0.0")
    return [result for result in checks.check_columns(new, old, LIMITS) if result.severity != "ok"]


def test_nothing_changed() -> None:
    assert results(OLD) == []


@pytest.mark.parametrize(
    ("now", "check", "severity", "feature", "sentence"),
    [
        ({"x": OLD["x"], "text": OLD["text"]}, "columns_gone", "error", "boxes", "1 feature gone since 1.0.0: boxes"),
        (OLD | {"new": OLD["x"]}, "columns_new", "warn", "new", "1 feature new since 1.0.0: new"),
        (
            OLD | {"x": [1.5] * 100},
            "types_changed",
            "error",
            "x",
            "1 feature of another type than in 1.0.0: x (int64 -> float32)",
        ),
        (
            OLD | {"x": ["1"] * 100},
            "types_changed",
            "error",
            "x",
            "1 feature of another type than in 1.0.0: x (int64 -> bytes text)",
        ),
        (
            OLD | {"boxes": [1.0] * 100},
            "types_changed",
            "error",
            "boxes",
            "1 feature of another type than in 1.0.0: boxes (float32[-1] -> float32)",
        ),
    ],
)
def test_columns(now: dict[str, Any], check: str, severity: str, feature: str, sentence: str) -> None:
    (result,) = results(now)

    assert (result.check, result.severity, result.feature, result.sentence) == (check, severity, feature, sentence)


def test_a_label_that_is_no_class_any_more() -> None:
    (result,) = results(OLD, classes={"x": ["zero", "one"]})

    assert result.sentence.endswith("x (int64 -> int64 class_label)")


@pytest.mark.parametrize(
    ("present", "before", "severity"),
    [(100, 100, "ok"), (90, 100, "ok"), (60, 100, "error"), (70, 90, "ok"), (100, 50, "ok")],
)
def test_presence(present: int, before: int, severity: str) -> None:
    """Of a hundred examples, chance takes 0.2 of those that have a feature."""
    new, old = (
        profile({"train": {"x": [1] * number + [None] * (100 - number)}}, version=version)
        for number, version in ((present, "1.0.1"), (before, "1.0.0"))
    )
    (result,) = checks.check_presence(new, old, LIMITS)

    assert result.severity == severity
    assert result.value == pytest.approx(max(before - present, 0) / 100)


def test_a_small_drop_of_many() -> None:
    new, old = (profile({"train": {"x": [1] * number + [None] * (10_000 - number)}}) for number in (9_000, 10_000))
    (result,) = checks.check_presence(new, old, LIMITS)

    assert (result.severity, result.threshold) == ("warn", 0.05)
    assert result.sentence == "90 % of the examples of 'train' have 'x', 100 % in 1.0.1"
