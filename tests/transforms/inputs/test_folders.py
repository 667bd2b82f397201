"""What folders mean: splits and classes by their names, and a stop where that cannot be known; all routes that have
folders."""

import io
import shlex
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from shardmill.reading.dataset import open_dataset
from shardmill.transforms.inputs import folders as folder_roles
from shardmill.transforms.layout.splits import describe_folders
from tests.support.archives import zipped
from tests.support.command import Result, Run, check_mistake, image, write_files
from tests.support.sounds import wav

ARRAY = io.BytesIO()
np.save(ARRAY, np.zeros(3, np.float32))
# (command, suffix of its files, content of one)
ROUTES: dict[str, tuple[str, str, bytes]] = {
    "images": ("images", "jpg", image()),
    "audio": ("audio", "wav", wav()),
    "arrays": ("arrays", "npy", ARRAY.getvalue()),
    "text files": ("text --record file", "txt", b"words\n"),
    "lines": ("text", "txt", b"words\n"),
    "tables": ("csv", "csv", b"a\n1\n"),
}
FILES_AND_LINES = pytest.mark.parametrize("route", ["images", "lines"])


def start(run: Run, root: Path, route: str, *flags: object) -> Result:
    command = ROUTES[route][0].split()
    return run(*command, "--input", root / "in", "--output", root / "out", "--name", "n", *flags)


def tree(route: str, root: Path, *folders: str) -> None:
    """Write a file in each folder."""
    _, suffix, content = ROUTES[route]
    write_files(root / "in", {f"{folder}/{number}.{suffix}": content for number, folder in enumerate(folders)})


def convert(run: Run, root: Path, route: str, *flags: str) -> tuple[dict[str, int], tuple[str, ...] | None, str]:
    """Return the examples by split, the class names, and what was printed."""
    result = start(run, root, route, *flags)
    assert result.status == 0, result.err
    manifest = open_dataset(root / "out/n").manifest
    labels = [feature.class_names for feature in manifest.features if feature.kind == "class_label"]
    return {split.name: split.examples for split in manifest.splits}, labels[0] if labels else None, result.out


@pytest.mark.parametrize("route", [route for route in ROUTES if route != "tables"])
def test_usual_names_of_splits(run: Run, tmp_path: Path, route: str) -> None:
    tree(route, tmp_path, *(f"{word}/{name}" for word in ("Train", "dev", "test") for name in ("ant", "bee")))

    splits, classes, out = convert(run, tmp_path, route)

    assert splits == {"train": 2, "validation": 2, "test": 2}
    assert classes == ("ant", "bee")
    assert "Classes of 'label': 2: ant, bee" in out
    assert "Train" in out  # that they are stored by other names
    assert "dev" in out


@pytest.mark.parametrize("route", [route for route in ROUTES if route != "tables"])
@pytest.mark.parametrize(
    ("folders", "flags", "words"),
    [
        (["cat", "dog"], ["--folders", "any/label"], ["--folders any/label names 2 levels"]),
        (["training/cat", "testing/dog"], ["--splits", "a=0.5,b=0.5"], ["--splits was given", "split folders"]),
    ],
)
def test_mistakes(run: Run, tmp_path: Path, route: str, folders: list[str], flags: list[str], words: list[str]) -> None:
    tree(route, tmp_path, *folders)
    check_mistake(start(run, tmp_path, route, *flags), *words)
    assert not (tmp_path / "out").exists()


@FILES_AND_LINES
@pytest.mark.parametrize(
    ("flag", "splits", "classes"),
    [("split/label", {"day": 2, "night": 1}, ("cat", "dog")), ("any", {"train": 3}, None)],
)
def test_the_flag_says_what_folders_are(
    run: Run, tmp_path: Path, route: str, flag: str, splits: dict[str, int], classes: tuple[str, ...] | None
) -> None:
    tree(route, tmp_path, "day/cat", "day/dog", "night/cat")

    found, names, out = convert(run, tmp_path, route, "--folders", flag)

    assert (found, names, "Classes: none" in out) == (splits, classes, classes is None)
    assert open_dataset(tmp_path / "out/n").manifest.configuration["folders"] == flag


@FILES_AND_LINES
def test_many_classes_below_an_outer_folder_are_listed(run: Run, tmp_path: Path, route: str) -> None:
    tree(route, tmp_path, *(f"pets/c{number:02}" for number in range(20)))

    _, classes, out = convert(run, tmp_path, route)

    assert classes == tuple(f"c{number:02}" for number in range(20))
    assert "Classes of 'label': 20: c00, c01, c02, …, c17, c18, c19" in out
    assert "folder 'pets' holds all files, and has no meaning" in out


# Trees of Kaggle and others that no rule covers, and the flags that the message names first
UNCLEAR: dict[str, tuple[list[str], str]] = {
    "doubled": (
        ["seg_train/seg_train/a", "seg_train/seg_train/b", "seg_test/seg_test/a", "seg_pred/seg_pred"],
        "--folders split/any/label --exclude seg_pred/seg_pred: 2 splits, 2 classes",
    ),
    "doubled splits": (["train/train", "test/test"], "--folders split: 2 splits, no classes"),
    "a copy": (
        ["cell_images/A", "cell_images/B", "cell_images/cell_images/A", "cell_images/cell_images/B"],
        "--folders any/label --exclude cell_images/cell_images: 2 classes",
    ),
    "some without classes": (["asl_train/asl_train/A", "asl_test/asl_test"], "--folders split: 2 splits, no classes"),
    "several without classes": (
        [*[f"asl_train/asl_train/{name}" for name in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"], "asl_test/asl_test"],
        "--folders split/any/label --exclude asl_test/asl_test: 1 split, 26 classes",
    ),
    "folds": (["fold1/cat", "fold2/cat"], "--folders any/label: 1 class"),
    "classes of folds": (["fold1/cat", "fold2/cat", "fold1/dog"], "--folders any/label: 2 classes"),
    "longer words": (["training_set/a", "TestSet/a", "training_set/b"], "--folders split/label: 2 splits, 2 classes"),
    "some splits' words": (
        ["train/a", "validate/a", "holdout/a", "train/b", "validate/b", "holdout/b"],
        "--folders split/label: 3 splits, 2 classes",
    ),
    "a split's word": (["test_tube", "flask", "beaker"], "--folders label: 3 classes"),
    "a folder more": (["train/a", "train/b", "test/a", "x"], "--folders split/label --exclude x: 2 splits, 2 classes"),
    "two of one split": (["train/a", "val/a", "valid/b"], "--folders split/label: 2 splits, 2 classes"),
    "splits in classes": (["a/train", "a/test", "b/train", "b/test"], "--folders label/split: 2 splits, 2 classes"),
    "one class": (["train/a", "test/a"], "--folders split: 2 splits, no classes"),
    "an inner folder": (["train/i/a", "train/i/b", "test/i/a"], "--folders split/any/label: 2 splits, 2 classes"),
    "groups": (["run/v1", "run/v2", "walk/v3"], "--folders label: 2 classes"),
    "an outer folder": (
        ["w/train/a", "w/test/b", "w/more"],
        "--folders any/split/label --exclude w/more: 2 splits, 2 classes",
    ),
    "files beside": (["", "a", "b"], "--folders any: no classes"),
}


@pytest.mark.parametrize("case", UNCLEAR)
def test_the_plausible_reading_is_the_first_advice(case: str) -> None:
    folders, advice = UNCLEAR[case]
    lines = describe_folders("--input in", Counter(folders), "images")
    assert next(line for line in lines if line.startswith("--folders")) == advice


@pytest.mark.parametrize("case", ["doubled", "a copy"])
@pytest.mark.parametrize("route", ["images", "audio", "arrays", "text files"])
def test_unclear_folders_stop_and_the_advice_works(run: Run, tmp_path: Path, route: str, case: str) -> None:
    folders, advice = UNCLEAR[case]
    tree(route, tmp_path, *folders)
    flags = shlex.split(advice.partition(":")[0])
    check_mistake(start(run, tmp_path, route), f"--input {tmp_path}/in: the roles of its folders", f"\n  {advice}\n")
    assert not (tmp_path / "out").exists()
    splits, classes, _ = convert(run, tmp_path, route, *flags)
    assert len(splits) == 2 if case == "doubled" else splits == {"train": 2}
    assert [name.lower() for name in classes or ()] == ["a", "b"]


@pytest.mark.parametrize("route", ["images", "audio", "arrays"])
def test_folders_in_an_archive(run: Run, tmp_path: Path, route: str) -> None:
    command, suffix, content = ROUTES[route]
    folders, advice = UNCLEAR["doubled"]
    members = {f"{folder}/{number}.{suffix}": content for number, folder in enumerate(folders)}
    write_files(tmp_path, {"in.zip": zipped(members)})
    words = (command, "--input", tmp_path / "in.zip", "--output", tmp_path / "out", "--name", "n", "--dry_run")
    check_mistake(run(*words), f"\n  {advice}\n")
    assert run(*words, *shlex.split(advice.partition(":")[0])).status == 0


@pytest.mark.parametrize(("route", "name"), [("images", "test/metadata.csv"), ("arrays", "train/metadata.jsonl")])
def test_metadata_of_an_image_folder(run: Run, tmp_path: Path, route: str, name: str) -> None:
    """The metadata of a Hugging Face folder, in one of two splits, is a file that the job does not understand."""
    tree(route, tmp_path, "train/cat", "test/dog")
    write_files(tmp_path / "in", {name: b"file_name,label\n"})
    excluded = name.partition("/")[2]

    check_mistake(start(run, tmp_path, route), repr(name), "--exclude")

    splits, classes, out = convert(run, tmp_path, route, "--exclude", excluded)
    assert (splits, classes) == ({"train": 1, "test": 1}, ("cat", "dog"))
    assert f"passed over 1 file that --exclude {excluded} leaves out, such as {name!r}" in out


@pytest.mark.parametrize(
    "folders", [("train", "test", "extra"), ("train", "test", "."), ("train/x", "extra"), ("test", "extra")]
)
def test_tables_of_which_some_lie_in_split_folders(run: Run, tmp_path: Path, folders: tuple[str, ...]) -> None:
    tree("tables", tmp_path, *folders)

    check_mistake(start(run, tmp_path, "tables"), "splits", "--input")
    assert start(run, tmp_path, "tables", "--splits", "train=1", "--dry_run").status == 0


@pytest.mark.parametrize(
    ("folders", "roles"),
    [
        ([""], "any"),
        (["cat"], "any"),
        (["a/b"], "any"),
        (["cat", "dog"], "label"),
        (["with_mask", "no_mask"], "label"),
        (["a/cat", "a/dog"], "any/label"),
        (["a/a/cat", "a/a/dog"], "any/any/label"),
        (["train"], "split"),
        (["TRAIN", "val", "Testing"], "split"),
        (["a/train", "a/val"], "any/split"),
        (["train/cat", "train/dog"], "split/label"),
        (["train/cat", "test/dog"], "split/label"),
        (["a/train/cat", "a/dev/dog"], "any/split/label"),
        *((case, None) for case, _ in UNCLEAR.values()),
        (["train/cat", "test/latest", "test/test_2"], None),
        (["train/a/b", "train/c/d"], None),
        (["trainset", "holdout"], None),
        (["ImagesTrain", "other"], None),
        (["test", "zebra"], None),
        (["validation/cat", "val/dog"], None),
        (["cat", "cat/old", "dog"], None),
    ],
)
def test_depths_and_names_of_folders_say_their_roles(folders: list[str], roles: str | None) -> None:
    found = folder_roles.find_roles(Counter(folders))
    assert (None if found is None else str(found)) == roles


def test_the_message_has_the_folders_and_files_of_each_level() -> None:
    folders = Counter({"": 1200, "train/a": 3, "train/b": 4, **{f"x{number}": 1 for number in range(4)}})
    assert describe_folders("--input in", folders, "images") == [
        "--input in: the roles of its folders are not clear; give flags as below, or --input one of the folders, or a"
        " glob",
        "level 0: images: 1,200",
        "level 1: 5 folders, 'train', 'x0', 'x1' and 2 more; images: 4",
        "level 2: 2 folders, 'a', 'b'; images: 7",
        "--folders any: no classes",
    ]


@pytest.mark.parametrize(
    ("text", "roles", "name", "located", "group"),
    [
        ("label", folder_roles.CLASSES, "a/b/1.jpg", (None, "a"), "a/b"),
        ("label", folder_roles.CLASSES, "1.jpg", (None, None), "1.jpg"),
        ("label", folder_roles.CLASSES, "a/1.jpg", (None, "a"), "a/1.jpg"),
        ("split/label", folder_roles.FolderRoles(0, 1), "fold1/b/1.jpg", ("fold1", "b"), "fold1/b/1.jpg"),
        ("split/label", folder_roles.FolderRoles(0, 1), "train/1.jpg", ("train", None), "train/1.jpg"),
        ("split/label", folder_roles.FolderRoles(0, 1), "1.jpg", (None, None), "1.jpg"),
        ("label/split", folder_roles.FolderRoles(1, 0), "a/Val/1.jpg", ("validation", "a"), "a/Val/1.jpg"),
        ("any/label", folder_roles.FolderRoles(None, 1), "a/b/1.jpg", (None, "b"), "a/b/1.jpg"),
        ("label/any/split", folder_roles.FolderRoles(2, 0), "a/b/val/1.jpg", ("validation", "a"), "a/b/val/1.jpg"),
        ("any", folder_roles.FolderRoles(None, None), "a/b/1.jpg", (None, None), "a/b"),
        ("any", folder_roles.FolderRoles(None, None), "a/1.jpg", (None, None), "a"),
        ("split", folder_roles.FolderRoles(0, None), "a/b/1.jpg", ("a", None), "a/b"),
        ("label/group", folder_roles.FolderRoles(None, 0, 1), "a/b/c/1.jpg", (None, "a"), "a/b"),
        ("any/group", folder_roles.FolderRoles(None, None, 1), "a/b/c/1.jpg", (None, None), "a/b"),
        ("group", folder_roles.FolderRoles(None, None, 0), "a/b/1.jpg", (None, None), "a"),
        ("group", folder_roles.FolderRoles(None, None, 0), "1.jpg", (None, None), "1.jpg"),
    ],
)
def test_roles(
    text: str, roles: folder_roles.FolderRoles, name: str, located: tuple[str | None, str | None], group: str
) -> None:
    assert folder_roles.parse_roles(text) == roles
    assert str(roles) == text
    assert roles.locate(name) == located
    assert roles.find_group(name) == group


@pytest.mark.parametrize(
    "text", ["", "labels", "label/label", "split//label", "split,label", "group/label", "split/group", "group/any"]
)
def test_words_that_are_no_roles(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a word for each level|twice|group"):
        folder_roles.parse_roles(text)


def test_splits_by_the_names_of_files_or_of_their_first_folder() -> None:
    names = ["Val/a.jpg", "a.jpg", "x/a.jpg"]
    assert list(map(folder_roles.NameRules().find_split, names)) == ["validation", None, None]
    assert list(map(folder_roles.NameRules("", {"a.jpg": "test"}).find_split, names)) == ["train", "test", "train"]


def test_the_folders_of_a_name_that_are_kept() -> None:
    assert folder_roles.folder_key("a/b/c/d.jpg", folder_roles.CLASSES) == "a/b"
    assert folder_roles.folder_key("Train/b/c/d/e.jpg") == "Train/b/c/d"
    assert folder_roles.folder_key("d.jpg") == ""
