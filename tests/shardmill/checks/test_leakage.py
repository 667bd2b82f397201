"""A feature that tells the label is named, wherever people look, and can be allowed by name."""

from typing import Any

import numpy as np
import pytest

from shardmill.pipelines.reports.content import alerts
from shardmill.quality.checks import run_checks
from shardmill.quality.difference import find_differences
from shardmill.quality.limits import ByFeature, CheckResult
from shardmill.quality.profile import Profile
from shardmill.transforms.options.job_options import CheckOptions, parse_feature_limits
from tests.support.profiles import profile

LABELS = np.arange(600) % 3
CLASSES = {"label": ("a", "b", "c")}


def made(**columns: Any) -> Profile:
    random = np.random.default_rng(2)
    noise = random.integers(0, 9, len(LABELS))
    return profile({"train": {"noise": noise, "id": np.arange(len(LABELS)), **columns, "label": LABELS}}, CLASSES)


def leakage(found: Profile, own: ByFeature | None = None) -> dict[str, CheckResult]:
    results = run_checks(found, None, CheckOptions().limits, by_feature=own)
    return {result.feature: result for result in results if result.check == "label_leakage"}


def test_what_tells_the_label_warns_and_nothing_else() -> None:
    found = leakage(made(code=LABELS * 7))

    assert {name: result.severity for name, result in found.items()} == {"noise": "ok", "id": "ok", "code": "warn"}
    assert found["code"].value == 1.0
    assert "it looks like the label" in found["code"].sentence


@pytest.mark.parametrize("told", [{"code": {"label_leakage": "off"}}, {"code": "off"}])
def test_one_feature_may_be_allowed(told: Any) -> None:
    assert "code" not in leakage(made(code=LABELS * 7), parse_feature_limits(told))


def test_the_page_says_it_but_not_of_what_shardmill_added() -> None:
    summary = made(code=LABELS * 7).summary("train", "code")
    assert summary is not None

    assert alerts({"train": (600, summary)}) == [
        "looks like the label: reduces errors in predicting it by 100.0% in train"
    ]
    assert alerts({"train": (600, summary)}, "source") == []


def test_what_begins_to_tell_the_label_is_a_difference() -> None:
    noise = np.random.default_rng(1).integers(0, 3, len(LABELS))
    before, after = made(code=noise), made(code=LABELS)

    (found,) = (one for one in find_differences(after, before) if one.what == "leakage")
    (gone,) = (one for one in find_differences(before, after) if one.what == "leakage")

    assert found.words.startswith("code looks like the label: ")
    assert gone.words.startswith("code looks like the label no longer: 100.0% -> ")
