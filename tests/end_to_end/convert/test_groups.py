"""Groups are whole, whatever kinds their column has in which file, whether it is kept or dropped, by every route."""

from collections.abc import Sequence
from typing import Any
from unicodedata import normalize

import numpy as np
import pytest

from shardmill.data import tfrecord
from tests.support.command import image
from tests.support.encoded import encode_example
from tests.support.jobs import Jobs
from tests.support.table_results import encode_rows

_GROUPS = range(1 << 24, (1 << 24) + 60)  # neighbours are one float32
_SPLITS = ("--splits", "train=0.5,test=0.5")
Groups = Sequence[int | float | str]
# Of each group, a row in each file, each of another kind; one float is among the integers of the last.
KINDS: list[Groups] = [
    list(_GROUPS),
    [float(group) for group in _GROUPS],
    [float(group) if index % 7 else str(group) for index, group in enumerate(_GROUPS)],
    [*_GROUPS, 0.5],
]


def _file(command: str, groups: Groups) -> bytes:
    """A file of a row for each group."""
    kinds = set(map(type, groups))
    if command == "parquet" and len(kinds) > 1:  # a column of Parquet is of one kind
        groups = [str(group) if str in kinds else float(group) for group in groups]
    return encode_rows(command, [{"uid": group, "name": f"g{int(float(group))}"} for group in groups])


def _splits_of(rows_by_split: dict[str, list[dict[str, Any]]]) -> dict[bytes, set[str]]:
    found: dict[bytes, set[str]] = {}
    for split, rows in rows_by_split.items():
        for row in rows:
            found.setdefault(row["name"], set()).add(split)
    return found


@pytest.mark.parametrize("command", ["csv", "parquet"])
def test_groups_of_tables(command: str, jobs: Jobs) -> None:
    files = {f"all/{number}.{command}": _file(command, groups) for number, groups in enumerate(KINDS)}
    jobs.write({**files, f"one/0.{command}": _file(command, KINDS[0])})
    small_blocks = "--block_size 1KiB" if command != "parquet" else ""
    kept, dropped, key, one_file = (
        _splits_of(jobs.build(f"{command} --input in/{folder} --overwrite {flags}", *_SPLITS).table.splits)
        for folder, flags in [
            ("all", "--group_by uid"),
            ("all", "--group_by uid --drop uid"),
            ("all", "--key uid --drop uid"),
            ("one", f"--group_by uid {small_blocks}"),
        ]
    )
    assert all(len(splits) == 1 for splits in kept.values())
    assert len({split for splits in kept.values() for split in splits}) == 2
    assert kept == dropped == key
    assert all(kept[name] == splits for name, splits in one_file.items())


def test_groups_of_existing_examples(jobs: Jobs) -> None:
    examples = [encode_example({"uid": [group], "name": [f"g{group}".encode()]}) for group in _GROUPS]
    odd = encode_example({"uid": np.array([0.5], np.float32), "name": [b"half"]})
    for name, records in (("all", [*examples, odd, *examples]), ("plain", examples)):
        jobs.write({f"{name}/a.tfrecord": b"".join(map(tfrecord.frame_record, records))})
    small_blocks, one_block, without = (
        _splits_of(jobs.build(f"reshard --overwrite --group_by uid --on_mixed reject {flags}", *_SPLITS).table.splits)
        for flags in ("--input in/all --block_size 1KiB", "--input in/all", "--input in/plain")
    )
    assert all(len(splits) == 1 for splits in one_block.values())
    assert small_blocks == one_block
    assert all(one_block[name] == splits for name, splits in without.items())


def test_groups_of_a_manifest(jobs: Jobs) -> None:
    rows = [{"file_name": f"{n}.jpg", "uid": (float if n % 2 else int)(n // 2)} for n in range(40)]
    files = {f"{number}.jpg": image(number) for number in range(40)} | {"m.jsonl": encode_rows("jsonl", rows)}
    split_of = jobs.build("images --manifest in/m.jsonl --group_by uid", *_SPLITS, files=files).contents.split_of
    assert all(split_of[f"{number}.jpg"] == split_of[f"{number + 1}.jpg"] for number in range(0, 40, 2))
    assert len(set(split_of.values())) == 2


def test_strata_are_values_and_classes_are_names(jobs: Jobs) -> None:
    rows = "".join(f"{('5', '5.0')[n % 2]},{('1', '1.0')[n % 2]}x,{n}\n" for n in range(40))
    by_class = jobs.build(
        "csv --label kind --stratify_by kind", *_SPLITS, files={"a.csv": f"site,kind,number\n{rows}"}
    ).table
    assert [len(rows) for rows in by_class.splits.values()] == [20, 20]
    for rows_of_split in by_class.splits.values():
        assert [row["kind"] for row in rows_of_split].count(0) == 10

    # 5 and 5.0 are one stratum, in which 3 rows of each are no halves: dropped or not, its six rows are.
    jobs.write({"a.csv": "site,number\n" + "".join(f"{('5', '5.0')[number % 2]},{number}\n" for number in range(6))})
    for flags in ("", "--drop site"):
        table = jobs.build(f"csv --overwrite --stratify_by site {flags}", *_SPLITS).table
        assert [len(rows) for rows in table.splits.values()] == [3, 3]


def test_a_schema_says_that_a_key_is_a_number(jobs: Jobs) -> None:
    jobs.build("csv", files={"a.csv": "uid,x\n" + "".join(f"{number},1\n" for number in range(40))})
    today = {"a.csv": "uid,x\n" + "".join(f"{n},1\n{n:04d},2\n" for n in range(40))}
    line = "csv --schema out/n/1.0.0/schema.pbtxt --group_by uid --version 1.0.1"
    table = jobs.build(line, *_SPLITS, files=today).table
    train, test = ({row["uid"] for row in rows} for rows in table.splits.values())
    assert len(table.rows) == 80
    assert train
    assert test
    assert not train & test


FRAMES = {
    f"{label}/video_{video:02}/frame{frame}.png": image(100 * video + 10 * frame + (label == "run"), "PNG")
    for label in ("run", "walk")
    for video in range(12)
    for frame in range(3)
}
_NOT_GROUPED = "are not grouped and may be in several splits; --group_by folder keeps the files of each folder in one"


@pytest.mark.parametrize("flags", ["--group_by folder --folders label", "--folders label/group", "--folders label"])
def test_frames_of_a_video_stay_in_one_split(jobs: Jobs, flags: str) -> None:
    jobs.refuse("images", "the roles of its folders are not clear…label/group", *_SPLITS, files=FRAMES)
    made = jobs.build(f"images {flags}", *_SPLITS)
    splits: dict[str, set[str]] = {}
    for name, split in made.contents.split_of.items():
        splits.setdefault(name.rpartition("/")[0], set()).add(split)
    assert made.contents.label_of("walk/video_03/frame1.png") == "walk"
    assert len(made.contents.split_of) == len(FRAMES)
    is_drawn = flags == "--folders label"
    assert {len(of_video) for of_video in splits.values()} == ({1, 2} if is_drawn else {1})
    assert any(_NOT_GROUPED in notice for notice in made.notices) == is_drawn


PEOPLE = [normalize(form, f"{letter}\u00e9") for letter in "abcdefgh" for form in ("NFC", "NFD")]
DECOMPOSED = "such as 'ae\u0301{}0.png', whose name has another Unicode form than NFC"
ALONE = "1 file is in no folder of a group, such as those in '.'"


@pytest.mark.parametrize(
    ("flags", "mark", "notices"),
    [
        ("--input in --exclude '*.csv' --group_by folder --folders any", "/", {DECOMPOSED, ALONE}),
        ("--input in --exclude '*.csv' --folders group", "/", {DECOMPOSED, ALONE}),
        ("--input in --exclude '*.csv' --group_by '(?P<group>.*)_.*'", "_", {DECOMPOSED}),
        ("--manifest in/table.csv --group_by folder", "/", {DECOMPOSED}),
        ("--input in --exclude '*.csv'", "_", set()),
    ],
)
def test_groups_of_files_are_compared_in_nfc(jobs: Jobs, flags: str, mark: str, notices: set[str]) -> None:
    names = ["x.png", *(f"{name}{mark}{n}.png" for name in PEOPLE for n in range(3))]
    files = {name: image(n) for n, name in enumerate(names)} | {"table.csv": "\n".join(["file_name", *names, ""])}
    made = jobs.build(f"images {flags}", *_SPLITS, files=files)
    found = {word for word in (DECOMPOSED, ALONE) if any(word.format(mark) in notice for notice in made.notices)}
    assert found == notices
    in_splits = {(normalize("NFC", name)[:2], split) for name, split in made.contents.split_of.items() if mark in name}
    assert (len(in_splits) == 8) is bool(notices)


# Three pictures of each of 12 patients, by name, in two classes
PATIENTS = {f"{number % 2}_p{number:02}-{scan}.png": image(number) for number in range(12) for scan in range(3)}
_OF_MANIFEST = "--manifest in/table.csv"


@pytest.mark.parametrize(
    ("where", "flags"),
    [
        ("--input in", r"--group_by '._(?P<group>p\d+)-.*'"),
        ("--input in", r"--label_pattern '(?P<label>.)_(?P<group>p\d+)-.*'"),
        (_OF_MANIFEST, r"--group_by '._(?P<group>p\d+)-.*'"),
        (_OF_MANIFEST, r"--group_by '._(?P<group>p\d+)-.*' --map functions.py:keep"),
    ],
)
def test_files_are_grouped_by_a_part_of_their_names(jobs: Jobs, where: str, flags: str) -> None:
    exclude = "" if where == _OF_MANIFEST else "--exclude '*.csv'"
    table = "".join(["file_name\n", *(f"{name}\n" for name in (*PATIENTS, "no-patient.png"))])
    (jobs.folder / "functions.py").write_text("def keep(image, **columns):\n    return image\n")
    files = {**PATIENTS, "no-patient.png": image(1), "table.csv": table}
    made = jobs.build(f"images {where} {flags} {exclude} --max_reject_fraction 0.1", *_SPLITS, files=files)
    split_of = made.contents.split_of
    assert split_of.keys() == PATIENTS.keys()
    assert len({(name.partition("-")[0], split) for name, split in split_of.items()}) == 12
    assert set(split_of.values()) == {"train", "test"}
