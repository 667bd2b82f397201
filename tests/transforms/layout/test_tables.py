"""How tables are read: columns chosen, types from data or schema, labels, splits, and a sentence for each mistake."""

import re
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from shardmill.data.features import Feature
from shardmill.errors import UserError
from shardmill.transforms.columns.nested import Nesting
from shardmill.transforms.columns.types import ColumnType, Inferred, NestedValues
from shardmill.transforms.findings import Findings, merged
from shardmill.transforms.formats.format import KeyColumn
from shardmill.transforms.inputs.folders import NO_ROLES, FolderRoles
from shardmill.transforms.inputs.summary import InputSummary, summarize_files
from shardmill.transforms.layout.columns import numbered_notices, wanted_columns
from shardmill.transforms.layout.labels import labels_file_names
from shardmill.transforms.layout.options import TableOptions
from shardmill.transforms.layout.tables import TableLayout, make_line_layout, make_record_layout, make_table_layout
from shardmill.transforms.options.image_options import LabelOptions
from tests.support.csv_files import CSV, write
from tests.support.format_files import blocks, infer
from tests.support.grouped import grouped
from tests.support.table_results import numbers_and

HEADER = ("id", "age", "city", "ok", "empty")
TYPES = {
    "city": ColumnType("bytes", None, 9),
    "id": ColumnType("int64", None, 10),
    "age": ColumnType("float32", None, 7),
    "ok": ColumnType("bool", None, 10),
}


def summarize_header(columns: tuple[str, ...], name: str, number: int = 1) -> InputSummary:
    return InputSummary(headers={columns: (number, name)})


def merge(*parts: InputSummary) -> InputSummary:
    return reduce(merged, parts, InputSummary())


FILES = summarize_files([("a.csv", 10), ("b.csv", 20)])
SCHEMA = (Feature("id", "int64"), Feature("city", "bytes", "text", required=False))
TABLE = merge(FILES, summarize_header(HEADER, "a.csv"))
PLAIN = TableOptions("--input x")


def layout(inferred: Inferred | None = None, summary: InputSummary = TABLE, **options: Any) -> TableLayout:
    made = Inferred(TYPES, 10, {"city": frozenset({"Bern", "Athens"})}) if inferred is None else inferred
    return make_table_layout(summary, made, TableOptions("--input x", **grouped(**options)))


def test_features_are_the_columns_in_the_order_of_the_header() -> None:
    made = layout()

    assert list(made.types) == ["id", "age", "city", "ok"]
    assert made.features == (
        Feature("id", "int64"),
        Feature("age", "float32", required=False),
        Feature("city", "bytes", "text", required=False),
        Feature("ok", "int64", "bool"),
    )
    assert made.notices == ("column 'empty' has no value in any row, and was left out",)
    assert (made.splits, made.fractions, made.labels) == (("train",), (Fraction(1),), ())


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"drop": ("age", "ok")}, ["id", "city"]),
        ({"only": ("ok", "id")}, ["id", "ok"]),
        ({"only": ("ok",), "label_columns": ("city",)}, ["city", "ok"]),
        ({"drop": ("city", "id"), "key": "id", "group_by": "city"}, ["age", "ok"]),
        ({"summary": FILES}, ["age", "city", "id", "ok"]),  # without a header they are sorted
    ],
)
def test_chosen_columns(options: dict[str, Any], names: list[str]) -> None:
    made = layout(**options)

    assert [feature.name for feature in made.features] == list(made.types) == names
    assert made.keys == tuple(KeyColumn(options[flag]) for flag in ("key", "group_by") if flag in options)


def test_a_label_of_strings_has_classes() -> None:
    made = layout(label_columns=("city",))

    assert made.features[2] == Feature("city", "int64", "class_label", class_names=("Athens", "Bern"))
    assert (made.labels, made.required_labels) == (("city",), ("city",))
    assert made.class_names["city"].names == ("Athens", "Bern")
    assert made.types["city"].dtype == "bytes"
    frozen = layout(label_columns=("city",), labels=("Rome", "Bern"), on_new_label="append")
    assert frozen.features[2].class_names == ("Rome", "Bern", "Athens")


def test_a_label_of_numbers_stays() -> None:
    made = layout(label_columns=("age",))

    assert made.features[1] == Feature("age", "float32")  # required now: a row without a label is rejected
    assert (made.labels, made.required_labels) == ((), ("age",))


def test_schema_instead_of_inference() -> None:
    made = layout(Inferred(), schema=SCHEMA)

    assert made.features == SCHEMA
    assert [(name, column.dtype) for name, column in made.types.items()] == [("id", "int64"), ("city", "bytes")]
    assert made.notices == ("left out what --schema does not have: columns 'age', 'ok', 'empty'",)
    assert not TableOptions("", schema=SCHEMA).needs_inference


def test_a_schema_s_class_label() -> None:
    schema = (Feature("id", "int64"), Feature("city", "int64", "class_label", class_names=("", "")))
    made = layout(Inferred(), schema=schema, label_columns=("city",), labels=("Athens", "Bern"))

    assert made.features[1].class_names == ("Athens", "Bern")
    assert made.types["city"].dtype == "bytes"
    with pytest.raises(UserError, match=r"holds ids of 2 classes; give their names with --labels_file city.labels.txt"):
        layout(Inferred(), schema=schema, label_columns=("city",))


def test_which_columns_are_inferred() -> None:
    """Of a schema of strings the classes of its label alone."""
    assert wanted_columns(TableOptions("")) is None
    assert wanted_columns(TableOptions("", only=("a", "b"), label_columns=("c",))) == ["a", "b", "c"]
    options = TableOptions("", schema=SCHEMA, label_columns=("city",))
    assert options.needs_inference
    assert wanted_columns(options) == ["city"]
    inferred = Inferred({"city": TYPES["city"]}, 9, {"city": frozenset({"Oslo"})})
    assert layout(inferred, schema=SCHEMA, label_columns=("city",)).class_names["city"].names == ("Oslo",)


def test_a_label_of_several_classes() -> None:
    """Lists are read as lists, texts with separators as texts; neither is of one class to stratify by."""
    lists = Inferred({**TYPES, "tags": ColumnType("bytes", -1, 10)}, 10, {"tags": frozenset({"a", "b"})})
    made = layout(lists, summary=FILES, label_columns=("tags",))
    assert made.types["tags"] == ColumnType("bytes", -1, 0)
    texts = Inferred(TYPES, 10, {"city": frozenset({"a;b", "c"})})
    parted = layout(texts, label_columns=("city",), label_separator={"city": ";"})
    assert parted.types["city"] == ColumnType("bytes", None, 0)
    for labelled, options in (
        (lists, {"summary": FILES, "label_columns": ("tags",), "stratify_by": "tags"}),
        (texts, {"label_columns": ("city",), "label_separator": {"city": ";"}, "stratify_by": "city"}),
    ):
        with pytest.raises(UserError, match="rows have any number of its values"):
            layout(labelled, **options)


def test_spaces_around_a_class_are_named() -> None:
    for found, has_spaces in (("Bern ", True), ("Athens", False)):
        inferred = Inferred(TYPES, 10, {"city": frozenset({"Bern", found})})
        with pytest.raises(UserError) as caught:
            layout(inferred, label_columns=("city",), labels=("Bern",), missing=("",))
        assert ("--strip removes the spaces" in str(caught.value)) is has_spaces


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"label_columns": ("citi",)},
            "--label citi: no such column in --input x; did you mean city\\? the columns are id, age",
        ),
        ({"key": "x9"}, "--key x9: no such column in --input x; the columns are"),
        ({"group_by": "agee"}, "--group_by agee: .*did you mean age"),
        ({"stratify_by": "q"}, "--stratify_by q: no such column"),
        ({"drop": ("ide",)}, "--drop ide: .*did you mean id"),
        ({"only": ("zzz",)}, "--only zzz: no such column"),
        ({"label_columns": ("city",), "drop": ("city",)}, "--label city is also in --drop"),
        ({"labels": ("a",)}, "--labels_file was given, but no --label"),
        ({"label_columns": ("age",), "labels": ("a",)}, "--label age holds numbers"),
        ({"label_columns": ("empty",)}, "--label empty has no value in any row"),
        ({"label_columns": ("city",), "labels": ("Bern",)}, "class 'Athens' is in the input but not in --labels_file"),
        ({"split_shards": (("tests", 1),)}, "--num_shards tests=…: no such split; the splits are train"),
        (
            {"label_columns": ("city",), "inferred": Inferred(TYPES, 10, {"city": None})},
            "--label city has more than 100,000 different values; give a column",
        ),
        (
            {"schema": (Feature("cty", "bytes"),), "inferred": Inferred()},
            r"--schema wants column 'cty', which --input x lacks; did you mean city\?",
        ),
        ({"inferred": Inferred(), "summary": summarize_files([("a.csv", 0)])}, "--input x has no rows"),
    ],
)
def test_mistakes(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        layout(**options)


def test_what_is_no_mistake() -> None:
    assert layout(Inferred()).features == ()  # staging says why none of so many bytes could be read
    assert layout(Inferred(), schema=(Feature("cty", "bytes", required=False),)).features


def test_headers_that_differ_are_named_or_left_out() -> None:
    other = merge(TABLE, summarize_header((*HEADER[:4], "vide"), "b.csv", 2))
    said = "'b.csv' lacks 'empty' and has 'vide' in addition to what 'a.csv' has; --drop empty,vide leaves these"
    with pytest.raises(UserError, match=said):
        layout(summary=merge(TABLE, summarize_header((*HEADER[:4], "vide"), "b.csv")))
    assert layout(summary=other, drop=("empty", "vide")).features
    assert layout(summary=other, only=("age", "city")).features
    assert layout(summary=merge(TABLE, summarize_header(HEADER[::-1], "b.csv"))).features == layout().features

    of_most = layout(summary=other, on_other_columns="reject", only=())
    assert [feature.name for feature in of_most.features] == list(HEADER[:4])
    assert of_most.notices == ("column 'vide' has no value in any row, and was left out",)


def test_a_column_whose_values_are_mostly_nested() -> None:
    def inferred(count: int) -> Inferred:
        nested = {"city": NestedValues(count, ("b.jsonl", 1234, '{"a": 1}'), has_objects=True)}
        return Inferred(TYPES, 10, nested=nested)

    assert layout(inferred(8), nesting=Nesting()).features
    said = "'city' in 9 rows, the first of them b.jsonl, line 1,234: {\"a\": 1}. --flatten "
    with pytest.raises(UserError, match=re.escape(said)):
        layout(inferred(9), nesting=Nesting())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("n,x\n1,a\n", ""),
        (numbers_and(), ""),
        (numbers_and("007", "010"), ""),
        (numbers_and(*["a"] * 9), ""),
        ("name,x\na,007\nb,12\nc,5\n", ""),
        ("name,x\na,2024-01-01\nb,12\nc,5\n", ""),
        (numbers_and("?"), "--types x=int64 rejects"),  # so few that no limit need be raised
        (numbers_and('"a, b"', "1.5"), """--missing '"a, b",NA,"""),
        (numbers_and("50%", "x", "9" * 30, "y"), "the first other one is '50%' (a.csv, line 22)"),
        (numbers_and("50%", "x", "9" * 30, "y"), "--types x=int64 --max_reject_fraction"),
        (numbers_and(" 7", "?"), "1 of its values are numbers with spaces around them, the first ' 7'"),
        (numbers_and(" 7", "?"), "--strip"),
        (
            "name,x\na,$5\nb,7€\nc,-$7.5\nd,8%\n",
            "numbers with a sign such as $ or %, stored as texts; numbers have none",
        ),
    ],
)
def test_a_text_that_is_mostly_numbers_is_told(tmp_path: Path, text: str, words: str) -> None:
    file = write(tmp_path, text)
    made = layout(infer(CSV, file), merge(FILES, summarize_header(CSV.header(file), "a.csv")), missing=CSV.missing)
    parts = [part.findings for block in blocks(CSV, file) for part in CSV.read(block, made.types)]
    found = reduce(Findings.merge, parts, Findings())
    said = "\n".join(found.notices(TableOptions("--input x", **grouped(missing=CSV.missing)), text.count("\n") - 1))
    assert words in said
    assert bool(said) == bool(words)


def test_empty_lists_of_objects_are_no_column_of_their_own() -> None:
    empty, numbers = ColumnType("float32", 0, 9), ColumnType("int64", -1, 1)
    inferred = Inferred({"m": empty, "m.a": numbers, "n": empty, "o": numbers}, 10)
    made = layout(inferred, FILES, nesting=Nesting(flatten=True))
    assert list(made.types) == ["m.a", "n", "o"]


def test_things_passed_over_are_said() -> None:
    made = layout(summary=merge(TABLE, InputSummary(skipped={".txt file": (1, "read.me.txt")})))
    assert made.notices[0] == "passed over 1 .txt file, such as 'read.me.txt'"


def test_split_folders() -> None:
    files = summarize_files([("train/a.csv", 1), ("VAL/x/b.csv", 1)])
    folders = merged(files, summarize_header(HEADER, "train/a.csv"))
    made = layout(summary=folders)

    assert (made.splits, made.fractions) == (("train", "validation"), None)
    assert "the splits are those of the folders: VAL (validation), train" in made.notices
    given = layout(summary=folders, splits=(("all", Fraction(1)),))
    assert (given.splits, given.fractions) == (("all",), (Fraction(1),))


@pytest.mark.parametrize(
    ("names", "numbers", "features", "classes"),
    [
        (["a.txt"], False, ["text"], None),
        (["pos/a.txt", "neg/c.txt"], True, ["text", "label", "filename", "line_number"], ("neg", "pos")),
        (["train/pos/a.txt", "test/neg/b.txt"], False, ["text", "label"], ("neg", "pos")),
    ],
)
def test_lines(names: list[str], numbers: bool, features: list[str], classes: tuple[str, ...] | None) -> None:
    made = make_line_layout(summarize_files((name, 1) for name in names), Inferred(), PLAIN, numbers)

    assert [feature.name for feature in made.features] == features
    assert (made.class_names["label"].names if made.class_names else None) == classes


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        (["a.txt"], {"labels": ("a",)}, "not every file of --input x is in a class folder"),
        (["train/pos/a.txt", "test/neg/b.txt", "c.txt"], {}, "(?s)level 0: files: 1.*--folders any"),
        (
            ["train/pos/a.txt", "b.txt"],
            {"folders": FolderRoles(0, 1)},
            "names 2 levels of folders, but below --input x files lie in no folders",
        ),
    ],
)
def test_folders_of_lines_that_are_mistakes(names: list[str], options: dict[str, Any], message: str) -> None:
    summary = summarize_files((name, 1) for name in names)
    with pytest.raises(UserError, match=message):
        make_line_layout(summary, Inferred(), TableOptions("--input x", **grouped(**options)), False)


@pytest.mark.parametrize(
    ("names", "folders"),
    [(["train/pos/a.txt", "test/neg/b.txt"], FolderRoles(0, 1)), (["a/b/a.txt", "b.txt"], NO_ROLES)],
)
def test_folders_of_lines(names: list[str], folders: FolderRoles) -> None:
    summary, options = summarize_files((name, 1) for name in names), TableOptions("--input x", folders=folders)
    assert make_line_layout(summary, Inferred(), options, False).folders == folders


def test_existing_records_whose_classes_have_no_names() -> None:
    options = TableOptions("--input x", schema=(Feature("pet", "int64", "class_label", class_names=("", "")),))
    with pytest.raises(UserError, match=r"--schema says that 'pet' holds ids of classes; give --label pet and their"):
        make_record_layout(FILES, Inferred(), options, False)
    named = replace(options, label_columns=("pet",), classes=LabelOptions(labels=("cat", "dog")))
    assert make_record_layout(FILES, Inferred(), named, False).labels == ("pet",)


def test_existing_records_have_no_features_yet() -> None:
    made = make_record_layout(FILES, Inferred(), PLAIN, False)

    assert (list(made.types), made.features) == (["record"], ())


def test_the_file_of_names_beside_a_schema_is_called_in_either_way() -> None:
    flat, nested = (Feature(name, "int64", "class_label", (), class_names=("0", "1")) for name in ("a", "b/c"))
    assert labels_file_names(flat) == "a.labels.txt"
    assert labels_file_names(nested) == "b.c.labels.txt or b-c.labels.txt"
    assert labels_file_names(replace(nested, sequence="b")) == "b-c.labels.txt"


def test_a_stack_is_advised_where_it_takes_numbered_columns_alone() -> None:
    columns = tuple(Feature(f"x{number}", "int64") for number in range(101))
    found = [bool(numbered_notices((*columns, Feature(other, "int64")))) for other in ("y", "x1_mean", "xs")]
    assert found == [True, False, False]
