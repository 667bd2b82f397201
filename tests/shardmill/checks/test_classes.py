from collections.abc import Mapping
from dataclasses import replace

import pytest

from shardmill.quality import checks as classes
from shardmill.quality.limits import Limits
from shardmill.quality.profile import Profile
from shardmill.quality.stats_file import StatsFile
from shardmill.transforms.options.job_options import CheckOptions
from tests.support.profiles import profile

LIMITS = CheckOptions().limits


def of(counts: Mapping[str, int], version: str = "1.0.1") -> Profile:
    ids = [index for index, count in enumerate(counts.values()) for _ in range(count)]
    return profile({"train": {"action": ids[::2]}, "test": {"action": ids[1::2]}}, {"action": list(counts)}, version)


def said(now: Mapping[str, int], before: Mapping[str, int]) -> dict[str, tuple[str, str]]:
    results = classes.check_classes(of(now), of(before, "1.0.0"), LIMITS)
    return {result.check: (result.severity, result.sentence) for result in results if "no class" not in result.sentence}


BEFORE = {"buy": 10, "click": 20, "view": 70}


def test_nothing_changed() -> None:
    assert said(BEFORE, BEFORE) == {}


def test_a_class_that_is_gone_moves_the_others() -> None:
    assert said({"click": 20, "view": 70}, BEFORE) == {
        "classes_gone": ("error", "1 class is gone since 1.0.0: 'buy' (10 examples)"),
        "classes_moved": ("warn", "2 classes of another id than in 1.0.0: 'click' from 1 to 0, 'view' from 2 to 1"),
    }


def test_a_class_that_has_its_name_only_is_gone() -> None:
    assert said(BEFORE | {"buy": 0}, BEFORE) == {
        "classes_gone": ("error", "1 class is gone since 1.0.0: 'buy' (10 examples)")
    }


def test_a_new_class() -> None:
    assert said(BEFORE | {"zoom": 9}, BEFORE) == {
        "classes_new": ("warn", "1 class is new since 1.0.0: 'zoom' (9 examples)")
    }


def test_a_class_that_chance_may_have_left_out() -> None:
    (severity, sentence), _ = said({"click": 20, "view": 70}, BEFORE | {"buy": 6}).values()

    assert severity == "ok" or "another id" in sentence
    results = classes.check_classes(of({"buy": 0, "click": 20, "view": 70}), of(BEFORE | {"buy": 6}, "1.0.0"), LIMITS)
    (gone,) = [result for result in results if result.check == "classes_gone"]
    assert gone.severity == "ok"
    assert gone.value == 1
    assert gone.sentence == "1 class is gone since 1.0.0: 'buy' (6 examples); so few that chance may do it"


def test_a_class_that_is_renamed_is_one_gone_and_one_new() -> None:
    assert said({"bought": 10, "click": 20, "view": 70}, BEFORE).keys() == {"classes_gone", "classes_new"}


def test_by_chance() -> None:
    assert classes.max_examples_by_chance(100, 100) == pytest.approx(6.644, abs=1e-3)  # 2**-6.644 is 0.01
    assert classes.max_examples_by_chance(100, 0) == 0


def test_an_old_version_may_not_say() -> None:
    old = of(BEFORE, "1.0.0")
    silent = replace(old, stats=StatsFile({split: replace(s, features={}) for split, s in old.stats.splits.items()}))

    checks = {result.check: result.severity for result in classes.check_classes(of(BEFORE), silent, LIMITS)}
    assert checks == {"classes_moved": "ok", "classes_gone": "unknown", "classes_new": "unknown"}


@pytest.mark.parametrize(
    ("limit", "severity"), [(Limits(warn=10), "ok"), (Limits(warn=11), "warn"), (Limits(None, 21), "error")]
)
def test_the_smallest_class(limit: Limits, severity: str) -> None:
    assert list(classes.check_smallest_class(of(BEFORE), LIMITS)) == []
    (result,) = classes.check_smallest_class(of(BEFORE), LIMITS | {"min_examples_per_class": limit})

    assert (result.severity, result.value) == (severity, 10)
    if severity == "error":
        assert result.sentence == "class 'buy' of 'action' has 10 examples; 2 classes have fewer than 21"


def test_objects_are_counted_as_objects() -> None:
    found = of(BEFORE)
    features = tuple(replace(feature, sequence="objects") for feature in found.manifest.features)
    limits = LIMITS | {"min_examples_per_class": Limits(warn=11)}
    (result,) = classes.check_smallest_class(
        replace(found, manifest=replace(found.manifest, features=features)), limits
    )

    assert result.sentence == "class 'buy' of 'action' has 10 objects"
