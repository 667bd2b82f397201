"""How well a feature tells the label: nothing that chance or an identifier does, and the same however it is counted."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.transforms.statistics.tables import TableStats

ROWS = 2000
LABELS = np.arange(ROWS) % 4
RANDOM = np.random.default_rng(3)


def association(
    values: Any,
    labels: Any = LABELS,
    parts: int = 1,
    order: Sequence[int] | None = None,
    classes: Sequence[str] = ("label",),
) -> float | None:
    """Of one feature, counted in so many parts, merged in this order."""
    column = values if isinstance(values, pa.Array) else pa.array(values)
    of_rows = labels if isinstance(labels, pa.Array) else pa.array(labels, pa.int64())
    batch = pa.record_batch({"value": column, "label": of_rows})
    ties = np.arange(len(batch), dtype=np.uint64)
    edges = np.linspace(0, len(batch), parts + 1).astype(int)
    counted = [TableStats.from_batch(batch.slice(a, b - a), ties[a:b], classes, "label") for a, b in pairwise(edges)]
    merged = TableStats()
    for part in order or range(parts):
        merged.merge(counted[part])
    found = merged.summary()["value"].label_association
    return None if found is None else float(found)


NOISY = np.where(np.arange(ROWS) % 100 == 1, (LABELS + 1) % 4, LABELS)  # one of a hundred is another
TELLING: dict[str, Any] = {
    "a copy": LABELS,
    "its name": [("cat", "dog", "cow", "ant")[label] for label in LABELS],
    "as a fraction": (LABELS / 3).astype(np.float32),
    "finer than it": [f"breed {label} {n % 5}" for n, label in enumerate(LABELS)],
    "with some noise": NOISY,
    "missing for each but one, of two": pa.array([None if label else 7 for label in LABELS]),
}
SILENT: dict[str, Any] = {
    "an identifier": np.arange(ROWS),
    "a name for each": [f"row {n}" for n in range(ROWS)],
    "nearly an identifier": np.arange(ROWS) // 2 * 7,
    "a constant": np.zeros(ROWS, np.int64),
    "noise": RANDOM.integers(0, 6, ROWS),
    "a number": RANDOM.normal(size=ROWS).astype(np.float32),
    "missing everywhere": pa.nulls(ROWS, pa.int64()),
}


@pytest.mark.parametrize("name", TELLING)
def test_what_tells_the_label(name: str) -> None:
    labels = (LABELS > 0).astype(int) if "of two" in name else LABELS
    found = association(TELLING[name], labels)

    assert found is not None
    assert found > 0.95


@pytest.mark.parametrize("name", SILENT)
def test_what_does_not(name: str) -> None:
    found = association(SILENT[name])

    assert found is None or found < 0.2


def test_of_rare_labels_what_is_always_one_tells_nothing() -> None:
    """A thousandth is fraud: any value goes with none of it nearly always, and knowing that helps nobody."""
    fraud = (np.arange(20_000) % 1000 == 0).astype(int)

    assert association(np.arange(20_000) % 7, fraud) == 0.0
    assert association(fraud * 3, fraud) == 1.0


def test_one_label_is_not_told() -> None:
    assert association(LABELS, np.zeros(ROWS, np.int64)) is None


def test_an_identifier_in_small_parts_is_none_either() -> None:
    """No part has too many values to count, all have."""
    assert association(np.arange(ROWS), parts=40) is None


@given(
    st.lists(st.tuples(st.sampled_from([None, 0, 1, 2, 3, 1200]), st.integers(0, 2)), min_size=1, max_size=80),
    st.integers(1, 5),
    st.randoms(),
)
@settings(max_examples=50, deadline=None)
def test_no_batch_and_no_order_shows(rows: list[tuple[int | None, int]], parts: int, random: Any) -> None:
    values, labels = zip(*rows, strict=True)
    order = random.sample(range(parts), parts)

    assert association(pa.array(values, pa.int64()), labels) == association(
        pa.array(values, pa.int64()), labels, parts, order
    )


def test_rows_without_a_label_are_not_counted_wherever_they_are() -> None:
    labels = [None if n % 3 == 0 else int(label) for n, label in enumerate(LABELS)]

    assert association(LABELS, labels) == association(LABELS, labels, parts=700) == 1.0


def test_a_feature_that_some_batches_lack_is_missing_there() -> None:
    """Existing records have no schema: a batch none of which has a feature has no column of it."""
    label = pa.array(LABELS > 1).cast(pa.int64())
    value = pa.array([None if n > 1 else 5 for n in LABELS], pa.int64())
    ties = np.arange(ROWS, dtype=np.uint64)
    whole = TableStats.from_batch(pa.record_batch({"label": label, "value": value}), ties, ("label",))
    apart = TableStats()
    for there in (True, False):
        rows = pa.array((LABELS <= 1) == there)
        batch = pa.record_batch({"label": label, **({"value": value} if there else {})})
        batch = batch.filter(rows)
        apart.add(batch, ties[: len(batch)], ("label",))

    assert whole.summary()["value"].label_association == apart.summary()["value"].label_association == 1.0


LISTS = pa.large_list(pa.int64())


def in_lists(values: Any) -> pa.Array:
    return pa.array([None if value is None else [int(value)] for value in values], LISTS)


@pytest.mark.parametrize("parts", [1, 40])
@pytest.mark.parametrize("name", ["a copy", "with some noise", "missing for each but one, of two"])
def test_lists_of_one_tell_as_values_do(name: str, parts: int) -> None:
    """Of existing records nobody knows which lists are scalars."""
    labels = (LABELS > 0).astype(int) if "of two" in name else LABELS
    plain = TELLING[name] if isinstance(TELLING[name], pa.Array) else pa.array(TELLING[name])
    listed = in_lists(plain.to_pylist())

    assert association(listed, labels, parts) == association(plain, labels) is not None
    assert association(listed, in_lists(labels), parts) == association(plain, labels)


def test_records_without_a_label_among_lists_of_one() -> None:
    labels = [None if n % 3 == 0 else label for n, label in enumerate(LABELS)]

    assert association(LABELS, in_lists(labels), parts=7) == 1.0


@pytest.mark.parametrize("odd", [[], [0, 0]])
@pytest.mark.parametrize("parts", [1, 40])
def test_one_list_of_another_length_anywhere_tells_of_no_list(odd: list[int], parts: int) -> None:
    """Whichever batch it is in, and whether it is of the feature or of the label."""
    lists = [[int(label)] for label in LABELS]
    lists[1234] = odd
    order = list(reversed(range(parts)))

    assert association(pa.array(lists, LISTS), LABELS, parts, order) is None
    assert association(LABELS, pa.array(lists, LISTS), parts, order) is None


@pytest.mark.parametrize("parts", [1, 40])
@pytest.mark.parametrize("lists", [False, True])
@pytest.mark.parametrize("called", [-5, b"class %d"])
def test_a_label_without_class_names_is_told(called: Any, lists: bool, parts: int) -> None:
    """Ids that nobody named, and in existing records strings."""
    labels = pa.array([called % n if isinstance(called, bytes) else called * n for n in LABELS.tolist()])
    labels = labels.cast(pa.large_binary()) if isinstance(called, bytes) else labels
    if lists:
        labels = pa.LargeListArray.from_arrays(pa.array(np.arange(ROWS + 1)), labels)

    assert association(LABELS, labels, parts, classes=()) == 1.0
    assert association(NOISY, labels, parts, classes=()) == association(NOISY)


@pytest.mark.parametrize("parts", [1, 40])
def test_a_label_of_very_many_values_is_told_by_nothing(parts: int) -> None:
    numbers = np.arange(ROWS) * 3

    assert association(LABELS, numbers, parts, classes=()) is None
    assert association(LABELS, pa.array(numbers.astype(np.float32)), parts, classes=()) is None
    assert association(LABELS, pa.array([b"%d" % n for n in numbers]), parts, classes=()) is None
