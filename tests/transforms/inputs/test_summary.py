"""Lists of classes as one text, and what is counted of them; what is known of the input."""

from collections import Counter
from functools import reduce
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shardmill.transforms.columns.arrow import to_batches
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.findings import merged
from shardmill.transforms.inputs.found_files import FOUND
from shardmill.transforms.inputs.summary import (
    InputSummary,
    UsualColumns,
    compared_columns,
    count_label_lists,
    decode_label_list,
    encode_label_list,
    is_encoded_list,
    summarize_batch,
    usual_columns,
)
from shardmill.transforms.workers.elements import MergeFn


@given(st.lists(st.text()))
def test_a_text_holds_the_names(names: list[str]) -> None:
    assert decode_label_list(encode_label_list(names)) == names
    assert is_encoded_list(encode_label_list(names))


def test_a_label_that_is_one_class_is_no_list() -> None:
    assert decode_label_list('["a"]') is None
    assert not is_encoded_list('["a"]')


def test_counts() -> None:
    labels = [encode_label_list(["a", "b"]), encode_label_list([]), None, encode_label_list(["a", "a"]), "b"]

    classes, odd = count_label_lists(labels)

    assert classes == Counter({"a": 2, "b": 2, "": 2})
    assert +odd == Counter(lists=3, several=1, repeated=1)
    assert count_label_lists(["a", None]) == (Counter({"a": 1, "": 1}), Counter())


Row = tuple[Any, ...]


def file(name: str, size: int = 100) -> Row:
    return name, size, None, None, None, None, None


def row(name: str, line: int, label: str | None = None, split: str | None = None) -> Row:
    return name, 1, None, label, split, line, None


def summary_of(rows: list[Row]) -> InputSummary:
    (batch,) = to_batches(rows, FOUND)
    return summarize_batch(batch)


def test_a_tree() -> None:
    found = summary_of([file("a.jpg"), file("cats/b.jpg", 5), file("train/cats/c.jpg"), file("train/cats/deep/d.jpg")])

    assert (found.records, found.size_bytes, found.total_records) == (4, 305, 4)
    assert found.folders == Counter({"": 1, "cats": 1, "train/cats": 1, "train/cats/deep": 1})
    assert not found.labels
    assert not found.splits


def test_a_manifest() -> None:
    found = summary_of([row("x/a.jpg", 2, "cat", "train"), row("x/b.jpg", 3, None, "train"), row("c.jpg", 4)])

    assert not found.folders
    assert found.labels == Counter({"cat": 1, "": 2})
    assert found.splits == Counter({"train": 2, "": 1})


def test_the_first_file_may_lie_elsewhere() -> None:
    elsewhere = ("b.jpg", 1, "/in/b.jpg", None, None, 2, None)

    assert summary_of([row("c.jpg", 3), elsewhere]).first_file == ("b.jpg", "/in/b.jpg")
    assert summary_of([row("a.jpg", 3), elsewhere]).first_file == ("a.jpg", "")


def test_columns_of_most_files() -> None:
    headers = {("a", "b"): (1, "0.csv"), ("b", "a", "c"): (1, "1.csv"), ("a", "b", "d"): (2, "2.csv")}

    assert compared_columns("abc", ("a",), ()) == {"b", "c"}
    assert compared_columns("abc", (), ("a", "z")) == {"a"}
    assert usual_columns({}, (), ()) is None
    assert usual_columns(headers, (), ()) == UsualColumns(frozenset({"a", "b", "d"}), "2.csv")
    assert usual_columns(headers, ("c",), ("a", "b", "c")) == UsualColumns(frozenset("ab"), "0.csv")


def test_matched_counts_the_rejected() -> None:
    assert merged(summary_of([file("a.jpg")]), InputSummary(rejected=3)).total_records == 4


NAMES = st.sampled_from("abc")
FILE_ROWS = st.builds(file, st.text(st.sampled_from("ab/"), max_size=6), st.integers(0, 99))
MANIFEST_ROWS = st.builds(row, NAMES, st.integers(1, 9), st.sampled_from("xy"))
KINDS, TYPES = st.sampled_from([".txt file", "hidden file"]), st.sampled_from(["int64", "float32", "bytes"])
LENGTHS = st.sampled_from([None, 2, 3])
PARTS = st.one_of(
    st.lists(FILE_ROWS, min_size=1, max_size=5).map(summary_of),
    st.lists(MANIFEST_ROWS, min_size=1, max_size=4).map(summary_of),
    st.builds(lambda kind, name: InputSummary(skipped={kind: (1, name)}), KINDS, NAMES),
    st.builds(lambda rejected: InputSummary(rejected=rejected), st.integers(0, 3)),
    st.builds(
        lambda name, dtype, length: InputSummary(columns={name: ColumnType(dtype, length, 1)}), NAMES, TYPES, LENGTHS
    ),
)
COMBINE = MergeFn(InputSummary)


def combine(*halves: list[InputSummary]) -> InputSummary:
    """Merge parts as a runner does, that of each half on its own."""
    accumulators = [reduce(COMBINE.add_input, half, COMBINE.create_accumulator()) for half in halves]
    return COMBINE.extract_output(COMBINE.merge_accumulators(accumulators))


@given(st.lists(PARTS, max_size=8), st.data())
def test_merging_knows_no_order(parts: list[InputSummary], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(parts))
    cut = data.draw(st.integers(0, len(parts)))

    assert combine(shuffled[:cut], shuffled[cut:]) == reduce(merged, parts, InputSummary())


def test_merging_is_linear_in_folders() -> None:
    """Merging a part looks up the folders of that part only, not all folders found before."""

    class Name(str):
        lookups = 0

        def __hash__(self) -> int:
            Name.lookups += 1
            return super().__hash__()

    def lookups(folders: int) -> int:
        parts = [InputSummary(folders=Counter({Name(number): 1})) for number in range(folders)]
        Name.lookups = 0
        assert len(combine(parts[: folders // 2], parts[folders // 2 :]).folders) == folders
        return Name.lookups

    assert lookups(200) < 2.1 * lookups(100)


def test_the_fingerprint_is_of_names_and_sizes_and_tells_inputs_apart() -> None:
    a, b, c = file("a.jpg"), file("b.jpg"), file("cats/c.jpg")
    fingerprint = summary_of([a, b, c]).fingerprint

    assert summary_of([c, b, a]).fingerprint == fingerprint
    assert merged(summary_of([a]), summary_of([b, c])).fingerprint == fingerprint
    assert fingerprint < 1 << 128
    others = ([a, b], [a, b, file("cats/c.jpg", 101)], [a, b, file("c.jpg")], [a, b, c, c])
    assert fingerprint not in [summary_of(other).fingerprint for other in others]


def test_skipped_things_are_counted_with_the_first_name() -> None:
    both = merged(InputSummary(skipped={"hidden file": (1, "b")}), InputSummary(skipped={"hidden file": (1, "a")}))

    assert both.skipped == {"hidden file": (2, "a")}
    assert both.total_records == 0
