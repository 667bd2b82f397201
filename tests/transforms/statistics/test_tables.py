"""How well a feature tells the label; statistics of tables."""

import itertools
import json
import pickle
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.quality.stats_file import FeatureSummary
from shardmill.transforms.statistics.sketches import mix
from shardmill.transforms.statistics.tables import TableStats
from tests.support.profiles import as_json

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


@given(
    st.lists(st.tuples(st.sampled_from([None, 0, 1, 2, 3, 1200]), st.integers(0, 2)), min_size=1, max_size=80),
    st.integers(1, 5),
    st.randoms(),
)
@settings(max_examples=50)
def test_no_batch_and_no_order_shows(rows: list[tuple[int | None, int]], parts: int, random: Any) -> None:
    values, labels = zip(*rows, strict=True)
    order = random.sample(range(parts), parts)

    assert association(pa.array(values, pa.int64()), labels) == association(
        pa.array(values, pa.int64()), labels, parts, order
    )


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


FRAUD = (np.arange(20_000) % 1000 == 0).astype(int)
SOME_LABELS = [None if n % 3 == 0 else int(label) for n, label in enumerate(LABELS)]


@pytest.mark.parametrize(
    ("values", "labels", "parts", "expected"),
    [
        # A thousandth is fraud: any value goes with none of it nearly always, and knowing that helps nobody
        (np.arange(20_000) % 7, FRAUD, 1, 0.0),
        (FRAUD * 3, FRAUD, 1, 1.0),
        (LABELS, np.zeros(ROWS, np.int64), 1, None),  # one label
        (np.arange(ROWS), LABELS, 40, None),  # no part has too many values to count, all have
        (LABELS, SOME_LABELS, 1, 1.0),
        (LABELS, SOME_LABELS, 700, 1.0),
        (LABELS, in_lists(SOME_LABELS), 7, 1.0),
    ],
)
def test_labels_that_are_rare_or_missing(values: Any, labels: Any, parts: int, expected: float | None) -> None:
    assert association(values, labels, parts) == expected


@pytest.mark.parametrize("parts", [1, 40])
@pytest.mark.parametrize("name", ["a copy", "with some noise", "missing for each but one, of two"])
def test_lists_of_one_tell_as_values_do(name: str, parts: int) -> None:
    """Of existing records nobody knows which lists are scalars."""
    labels = (LABELS > 0).astype(int) if "of two" in name else LABELS
    plain = TELLING[name] if isinstance(TELLING[name], pa.Array) else pa.array(TELLING[name])
    listed = in_lists(plain.to_pylist())

    assert association(listed, labels, parts) == association(plain, labels) is not None
    assert association(listed, in_lists(labels), parts) == association(plain, labels)


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


CLASS_NAMES = {"label": ["cat", "dog", "bird"]}


def table_of(size: int, seed: int = 0) -> pa.RecordBatch:
    """Columns of every type, some with more distinct values than are kept, all with missing ones."""
    generator = np.random.default_rng(seed)

    def some(values: Any) -> list[Any]:
        return [None if missing else value for missing, value in zip(generator.random(size) < 0.1, values)]

    words = [b"word%d" % (number**2 // 1000) for number in generator.integers(0, 3000, size)]
    lists = [generator.integers(0, 1000, length).tolist() for length in generator.integers(0, 4, size)]
    odd = generator.choice([np.nan, np.inf, -0.0, 1e-45, 3e38], size)
    columns = {
        "label": pa.array(some(generator.integers(0, 3, size).tolist()), pa.int64()),
        "time": pa.array(some((10**18 + generator.integers(0, 10**15, size)).tolist()), pa.int64()),
        "age": pa.array(some(generator.integers(0, 90, size).tolist()), pa.int64()),
        "height": pa.array(some(generator.normal(size=size).tolist()), pa.float32()),
        "odd": pa.array(some(np.where(generator.random(size) < 0.2, odd, 1).tolist()), pa.float32()),
        "word": pa.array(some(words), pa.large_binary()),
        "text": pa.array(some([b"%0100d" % number for number in generator.integers(0, 5000, size)]), pa.binary()),
        "few": pa.array(some(generator.choice(["a", "b", "ü"], size).tolist()), pa.string()),
        "list": pa.array(some(lists), pa.large_list(pa.int64())),
        "floats": pa.array(some([[0.5 * number for number in each] for each in lists]), pa.list_(pa.float32())),
        "words": pa.array(
            some([[b"w%d" % number for number in each] for each in lists]), pa.large_list(pa.large_binary())
        ),
        "missing": pa.nulls(size, pa.int64()),
    }
    return pa.RecordBatch.from_pydict(columns)


def ties_of(size: int) -> np.ndarray:
    return mix(np.arange(size, dtype=np.uint64))


def text_of(stats: TableStats) -> str:
    """What would stand in stats.json, as it would stand there."""
    return json.dumps(as_json(stats.summary(CLASS_NAMES)), allow_nan=False)


TABLES = {size: table_of(size) for size in (0, 1, 50, 1100, 7000)}
TEXTS = {size: text_of(TableStats.from_batch(table, ties_of(size), labels=["label"])) for size, table in TABLES.items()}


@settings(max_examples=40)
@given(
    st.sampled_from(sorted(TABLES)),
    st.lists(st.integers(0, 7000), max_size=6),
    st.randoms(use_true_random=False),
    st.booleans(),
)
def test_any_batches_in_any_order_give_the_same(size: int, cuts: list[int], order: Any, pickled: bool) -> None:
    bounds = [0, *sorted(min(cut, size) for cut in cuts), size]
    pieces = list(itertools.pairwise(bounds))
    order.shuffle(pieces)
    table, ties = TABLES[size], ties_of(size)
    parts = [TableStats.from_batch(table[start:end], ties[start:end], labels=["label"]) for start, end in pieces]
    added = TableStats()
    for start, end in pieces:
        added.add(table[start:end], ties[start:end], labels=["label"])
    while len(parts) > 1:  # any tree of merges, not just a chain
        other = parts.pop(order.randrange(len(parts)))
        parts[order.randrange(len(parts))].merge(pickle.loads(pickle.dumps(other)) if pickled else other)

    assert text_of(parts[0]) == TEXTS[size]
    assert text_of(added) == TEXTS[size]
    assert parts[0].examples == added.examples == size


@settings(max_examples=20)
@given(st.integers(0, 99))
def test_any_order_of_rows_gives_the_same(seed: int) -> None:
    order = np.random.default_rng(seed).permutation(1100)

    assert (
        text_of(TableStats.from_batch(TABLES[1100].take(pa.array(order)), ties_of(1100)[order], labels=["label"]))
        == TEXTS[1100]
    )


def test_more_values_than_are_counted_at_once() -> None:
    rows = 10
    lists = [np.random.default_rng(row).integers(0, 1 << 40, 20_000) for row in range(rows)]
    batch = pa.RecordBatch.from_pydict(
        {"v": pa.array(lists, pa.large_list(pa.int64())), "w": pa.array([[b"%d" % n for n in v] for v in lists])}
    )
    ties, parts = ties_of(rows), TableStats()
    for row in range(rows):
        parts.merge(TableStats.from_batch(batch[row : row + 1], ties[row : row + 1]))
    whole = TableStats.from_batch(batch, ties)

    assert whole.summary() == parts.summary()
    assert whole.summary()["v"].to_json()["mean"] == sum(int(v.sum()) for v in lists) / (rows * 20_000)


def test_merging_leaves_the_other_as_it_is() -> None:
    one = TableStats.from_batch(TABLES[1100], ties_of(1100), labels=["label"])
    merged = TableStats()
    merged.merge(one)
    merged.merge(one)
    merged.merge(TableStats())

    assert text_of(one) == TEXTS[1100]
    assert merged.examples == 2200
    assert merged.label_counts("label") == Counter({key: 2 * count for key, count in one.label_counts("label").items()})


def test_many_rows_do_not_wait_and_what_waits_is_sent() -> None:
    whole, sent = TableStats(), TableStats()
    for start in range(0, 4200, 100):
        rows = slice(start, start + 100)
        whole.merge(TableStats.from_batch(TABLES[7000][rows], ties_of(7000)[rows], ["label"]))
        assert sum(len(batch) for batch, *_ in whole.pending) < 4100
    assert whole.pending_rows == 100
    sent.merge(pickle.loads(pickle.dumps(whole)))
    expected = TableStats.from_batch(TABLES[7000][:4200], ties_of(7000)[:4200], ["label"])
    assert (sent.examples, text_of(sent)) == (4200, text_of(expected))


def test_the_size_of_a_column_is_bounded() -> None:
    generator = np.random.default_rng(0)
    columns = {
        "bits": pa.array(generator.integers(-(1 << 63), (1 << 63) - 1, 200_000)),
        "float": pa.array(generator.integers(0, 1 << 32, 200_000, dtype=np.uint32).view(np.float32)),
        "text": pa.array([b"%0200d" % number for number in range(200_000)], pa.large_binary()),
    }
    for name, column in columns.items():
        stats = TableStats.from_batch(pa.RecordBatch.from_pydict({name: column}), ties_of(200_000))

        assert len(pickle.dumps(stats)) < 100_000, name


def test_counts_and_lengths() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "label": pa.array([2, 0, None, 2], pa.int64()),
            "list": pa.array([[1, 2, 3], [], None, [5]], pa.large_list(pa.int64())),
            "holes": pa.array([[None, 1], None, [None], []], pa.list_(pa.int64())),
            "none": pa.nulls(4, pa.float32()),
            "word": pa.array([None, "a", "a", "b"], pa.string()),
        }
    )
    stats = as_json(TableStats.from_batch(batch, ties_of(4), labels=("label",)).summary(CLASS_NAMES))

    assert stats["label"] == {"count": 3, "missing": 1, "classes": {"cat": 1, "dog": 0, "bird": 2}}
    assert stats["none"] == {"count": 0, "missing": 4}
    lengths = stats["list"].pop("values_per_example")
    assert lengths == {"min": 0, "max": 3, "mean": 4 / 3, "std_dev": pytest.approx(np.std([0, 1, 3]))}
    assert {key: stats["list"][key] for key in ("count", "missing", "min", "max", "mean")} == {
        "count": 3,
        "missing": 1,
        "min": 1,
        "max": 5,
        "mean": 11 / 4,
    }
    assert (stats["holes"]["min"], stats["holes"]["distinct"]["count"]) == (1, 1)
    assert stats["word"]["top_values"] == [{"value": "a", "count": 2}, {"value": "b", "count": 1}]


@pytest.mark.parametrize("dtype", [pa.int64(), pa.float32(), pa.large_binary(), pa.string(), pa.list_(pa.binary())])
def test_no_rows(dtype: pa.DataType) -> None:
    batch = pa.RecordBatch.from_pydict({"c": pa.array([], dtype)})

    assert as_json(TableStats.from_batch(batch, ties_of(0)).summary()) == {"c": {"count": 0, "missing": 0}}
    assert TableStats().summary() == {}


def test_what_lies_under_a_missing_list_does_not_count() -> None:
    offsets, values = pa.array([0, 2, 5, 6], pa.int64()), pa.array(["a", "b", "x", "y", "z", "c"], pa.large_binary())
    lists = pa.LargeListArray.from_arrays(offsets, values, mask=pa.array([False, True, False]))
    stats = TableStats.from_batch(pa.RecordBatch.from_pydict({"c": lists}), ties_of(3)).summary()["c"].to_json()

    assert (stats["count"], stats["missing"], stats["values_per_example"]["max"]) == (2, 1, 2)
    assert [entry["value"] for entry in stats["top_values"]] == ["a", "b", "c"]


def test_a_sample_of_lists_takes_values_not_rows() -> None:
    lists = [["long"] * 99 + [f"rare {row}"] if row % 10 == 0 else [f"word {row}"] for row in range(5000)]
    batch = pa.RecordBatch.from_pydict({"c": pa.array(lists, pa.list_(pa.string()))})
    top = TableStats.from_batch(batch, ties_of(5000)).summary()["c"].to_json()["top_values"]

    assert [entry["value"] for entry in top] == ["long"]
    assert top[0]["count"] == pytest.approx(99 * 500, rel=0.1)


def test_what_tells_a_label_is_about_the_first_that_a_row_has_one_of() -> None:
    """Of a label that is a list a row has any number, so nothing is said of what tells it."""
    lists = pa.array([[0, 1], [], [1]] * 40, pa.large_list(pa.int64()))
    batch = pa.record_batch({"tags": lists, "kind": pa.array([0, 1, 1] * 40), "x": pa.array([5, 6, 6] * 40)})

    found = TableStats.from_batch(batch, np.arange(120, dtype=np.uint64), ("tags", "kind")).summary(
        {"tags": ("a", "b"), "kind": ("c", "d")}
    )

    assert found["x"].label_association == 1.0
    assert found["tags"].classes == {"a": 40, "b": 80}
    alone = TableStats.from_batch(batch, np.arange(120, dtype=np.uint64), ("tags",)).summary({"tags": ("a", "b")})
    assert alone["x"].label_association is None


@pytest.mark.parametrize(
    ("dtype", "labels", "message"),
    [
        (pa.float64(), [], 'feature "c": no statistics of double, only of int64, float32'),
        (pa.list_(pa.list_(pa.int64())), [], 'feature "c": no statistics of list<item: list<item: int64>>'),
        (pa.string(), ["c"], 'feature "c": a label has ids of type int64, not string'),
    ],
)
def test_types_that_no_feature_has(dtype: pa.DataType, labels: list[str], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        TableStats.from_batch(pa.RecordBatch.from_pydict({"c": pa.array([], dtype)}), ties_of(0), labels)


def test_columns_that_some_examples_lack() -> None:
    one = pa.RecordBatch.from_pydict({"a": pa.array([1, 2]), "b": pa.array(["x", None])})
    other = pa.RecordBatch.from_pydict({"c": pa.array([0.5], pa.float32()), "a": pa.array([3])})
    merged = TableStats.from_batch(one, ties_of(2))
    merged.merge(TableStats.from_batch(other, ties_of(1)))
    added = TableStats.from_batch(other, ties_of(1))
    added.add(one, ties_of(2))

    found = {name: (stats.count, stats.missing) for name, stats in merged.summary().items()}
    assert found == {"a": (3, 0), "b": (1, 2), "c": (1, 2)}
    assert {name: added.summary()[name] for name in found} == merged.summary()


def test_a_column_of_several_kinds_is_only_counted() -> None:
    batches = [
        pa.RecordBatch.from_pydict({"c": column})
        for column in (pa.array([1]), pa.array([b"x", None]), pa.array([2, 3]))
    ]
    merged, added = TableStats(), TableStats()
    for batch in batches:
        merged.merge(TableStats.from_batch(batch, ties_of(len(batch))))
        added.add(batch, ties_of(len(batch)))

    assert merged.summary() == added.summary() == {"c": FeatureSummary(count=4, missing=1, is_mixed=True)}


def test_names_of_classes_that_were_not_counted() -> None:
    stats = TableStats.from_batch(pa.RecordBatch.from_pydict({"c": pa.array([1])}), ties_of(1))

    for name in ("c", "d"):
        with pytest.raises(ValueError, match=f'feature "{name}" was not counted as a label: name it in `labels`'):
            stats.summary({name: ["a", "b"]})


@pytest.mark.parametrize("label", [None, "class"])
def test_batches_may_leave_out_what_does_not_change_known_statistics(label: str | None) -> None:
    rng = np.random.default_rng(4)
    rows = 40_000
    batch = pa.record_batch(
        {
            "text": pa.array([f"line {number}" for number in rng.integers(0, 30_000, rows)]),
            "word": pa.array([f"word {number}" for number in rng.zipf(1.5, rows) % 3000]),
            "few": pa.array([None if number % 7 == 0 else f"{number % 12}" for number in range(rows)]),
            "list": pa.array([[f"{number}", "x"][: number % 3] for number in range(rows)]),
            "int": pa.array(rng.integers(0, 5000, rows)),
            "small": pa.array(rng.integers(0, 50, rows)),
            "float": pa.array(rng.standard_normal(rows).astype(np.float32)),
            "class": pa.array(rng.integers(0, 5, rows)),
        }
    )
    ties = mix(np.arange(rows, dtype=np.uint64))
    whole, merged = TableStats.from_batch(batch, ties, ["class"], label), TableStats()
    for start in range(0, rows, 5000):
        part = slice(start, start + 5000)
        found = TableStats.from_batch(batch[part], ties[part], ["class"], label, merged)
        alone = TableStats.from_batch(batch[part], ties[part], ["class"], label)
        if start >= 20_000:  # and so a fifth of the sample at most
            assert len(pickle.dumps(found.columns["text"])) < len(pickle.dumps(alone.columns["text"])) / 2
        merged.merge(found)

    assert as_json(merged.summary()) == as_json(whole.summary())
