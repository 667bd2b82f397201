"""Statistics of strings, as they stand in stats.json, against numpy and Python."""

import json
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.transforms.statistics.sketches import mix
from shardmill.transforms.statistics.values import MAX_SHOWN_BYTES, StringStats


def strings(values: list[bytes]) -> dict[str, Any]:
    """The statistics of strings, read back from JSON."""
    stats, array = StringStats(), pa.array(values, pa.large_binary())
    ties = mix(np.arange(len(array), dtype=np.uint64))
    for start in range(0, len(array), 50_000):
        stats.add(array[start : start + 50_000], ties[start : start + 50_000])
    return json.loads(json.dumps(stats.summary(None).to_json()))


@settings(deadline=None)
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


def test_values_that_occur_once_are_no_top_values() -> None:
    assert strings([b"word%d" % number for number in range(30)])["top_values"] == []
    assert len(strings([b"word%d" % number for number in range(20)])["top_values"]) == 20


def test_values_of_a_column_of_rare_ones_are_no_top_values() -> None:
    """Some are in the sample two or three times by chance."""
    assert strings([b"word%d" % (number % 1500) for number in range(60_000)])["top_values"] == []


def test_no_values_have_no_statistics() -> None:
    assert strings([]) == StringStats().summary(None).to_json() == {}
