from typing import Any

import pytest

from shardmill.quality import checks
from shardmill.quality.limits import Limits
from shardmill.quality.profile import Profile
from shardmill.transforms.options.job_options import CheckOptions
from tests.support.profiles import profile

LIMITS = CheckOptions().limits


def of(splits: dict[str, int], **arguments: Any) -> Profile:
    return profile({split: {"x": [1] * examples} for split, examples in splits.items()}, **arguments)


@pytest.mark.parametrize(
    ("now", "before", "expected"),
    [
        ({"train": 1000}, {"train": 1000}, {}),
        ({"train": 900}, {"train": 1000}, {}),
        ({"train": 899}, {"train": 1000}, {("examples_under", ""): "warn"}),
        ({"train": 499}, {"train": 1000}, {("examples_under", ""): "error"}),
        ({"train": 2001}, {"train": 1000}, {("examples_over", ""): "warn"}),
        ({"train": 1010, "test": 12}, {"train": 1000, "test": 20}, {}),  # by chance
        ({"train": 1400, "test": 40}, {"train": 1000, "test": 400}, {("examples_under", "test"): "error"}),
        ({"train": 1380}, {"train": 1000, "test": 400}, {("examples_under", "test"): "error"}),
        (
            {"train": 0, "test": 0},
            {"train": 1000, "test": 400},
            {("examples_under", s): "error" for s in ("", "train", "test")},
        ),
        ({"train": 5}, {"train": 0}, {}),
    ],
)
def test_examples(now: dict[str, int], before: dict[str, int], expected: dict[tuple[str, str], str]) -> None:
    results = list(checks.check_examples(of(now), of(before, version="1.0.0"), LIMITS))

    assert {(r.check, r.split): r.severity for r in results if r.severity != "ok"} == expected


def test_the_sentence_of_examples() -> None:
    (result, _) = checks.check_examples(of({"train": 11_886}), of({"train": 20_000}, version="1.0.0"), LIMITS)

    assert result.sentence == "there are 11,886 examples, 20,000 in 1.0.0: 0.594 times as many"
    assert (result.value, result.threshold, result.noise_floor) == (0.5943, 0.9, None)


@pytest.mark.parametrize(("rejected", "severity"), [(0, "ok"), (5, "ok"), (6, "warn"), (60, "error")])
def test_rejects(rejected: int, severity: str) -> None:
    (result,) = checks.check_rejects(of({"train": 1000 - rejected}, rejected=rejected), LIMITS)

    assert result.severity == severity
    assert result.sentence == f"{rejected} of 1,000 records were rejected"


def test_an_input_of_unknown_size_says_nothing_of_rejects() -> None:
    (result,) = checks.check_rejects(of({"train": 0}), LIMITS)

    assert result.severity == "unknown"


@pytest.mark.parametrize(
    ("shards", "balance", "severity"),
    [
        ([5, 5], "examples", "ok"),
        ([1, 2], "examples", "ok"),
        ([1, 9], "examples", "warn"),
        ([1, 9], "bytes", "unknown"),
    ],
)
def test_shards(shards: list[int], balance: str, severity: str) -> None:
    made = of({"train": sum(shards)}, shards={"train": shards}, balance=balance)
    (result,) = checks.check_shards(made, LIMITS)

    assert result.severity == severity
    assert list(checks.check_shards(of({"train": 5}), LIMITS)) == []


def test_limits_decide() -> None:
    old, new = of({"train": 100}, version="1.0.0"), of({"train": 80})
    (result, _) = checks.check_examples(new, old, LIMITS | {"examples_under": Limits(None, 0.85)})

    assert (result.severity, result.threshold) == ("error", 0.85)
