"""How the input is read: which folders are splits, which are classes, and every contradiction named."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest

from shardmill.errors import UserError
from shardmill.metadata.labels import ClassNames
from shardmill.transforms.columns.types import MAX_VALUES, ColumnType
from shardmill.transforms.findings import merged
from shardmill.transforms.inputs.folders import CLASSES, normalize_split
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.layout.files import Layout, make_layout
from shardmill.transforms.layout.options import FileLayoutOptions, skipped_notices
from tests.support.grouped import grouped

HALVES = (("train", Fraction(1, 2)), ("test", Fraction(1, 2)))
NUMBER = ColumnType("int64", None, 1)


def tree(*folders: str) -> InputSummary:
    return InputSummary(records=len(folders), folders=Counter(folders))


def manifest(labels: list[str], splits: list[str] | None = None, **columns: ColumnType) -> InputSummary:
    return InputSummary(
        len(labels), labels=Counter(labels), splits=Counter(splits or [""] * len(labels)), columns=columns
    )


def layout(summary: InputSummary, **options: object) -> Layout:
    return make_layout(summary, FileLayoutOptions("--input photos", **grouped(**options)))


def names(made: Layout) -> tuple[str, ...] | None:
    return made.class_names.names if made.class_names else None


@pytest.mark.parametrize(
    ("folders", "splits", "classes"),
    [
        (["", ""], ("train",), None),
        (["dog", "cat", "cat"], ("train",), ("cat", "dog")),
        (["train/cat", "test/dog"], ("train", "test"), ("cat", "dog")),
        (["TRAIN/cat", "Val/dog", "Test/cat"], ("train", "validation", "test"), ("cat", "dog")),
        (["train", "test"], ("train", "test"), None),
        (["train"], ("train",), None),
        (["photos/cat", "photos/dog"], ("train",), ("cat", "dog")),
        (["train/cat", "dev/dog", "eval/cat"], ("train", "validation", "test"), ("cat", "dog")),
    ],
)
def test_trees(folders: list[str], splits: tuple[str, ...], classes: tuple[str, ...] | None) -> None:
    made = layout(tree(*folders))

    assert (made.splits, names(made)) == (splits, classes)
    assert (made.folders.split is not None) is (made.fractions is None)


@pytest.mark.parametrize(
    ("summary", "splits", "fractions", "classes"),
    [
        (manifest(["b", "a"]), ("train",), (Fraction(1),), ("a", "b")),
        (manifest(["", ""]), ("train",), (Fraction(1),), None),
        (manifest(["a", "a"], ["Val", "train"]), ("train", "validation"), None, ("a",)),
        (manifest(["a", "a", "a"], ["zoo", "test", ""]), ("test", "zoo"), None, ("a",)),
    ],
)
def test_manifests(summary: InputSummary, splits: object, fractions: object, classes: object) -> None:
    made = layout(summary)

    assert (made.splits, made.fractions, names(made)) == (splits, fractions, classes)


def test_columns_are_in_the_order_of_their_names() -> None:
    assert list(layout(manifest(["a"], zoo=NUMBER, apple=NUMBER)).columns) == ["apple", "zoo"]
    assert layout(InputSummary(rejected=2), splits=HALVES, group_by="user").columns == {}  # all records are rejects


def test_given_splits() -> None:
    made = layout(tree("cat", "dog"), splits=HALVES)

    assert (made.splits, made.fractions) == (("train", "test"), (Fraction(1, 2), Fraction(1, 2)))


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ("p1_a p1_b p2_a p2_b", True),
        ("p1_a p1_b p1_c", False),
        ("p1_a p1_b p2_a p3_a", False),
        ("a_1 a_2 b_1 b_2", False),
        ("a/p1_a a/p1_b b/p2_a b/p2_b", False),  # the id is the class
        ("a/p1_a a/p1_b a/p2_a a/p2_b", True),
    ],
)
def test_ids_of_several_files_are_said_if_most_names_begin_with_them(files: str, said: bool) -> None:
    summary = replace(tree(*[""] * 4), sample=tuple(f"{name}.png" for name in files.split()))
    assert any("begin with ids" in notice for notice in layout(summary, splits=HALVES).notices) == said


def test_split_names() -> None:
    told = {"val": "validation", "VAL": "validation", "valid": "validation", "training": "train", "Train": "train"}
    assert {name: normalize_split(name) for name in (*told, "Zoo")} == told | {"Zoo": "Zoo"}


def test_labels() -> None:
    frozen = ("dog", "cat")

    assert layout(tree("cat", "dog"), labels=frozen).class_names == ClassNames(frozen)
    assert names(layout(tree("cat", "ant"), labels=frozen, on_new_label="append")) == ("dog", "cat", "ant")
    assert names(layout(tree("cat", "ant"), labels=frozen, on_new_label="reject")) == frozen


@pytest.mark.parametrize(
    ("summary", "options", "sentence"),
    [
        (InputSummary(), {}, "^nothing matches --input photos$"),
        (
            InputSummary(skipped={".txt file": (3, "a.txt"), "hidden file": (1, ".x")}),
            {},
            "^no images in --input photos: passed over 3 .txt files, such as 'a.txt'; passed over 1 hidden .* a glob",
        ),
        (
            tree("train/a", "test/b"),
            {"splits": HALVES},
            "^--splits was given, but the input's split folders say the split; ",
        ),
        (
            manifest(["a"], ["train"]),
            {"splits": HALVES},
            "^--splits was given, but the manifest's column 'split' says the split; ",
        ),
        (tree("cat", "dog"), {"labels": ("dog",)}, "^class 'cat' is in the input but not in --labels_file"),
        (tree(""), {"labels": ("dog",)}, "^--labels_file was given, but --input photos has no labels"),
        (
            tree("cat", "dog"),
            {"splits": HALVES, "group_by": "user"},
            "^--group_by user: no such column; the columns are label; further",
        ),
        (
            tree(""),
            {"splits": HALVES, "stratify_by": "label"},
            "^--stratify_by label: no such column; there are no labels and no columns",
        ),
        (
            manifest(["a"], user=NUMBER),
            {"splits": HALVES, "group_by": "usr"},
            "no such column; the columns are label, user$",
        ),
        (
            manifest(["a"], ["my-split"]),
            {},
            "^split 'my-split' in --input photos: expected letters, digits and '_' only$",
        ),
        (tree("cat"), {"split_shards": (("test", 1),)}, "^--num_shards test=…: no such split; the splits are train$"),
        (
            tree("train/a", "test/b"),
            {"split_shards": (("val", 1),)},
            "^--num_shards val=…: no such split; the splits are train, test$",
        ),
        (tree(" cat", "dog"), {}, "^class name ' cat' cannot be in a labels file"),
        (manifest(["0.5", "1.37", "2"]), {}, "^--input photos: the labels are numbers with fractions, such as 0.5"),
        (manifest(["1e-3", "-2.5", ".5"]), {}, "such as -2.5, and a label is a class"),
    ],
)
def test_mistakes(summary: InputSummary, options: dict[str, object], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        layout(summary, **options)


def test_what_was_passed_over_is_said() -> None:
    summary = merged(tree(""), InputSummary(skipped={"hidden file": (1, ".x"), ".txt file": (3, "a.txt")}))

    assert layout(summary).notices == (
        "passed over 3 .txt files, such as 'a.txt'",
        "passed over 1 hidden file, such as '.x'",
    )


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (".npy file", ".npy files"),
        ("folder without images", "folders without images"),
        ("member whose name has no key and suffix", "members whose name has no key and suffix"),
    ],
)
def test_many_of_a_kind(kind: str, said: str) -> None:
    assert skipped_notices(InputSummary(skipped={kind: (3, "a")})) == [f"passed over 3 {said}, such as 'a'"]


def test_a_notice_says_where_a_split_has_another_name() -> None:
    notice = "splits bear other names than {}: 'Val' is 'validation'"

    assert layout(tree("Val/cat", "train/dog")).notices == (notice.format("their folders"),)
    assert layout(manifest(["a", "a"], ["Val", "train"])).notices == (notice.format("the manifest"),)
    by_names = layout(manifest(["a", "a"], ["Val", "train"]), label_pattern="(?P<label>.*)")
    assert by_names.notices == (notice.format("their folders"),)


def test_folders_within_classes_are_named_where_their_files_are_drawn_for_splits() -> None:
    inner = tree("cat/a", "cat/b")

    (notice,) = layout(inner, folders=CLASSES, splits=HALVES).notices
    assert "--group_by folder keeps the files of each folder in one split" in notice
    assert layout(inner, folders=CLASSES, splits=(("all", Fraction(1)),)).notices == ()
    assert layout(inner, folders=CLASSES, splits=HALVES, group_by="label").notices == ()


@pytest.mark.parametrize(
    ("folders", "said"),
    [
        (["0", "1", "2"], []),
        ([str(digit) for digit in range(11)], ["'10' has id 2"]),
        (["1", "2"], ["'1' has id 0"]),
        (["1", "cat"], []),
    ],
)
def test_numeric_class_names_that_are_not_their_ids_are_said(folders: list[str], said: list[str]) -> None:
    sentence = "all class names are numbers, but ids follow the sorted names: class {}; give --labels_file for another"
    assert layout(tree(*folders)).notices == tuple(f"{sentence.format(words)} order" for words in said)


@pytest.mark.parametrize("labels", [["0", "1", "2.0"], ["0.5", "low", "1"], ["1.2.3", "1.2.4", "1"]])
def test_labels_that_are_no_fractions_are_classes(labels: list[str]) -> None:
    assert names(layout(manifest(labels))) == tuple(sorted(labels))


@pytest.mark.parametrize(("named", "said"), [(2, True), (1, False)])
def test_a_column_names_images_if_all_of_its_values_do(named: int, said: bool) -> None:
    summary = manifest(["a", "a"], mask=ColumnType("bytes", None, 2))
    summary.image_names = {"mask": (named, "a.png")}
    assert any(notice.startswith("column 'mask' names image files") for notice in layout(summary).notices) is said


@pytest.mark.parametrize("what", ["label", "split"])
def test_a_manifest_has_no_hundred_thousands_of_labels(what: str) -> None:
    """Which a worker could not hold; how many more there are nobody remembers."""
    many = [f"{number}" for number in range(MAX_VALUES + 1)]
    halves = [many[: MAX_VALUES // 2], ["", *many[MAX_VALUES // 2 :]]]
    parts = [manifest(half) if what == "label" else manifest(["a"] * len(half), half) for half in halves]
    summary = merged(parts[0], parts[1])
    with pytest.raises(UserError, match=f"^--input photos has more than 100,000 different {what}s; name another"):
        layout(summary)
    for _ in range(3):
        summary = merged(summary, manifest([f"more {n}" for n in range(9)], [f"more {n}" for n in range(9)]))
    assert len(summary.labels if what == "label" else summary.splits) <= MAX_VALUES + 2


@pytest.mark.parametrize("names", [("Dog", "dog"), ("cafe\u0301", "caf\u00e9"), ("ice cream", "ice  cream")])
def test_classes_of_nearly_the_same_name_are_said(names: tuple[str, str]) -> None:
    shown = " and ".join(map(ascii, sorted(names)))
    (notice,) = [text for text in layout(tree(*names, "other")).notices if "differ in case" in text]
    assert notice == f"2 classes of 'label' differ in case, spaces or Unicode form only, such as {shown}"
