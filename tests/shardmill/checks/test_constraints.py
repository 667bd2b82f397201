from typing import Any

import pytest
from google.protobuf.text_format import ParseError

from shardmill.quality.checks import run_checks
from shardmill.quality.limits import Constraints
from shardmill.quality.profile import Profile
from shardmill.transforms.options.job_options import CheckOptions
from tests.support.profiles import profile

LIMITS = CheckOptions().limits
NIGHT: dict[str, Any] = {"x": [1.0, 2.0, 3.0, 4.0] * 500, "country": ["de", "de", "fr", None] * 500}
WORDS = [[1], [1, 2], [3], [4, 5, 6]] * 500


def of(version: str = "1.0.1", **changes: Any) -> Profile:
    return profile({"train": NIGHT | changes}, version=version)


def found(new: Profile, schema: str, old: Profile | None = None) -> dict[str, str]:
    """The checks that only fail, or say nothing, with this schema."""
    old = of("1.0.0") if old is None else old
    before = {(result.check, result.feature) for result in run_checks(new, old, LIMITS) if result.severity != "ok"}
    results = run_checks(new, old, LIMITS, Constraints.from_pbtxt(schema))
    return {r.check: r.severity for r in results if r.severity != "ok" and (r.check, r.feature) not in before}


def feature(text: str, name: str = "x") -> str:
    return f"feature {{ name: '{name}' {text} }}"


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("dataset_constraints { min_examples_count: 2000 max_examples_count: 2000 }", {}),
        ("dataset_constraints { min_examples_count: 2001 }", {"min_examples_count": "error"}),
        ("dataset_constraints { max_examples_count: 1999 }", {"max_examples_count": "error"}),
        (
            "dataset_constraints { num_examples_drift_comparator { min_fraction_threshold: 1.5 } }",
            {"examples_under": "error"},
        ),
        (
            "dataset_constraints { num_examples_version_comparator { max_fraction_threshold: 0.5 } }",
            {"examples_over": "error"},
        ),
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
        (feature("string_domain { value: 'de' } distribution_constraints { min_domain_mass: 0.6 }", "country"), {}),
        ("string_domain { name: 'c' value: 'de' }" + feature("domain: 'c'", "country"), {"string_domain": "error"}),
        (feature("drift_comparator { infinity_norm { threshold: 0.1 } }"), {"numeric_drift": "unknown"}),
        (
            feature("drift_comparator { jensen_shannon_divergence { threshold: 0.1 } }", "country"),
            {"string_drift": "unknown"},
        ),
        (
            feature("skew_comparator { normalized_abs_difference { threshold: 0.1 } }", "country"),
            {"string_skew": "unknown"},
        ),
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
    assert found(of(words=WORDS), schema) == expected


def test_the_threshold_of_a_comparator_takes_the_place_of_that_of_all() -> None:
    new = of(country=["de", "fr", "fr", None] * 500, x=[1.0, 1.0, 3.0, 4.0] * 500)
    old = of("1.0.0")

    def severities(schema: str) -> dict[str, str]:
        results = run_checks(new, old, LIMITS, Constraints.from_pbtxt(schema))
        return {r.feature: r.severity for r in results if r.check in ("string_drift", "numeric_drift")}

    assert severities("") == {"x": "warn", "country": "error"}
    higher = feature("drift_comparator { infinity_norm { threshold: 0.4 } }", "country")
    lower = feature("drift_comparator { jensen_shannon_divergence { threshold: 0.1 } }")
    assert severities(higher + lower) == {"x": "error", "country": "ok"}


def test_values_that_are_not_on_record_may_be_out_of_the_domain() -> None:
    values = [f"v{index % 30}" for index in range(2000)]
    new = of(country=values)

    domain = " ".join(f"value: 'v{index}'" for index in range(30))
    assert found(new, feature(f"string_domain {{ {domain} }}", "country")) == {"string_domain": "unknown"}


def test_there_may_be_nothing_to_compare_with() -> None:
    schema = "dataset_constraints { num_examples_drift_comparator { min_fraction_threshold: 0.5 } }"
    results = run_checks(of(), None, LIMITS, Constraints.from_pbtxt(schema))

    assert [r.severity for r in results if r.check == "examples_under"] == ["unknown"]


def test_what_is_no_schema() -> None:
    with pytest.raises(ParseError, match="no field named"):
        Constraints.from_pbtxt("features { }")
