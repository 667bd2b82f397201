"""Tests of src/shardmill/quality/checks.py."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.text_format import ParseError

from shardmill.addons.reports.content import alerts
from shardmill.data.features import Feature
from shardmill.quality import checks
from shardmill.quality.checks import find_failures, run_checks
from shardmill.quality.difference import find_differences
from shardmill.quality.limits import NO_LIMITS, ByFeature, CheckResult, Constraints, Limits, worst_severity
from shardmill.quality.profile import Profile
from shardmill.quality.stats_file import StatsFile
from shardmill.transforms.options.job_options import CheckOptions, parse_feature_limits
from tests.support.profiles import profile

LIMITS = CheckOptions().limits


def of(counts: Mapping[str, int], version: str = "1.0.1") -> Profile:
    ids = [index for index, count in enumerate(counts.values()) for _ in range(count)]
    return profile({"train": {"action": ids[::2]}, "test": {"action": ids[1::2]}}, {"action": list(counts)}, version)


def without_statistics(of: Profile) -> Profile:
    return replace(of, stats=StatsFile({split: replace(s, features={}) for split, s in of.stats.splits.items()}))


def said(now: Mapping[str, int], before: Mapping[str, int]) -> dict[str, tuple[str, float | None, str]]:
    results = checks.check_classes(of(now), of(before, "1.0.0"), LIMITS)
    return {r.check: (r.severity, r.value, r.sentence) for r in results if "no class" not in r.sentence}


BEFORE = {"buy": 10, "click": 20, "view": 70}


GONE = {"classes_gone": ("error", 1, "1 class is gone since 1.0.0: 'buy' (10 examples)")}
BY_CHANCE = "1 class is gone since 1.0.0: 'buy' (6 examples); so few that chance may do it"
MOVED = "2 classes of another id than in 1.0.0: 'click' from 1 to 0, 'view' from 2 to 1"


@pytest.mark.parametrize(
    ("now", "before", "found"),
    [
        (BEFORE, BEFORE, {}),
        ({"click": 20, "view": 70}, BEFORE, {**GONE, "classes_moved": ("warn", 2, MOVED)}),
        (BEFORE | {"buy": 0}, BEFORE, GONE),
        (BEFORE | {"zoom": 9}, BEFORE, {"classes_new": ("warn", 1, "1 class is new since 1.0.0: 'zoom' (9 examples)")}),
        (BEFORE | {"buy": 0}, BEFORE | {"buy": 6}, {"classes_gone": ("ok", 1, BY_CHANCE)}),
    ],
)
def test_classes(now: dict[str, int], before: dict[str, int], found: Any) -> None:
    assert said(now, before) == found


NONE_SHRANK = "no class of 'action' has shrunk so far since 1.0.0"
TWO_SHRANK = "2 classes have shrunk since 1.0.0: 'view' (1,000 -> 300 examples), 'buy' (1,000 -> 400 examples)"


@pytest.mark.parametrize(
    ("now", "limit", "severity", "words"),
    [
        ({"buy": 400}, Limits(0.5), "warn", "1 class has shrunk since 1.0.0: 'buy' (1,000 -> 400 examples)"),
        ({"buy": 510}, Limits(0.5), "ok", NONE_SHRANK),
        ({"buy": 400, "view": 300}, Limits(0.5, 0.35), "error", TWO_SHRANK),
        ({"buy": 0}, Limits(0.5), "ok", NONE_SHRANK),  # it is gone
        ({"rare": 1}, Limits(0.5), "ok", NONE_SHRANK),  # by chance
        ({"buy": 9_000}, Limits(0.5), "ok", NONE_SHRANK),  # others' shares fell
    ],
)
def test_classes_that_shrink(now: dict[str, int], limit: Limits, severity: str, words: str) -> None:
    before = {"buy": 1_000, "click": 1_000, "rare": 3, "view": 1_000}

    def shrunk(limit: Limits) -> list[CheckResult]:
        results = checks.check_classes(of(before | now), of(before, "1.0.0"), LIMITS | {"classes_shrunk": limit})
        return [result for result in results if result.check == "classes_shrunk"]

    assert [(result.severity, result.sentence) for result in shrunk(limit)] == [(severity, words)]
    assert shrunk(NO_LIMITS) == []


def test_by_chance() -> None:
    assert checks.max_examples_by_chance(100, 100) == pytest.approx(6.644, abs=1e-3)  # 2**-6.644 is 0.01
    assert checks.max_examples_by_chance(100, 0) == 0


def test_an_old_version_may_not_say() -> None:
    old = without_statistics(of(BEFORE, "1.0.0"))

    found = {result.check: result.severity for result in checks.check_classes(of(BEFORE), old, LIMITS)}
    unknown = dict.fromkeys(("classes_gone", "classes_new", "classes_shrunk"), "unknown")
    assert found == {"classes_moved": "ok", **unknown}


@pytest.mark.parametrize(
    ("limit", "severity"), [(Limits(warn=10), "ok"), (Limits(warn=11), "warn"), (Limits(None, 21), "error")]
)
@pytest.mark.parametrize("counted", ["examples", "objects"])
def test_the_smallest_class(limit: Limits, severity: str, counted: str) -> None:
    found = of(BEFORE)
    sequence = "objects" if counted == "objects" else ""
    features = tuple(replace(feature, sequence=sequence) for feature in found.manifest.features)
    found = replace(found, manifest=replace(found.manifest, features=features))
    assert list(checks.check_smallest_class(found, LIMITS)) == []
    (result,) = checks.check_smallest_class(found, LIMITS | {"min_examples_per_class": limit})

    assert (result.severity, result.value) == (severity, 10)
    more = "; 2 classes have fewer than 21" if severity == "error" else ""
    assert result.sentence == f"class 'buy' of 'action' has 10 {counted}{more}"


OLD = {"x": [1] * 100, "text": ["a"] * 100, "boxes": [[1.0, 2.0]] * 100}


def column_faults(now: dict[str, Any], **classes: Any) -> list[CheckResult]:
    new, old = profile({"train": now}, **classes), profile({"train": OLD}, version="1.0.0")
    return [result for result in checks.check_columns(new, old, LIMITS) if result.severity != "ok"]


TYPES = "types_changed error {}: 1 feature of another type than in 1.0.0: {}"


@pytest.mark.parametrize(
    ("now", "classes", "found"),
    [
        (OLD, {}, []),
        ({"x": OLD["x"], "text": OLD["text"]}, {}, ["columns_gone error boxes: 1 feature gone since 1.0.0: boxes"]),
        (OLD | {"new": OLD["x"]}, {}, ["columns_new warn new: 1 feature new since 1.0.0: new"]),
        (OLD | {"x": [1.5] * 100}, {}, [TYPES.format("x", "x (int64 -> float32)")]),
        (OLD | {"x": ["1"] * 100}, {}, [TYPES.format("x", "x (int64 -> bytes text)")]),
        (OLD | {"boxes": [1.0] * 100}, {}, [TYPES.format("boxes", "boxes (float32[-1] -> float32)")]),
        (OLD, {"x": ["zero", "one"]}, [TYPES.format("x", "x (int64 -> int64 class_label)")]),
    ],
)
def test_columns(now: dict[str, Any], classes: dict[str, list[str]], found: list[str]) -> None:
    faults = column_faults(now, classes=classes)

    assert [f"{fault.check} {fault.severity} {fault.feature}: {fault.sentence}" for fault in faults] == found


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


NIGHT: dict[str, Any] = {"x": [1.0, 2.0, 3.0, 4.0] * 500, "country": ["de", "de", "fr", None] * 500}
WORDS = [[1], [1, 2], [3], [4, 5, 6]] * 500


def constraints_of(version: str = "1.0.1", **changes: Any) -> Profile:
    return profile({"train": NIGHT | changes}, version=version)


def found(new: Profile, schema: str, old: Profile | None = None) -> dict[str, str]:
    """The checks that only fail, or say nothing, with this schema."""
    old = constraints_of("1.0.0") if old is None else old
    before = {(result.check, result.feature) for result in run_checks(new, old, LIMITS) if result.severity != "ok"}
    results = run_checks(new, old, LIMITS, Constraints.from_pbtxt(schema))
    return {r.check: r.severity for r in results if r.severity != "ok" and (r.check, r.feature) not in before}


def feature(text: str, name: str = "x") -> str:
    return f"feature {{ name: '{name}' {text} }}"


def dataset(text: str) -> str:
    return f"dataset_constraints {{ {text} }}"


def comparator(which: str, measure: str, threshold: float = 0.1) -> str:
    return f"{which}_comparator {{ {measure} {{ threshold: {threshold} }} }}"


SHANNON, INFINITY, DIFFERENCE = "jensen_shannon_divergence", "infinity_norm", "normalized_abs_difference"
FEWER = "num_examples_drift_comparator { min_fraction_threshold: 1.5 }"
MORE = "num_examples_version_comparator { max_fraction_threshold: 0.5 }"
MASS = "string_domain { value: 'de' } distribution_constraints { min_domain_mass: 0.6 }"


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (dataset("min_examples_count: 2000 max_examples_count: 2000"), {}),
        (dataset("min_examples_count: 2001"), {"min_examples_count": "error"}),
        (dataset("max_examples_count: 1999"), {"max_examples_count": "error"}),
        (dataset(FEWER), {"examples_under": "error"}),
        (dataset(MORE), {"examples_over": "error"}),
        (feature("presence { min_fraction: 1.0 min_count: 2000 }"), {}),
        (feature("presence { min_fraction: 0.75 min_count: 1500 }", "country"), {}),
        (feature("presence { min_fraction: 0.8 }", "country"), {"min_fraction": "error"}),
        (feature("presence { min_count: 1501 }", "country"), {"min_count": "error"}),
        (feature("presence { min_fraction: 0.1 }", "gone"), {"columns_gone": "error"}),
        (feature("presence { min_fraction: 0.1 } lifecycle_stage: DEPRECATED", "gone"), {}),
        (feature("float_domain { min: 1 max: 4 }"), {}),
        (feature("float_domain { min: 1.5 }"), {"domain": "error"}),
        (feature("float_domain { max: 3.5 }"), {"domain": "error"}),
        (feature("string_domain { value: 'de' value: 'fr' }", "country"), {}),
        (feature("string_domain { value: 'de' }", "country"), {"string_domain": "error"}),
        (feature(MASS, "country"), {}),
        ("string_domain { name: 'c' value: 'de' }" + feature("domain: 'c'", "country"), {"string_domain": "error"}),
        (feature(comparator("drift", INFINITY)), {"numeric_drift": "unknown"}),
        (feature(comparator("drift", SHANNON), "country"), {"string_drift": "unknown"}),
        (feature(comparator("skew", DIFFERENCE), "country"), {"string_skew": "unknown"}),
        (feature("unique_constraints { min: 1 max: 3 }", "country"), {"unique_constraints": "unknown"}),
        (feature("value_counts { value_count { min: 1 } }"), {"value_counts": "unknown"}),
        (feature("value_count { min: 1 max: 1 }"), {}),
        (feature("value_count { min: 2 }"), {"value_count": "error"}),
        (feature("value_count { min: 1 max: 3 }", "words"), {}),
        (feature("value_count { max: 2 }", "words"), {"value_count": "error"}),
        (feature("value_count { min: 2 }", "words"), {"value_count": "error"}),
    ],
)
def test_what_a_schema_asks_for(schema: str, expected: dict[str, str]) -> None:
    assert found(constraints_of(words=WORDS), schema) == expected


def test_the_threshold_of_a_comparator_takes_the_place_of_that_of_all() -> None:
    new = constraints_of(country=["de", "fr", "fr", None] * 500, x=[1.0, 1.0, 3.0, 4.0] * 500)
    old = constraints_of("1.0.0")

    def severities(schema: str) -> dict[str, str]:
        results = run_checks(new, old, LIMITS, Constraints.from_pbtxt(schema))
        return {r.feature: r.severity for r in results if r.check in ("string_drift", "numeric_drift")}

    assert severities("") == {"x": "warn", "country": "error"}
    changed = feature(comparator("drift", INFINITY, 0.4), "country") + feature(comparator("drift", SHANNON))
    assert severities(changed) == {"x": "error", "country": "ok"}


def test_values_that_are_not_on_record_may_be_out_of_the_domain() -> None:
    new = constraints_of(country=[f"v{index % 30}" for index in range(2000)])
    domain = " ".join(f"value: 'v{index}'" for index in range(30))

    assert found(new, feature(f"string_domain {{ {domain} }}", "country")) == {"string_domain": "unknown"}


def test_presence_that_is_not_on_record() -> None:
    schema = feature("presence { min_fraction: 0.1 }", "country")
    assert found(without_statistics(constraints_of()), schema) == {"min_fraction": "unknown"}


def test_the_mean_of_numbers_is_of_the_splits_that_have_any() -> None:
    few = {
        "train": {"x": [1, 2, 6, None]},
        "test": {"x": [None, 4]},
        "other": {"x": pa.array([None, None], pa.int64())},
    }
    assert profile({"all": {"x": [1, 2, 6, 4]}}).numeric_mean("x") == profile(few).numeric_mean("x") == 3.25
    assert profile({"train": {"x": ["a", "b"]}}).numeric_mean("x") is None


def test_there_may_be_nothing_to_compare_with() -> None:
    results = run_checks(constraints_of(), None, LIMITS, Constraints.from_pbtxt(dataset(FEWER)))

    assert [r.severity for r in results if r.check == "examples_under"] == ["unknown"]


def test_what_is_no_schema() -> None:
    with pytest.raises(ParseError, match="no field named"):
        Constraints.from_pbtxt("features { }")


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
    assert found.sentence.startswith("'x' in 'train': Jensen-Shannon")
    assert "accept it in the recipe: `checks: {columns: {x: {numeric_drift: off}}}`" in found.sentence
    assert drift(before, now, x={"numeric_drift": 5}).severity == drift(before, before).severity == "ok"


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


def run_of(columns: Mapping[str, Any], version: str, seed: int = 0, **changes: Any) -> Profile:
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
    old, new = run_of(taken(both, order[:examples]), "1.0.0", 1), run_of(taken(both, order[examples:]), "1.0.1", 2)

    results = run_checks(new, old, LIMITS)

    assert [result.sentence for result in results if result.severity in ("warn", "error")] == []
    assert {"label_drift", "string_drift", "numeric_drift", "label_skew", "presence_drop"} <= {r.check for r in results}


def found_by(results: list[CheckResult], severity: str) -> set[tuple[str, str]]:
    return {(result.check, result.feature) for result in results if result.severity == severity}


@pytest.mark.parametrize("examples", [100, 1_000])
def test_bad_nights_are_found(examples: int) -> None:
    night, next_night = rows(examples, 5), rows(examples, 6)
    old = run_of(night, "1.0.0", 1)

    without = taken(next_night, np.flatnonzero(next_night["action"] != 1))
    assert ("classes_gone", "action") in found_by(run_checks(run_of(without, "1.0.1", 2), old, LIMITS), "error")

    fewer = taken(next_night, range(examples * 6 // 10))
    assert ("examples_under", "") in found_by(run_checks(run_of(fewer, "1.0.1", 2), old, LIMITS), "warn")

    amounts = next_night | {"amount": next_night["amount"] * 100}
    assert ("numeric_drift", "amount") in found_by(run_checks(run_of(amounts, "1.0.1", 2), old, LIMITS), "error")


def test_what_is_known_without_an_older_version() -> None:
    results = run_checks(run_of(rows(200, 1), "1.0.0"), None, LIMITS)

    (baseline,) = [result for result in results if result.check == "baseline"]
    assert baseline.severity == "unknown"
    assert "label_skew" in {result.check for result in results}
    assert worst_severity(results) == "unknown"
    assert find_failures(results) == []


def test_every_check_can_be_turned_off() -> None:
    old, new = run_of(rows(200, 1), "1.0.0"), run_of(rows(60, 2), "1.0.1")

    assert run_checks(new, old, dict.fromkeys(LIMITS, NO_LIMITS)) == []


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
    nan = np.full(50, np.nan, np.float32)
    some = np.where(np.arange(50) % 2, nan, np.linspace(0, 1, 50).astype(np.float32))
    new = profile({"train": {"nan": nan, "some": some}, "test": {"nan": nan[:10], "some": some[:10]}})

    found = {result.feature: result for result in run_checks(new, None, LIMITS) if result.check == "numeric_skew"}
    assert found["nan"].severity == "ok"
    assert "spread evenly" not in found["nan"].sentence


def test_of_a_wide_table_the_columns_that_moved_most_are_compared() -> None:
    generator = np.random.default_rng(0)
    columns = {f"c{number}": generator.normal(0, 1, 400) for number in range(30)}
    old = profile({"train": columns, "test": columns}, version="1.0.0")
    new = profile({"train": columns | {"c17": columns["c17"] + 9}, "test": columns})
    words = "only the 4 whose means moved most are compared here; `shardmill diff` compares all"

    some, every = (run_checks(new, old, LIMITS, at_most=at_most) for at_most in (4, None))
    for check in ("numeric_drift", "numeric_skew"):
        results = [result for result in some if result.check == check]
        left_out = [result for result in results if result.severity == "unknown"]
        assert left_out[0].sentence.startswith("of 30 features in '")
        assert left_out[0].sentence.endswith(words)
        assert len(results) - len(left_out) == 4 * len(left_out)
        assert [result.feature for result in results if result.severity in ("warn", "error")] == ["c17"]
    assert [result for result in some if result.severity != "unknown"] == [result for result in every if result in some]
    assert sum(result.check == "numeric_drift" for result in every) == 60


def sized(splits: dict[str, int], **arguments: Any) -> Profile:
    return profile({split: {"x": [1] * examples} for split, examples in splits.items()}, **arguments)


@pytest.mark.parametrize(
    ("now", "before", "expected"),
    [
        ({"train": 1000}, {"train": 1000}, {}),
        ({"train": 900}, {"train": 1000}, {}),
        ({"train": 899}, {"train": 1000}, {"": "examples_under warn"}),
        ({"train": 499}, {"train": 1000}, {"": "examples_under error"}),
        ({"train": 2001}, {"train": 1000}, {"": "examples_over warn"}),
        ({"train": 1010, "test": 12}, {"train": 1000, "test": 20}, {}),  # by chance
        ({"train": 1400, "test": 40}, {"train": 1000, "test": 400}, {"test": "examples_under error"}),
        ({"train": 1380}, {"train": 1000, "test": 400}, {"test": "examples_under error"}),
        (
            {"train": 0, "test": 0},
            {"train": 1000, "test": 400},
            dict.fromkeys(("", "train", "test"), "examples_under error"),
        ),
        ({"train": 5}, {"train": 0}, {}),
    ],
)
def test_examples(now: dict[str, int], before: dict[str, int], expected: dict[str, str]) -> None:
    results = checks.check_examples(sized(now), sized(before, version="1.0.0"), LIMITS)

    assert {r.split: f"{r.check} {r.severity}" for r in results if r.severity != "ok"} == expected


@pytest.mark.parametrize(("limit", "severity"), [(Limits(0.9, 0.5), "warn"), (Limits(None, 0.85), "error")])
def test_the_sentence_of_examples(limit: Limits, severity: str) -> None:
    new, old = sized({"train": 11_886}), sized({"train": 20_000}, version="1.0.0")
    (result, _) = checks.check_examples(new, old, LIMITS | {"examples_under": limit})

    assert result.sentence == "there are 11,886 examples, 20,000 in 1.0.0: 0.594 times as many"
    threshold = limit.warn or limit.error
    assert (result.severity, result.value, result.threshold, result.noise_floor) == (severity, 0.5943, threshold, None)


@pytest.mark.parametrize(("rejected", "severity"), [(0, "ok"), (5, "ok"), (6, "warn"), (60, "error")])
def test_rejects(rejected: int, severity: str) -> None:
    (result,) = checks.check_rejects(sized({"train": 1000 - rejected}, rejected=rejected), LIMITS)

    assert (result.severity, result.sentence) == (severity, f"{rejected} of 1,000 records were rejected")


def test_an_input_of_unknown_size_says_nothing_of_rejects() -> None:
    assert [result.severity for result in checks.check_rejects(sized({"train": 0}), LIMITS)] == ["unknown"]


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
    made = sized({"train": sum(shards)}, shards={"train": shards}, balance=balance)

    assert [result.severity for result in checks.check_shards(made, LIMITS)] == [severity]
    assert list(checks.check_shards(sized({"train": 5}), LIMITS)) == []
