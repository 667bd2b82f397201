"""Labels in the names of files, splits in lists of names, and files of records or lists of Pascal VOC that are
called as splits are."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.support.command import image, npy, tree_bytes
from tests.support.detection import draw, scenes, voc_of, write_voc
from tests.support.jobs import Jobs
from tests.support.sounds import wav

SPOKEN = [f"{digit}_{speaker}_{take}" for digit in range(3) for speaker in ("jackson", "theo") for take in range(4)]
PATTERN = r"--label_pattern '(?P<label>\d)_.*'"
KINDS: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "audio": (".wav", lambda number: wav(number=number)),
    "images": (".jpg", image),
    "arrays": (".npy", lambda number: npy(np.full((2, 2), number))),
}


@pytest.mark.parametrize(("command", "prefix"), [("audio", ""), ("images", "deep/er/"), ("arrays", "")])
def test_labels_in_file_names(jobs: Jobs, command: str, prefix: str) -> None:
    suffix, make = KINDS[command]
    files = {f"{prefix}{name}{suffix}": make(at) for at, name in enumerate(SPOKEN)}
    built = jobs.build(f"{command} {PATTERN} --splits train=0.5,test=0.5 --stratify_by label", files=files)
    assert built.splits == {"train": 12, "test": 12}
    assert {name: built.contents.label_of(name) for name in files} == {
        f"{prefix}{name}{suffix}": name[0] for name in SPOKEN
    }


@pytest.mark.parametrize(
    ("command", "flag"), [("audio", "stratify_by"), ("images", "group_by"), ("arrays", "stratify_by")]
)
def test_labels_of_a_manifest_have_the_name_of_their_column(jobs: Jobs, command: str, flag: str) -> None:
    suffix, make = KINDS[command]
    rows = "".join(f"{name}{suffix},{name[0]}\n" for name in SPOKEN)
    files = {f"{name}{suffix}": make(at) for at, name in enumerate(SPOKEN)} | {"m.csv": f"file_name,digit\n{rows}"}
    line = f"{command} --manifest in/m.csv --label_column digit --splits train=0.5,test=0.5 --{flag}"
    named, labelled = (jobs.build(f"{line} {by} --output {by}", files=files) for by in ("digit", "label"))
    assert tree_bytes(named.directory) == tree_bytes(labelled.directory)


def test_folders_of_splits_remain(jobs: Jobs) -> None:
    files = {f"{('train', 'val')[at % 2]}/{name}.jpg": image(at) for at, name in enumerate(SPOKEN)}
    found = jobs.build(f"images {PATTERN}", files=files).contents
    assert found.split_of == {name: "train" if name.startswith("train") else "validation" for name in files}
    assert {found.label_of(name) for name in files} == {"0", "1", "2"}


def test_other_names_are_rejects(jobs: Jobs) -> None:
    files = {"0_a.jpg": image(1), "1_b.jpg": image(2), "cover.jpg": image(3)}
    built = jobs.build(f"images {PATTERN} --max_reject_fraction 0.5", files=files)
    assert built.reasons == {"cover.jpg": r"not named as '(?P<label>\\d)_.*' says"}


WORDS = {f"{word}/{at}_nohash_0.wav": wav(number=at + 9 * len(word)) for word in ("bed", "five") for at in range(6)}
LISTS = {
    "validation_list.txt": "bed/0_nohash_0.wav\nfive/1_nohash_0.wav\n",
    "testing_list.txt": "bed/2_nohash_0.wav\r\n\r\nfive/9_nohash_0.wav\n",
}
NOISE = {"_background_noise_/white.wav": wav(9)}


def test_lists_of_speech_commands(jobs: Jobs) -> None:
    lists = "--split_lists in/validation_list.txt --split_lists in/testing_list.txt"
    jobs.write(WORDS | LISTS | NOISE)
    jobs.refuse("audio --exclude _background_noise_", "2 .txt files…--split_lists in/testing_list.txt")
    built = jobs.build(f"audio {lists} --exclude _background_noise_")
    others = {"bed/0_nohash_0.wav": "validation", "five/1_nohash_0.wav": "validation", "bed/2_nohash_0.wav": "test"}
    assert built.contents.split_of == dict.fromkeys(WORDS, "train") | others
    assert {built.contents.label_of(name) for name in WORDS} == {"bed", "five"}
    assert "1 name in --split_lists is no file of the input: 'five/9_nohash_0.wav'" in built.notices


def test_the_other_readings(jobs: Jobs) -> None:
    found = jobs.build("audio --splits train=1 --exclude '*.txt'", files=WORDS | LISTS | NOISE).contents
    assert found.label_of("_background_noise_/white.wav") == "_background_noise_"
    flags = r"--split_lists holdout=in/testing_list.txt --label_pattern '(?P<label>\w)(.*)'"
    found = jobs.build(f"audio {flags} --exclude _* --exclude 'val*.txt' --version 2.0.0").contents
    assert found.splits["holdout"] == ["bed/2_nohash_0.wav"]
    assert found.label_of("bed/2_nohash_0.wav") == "2"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (r"--label_pattern '(\d)_.*'", "expected groups called label or group, as in '(?P<label>[^_]*)_.*'"),
        ("--label_pattern '(?P<label>.)(?P<speaker>.)_.*'", "expected groups called label or group"),
        ("--group_by '(?P<group>.)(?P<take>.)_.*' --splits a=1", "--group_by: …expected groups called label or group"),
        ("--group_by '(?P<group>[' --splits a=1", "--group_by: '(?P<group>[' is no regular expression"),
        ("--label_pattern '(?P<label>.)(?P<group>.).*' --group_by folder --splits a=1", "--group_by folder is another"),
        ("--label_pattern '(?P<label>.)(?P<group>.).*'", "needs --splits"),
        ("--label_pattern '('", "is no regular expression"),
        (f"{PATTERN} --folders label", "--label_pattern and --folders label both say the labels"),
        ("--split_lists names", "does not say its split; give SPLIT=FILE"),
        ("--split_lists test_names.txt", "test_names.txt: no such file"),
        ("--split_lists test=no.txt", "no such file"),
        ("--split_lists test=names", "none of the names is a file of the input, for example 'nothing'"),
        ("--split_lists test=one --split_lists val=one", "is in the lists of test and of val"),
        ("--split_lists test=one --splits train=1", "both say the splits"),
    ],
)
def test_mistakes(jobs: Jobs, flags: str, said: str) -> None:
    jobs.refuse(f"audio {flags}", said, files=WORDS | {"../names": "nothing\n", "../one": "bed/0_nohash_0.wav\n"})


SAID = "files are called as splits are, and all examples are in train: 2 as train, such as 'train-0.csv', 1 as test"
TABLE = "x,y\n" + "1,2\n3,4\n" * 20


@pytest.mark.parametrize(
    ("line", "names", "said"),
    [
        ("csv", "train-0.csv train-1.csv test.csv trains.csv more.csv", SAID),
        ("text", "train-0.txt train-1.txt test.txt trains.txt more.txt", SAID.replace(".csv", ".txt")),
        ("csv", "train-0.csv train-1.csv trains.csv", ""),
        ("csv --splits train=0.5,test=0.5", "train.csv test.csv", ""),
        ("csv", "train/train.csv test/test.csv", ""),
    ],
)
def test_files_called_as_splits_are_said_unless_all_is_known(jobs: Jobs, line: str, names: str, said: str) -> None:
    built = jobs.build(line, files=dict.fromkeys(names.split(), TABLE))
    assert said in built.said
    assert ("called as splits are" in built.said) == bool(said)


def test_shards_of_several_splits_are_said_to_become_one(jobs: Jobs) -> None:
    jobs.build("csv --splits train=0.5,test=0.5", files={"rows.csv": "x\n" + "".join(f"{n}\n" for n in range(40))})
    one = jobs.build("reshard --input out/n/1.0.0/*tfrecord* --output one")
    named = "1 as train, such as 'n-train.tfrecord-00000-of-00001', 1 as test, such as 'n-test.tfrecord-00000-of-00001'"
    assert f"all examples are in train: {named}" in one.said
    two = jobs.build("reshard --input out/n/1.0.0/*tfrecord* --output two --splits train=0.5,test=0.5")
    assert "called as splits are" not in two.said


SCENES = scenes(12)


def lists_as(jobs: Jobs, train: str, test: str) -> Path:
    """The lists of a VOC folder `in` that are called so."""
    write_voc(jobs.folder / "in", {"train": SCENES[:8], "test": SCENES[8:]})
    lists = jobs.folder / "in/ImageSets/Main"
    for name, other in (("train", train), ("test", test)):
        (lists / f"{name}.txt").rename(lists / f"{other}.txt")
    return lists


@pytest.mark.parametrize(
    ("train", "test", "wanted"),
    [("Train", "VAL", {"train": 8, "validation": 4}), ("trainval", "test", {"trainval": 8, "test": 4})],
)
def test_lists_by_the_usual_names_are_splits(jobs: Jobs, train: str, test: str, wanted: dict[str, int]) -> None:
    lists_as(jobs, train, test)
    assert jobs.build("images --voc in").splits == wanted


def test_lists_that_are_no_splits_or_left_aside_are_said(jobs: Jobs) -> None:
    lists = lists_as(jobs, "first", "second")
    (lists / "red_train.txt").write_text("000 1\n")
    built = jobs.build("images --voc in")
    assert built.splits == {"train": 12}
    assert (
        "NOTE: lists in ImageSets/Main are no splits by their names, such as train, val or test: 'first' and 1 more;"
        " all images are of one split" in built.said
    )
    (lists / "first.txt").rename(lists / "train.txt")
    (lists / "second.txt").rename(lists / "test.txt")
    (lists / "trainval.txt").write_text("000\n")
    assert "lists in" not in jobs.build("images --voc in --output a").said
    (lists / "minival.txt").write_text("000\n")
    built = jobs.build("images --voc in --output b")
    assert built.splits == {"train": 8, "test": 4}
    assert "'minival'; they are left out" in built.said
    built = jobs.build("images --voc in --splits train=1 --output c")
    assert built.splits == {"train": 12}
    assert "the lists in ImageSets/Main are left aside, for --splits says the splits" in built.said


@pytest.mark.parametrize("above", ["", "Annotations/"])
def test_folders_are_splits_where_each_is_called_so(jobs: Jobs, above: str) -> None:
    """Roboflow puts annotations and images of a split in one folder; other tools keep annotations apart."""
    for split, drawn in {"train": SCENES[:6], "valid": SCENES[6:9], "test": SCENES[9:]}.items():
        for scene in drawn:
            draw(scene, jobs.folder / "in" / ("JPEGImages" if above else "") / split)
            jobs.write({f"{above}{split}/{Path(scene.name).stem}.xml": voc_of(scene)})
    assert jobs.build("images --voc in --output a").splits == {"train": 6, "validation": 3, "test": 3}
    assert jobs.build("images --voc in --output b --splits train=1").splits == {"train": 12}

    jobs.write({f"{above}more/": ""})
    annotations = jobs.folder / "in" / above
    (annotations / "train" / f"{Path(SCENES[0].name).stem}.xml").rename(annotations / "more/000.xml")
    mixed = jobs.build("images --voc in --output c")
    assert mixed.splits == {"train": 12}
    assert f"annotations lie in folders called as splits, such as {above}t" in mixed.said
    assert f"and {above}more/000.xml not: all images are of one split" in mixed.said


def test_a_metadata_file_that_names_no_files_in_a_column_is_a_table_of_its_own(jobs: Jobs) -> None:
    """LJSpeech's metadata.csv has no header: the job stops, and the flags that it names read the table."""
    texts = ["in the only sense", "has never been surpassed", "in being, comparatively", "the earliest, printed, book"]
    rows = "".join(f"LJ001-000{number}|{text}|{text}\n" for number, text in enumerate(texts))
    files = {f"wavs/LJ001-000{number}.wav": wav(number=number) for number in range(4)}
    flags = "--columns file_name,column_2,column_3 --delimiter '|' --file_suffix .wav --file_root wavs/"
    jobs.refuse("audio", f"give --manifest in/metadata.csv {flags} in place of", files=files | {"metadata.csv": rows})
    made = jobs.build(f"audio --manifest in/metadata.csv {flags}")
    assert {bytes(example["column_2"]).decode() for example in made.examples()} == set(texts)
