"""What folders mean: splits and classes by their names, and a stop where that cannot be known; all routes that have
folders."""

import io
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from shardmill.reading.dataset import open_dataset
from shardmill.transforms.inputs.folders import FolderError, FolderRoles, folder_key, guess_roles, parse_roles
from tests.support.command import Run, check_mistake, image, write_files


def array() -> bytes:
    out = io.BytesIO()
    np.save(out, np.zeros(3, np.float32))
    return out.getvalue()


# (command, suffix of its files, content of one)
ROUTES = {
    "images": (["images"], "jpg", image()),
    "arrays": (["arrays"], "npy", array()),
    "text files": (["text", "--record", "file"], "txt", b"words\n"),
    "lines": (["text"], "txt", b"words\n"),
}


@pytest.fixture(params=ROUTES)
def route(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def tree(route: str, root: Path, *folders: str) -> Path:
    """A file in each folder."""
    _, suffix, content = ROUTES[route]
    return write_files(root, {f"{folder}/{number}.{suffix}": content for number, folder in enumerate(folders)})


def convert(
    run: Run, route: str, root: Path, output: Path, *flags: object
) -> tuple[dict[str, int], tuple[str, ...] | None, str]:
    """Examples by split, class names, and what was printed."""
    result = run(*ROUTES[route][0], "--input", root, "--output", output, "--name", "n", *flags)
    assert result.status == 0, result.err
    manifest = open_dataset(str(output / "n")).manifest
    labels = [feature.class_names for feature in manifest.features if feature.kind == "class_label"]
    return {split.name: split.examples for split in manifest.splits}, labels[0] if labels else None, result.out


def mistake(run: Run, route: str, root: Path, output: Path, *words: str, flags: tuple[object, ...] = ()) -> None:
    check_mistake(run(*ROUTES[route][0], "--input", root, "--output", output, "--name", "n", *flags), *words)
    assert not output.exists()


@pytest.mark.parametrize("words", [("Train", "valid", "test"), ("training", "Dev", "eval")])
def test_usual_names_of_splits(run: Run, tmp_path: Path, route: str, words: tuple[str, ...]) -> None:
    root = tree(route, tmp_path / "in", *(f"{word}/{name}" for word in words for name in ("ant", "bee")))

    splits, classes, out = convert(run, route, root, tmp_path / "out")

    assert splits == {"train": 2, "validation": 2, "test": 2}
    assert classes == ("ant", "bee")
    assert "Classes of 'label': 2: ant, bee" in out
    for word in words:
        if word not in ("train", "validation", "test"):
            assert word in out  # that it is stored by another name


@pytest.mark.parametrize(
    ("folders", "seen"),
    [
        (["images", "masks"], "'images', 'masks'"),
        (["JPEGImages"], "'JPEGImages'"),
        (["cat", "Annotations"], "'Annotations'"),
        (["train/images", "valid/images"], "'images'"),
        (["a/cat", "a/dog", "b/cat", "b/dog"], "the same sub-folders repeat: 'cat', 'dog' in every one of 'a', 'b'"),
        (["train/a/cat", "train/b/cat", "test/a/cat", "test/b/cat"], "'cat' in every one of 'a', 'b'"),
        (["train/cat", "test/cat", "extra"], "'test', 'train' would be splits by their names, but 'extra'"),
        (["train/cat", "extra"], "'train' would be splits by their names, but 'extra'"),
        (["flowers/rose", "flowers/tulip"], "'flowers' would be the only class, although 'rose', 'tulip' lie in it"),
    ],
)
def test_folders_that_are_no_classes(folders: list[str], seen: str) -> None:
    with pytest.raises(FolderError, match=re.escape(seen)):
        guess_roles(folders)


def test_folders_that_are_no_classes_stop_the_job(run: Run, tmp_path: Path, route: str) -> None:
    root = tree(route, tmp_path / "in", "images", "masks")

    mistake(run, route, root, tmp_path / "out", "'images', 'masks'", "--folders", "any/label", str(root))


@pytest.mark.parametrize(
    ("text", "name", "found"),
    [
        ("label", "a/b/1.jpg", (None, "a")),
        ("any", "a/b/1.jpg", (None, None)),
        ("any/label", "a/b/1.jpg", (None, "b")),
        ("split/label", "fold1/b/1.jpg", ("fold1", "b")),
        ("label/split", "a/Val/1.jpg", ("validation", "a")),
        ("split", "a/b/1.jpg", ("a", None)),
        ("any/any/label", "a/b/1.jpg", (None, None)),
    ],
)
def test_what_the_flag_makes_of_a_name(text: str, name: str, found: tuple[str | None, str | None]) -> None:
    assert parse_roles(text).locate(name) == found


def test_the_flag_says_what_folders_are(run: Run, tmp_path: Path, route: str) -> None:
    root = tree(route, tmp_path / "in", "images/cat", "images/dog", "masks/cat")

    found, names, _ = convert(run, route, root, tmp_path / "out", "--folders", "split/label")

    assert (found, names) == ({"images": 2, "masks": 1}, ("cat", "dog"))
    assert open_dataset(str(tmp_path / "out/n")).manifest.configuration["folders"] == "split/label"


def test_no_classes(run: Run, tmp_path: Path, route: str) -> None:
    root = tree(route, tmp_path / "in", "images", "masks")

    found, names, out = convert(run, route, root, tmp_path / "out", "--folders", "any")

    assert (found, names) == ({"train": 2}, None)
    assert "Classes: none" in out


def test_levels_that_there_are_not(run: Run, tmp_path: Path, route: str) -> None:
    root = tree(route, tmp_path / "in", "cat", "dog")

    mistake(run, route, root, tmp_path / "out", "--folders any/label names 2 levels", flags=("--folders", "any/label"))


def test_splits_said_twice(run: Run, tmp_path: Path, route: str) -> None:
    root = tree(route, tmp_path / "in", "training/cat", "testing/cat")

    mistake(
        run,
        route,
        root,
        tmp_path / "out",
        "--splits was given",
        "split folders",
        flags=("--splits", "train=0.5,test=0.5"),
    )


def test_a_second_level_below_the_class_is_said(run: Run, tmp_path: Path, route: str) -> None:
    root = tree(route, tmp_path / "in", "cat/persian", "cat/manx", "dog")

    _, classes, out = convert(run, route, root, tmp_path / "out")

    assert classes == ("cat", "dog")
    assert "folders below class folders are ignored: files in 'cat/manx' have class 'cat', as in 1 more" in out


def test_the_first_and_last_of_many_classes(run: Run, tmp_path: Path, route: str) -> None:
    root = tree(route, tmp_path / "in", *(f"c{number:02}" for number in range(20)))

    *_, out = convert(run, route, root, tmp_path / "out")

    assert "Classes of 'label': 20: c00, c01, c02, …, c17, c18, c19" in out


@pytest.mark.parametrize("route", ["images", "arrays"])
def test_metadata_of_an_image_folder(run: Run, tmp_path: Path, route: str) -> None:
    """Which lies otherwise than Hugging Face has it: in one of two splits."""
    name = "test/metadata.csv" if route == "images" else "train/metadata.jsonl"
    root = tree(route, tmp_path / "in", "train/cat", "test/cat")
    write_files(root, {name: b"file_name,label\n"})

    mistake(run, route, root, tmp_path / "out", repr(name), "--manifest", "--folders")

    splits, classes, out = convert(run, route, root, tmp_path / "out", "--folders", "split/label")
    assert (splits, classes) == ({"train": 1, "test": 1}, ("cat",))
    assert f"passed over 1 metadata file, such as {name!r}" in out


def test_lines_of_which_some_have_no_label(run: Run, tmp_path: Path) -> None:
    root = tree("lines", tmp_path / "in", "cat", ".")

    _, classes, out = convert(run, "lines", root, tmp_path / "out")

    assert classes is None
    assert "no line has a label: some files lie in class folders, such as 'cat', others do not" in out


@pytest.mark.parametrize("folders", [("train", "test", "extra"), ("train", "test", "."), ("train/x", "extra")])
def test_tables_of_which_some_lie_in_split_folders(run: Run, tmp_path: Path, folders: tuple[str, ...]) -> None:
    root = write_files(tmp_path / "in", {f"{folder}/{number}.csv": b"a\n1\n" for number, folder in enumerate(folders)})
    arguments = ["csv", "--input", root, "--output", tmp_path / "out", "--name", "n"]

    check_mistake(run(*arguments), "splits", "--input")
    assert run(*arguments, "--splits", "train=1").status == 0


@pytest.mark.parametrize(
    ("text", "roles"),
    [
        ("label", FolderRoles(None, 0)),
        ("split/label", FolderRoles(0, 1)),
        ("any/label", FolderRoles(None, 1)),
        ("label/any/split", FolderRoles(2, 0)),
        ("any", FolderRoles(None, None)),
        ("split", FolderRoles(0, None)),
        ("label/group", FolderRoles(None, 0, 1)),
        ("any/group", FolderRoles(None, None, 1)),
    ],
)
def test_roles(text: str, roles: FolderRoles) -> None:
    assert parse_roles(text) == roles
    assert str(roles) == text


@pytest.mark.parametrize(
    "text", ["", "labels", "label/label", "split//label", "split,label", "group/label", "split/group", "group/any"]
)
def test_words_that_are_no_roles(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a word for each level|twice|group"):
        parse_roles(text)


@pytest.mark.parametrize(
    ("roles", "groups"),
    [
        ("label", ["a.jpg", "cat/b.jpg", "cat/v1", "cat/v1/x"]),
        ("any", ["a.jpg", "cat", "cat/v1", "cat/v1/x"]),
        ("label/group", ["a.jpg", "cat/b.jpg", "cat/v1", "cat/v1"]),
        ("group", ["a.jpg", "cat", "cat", "cat"]),
    ],
)
def test_groups(roles: str, groups: list[str]) -> None:
    names = ["a.jpg", "cat/b.jpg", "cat/v1/c.jpg", "cat/v1/x/d.jpg"]
    assert [parse_roles(roles).find_group(name) for name in names] == groups


def test_what_is_kept_of_a_name_is_what_a_guess_looks_at() -> None:
    assert folder_key("a/b/c/d.jpg") == "a/b"
    assert folder_key("Train/b/c/d/e.jpg") == "Train/b/c"
    assert folder_key("a/b/c/d.jpg", FolderRoles(None, 0)) == "a/b"
    assert folder_key("d.jpg") == ""


def test_classes_are_guessed_where_nothing_speaks_against_them() -> None:
    for folders in (
        ["cat", "dog"],
        ["cat/a", "dog/b"],
        ["cat", "cat/a", "cat/b"],
        ["test", "zebra"],
        [""],
        ["with_mask", "no_mask"],
    ):
        assert guess_roles(Counter(folders)) == FolderRoles(None, 0)
    with pytest.raises(FolderError):
        guess_roles(["a/x", "b/x", "c/x", "c/y"])
