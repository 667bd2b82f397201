"""Labels in the names of files, splits in lists of names, and files of records or lists of Pascal VOC that are
called as splits are."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.support.command import Contents, Run, check_mistake, image, npy, read_back, write_files
from tests.support.detection import Scene, draw, scenes, voc_of, write_voc
from tests.support.jobs import Jobs
from tests.support.sounds import wav

SPOKEN = [f"{digit}_{speaker}_{take}" for digit in range(3) for speaker in ("jackson", "theo") for take in range(4)]
PATTERN = ("--label_pattern", r"(?P<label>\d)_.*")


KINDS: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "audio": (".wav", lambda number: wav(number=number)),
    "images": (".jpg", image),
    "arrays": (".npy", lambda number: npy(np.full((2, 2), number))),
}


def convert(run: Run, command: str, folder: Path, *flags: object) -> Contents:
    done = run(command, "--input", folder / "in", "--output", folder / "out", "--name", "n", *flags)
    assert done.status == 0, done.err
    return read_back(folder / "out" / "n")


@pytest.mark.parametrize("command", KINDS)
@pytest.mark.parametrize("prefix", ["", "deep/er/"])
def test_labels_in_file_names(run: Run, tmp_path: Path, command: str, prefix: str) -> None:
    suffix, make = KINDS[command]
    write_files(tmp_path / "in", {f"{prefix}{name}{suffix}": make(at) for at, name in enumerate(SPOKEN)})

    contents = convert(run, command, tmp_path, *PATTERN, "--splits", "train=0.5,test=0.5", "--stratify_by", "label")

    assert set(contents.splits) == {"train", "test"}
    for name in SPOKEN:
        assert contents.label_of(f"{prefix}{name}{suffix}") == name[0]


def test_folders_of_splits_remain(run: Run, tmp_path: Path) -> None:
    files = {f"{('train', 'val')[at % 2]}/{name}.jpg": image(at) for at, name in enumerate(SPOKEN)}
    write_files(tmp_path / "in", files)

    contents = convert(run, "images", tmp_path, *PATTERN)

    assert {name: contents.split_of[name] for name in files} == {
        name: "train" if name.startswith("train") else "validation" for name in files
    }
    assert {contents.label_of(name) for name in files} == {"0", "1", "2"}


def test_other_names_are_rejects(run: Run, tmp_path: Path) -> None:
    write_files(tmp_path / "in", {"0_a.jpg": image(1), "1_b.jpg": image(2), "cover.jpg": image(3)})

    contents = convert(run, "images", tmp_path, *PATTERN, "--max_reject_fraction", "0.5")

    assert [(reject["source"], reject["reason"]) for reject in contents.rejects()] == [
        ("cover.jpg", r"not named as '(?P<label>\\d)_.*' says")
    ]


WORDS = {f"{word}/{at}_nohash_0.wav": wav(number=at + 9 * len(word)) for word in ("bed", "five") for at in range(6)}
LISTS = {
    "validation_list.txt": b"bed/0_nohash_0.wav\nfive/1_nohash_0.wav\n",
    "testing_list.txt": b"bed/2_nohash_0.wav\r\n\r\nfive/9_nohash_0.wav\n",
}
NOISE = {"_background_noise_/white.wav": wav(9)}


def test_lists_of_speech_commands(run: Run, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {**WORDS, **LISTS, **NOISE})
    job = ("audio", "--input", folder, "--output", tmp_path / "out", "--name", "n")
    lists = [word for name in LISTS for word in ("--split_lists", folder / name)]

    check_mistake(
        run(*job, "--exclude", "_background_noise_"),
        f"give --split_lists {folder}/validation_list.txt --split_lists {folder}/testing_list.txt for these splits",
    )
    check_mistake(
        run(*job, *lists),
        "'_background_noise_' holds long recordings without a word in the data set speech_commands",
        "leave it out by --exclude _background_noise_, or make it a class by --folders label",
    )
    contents = convert(run, "audio", tmp_path, *lists, "--exclude", "_background_noise_")
    assert contents.split_of == {
        **dict.fromkeys(WORDS, "train"),
        "bed/0_nohash_0.wav": "validation",
        "five/1_nohash_0.wav": "validation",
        "bed/2_nohash_0.wav": "test",
    }
    assert {contents.label_of(name) for name in WORDS} == {"bed", "five"}
    notice = "1 name in --split_lists is no file of the input: 'five/9_nohash_0.wav'"
    assert notice in contents.dataset.manifest.notices


def test_the_other_readings(run: Run, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {**WORDS, **LISTS, **NOISE})
    flags = ("--folders", "label", "--splits", "train=1")

    contents = convert(run, "audio", tmp_path, *flags)
    assert contents.label_of("_background_noise_/white.wav") == "_background_noise_"
    named = [
        "--split_lists",
        f"holdout={folder}/testing_list.txt",
        "--label_pattern",
        r"(?P<label>\w)(.*)",
        "--exclude",
        "_*",
    ]
    contents = convert(run, "audio", tmp_path, *named, "--version", "2.0.0")
    assert contents.splits["holdout"] == ["bed/2_nohash_0.wav"]
    assert contents.label_of("bed/2_nohash_0.wav") == "2"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (r"--label_pattern '(\d)_.*'", "has no group label"),
        ("--label_pattern '('", "is no regular expression"),
        (
            r"--label_pattern '(?P<label>\d)_.*' --folders label",
            "--label_pattern and --folders label both say the labels",
        ),
        ("--split_lists names", "does not say its split; give SPLIT=FILE"),
        ("--split_lists test_names.txt", "test_names.txt: no such file"),
        ("--split_lists test=no.txt", "no such file"),
        ("--split_lists test=names", "none of the names is a file of the input, for example 'nothing'"),
        ("--split_lists test=one --split_lists val=one", "is in the lists of test and of val"),
        ("--split_lists test=one --splits train=1", "both say the splits"),
    ],
)
def test_mistakes(jobs: Jobs, flags: str, said: str) -> None:
    files = {**WORDS, "../names": b"nothing\n", "../one": b"bed/0_nohash_0.wav\n"}
    jobs.refuse(f"audio {flags}", said, files=files)


SAID = "files are called as splits are, and all examples are in train: 2 as train, such as 'train-0.csv', 1 as test"
TABLE = b"x,y\n" + b"1,2\n3,4\n" * 20


def printed(run: Run, source: Path, command: str, *flags: str) -> str:
    done = run(command, "--input", source, "--output", source.parent / "out", "--name", "d", *flags)
    assert done.status == 0, done.err
    return done.out


@pytest.mark.parametrize("command", ["csv", "text"])
def test_it_is_said(run: Run, tmp_path: Path, command: str) -> None:
    names: tuple[str, ...] = ("train-0.csv", "train-1.csv", "test.csv", "trains.csv", "more.csv")
    if command == "text":
        names = tuple(name.replace(".csv", ".txt") for name in names)
    source = write_files(tmp_path / "in", dict.fromkeys(names, TABLE))

    assert SAID.replace(".csv", ".txt" if command == "text" else ".csv") in printed(run, source, command)


@pytest.mark.parametrize(
    ("names", "flags"),
    [
        (("train-0.csv", "train-1.csv", "trains.csv"), ()),
        (("train.csv", "test.csv"), ("--splits", "train=0.5,test=0.5")),
        (("train/train.csv", "test/test.csv"), ()),
    ],
)
def test_nothing_is_said_where_all_is_known(
    run: Run, tmp_path: Path, names: tuple[str, ...], flags: tuple[str, ...]
) -> None:
    source = write_files(tmp_path / "in", dict.fromkeys(names, TABLE))

    assert "called as splits are" not in printed(run, source, "csv", *flags)


def test_shards_of_several_splits_are_said_to_become_one(run: Run, tmp_path: Path) -> None:
    source = write_files(tmp_path / "in", {"rows.csv": b"x\n" + b"".join(b"%d\n" % number for number in range(40))})
    printed(run, source, "csv", "--splits", "train=0.5,test=0.5")
    again = ["reshard", "--input", tmp_path / "out" / "d" / "1.0.0" / "*tfrecord*", "--name", "d"]
    one = run(*again, "--output", tmp_path / "one")
    named = "1 as train, such as 'd-train.tfrecord-00000-of-00001', 1 as test, such as 'd-test.tfrecord-00000-of-00001'"
    assert f"all examples are in train: {named}" in one.out
    two = run(*again, "--output", tmp_path / "two", "--splits", "train=0.5,test=0.5")
    assert two.status == 0
    assert "called as splits are" not in two.out


SCENES = scenes(12)
HALVES: dict[str, Sequence[Scene]] = {"train": SCENES[:8], "test": SCENES[8:]}


def splits_of(directory: Path) -> dict[str, int]:
    splits = json.loads((directory / "n/1.0.0/stats.json").read_text())["splits"]
    return {split: found["examples"] for split, found in splits.items()}


def lists_as(folder: Path, names: Mapping[str, str]) -> Path:
    """A VOC folder whose lists `train` and `test` are called otherwise."""
    write_voc(folder, HALVES)
    for name, other in names.items():
        (folder / f"ImageSets/Main/{name}.txt").rename(folder / f"ImageSets/Main/{other}.txt")
    return folder


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        ({"test": "valid"}, {"train": 8, "validation": 4}),
        ({"train": "training", "test": "validation"}, {"train": 8, "validation": 4}),
        ({"train": "Train", "test": "VAL"}, {"train": 8, "validation": 4}),
        ({"train": "trainval"}, {"trainval": 8, "test": 4}),
    ],
)
def test_lists_by_the_usual_names_are_splits(
    names: dict[str, str], wanted: dict[str, int], tmp_path: Path, run: Run
) -> None:
    voc = lists_as(tmp_path / "voc", names)

    assert run("images", "--voc", voc, "--output", tmp_path, "--name", "n").status == 0
    assert splits_of(tmp_path) == wanted


def test_lists_that_are_no_splits_are_said(tmp_path: Path, run: Run) -> None:
    voc = lists_as(tmp_path / "voc", {"train": "first", "test": "second"})
    (voc / "ImageSets/Main/red_train.txt").write_text("000 1\n")

    done = run("images", "--voc", voc, "--output", tmp_path, "--name", "n")

    assert done.status == 0
    assert splits_of(tmp_path) == {"train": 12}
    assert (
        "NOTE: lists in ImageSets/Main are no splits by their names, such as train, val or test: 'first' and 1 more;"
        " all images are of one split" in done.out
    )


def test_lists_beside_splits_are_said_but_for_those_of_classes(tmp_path: Path, run: Run) -> None:
    voc = write_voc(tmp_path / "voc", HALVES)
    (voc / "ImageSets/Main/red_train.txt").write_text("000 1\n")
    (voc / "ImageSets/Main/trainval.txt").write_text("000\n")
    usual = run("images", "--voc", voc, "--output", tmp_path / "a", "--name", "n")
    (voc / "ImageSets/Main/minival.txt").write_text("000\n")
    odd = run("images", "--voc", voc, "--output", tmp_path / "b", "--name", "n")

    assert "lists in" not in usual.out
    assert "'minival'; they are left out" in odd.out
    assert splits_of(tmp_path / "b") == {"train": 8, "test": 4}


def test_lists_that_are_left_aside_are_said(tmp_path: Path, run: Run) -> None:
    voc = write_voc(tmp_path / "voc", HALVES)

    done = run("images", "--voc", voc, "--splits", "train=1", "--output", tmp_path, "--name", "n")

    assert splits_of(tmp_path) == {"train": 12}
    assert "the lists in ImageSets/Main are left aside, for --splits says the splits" in done.out


@pytest.mark.parametrize("above", ["", "Annotations/"])
def test_folders_are_splits_where_each_is_called_so(above: str, tmp_path: Path, run: Run) -> None:
    """As Roboflow exports it: annotations and images of a split in a folder; other tools keep annotations apart."""
    voc = tmp_path / "voc"
    for split, drawn in {"train": SCENES[:6], "valid": SCENES[6:9], "test": SCENES[9:]}.items():
        for scene in drawn:
            draw(scene, voc / ("JPEGImages" if above else "") / split)
            path = voc / above / split / f"{Path(scene.name).stem}.xml"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(voc_of(scene))
    done = run("images", "--voc", voc, "--output", tmp_path / "a", "--name", "n")
    one = run("images", "--voc", voc, "--splits", "train=1", "--output", tmp_path / "b", "--name", "n")
    (voc / above / "more").mkdir()
    (voc / above / "train" / f"{Path(SCENES[0].name).stem}.xml").rename(voc / above / "more/000.xml")
    mixed = run("images", "--voc", voc, "--output", tmp_path / "c", "--name", "n")

    assert (done.status, one.status, mixed.status) == (0, 0, 0), mixed.err
    assert splits_of(tmp_path / "a") == {"train": 6, "validation": 3, "test": 3}
    assert splits_of(tmp_path / "b") == {"train": 12}
    assert splits_of(tmp_path / "c") == {"train": 12}
    assert f"annotations lie in folders called as splits, such as {above}t" in mixed.out
    assert f"and {above}more/000.xml not: all images are of one split" in mixed.out
