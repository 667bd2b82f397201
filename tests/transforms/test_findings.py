"""Tests of transforms/findings.py: all findings merge in any order, and notices have an order."""

import copy
import pickle
import sys
from functools import reduce
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.errors import UserError
from shardmill.transforms import findings as finding
from shardmill.transforms.columns.conversion import FloatSample
from shardmill.transforms.columns.types import EXACT_FLOAT32
from shardmill.transforms.layout.options import TableOptions
from shardmill.transforms.records.images import ObjectChanges
from tests.test_architecture import PATHS

for module, path in PATHS.items():
    if "(Finding)" in path.read_text():
        import_module(module)
# All of the package, add-ons' too, without the classes that `slots=True` has replaced
DEFINED = [
    kind for kind in finding.Finding.__subclasses__() if getattr(sys.modules[kind.__module__], kind.__name__) is kind
]
KINDS = sorted(DEFINED, key=lambda kind: kind.rank)
NUMBERS = st.lists(st.floats(EXACT_FLOAT32, EXACT_FLOAT32 * 2), max_size=5)
SAMPLES = NUMBERS.map(lambda values: FloatSample(np.array(values, np.float64)).reduce())
TEXTS = st.sampled_from(["", "a", "b", "line\nlines"])
COUNTS = st.integers(0, 5)
PLACES = st.tuples(st.sampled_from("ab"), COUNTS)
RECORDS = st.tuples(TEXTS, COUNTS, COUNTS, COUNTS)
FOUND = st.builds(finding.Occurrences, COUNTS, PLACES)
ODD = ("odd", "spaced", "signed", "mixed", "date")
FIRSTS = st.fixed_dictionaries(dict.fromkeys(ODD, st.tuples(TEXTS, COUNTS, TEXTS)))
BOXES = st.dictionaries(st.sampled_from(["clipped", "dropped", "cropped"]), COUNTS)
REMARKS = st.dictionaries(st.sampled_from(["is odd\nremedy", "is even\nremedy"]), FOUND)
# Of types, and of findings whose fields belong together
STRATEGIES: dict[Any, st.SearchStrategy[Any]] = {
    int: COUNTS,
    str: TEXTS,
    finding.Occurrences: FOUND,
    finding.JoinedRows: st.builds(
        finding.JoinedRows, COUNTS, COUNTS, first=RECORDS, inner=st.builds(finding.Occurrences, COUNTS, RECORDS)
    ),
    finding.Rounded: st.builds(finding.Rounded, COUNTS, TEXTS, st.none() | SAMPLES),
    finding.OddValues: st.builds(
        finding.OddValues, COUNTS, COUNTS, COUNTS, firsts=FIRSTS, remarks=REMARKS, present=COUNTS
    ),
    ObjectChanges: st.builds(ObjectChanges, BOXES, st.dictionaries(TEXTS, COUNTS)),
}
for kind, strategy in STRATEGIES.items():
    st.register_type_strategy(kind, strategy)
ANY = st.one_of(*(st.from_type(kind) for kind in KINDS))
SOME = st.lists(ANY, max_size=6).map(
    lambda found: reduce(finding.Findings.merge, map(finding.Findings.of, found), finding.Findings())
)


def comparable(found: finding.Findings) -> Any:
    """Findings, and the samples of numbers that `==` leaves out."""
    samples = found.find(finding.RoundedNumbers).columns
    return found, {name: each.sample and each.sample.describe() for name, each in samples.items()}


@given(SOME, SOME, SOME)
def test_findings_are_a_monoid(one: finding.Findings, other: finding.Findings, third: finding.Findings) -> None:
    before = copy.deepcopy([one, other, third])

    assert comparable(one.merge(other).merge(third)) == comparable(one.merge(other.merge(third)))
    assert comparable(one.merge(other)) == comparable(other.merge(one))
    assert one.merge(finding.Findings()) == finding.Findings().merge(one) == one
    assert comparable(finding.merged(finding.merged(finding.Findings(), one), other)) == comparable(one.merge(other))
    assert list(map(comparable, before)) == [comparable(found) for found in (one, other, third)]


def notices_of(found: finding.Finding) -> list[str]:
    """The notices, or why the input is refused."""
    try:
        return list(found.notices(TableOptions("--input x"), 9))
    except UserError as error:
        return [str(error)]


@pytest.mark.parametrize("kind", KINDS)
@given(st.data())
def test_notices_do_not_depend_on_the_order_of_merging(kind: type[finding.Finding], data: st.DataObject) -> None:
    one, other = (data.draw(st.from_type(kind)) for _ in range(2))

    assert notices_of(kind()) == []
    assert notices_of(one.merge(other)) == notices_of(other.merge(one))


@given(SOME)
def test_findings_are_pickled(found: finding.Findings) -> None:
    assert comparable(pickle.loads(pickle.dumps(found))) == comparable(found)


def test_ranks_are_distinct() -> None:
    assert len({kind.rank for kind in KINDS}) == len(KINDS) > 12


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
