"""Tests of transforms/findings.py: all findings merge in any order, and notices have an order."""

import copy
import pickle
import sys
from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shardmill.pipelines.jobs.record_graphs  # noqa: F401  # defines all findings about rows
from shardmill.transforms import findings as finding
from shardmill.transforms.columns.conversion import FloatSample
from shardmill.transforms.columns.types import EXACT_FLOAT32
from shardmill.transforms.layout.options import TableOptions

# Without the classes that `slots=True` has replaced
DEFINED = [
    kind for kind in finding.Finding.__subclasses__() if getattr(sys.modules[kind.__module__], kind.__name__) is kind
]
KINDS = sorted(DEFINED, key=lambda kind: kind.rank)
NUMBERS = st.lists(st.floats(EXACT_FLOAT32, EXACT_FLOAT32 * 2), max_size=5)
SAMPLES = NUMBERS.map(lambda values: FloatSample(np.array(values, np.float64)).reduce())
TEXTS = st.sampled_from(["", "a", "b", "line\nlines"])
st.register_type_strategy(finding.Rounded, st.builds(finding.Rounded, st.integers(0, 5), TEXTS, st.none() | SAMPLES))
st.register_type_strategy(int, st.integers(0, 5))
st.register_type_strategy(str, TEXTS)
st.register_type_strategy(
    finding.Occurrences,
    st.builds(finding.Occurrences, st.integers(0, 5), st.tuples(st.sampled_from("ab"), st.integers(0, 5))),
)
ANY = st.one_of(*(st.from_type(kind) for kind in KINDS))
SOME = st.lists(ANY, max_size=6).map(
    lambda found: reduce(finding.Findings.merge, map(finding.Findings.of, found), finding.Findings())
)


def comparable(found: finding.Findings) -> Any:
    """Findings, and the samples of numbers that `==` leaves out."""
    samples = found.find(finding.RoundedNumbers).columns
    return found, {name: each.sample and each.sample.describe() for name, each in samples.items()}


@given(SOME, SOME, SOME)
@settings(deadline=None)
def test_findings_are_a_monoid(one: finding.Findings, other: finding.Findings, third: finding.Findings) -> None:
    before = copy.deepcopy([one, other, third])

    assert comparable(one.merge(other).merge(third)) == comparable(one.merge(other.merge(third)))
    assert comparable(one.merge(other)) == comparable(other.merge(one))
    assert one.merge(finding.Findings()) == finding.Findings().merge(one) == one
    assert comparable(finding.merged(finding.merged(finding.Findings(), one), other)) == comparable(one.merge(other))
    assert list(map(comparable, before)) == [comparable(found) for found in (one, other, third)]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_found_says_nothing(kind: type[finding.Finding]) -> None:
    assert list(kind().notices(TableOptions("--input x"), 1)) == []


@given(SOME)
@settings(deadline=None)
def test_findings_are_pickled(found: finding.Findings) -> None:
    assert comparable(pickle.loads(pickle.dumps(found))) == comparable(found)


def test_ranks_are_distinct() -> None:
    assert len({kind.rank for kind in KINDS}) == len(KINDS) > 8


def test_notices_are_ordered_by_rank() -> None:
    found = finding.Findings.of(
        finding.MissingTexts({("x", "NA"): 2}),
        finding.PassedOver({"blank line": 1}),
        finding.Remarks({"row is odd\nrows are odd": finding.Occurrences(2, ("a.csv", 7))}),
    )

    assert found.notices(TableOptions("--input x"), 9) == [
        "2 rows are odd; the first is a.csv, line 7",
        "passed over 1 blank line",
        "taken as missing values: in column 'x' 'NA' 2 times",
    ]


def test_the_first_names_of_many_are_kept() -> None:
    names = [f"{number:03}" for number in range(150)]
    halves = [finding.IgnoredNames(finding.first_names(names[start::2])) for start in (0, 1)]

    assert halves[0].merge(halves[1]).names == frozenset(names[:100])


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("clear haze/clear/haze/road", True),
        ("New York/New Delhi/Los Angeles", False),
        ("ice cream/ice/cream/hot dog/sea lion", False),
    ],
)
def test_classes_of_words_are_said_if_most_join_other_classes(names: str, said: bool) -> None:
    assert bool(finding.joined_class_notices(names.split("/"))) == said
