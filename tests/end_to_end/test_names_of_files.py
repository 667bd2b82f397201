"""Labels in the names of files, and splits in lists of names."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.support.command import Contents, Run, check_mistake, image, read_back, write_files
from tests.support.sounds import wav

SPOKEN = [f"{digit}_{speaker}_{take}" for digit in range(3) for speaker in ("jackson", "theo") for take in range(4)]
PATTERN = ("--label_pattern", r"(?P<label>\d)_.*")


def npy(number: int) -> bytes:
    out = io.BytesIO()
    np.save(out, np.full((2, 2), number))
    return out.getvalue()


KINDS: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "audio": (".wav", lambda number: wav(number=number)),
    "images": (".jpg", image),
    "arrays": (".npy", npy),
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
    ("flags", "words"),
    [
        (("--label_pattern", r"(\d)_.*"), "has no group label"),
        (("--label_pattern", "("), "is no regular expression"),
        ((*PATTERN, "--folders", "label"), "--label_pattern and --folders label both say the labels"),
        (("--split_lists", "{0}/names"), "does not say its split; give SPLIT=FILE"),
        (("--split_lists", "{0}/test_names.txt"), "test_names.txt: no such file"),
        (("--split_lists", "test={0}/no.txt"), "no such file"),
        (("--split_lists", "test={0}/names"), "none of the names is a file of the input, for example 'nothing'"),
        (("--split_lists", "test={0}/one", "--split_lists", "val={0}/one"), "is in the lists of test and of val"),
        (("--split_lists", "test={0}/one", "--splits", "train=1"), "both say the splits"),
    ],
)
def test_mistakes(run: Run, tmp_path: Path, flags: tuple[str, ...], words: str) -> None:
    write_files(tmp_path, {"names": b"nothing\n", "one": b"bed/0_nohash_0.wav\n"})
    folder = write_files(tmp_path / "in", WORDS)
    given = [flag.replace("{0}", str(tmp_path)) for flag in flags]

    check_mistake(run("audio", "--input", folder, "--output", tmp_path / "out", "--name", "n", *given), words)
    assert not (tmp_path / "out").exists()
