"""All checks with the thresholds that hold where none are given: bad nights are found, and chance is not cried at."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from shardmill.data.features import Feature
from shardmill.quality.checks import find_failures, run_checks
from shardmill.quality.limits import NO_LIMITS, CheckResult, worst_severity
from shardmill.quality.profile import Profile
from shardmill.transforms.options.job_options import CheckOptions
from tests.support.profiles import profile

LIMITS = CheckOptions().limits
ACTIONS = ("buy", "click", "share", "view")


def rows(examples: int, seed: int) -> dict[str, Any]:
    """Records of every kind of distribution: heavy tails, points, many and few values, gaps."""
    random = np.random.default_rng(seed)
    present = random.random(examples) < 0.8
    return {
        "action": random.choice(4, examples, p=[0.1, 0.5, 0.02, 0.38]),
        "amount": np.round(random.lognormal(2, 1.5, examples), 2),
        "price": random.choice([0.99, 1.99, 4.99, 9.99], examples, p=[0.6, 0.2, 0.1, 0.1]),
        "lattice": random.integers(0, 60, examples) * 100,
        "age": np.clip(random.normal(40, 15, examples), 0, 99).astype(np.int64),
        "count": random.geometric(0.05, examples),
        "noise": random.normal(0, 1, examples),
        "heavy": random.standard_cauchy(examples),
        "odd": np.where(random.random(examples) < 0.1, np.nan, random.random(examples)),
        "constant": np.full(examples, 7),
        "time": 1_700_000_000 + np.sort(random.integers(0, 86_400, examples)),
        "maybe": [value if there else None for value, there in zip(random.random(examples).tolist(), present)],
        "country": random.choice([f"c{n}" for n in range(200)], examples, p=random.dirichlet(np.full(200, 0.1))),
        "user": [f"user {n}" for n in random.integers(0, 1_000_000, examples)],
        "words": [list(random.integers(0, 50, n)) for n in random.integers(1, 5, examples)],
    }


def taken(columns: Mapping[str, Any], which: Any) -> dict[str, Any]:
    return {name: [values[i] for i in which] for name, values in columns.items()}


def of(columns: Mapping[str, Any], version: str, seed: int = 0, **changes: Any) -> Profile:
    """A version whose splits are dealt out by a hash."""
    examples = len(columns["action"])
    dice = np.random.default_rng(seed).random(examples)
    splits = {"train": np.flatnonzero(dice < 0.8), "test": np.flatnonzero(dice >= 0.8)}
    return profile(
        {name: taken(columns, which) for name, which in splits.items()}, {"action": ACTIONS}, version, **changes
    )


@pytest.mark.parametrize(("examples", "seed"), [(100, 0), (100, 1), (100, 2), (1_000, 0), (1_000, 1), (10_000, 0)])
def test_two_random_halves_of_the_same_data_pass(examples: int, seed: int) -> None:
    both = rows(2 * examples, seed)
    order = np.random.default_rng(seed + 100).permutation(2 * examples)
    old, new = of(taken(both, order[:examples]), "1.0.0", 1), of(taken(both, order[examples:]), "1.0.1", 2)

    results = run_checks(new, old, LIMITS)

    assert [result.sentence for result in results if result.severity in ("warn", "error")] == []
    assert {"label_drift", "string_drift", "numeric_drift", "label_skew", "presence_drop"} <= {r.check for r in results}


def found(results: list[CheckResult], severity: str) -> set[tuple[str, str]]:
    return {(result.check, result.feature) for result in results if result.severity == severity}


@pytest.mark.parametrize("examples", [100, 1_000])
def test_bad_nights_are_found(examples: int) -> None:
    night, next_night = rows(examples, 5), rows(examples, 6)
    old = of(night, "1.0.0", 1)

    without = taken(next_night, np.flatnonzero(next_night["action"] != 1))
    assert ("classes_gone", "action") in found(run_checks(of(without, "1.0.1", 2), old, LIMITS), "error")

    fewer = taken(next_night, range(examples * 6 // 10))
    assert ("examples_under", "") in found(run_checks(of(fewer, "1.0.1", 2), old, LIMITS), "warn")

    amounts = next_night | {"amount": next_night["amount"] * 100}
    assert ("numeric_drift", "amount") in found(run_checks(of(amounts, "1.0.1", 2), old, LIMITS), "error")


def test_what_is_known_without_an_older_version() -> None:
    results = run_checks(of(rows(200, 1), "1.0.0"), None, LIMITS)

    (baseline,) = [result for result in results if result.check == "baseline"]
    assert baseline.severity == "unknown"
    assert "label_skew" in {result.check for result in results}
    assert worst_severity(results) == "unknown"
    assert find_failures(results) == []


def test_every_check_can_be_turned_off() -> None:
    old, new = of(rows(200, 1), "1.0.0"), of(rows(60, 2), "1.0.1")

    assert run_checks(new, old, dict.fromkeys(LIMITS, NO_LIMITS)) == []


def test_what_no_statistic_of_single_columns_shows() -> None:
    """Labels that were dealt out anew among the examples: each column is as it was."""
    night = rows(1_000, 5)
    shuffled = night | {"action": np.random.default_rng(9).permutation(night["action"])}

    results = run_checks(of(shuffled, "1.0.1", 1), of(night, "1.0.0", 1), LIMITS)
    assert found(results, "warn") | found(results, "error") == set()


def test_a_file_that_is_there_twice() -> None:
    """A tenth more of the same is within what is allowed; all of it again is twice as much, and not over that."""
    night = rows(1_000, 5)
    twice = taken(night, [*range(1_000), *range(1_000), 0])

    assert ("examples_over", "") in found(run_checks(of(twice, "1.0.1"), of(night, "1.0.0"), LIMITS), "warn")


def test_what_shardmill_added_and_counts_nothing_of_is_not_unknown() -> None:
    """`filename` was two rows of `unknown` on every page of images, which nobody can do anything about."""
    made = profile({"train": {"x": [1, 2]}, "test": {"x": [1, 2]}})
    source = Feature("filename", "bytes", "text", role="source")
    other = replace(source, name="added", role="input")
    known = replace(made, manifest=replace(made.manifest, features=(*made.manifest.features, source, other)))

    results = run_checks(known, known, CheckOptions().limits)

    assert not [result for result in results if result.feature == "filename" and result.severity == "unknown"]
    assert [result for result in results if result.feature == "added" and result.severity == "unknown"]


def test_splits_of_nothing_but_nan_do_not_differ() -> None:
    """Nor do those of as much of it; what nobody counts is not spread over any bucket."""
    numbers = np.linspace(0, 1, 50).astype(np.float32)
    new = profile(
        {
            "train": {"nan": np.full(50, np.nan, np.float32), "some": np.where(np.arange(50) % 2, np.nan, numbers)},
            "test": {"nan": np.full(10, np.nan, np.float32), "some": np.where(np.arange(50) % 2, np.nan, numbers)[:10]},
        }
    )
    found = {result.feature: result for result in run_checks(new, None, LIMITS) if result.check == "numeric_skew"}
    assert found["nan"].severity == "ok"
    assert "spread evenly" not in found["nan"].sentence
