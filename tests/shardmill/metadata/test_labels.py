"""Class names and their ids."""

from itertools import permutations

import pytest

from shardmill.errors import UserError
from shardmill.metadata.labels import ClassNames, parse_labels, resolve_class_names


def test_ids_are_positions() -> None:
    classes = ClassNames(("rose", "daisy"))

    assert (classes.id("rose"), classes.id("daisy"), classes.id("tulip"), len(classes)) == (0, 1, None, 2)


def test_ids_follow_the_sorted_names_whatever_the_order_found() -> None:
    for found in permutations(["tulip", "daisy", "Rose", "daisy"]):
        assert resolve_class_names(found, None, "fail").names == ("Rose", "daisy", "tulip")


@pytest.mark.parametrize(
    ("found", "on_new_label", "names"),
    [
        (["daisy"], "fail", ("rose", "daisy")),
        ([], "fail", ("rose", "daisy")),
        (["tulip", "aster", "rose"], "append", ("rose", "daisy", "aster", "tulip")),
        (["tulip", "rose"], "reject", ("rose", "daisy")),
    ],
)
def test_frozen_names_keep_their_ids(found: list[str], on_new_label: str, names: tuple[str, ...]) -> None:
    assert resolve_class_names(found, ("rose", "daisy"), on_new_label).names == names


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (["rse", "rose"], r"^class 'rse' \(did you mean 'rose'\?\) is in the input but not in --labels_file; "),
        (["zebra"], "^class 'zebra' is in the input but not in --labels_file; "),
        (["zebra", "ant", "bee"], "^class 'ant' and 2 more are in the input"),
        (["zebra"], "--on_new_label append .* or reject"),
    ],
)
def test_a_new_class_fails_and_is_named(found: list[str], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        resolve_class_names(found, ("rose", "daisy"), "fail")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("rose\ndaisy\n", ("rose", "daisy")),
        ("rose\ndaisy", ("rose", "daisy")),
        ("rose\r\ndaisy\r\n", ("rose", "daisy")),
        ("\ufeffrose\n", ("rose",)),
        ("wild rose\nmärz\n", ("wild rose", "märz")),
    ],
)
def test_labels_files(text: str, names: tuple[str, ...]) -> None:
    assert parse_labels(text, "labels.txt") == names


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "--labels_file labels.txt is empty"),
        ("rose\nrose\n", "class name 'rose' is twice"),
        ("rose\n\ndaisy\n", "class name '' cannot be in a labels file"),
        ("rose \n", "class name 'rose ' cannot be in"),
        (" \n", "class name ' ' cannot be in"),
    ],
)
def test_bad_labels_files(text: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        parse_labels(text, "labels.txt")


@pytest.mark.parametrize("name", ["a\nb", "a\rb", " a", "a ", ""])
def test_a_folder_that_no_labels_file_can_name(name: str) -> None:
    with pytest.raises(UserError, match="rename the class"):
        resolve_class_names([name], None, "fail")
