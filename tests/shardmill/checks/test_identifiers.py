"""Columns that merely grow are not taken for drift, unless somebody asks; others are, and say what to do."""

from typing import Any

import numpy as np
import pytest

from shardmill.quality.checks import run_checks
from shardmill.quality.limits import NO_LIMITS, CheckResult
from shardmill.transforms.options.job_options import CheckOptions
from tests.support.profiles import profile

LIMITS = CheckOptions().limits
DAY = 86_400
RANDOM = np.random.default_rng(3)


def drift(before: Any, now: Any, **own: Any) -> CheckResult:
    """What is said of `x` in the newer of two versions."""
    old, new = profile({"train": {"x": before}}, version="1.0.0"), profile({"train": {"x": now}})
    results = run_checks(new, old, LIMITS, by_feature=CheckOptions(columns=own).columns)
    (found,) = [result for result in results if result.check == "numeric_drift"]
    return found


def times(day: int, events: int) -> Any:
    """Seconds of a day, most of them in its evening."""
    return 1_700_000_000 + day * DAY + np.sort(RANDOM.choice(DAY, events, replace=False))


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (np.arange(1_000), np.arange(1_000, 2_000)),  # ids of a day
        (np.arange(100), np.arange(1_000)),  # a table that grows fast
        (np.arange(20_000), np.arange(20_000, 60_000)),  # so many that distinct ones are estimated
        (times(0, 500), times(1, 700)),
        (times(0, 500) * 1000, times(1, 300) * 1000),
    ],
)
def test_what_grows_like_an_identifier_is_not_judged(before: Any, now: Any) -> None:
    found = drift(before, now)

    assert found.severity == "unknown"
    assert (found.value or 0) > 0.3
    assert "nearly all distinct and grow, as identifiers and times do" in found.sentence
    assert "`checks: {columns: {x: {numeric_drift: 0.3}}}`" in found.sentence
    assert drift(before, now, x={"numeric_drift": 0.3}).severity == "error"


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (np.arange(1_000, 2_000), np.arange(1_000)),  # it has become smaller
        (np.arange(1_000), np.arange(1_000) * 60 + 1),  # seconds have become minutes
        (RANDOM.choice(90, 600), RANDOM.choice(90, 600) + 90),  # many are equal
        (np.arange(1_000.0), np.arange(1_000.0) + 1_000),  # no integers
        ((RANDOM.lognormal(6, 1, 500) * 100).astype(int), (RANDOM.lognormal(9, 1, 500) * 100).astype(int)),
    ],
)
def test_what_else_has_moved_is_an_error_that_names_the_remedy(before: Any, now: Any) -> None:
    found = drift(before, now)

    assert found.severity == "error"
    assert "accept it in the recipe: `checks: {columns: {x: {numeric_drift: off}}}`" in found.sentence
    assert drift(before, now, x={"numeric_drift": 5}).severity == "ok"


def test_an_identifier_that_is_as_it_was_is_well() -> None:
    assert drift(np.arange(1_000), np.arange(1_001)).severity == "ok"


def test_a_feature_may_have_thresholds_of_its_own() -> None:
    words = {"x": ["a"] * 90 + ["b"] * 10, "y": ["a"] * 90 + ["b"] * 10, "label": [0] * 50 + [1] * 50}
    other = {"x": ["c"] * 100, "y": ["c"] * 100, "label": [1] * 100}
    old = profile({"train": words}, {"label": ("n", "p")}, "1.0.0")
    new = profile({"train": other}, {"label": ("n", "p")})

    def errors(**columns: Any) -> set[tuple[str, str]]:
        results = run_checks(new, old, LIMITS, by_feature=CheckOptions(columns=columns).columns)
        return {(result.check, result.feature) for result in results if result.severity == "error"}

    of_label = {("label_drift", "label"), ("classes_gone", "label")}
    assert errors() == {("string_drift", "x"), ("string_drift", "y"), *of_label}
    assert errors(x="off") == {("string_drift", "y"), *of_label}
    assert errors(x=False, y={"string_drift": {"warn": "0.1"}}) == of_label
    assert errors(x="off", y="off", label={"classes_gone": "warn"}) == {("label_drift", "label")}
    assert errors(x="off", y="off", label="off") == set()


def test_thresholds_of_a_feature_that_is_not_there_are_a_warning() -> None:
    new = profile({"train": {"amount": [1, 2]}})
    results = run_checks(new, None, LIMITS, by_feature={"amuont": {"numeric_drift": NO_LIMITS}, "amount": {}})

    assert [(r.severity, r.sentence) for r in results if r.check == "columns"] == [
        ("warn", "there is no feature 'amuont', which has thresholds of its own; did you mean 'amount'?")
    ]
