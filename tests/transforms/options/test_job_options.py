"""Tests of transforms/options/job_options.py: limits of checks, constraints of a schema, and versions."""

from pathlib import Path
from typing import Any

import pytest

from shardmill.errors import UserError
from shardmill.quality.limits import NO_LIMITS, Limits
from shardmill.transforms.options.job_options import (
    CheckOptions,
    OutputOptions,
    parse_constraints,
    parse_limits,
    parse_types,
)
from tests.support.later import Later

tfds_version = Later("tensorflow_datasets.core.utils.version")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"warn": 0.1, "error": 0.3}, Limits(0.1, 0.3)),
        ({"warn": "0.1"}, Limits(0.1)),
        ({"warn": None, "error": 1}, Limits(None, 1.0)),
        ("warn=0.1, error=0.3", Limits(0.1, 0.3)),
        (0.2, Limits(None, 0.2)),
        ("0.2", Limits(None, 0.2)),
        ("error", Limits(None, 0.0)),
        ("warn", Limits(0.0)),
        ("off", NO_LIMITS),
        (False, NO_LIMITS),
        (Limits(1.0, 2.0), Limits(1.0, 2.0)),
    ],
)
def test_how_limits_are_written(value: Any, expected: Limits) -> None:
    assert parse_limits(value) == expected


@pytest.mark.parametrize(
    ("check", "word", "expected"),
    [
        ("examples_under", "error", Limits(None, 0.9)),
        ("classes_shrunk", "error", Limits(None, 0.5)),
        ("shards_under", "warn", Limits(0.5)),
        ("min_examples_per_class", "error", Limits(None, 1.0)),
        ("classes_gone", "error", Limits(None, 0.0)),
    ],
)
def test_a_word_of_a_lower_bound_can_be_missed(check: str, word: str, expected: Limits) -> None:
    """At 0, as for upper bounds, the check would never fail."""
    chosen: dict[str, Any] = {check: word}
    assert CheckOptions(**chosen).limits[check] == expected


def test_every_check_has_its_limits() -> None:
    limits = CheckOptions(columns_new=NO_LIMITS).limits

    assert limits["examples_under"] == Limits(0.9, 0.5)
    assert limits["columns_new"] == NO_LIMITS
    assert "baseline" not in limits


def test_no_check_shapes_the_output() -> None:
    assert CheckOptions(baseline="gold").to_json() == {}


def test_a_schema_is_read_where_it_is_named(tmp_path: Path) -> None:
    path = tmp_path / "schema.pbtxt"
    path.write_text("dataset_constraints { min_examples_count: 5 }")
    asked = CheckOptions(schema=parse_constraints(str(path))).schema

    assert asked is not None
    assert asked.schema().dataset_constraints.min_examples_count == 5


@pytest.mark.parametrize(("text", "said"), [(None, "No such file"), ("{", "is not a tensorflow-metadata Schema")])
def test_what_is_no_schema(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "schema.pbtxt"
    if text is not None:
        path.write_text(text)

    with pytest.raises(UserError, match=rf"--schema: {path}.* ?{said}"):
        CheckOptions(**{"schema": str(path)})  # type: ignore[arg-type]


def test_thresholds_of_single_features() -> None:
    columns = CheckOptions(columns={"id": "off", "amount": {"numeric_drift": {"error": "0.5"}}}).columns or {}  # type: ignore[dict-item]

    assert set(columns["id"].values()) == {NO_LIMITS}
    assert columns["amount"] == {"numeric_drift": Limits(error=0.5)}
    assert CheckOptions().columns is None


NO_LIMITS_SAID = r"--label_drift: .*: expected off, warn, error, a number, or \{warn: number"
BEFORE = "expected to warn before it is an error"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        *(
            ({"label_drift": value}, NO_LIMITS_SAID)
            for value in ("often", -0.1, True, {}, {"fail": 1}, {"warn": "x"}, [1], "nan", "inf", None)
        ),
        ({"label_drift": "warn=0.3,error=0.1"}, BEFORE),
        ({"examples_under": "warn=0.5,error=0.9"}, BEFORE),
        *(
            ({"baseline": value}, "--baseline .*: expected a version, such as 1.0.0, LATEST, or a tag")
            for value in ("../x", "1.0", "", "a/b")
        ),
        ({"columns": "id"}, "--columns: 'id': expected features, each with off or its checks"),
        ({"columns": {"id": "often"}}, "--columns: id: 'often': expected off, or checks"),
        (
            {"columns": {"id": {"numeric_drfit": "off"}}},
            "--columns: id: 'numeric_drfit' is no check of a single feature; did you mean numeric_",
        ),
        (
            {"columns": {"id": {"shards_under": "off"}}},
            "--columns: id: 'shards_under' is no check of a single feature; expected one of presen",
        ),
        (
            {"columns": {"id": {"numeric_drift": "often"}}},
            "--columns: id: --numeric_drift: 'often': expected off, warn, error, a number",
        ),
        ({"columns": {"id": {"numeric_drift": "warn=2,error=1"}}}, f"--columns: .*{BEFORE}"),
    ],
)
def test_mistakes(values: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        CheckOptions(**values)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.0.0", "0.0.10", "1.0.20261119", "10.20.30"])
def test_versions(version: str) -> None:
    assert str(tfds_version.Version(OutputOptions(output="o", name="n", version=version).version)) == version


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("1.0", "expected three numbers, such as 1.0.0"),
        ("1.0.x", "expected three numbers, such as 1.0.0"),
        ("1.01.007", "TFDS reads no leading zeros; give 1.1.7"),
        ("00.1.0", "TFDS reads no leading zeros; give 0.1.0"),
    ],
)
def test_what_is_no_version(version: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        OutputOptions(output="o", name="n", version=version)
    with pytest.raises(ValueError, match="version"):
        tfds_version.Version(version)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": "int"}, "a=int is not column=type, such as zip=bytes; types are int64, float32, bytes"),
        ("a=int64,a=bool", "a=… is given twice"),
    ],
)
def test_columns_with_words(value: Any, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}"):
        parse_types(value)
