"""Tests of transforms/statistics/values.py."""

import json
import math
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.transforms.statistics.sketches import mix
from shardmill.transforms.statistics.values import (
    MAX_SHOWN_BYTES,
    ClassStats,
    NumericStats,
    StringStats,
    ValueStats,
    count_columns,
    summarize_numbers,
)


def json_of(stats: ValueStats, values: Any, dtype: pa.DataType, names: list[str] | None = None) -> dict[str, Any]:
    """The statistics of values, counted in parts of some thousands, read back from JSON."""
    array = pa.array(values, dtype)
    ties = mix(np.arange(len(array), dtype=np.uint64))
    for start in range(0, len(array), 50_000):
        stats.add(array[start : start + 50_000], ties[start : start + 50_000])
    return json.loads(json.dumps(stats.summary(names).to_json(), allow_nan=False))


def strings(values: list[bytes]) -> dict[str, Any]:
    return json_of(StringStats(), values, pa.large_binary())


@given(st.lists(st.binary(max_size=6) | st.sampled_from([b"", b"rose", b"x" * 60]), min_size=1, max_size=60))
def test_strings(values: list[bytes]) -> None:
    stats, lengths = strings(values), [len(value) for value in values]

    assert stats["distinct"] == {"count": len(set(values)), "exact": True}
    assert (stats["length_bytes"]["min"], stats["length_bytes"]["max"]) == (min(lengths), max(lengths))
    assert stats["length_bytes"]["mean"] == sum(lengths) / len(lengths)
    assert stats["length_bytes"]["std_dev"] == pytest.approx(np.std(lengths))
    top = sorted(Counter(values).items(), key=lambda item: (-item[1], item[0]))[:20]
    if len(set(values)) <= 20:
        assert [entry["count"] for entry in stats["top_values"]] == [count for _, count in top]
        assert {entry["value"] for entry in stats["top_values"] if not entry["value"].endswith("…")} == {
            value.decode(errors="backslashreplace") for value, _ in top if len(value) <= MAX_SHOWN_BYTES
        }


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b"caf\xc3\xa9", "café"),
        (b"caf\xe9 \xff", "caf\\xe9 \\xff"),
        (b"\x00\n", "\x00\n"),
        (b"a" * 48, "a" * 48),
        (b"a" * 49, "a" * 48 + "…"),
        (("é" * 24 + "x").encode() + b"x" * 900, "é" * 24 + "…"),
        (b"a" + "é".encode() * 30, "a" + "é" * 23 + "…"),  # not half a character
        (b"\xff" * 60, "\\xff" * 48 + "…"),
    ],
)
def test_how_a_string_is_shown(value: bytes, shown: str) -> None:
    assert strings([value])["top_values"] == [{"value": shown, "count": 1}]


def test_up_to_1024_strings_are_counted_exactly() -> None:
    words = [b"word%d" % number for number in range(1024) for _ in range(1 + number % 50)]
    stats = strings(words)

    assert stats["distinct"] == {"count": 1024, "exact": True}
    assert [entry["count"] for entry in stats["top_values"]] == [50] * 20
    assert stats["top_values"][0]["value"] == min(f"word{number}" for number in range(1024) if number % 50 == 49)
    assert "top_values_from" not in stats


def test_top_values_of_many_strings_come_from_a_sample() -> None:
    words = [b"word%d" % number for number in range(100_000)] + [b"often"] * 50_000 + [b"sometimes"] * 20_000
    np.random.default_rng(0).shuffle(words)
    stats = strings(words)

    assert stats["top_values_from"] == "a sample of 1,024 values, counts scaled up"
    assert [entry["value"] for entry in stats["top_values"]] == ["often", "sometimes"]
    assert [entry["count"] for entry in stats["top_values"]] == pytest.approx([50_000, 20_000], rel=0.25)
    assert stats["distinct"]["count"] == pytest.approx(100_002, rel=0.13)


def test_values_of_a_column_of_rare_ones_are_no_top_values() -> None:
    """Some are in the sample two or three times by chance."""
    assert strings([b"word%d" % (number % 1500) for number in range(60_000)])["top_values"] == []


PERCENTS = [1, 5, 10, 25, 50, 75, 90, 95, 99]
GENERATOR = np.random.default_rng(0)


def integers(values: list[int] | np.ndarray) -> dict[str, Any]:
    return json_of(NumericStats(), values, pa.int64())


def floats(values: list[float] | np.ndarray) -> dict[str, Any]:
    return json_of(NumericStats.for_floats(), values, pa.float32())


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-70, 70), min_size=1, max_size=60))
def test_integers(values: list[int]) -> None:
    stats = integers(values)
    quantiles = np.percentile(np.array(values), PERCENTS, method="inverted_cdf").tolist()

    assert stats["distinct"] == {"count": len(set(values)), "exact": True}
    assert (stats["min"], stats["max"], stats["zeros"]) == (min(values), max(values), values.count(0))
    assert stats["mean"] == sum(values) / len(values)
    assert stats["std_dev"] == pytest.approx(float(np.std([float(value) for value in values])), rel=1e-6, abs=1e-6)
    assert list(stats["quantiles"].values()) == pytest.approx(quantiles, rel=2**-53)
    assert sum(bucket["count"] for bucket in stats["histogram"]) == len(values)
    top = sorted(Counter(values).items(), key=lambda item: (-item[1], item[0]))[:20]
    assert [(entry["value"], entry["count"]) for entry in stats["top_values"]] == [
        (value, count) for value, count in top if count > 1 or len(set(values)) <= 20
    ]


@given(st.lists(st.floats(width=32) | st.sampled_from([0.0, -0.0, 1.0, 2.0**-149, float("nan")]), max_size=60))
def test_floats(values: list[float]) -> None:
    stats, finite = floats(values), [value for value in values if np.isfinite(value)]

    assert stats.get("nan", 0) == sum(map(np.isnan, values))
    assert stats.get("infinity", 0) == sum(map(np.isinf, values))
    assert ("mean" in stats) == bool(finite)
    if finite:
        assert stats["distinct"] == {"count": len(set(finite)), "exact": True}
        assert (stats["min"], stats["max"], stats["zeros"]) == (min(finite), max(finite), finite.count(0))
        assert stats["mean"] == pytest.approx(math.fsum(finite) / len(finite), rel=1e-12)
        assert list(stats["quantiles"].values()) == np.percentile(finite, PERCENTS, method="inverted_cdf").tolist()
        assert "top_values" not in stats


def test_a_float_is_told_from_its_neighbours() -> None:
    stats = floats([1.0, 1.0, float("inf"), 2.5])

    assert stats == {
        "distinct": {"count": 2, "exact": True},
        "min": 1.0,
        "max": 2.5,
        "mean": 1.5,
        "std_dev": 0.7071067811865476,
        "zeros": 0,
        "infinity": 1,
        "quantiles": {str(percent / 100): 1.0 if percent < 67 else 2.5 for percent in PERCENTS},
        "quantiles_relative_error": 0.0,
        "histogram": [{"low": 1.0, "high": 1.0, "count": 2}, {"low": 2.5, "high": 2.5, "count": 1}],
    }


@pytest.mark.parametrize(
    "values",
    [
        GENERATOR.integers(-(10**6), 10**6, 120_000),
        1_700_000_000_000_000_000 + GENERATOR.integers(0, 10**15, 120_000),
        GENERATOR.integers(-(1 << 63), (1 << 63) - 1, 120_000),
        np.append(GENERATOR.integers(0, 3000, 120_000), [-(1 << 63), (1 << 63) - 1]),
        (np.exp(GENERATOR.normal(size=120_000) * 2) * 1000).astype(np.int64),
    ],
    ids=["millions", "times", "huge", "extremes", "skewed"],
)
def test_many_integers(values: np.ndarray) -> None:
    stats = integers(values)
    quantiles = np.percentile(values, PERCENTS, method="inverted_cdf").tolist()

    assert not stats["distinct"]["exact"]
    assert stats["distinct"]["count"] == pytest.approx(
        len(np.unique(values)), rel=4 * stats["distinct"]["relative_error"]
    )
    assert stats["distinct"]["count"] <= len(values)
    assert (stats["min"], stats["max"]) == (values.min(), values.max())
    assert stats["mean"] == sum(values.tolist()) / len(values)
    assert list(stats["quantiles"].values()) == pytest.approx(quantiles, rel=stats["quantiles_relative_error"] + 2**-52)
    assert stats["quantiles_relative_error"] < 0.01
    assert len(stats["histogram"]) <= 32
    for bucket in stats["histogram"]:  # from an integer to an integer, with both
        assert bucket["count"] == pytest.approx(((values >= bucket["low"]) & (values <= bucket["high"])).sum(), abs=1)
    assert "top_values" not in stats


EXTREMES = np.append(np.arange(-(1 << 63), (1 << 63) - 1, 1 << 53, dtype=np.int64), (1 << 63) - 1)


@pytest.mark.parametrize(
    "values",
    [np.arange(-50, 100), np.arange(0, 6000, 100), np.arange(-3000, 3000), np.arange(-(10**6), 10**6, 64), EXTREMES],
    ids=["dense", "lattice", "many", "across zero", "extremes"],
)
def test_the_bounds_of_a_bucket_of_integers_are_in_it(values: np.ndarray) -> None:
    for bucket in integers(values)["histogram"]:
        assert bucket["count"] == ((values >= bucket["low"]) & (values <= bucket["high"])).sum()


def test_integers_below_64_are_exact_among_millions() -> None:
    values = np.append(np.arange(64).repeat(3000), np.arange(10**6, 10**6 + 5000))
    stats = integers(values)

    assert (
        list(stats["quantiles"].values())[:-2] == np.percentile(values, PERCENTS[:-2], method="inverted_cdf").tolist()
    )


def test_values_that_occur_once_are_no_top_values() -> None:
    assert strings([b"word%d" % number for number in range(30)])["top_values"] == []
    assert len(strings([b"word%d" % number for number in range(20)])["top_values"]) == 20
    assert len(integers(list(range(20)))["top_values"]) == 20
    assert integers([*range(30), 7])["top_values"] == [{"value": 7, "count": 2}]


def test_class_ids_are_counted_each_however_many() -> None:
    ids = np.arange(5000).repeat(np.arange(5000) % 7)
    classes = json_of(ClassStats(), ids, pa.int64(), [f"class {index}" for index in range(5000)])["classes"]

    assert classes == {f"class {index}": index % 7 for index in range(5000)}


def test_classes_without_names() -> None:
    ids = [2, 0, 2, 9]

    assert json_of(ClassStats(), ids, pa.int64(), ["a", "b", "c"]) == {
        "classes": {"a": 1, "b": 0, "c": 2},
        "ids_without_a_name": 1,
    }
    assert json_of(ClassStats(), ids, pa.int64()) == {
        "distinct": {"count": 3, "exact": True},
        "top_values": [{"value": 2, "count": 2}, {"value": 0, "count": 1}, {"value": 9, "count": 1}],
    }


@pytest.mark.parametrize("stats", [StringStats(), NumericStats(), NumericStats.for_floats()])
def test_no_values_have_no_statistics(stats: ValueStats) -> None:
    assert stats.summary(None).to_json() == {}
    stats.add(
        pa.array([], {"int64": pa.int64(), "float32": pa.float32()}.get(stats.kind, pa.large_binary())),
        np.zeros(0, np.uint64),
    )
    assert stats.summary(None).to_json() == {}


def make_columns(dtype: str, rows: int) -> np.ndarray:
    """Columns of numbers of many kinds: shape (columns, rows)."""
    kinds = [
        GENERATOR.normal(0, 10, rows),
        GENERATOR.integers(0, 3, rows),
        np.zeros(rows),
        -np.zeros(rows),
        GENERATOR.exponential(1e6, rows) - 1e5,
        np.where(np.arange(rows) % 50, 0, GENERATOR.normal(0, 1e9, rows)),
        np.full(rows, -7),
    ]
    if dtype == "int64":
        bounds = np.iinfo(np.int64)
        extremes = GENERATOR.integers(bounds.min, bounds.max, rows), GENERATOR.choice([bounds.min, bounds.max, 0], rows)
        return np.stack([*(kind.astype(np.int64) for kind in kinds), *extremes])
    bits = GENERATOR.integers(0, 1 << 32, rows, np.uint32).view(np.float32)
    return np.stack([*kinds, np.where(np.isfinite(bits), bits, 0)]).astype(np.float32)


@pytest.mark.parametrize("rows", [1, 40, 3000, 20_000])
@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_numbers_of_several_columns_are_counted_as_each_column_is(dtype: str, rows: int) -> None:
    columns = make_columns(dtype, rows)
    together = [NumericStats() if dtype == "int64" else NumericStats.for_floats() for _ in columns]
    apart = [NumericStats() if dtype == "int64" else NumericStats.for_floats() for _ in columns]
    for start in (0, 30):
        if (part := columns[:, start : start + (30 if not start else rows)]).size:
            count_columns(together, part)
            for stats, numbers in zip(apart, part):
                stats.add(pa.array(numbers), np.zeros(0, np.uint64))

    expected = [stats.summary(None).to_json() for stats in apart]
    assert [summary.to_json() for summary in summarize_numbers(together * 60)] == expected * 60
    for numbers, found in zip(columns, expected):
        assert (found["min"], found["max"]) == (numbers.min(), numbers.max())
        assert sum(bucket["count"] for bucket in found["histogram"]) == rows
