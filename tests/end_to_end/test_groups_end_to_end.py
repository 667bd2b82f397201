"""Groups are whole, whatever kinds their column has in which file, whether it is kept or dropped, by every route."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardmill.data import tfrecord
from shardmill.data.example import encode_example
from shardmill.pipelines import cli
from tests.support.command import Run, check_mistake, image, read_back, write_files
from tests.support.table_results import convert, read_table

_GROUPS = range(1 << 24, (1 << 24) + 60)  # neighbours are one float32
_SPLITS = ("--splits", "train=0.5,test=0.5")
Groups = Sequence[int | float | str]
# Of each group, a row in each file, each of another kind; one float stands among the integers of the last.
KINDS: list[Groups] = [
    list(_GROUPS),
    [float(group) for group in _GROUPS],
    [float(group) if index % 7 else str(group) for index, group in enumerate(_GROUPS)],
    [*_GROUPS, 0.5],
]
Rows = Iterable[tuple[int | float | str, str]]


def _rows(groups: Groups) -> Rows:
    return [(group, f"g{int(float(group))}") for group in groups]


def _csv(rows: Rows) -> bytes:
    return "".join(["uid,name\n", *(f"{uid},{name}\n" for uid, name in rows)]).encode()


def _jsonl(rows: Rows) -> bytes:
    return "".join(f"{json.dumps({'uid': uid, 'name': name})}\n" for uid, name in rows).encode()


def _parquet(rows: Rows) -> bytes:
    uids = [uid for uid, _ in rows]
    if len(set(map(type, uids))) > 1:  # a column of Parquet is of one kind
        uids = [str(uid) for uid in uids] if str in set(map(type, uids)) else [float(uid) for uid in uids]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"uid": uids, "name": [name for _, name in rows]}), sink)
    return sink.getvalue().to_pybytes()


def _splits_of(rows_by_split: dict[str, list[dict[str, Any]]]) -> dict[bytes, set[str]]:
    found: dict[bytes, set[str]] = {}
    for split, rows in rows_by_split.items():
        for row in rows:
            found.setdefault(row["name"], set()).add(split)
    return found


@pytest.mark.parametrize(("command", "write"), [("csv", _csv), ("jsonl", _jsonl), ("parquet", _parquet)])
def test_groups_of_tables(command: str, write: Any, tmp_path: Path) -> None:
    source = write_files(
        tmp_path / "in", {f"{number}.{command}": write(_rows(groups)) for number, groups in enumerate(KINDS)}
    )
    alone = write_files(tmp_path / "one", {f"0.{command}": write(_rows(KINDS[0]))})
    small_blocks = ("--block_size", "1KiB") if command != "parquet" else ()
    found = [
        _splits_of(convert(command, folder, tmp_path / name, *_SPLITS, *flags).splits)
        for name, folder, flags in [
            ("kept", source, ("--group_by", "uid")),
            ("dropped", source, ("--group_by", "uid", "--drop", "uid")),
            ("key", source, ("--key", "uid", "--drop", "uid")),
            ("alone", alone, ("--group_by", "uid", *small_blocks)),
        ]
    ]
    kept, dropped, key, one_file = found

    assert all(len(splits) == 1 for splits in kept.values())
    assert len({split for splits in kept.values() for split in splits}) == 2
    assert kept == dropped == key
    assert all(kept[name] == splits for name, splits in one_file.items())


def test_groups_of_existing_examples(tmp_path: Path) -> None:
    def examples(groups: Iterable[int]) -> list[bytes]:
        return [encode_example({"uid": [group], "name": [f"g{group}".encode()]}) for group in groups]

    odd = encode_example({"uid": np.array([0.5], np.float32), "name": [b"half"]})
    records = [*examples(_GROUPS), odd, *examples(_GROUPS)]
    whole = write_files(tmp_path / "in", {"a.tfrecord": b"".join(map(tfrecord.frame_record, records))})
    plain = write_files(tmp_path / "plain", {"a.tfrecord": b"".join(map(tfrecord.frame_record, examples(_GROUPS)))})
    found = []
    for name, source, flags in [("a", whole, ("--block_size", "1KiB")), ("b", whole, ()), ("c", plain, ())]:
        flags = (*flags, "--group_by", "uid", "--on_mixed", "reject")
        arguments = ["reshard", "--input", source, "--output", tmp_path / name, "--name", "n", *_SPLITS, *flags]
        assert cli.main([str(argument) for argument in arguments]) == 0
        found.append(_splits_of(read_table(tmp_path / name / "n").splits))
    small_blocks, one_block, without = found

    assert all(len(splits) == 1 for splits in one_block.values())
    assert small_blocks == one_block
    assert all(one_block[name] == splits for name, splits in without.items())


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_groups_of_a_manifest(suffix: str, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {f"{number}.jpg": image(number) for number in range(40)})
    rows = [(f"{number}.jpg", (float if number % 2 else int)(number // 2)) for number in range(40)]
    if suffix == "csv":
        lines = ["file_name,uid", *(f"{name},{uid}" for name, uid in rows)]
    else:
        lines = [json.dumps({"file_name": name, "uid": uid}) for name, uid in rows]
    manifest = folder / f"m.{suffix}"
    manifest.write_text("".join(f"{line}\n" for line in lines))
    arguments = ["images", "--manifest", manifest, "--output", tmp_path, "--name", "n", "--group_by", "uid", *_SPLITS]

    assert cli.main([str(argument) for argument in arguments]) == 0
    split_of = read_back(tmp_path / "n").split_of
    assert all(split_of[f"{number}.jpg"] == split_of[f"{number + 1}.jpg"] for number in range(0, 40, 2))
    assert len(set(split_of.values())) == 2


def test_strata_are_values_and_classes_are_names(tmp_path: Path) -> None:
    rows = [(("5", "5.0")[number % 2], ("1", "1.0")[number % 2], number) for number in range(40)]
    text = "".join(["site,kind,number\n", *(f"{site},{kind}x,{number}\n" for site, kind, number in rows)])
    source = write_files(tmp_path / "in", {"a.csv": text.encode()})
    by_class = convert("csv", source, tmp_path / "c", "--label", "kind", "--stratify_by", "kind", *_SPLITS)
    assert [len(rows) for rows in by_class.splits.values()] == [20, 20]
    for rows_of_split in by_class.splits.values():
        assert [row["kind"] for row in rows_of_split].count(0) == 10

    # 5 and 5.0 are one stratum, in which 3 rows of each are no halves: dropped or not, its six rows are.
    few = "".join(["site,number\n", *(f"{('5', '5.0')[number % 2]},{number}\n" for number in range(6))])
    source = write_files(tmp_path / "few", {"a.csv": few.encode()})
    for name, flags in (("kept", ()), ("dropped", ("--drop", "site"))):
        table = convert("csv", source, tmp_path / name, "--stratify_by", "site", *_SPLITS, *flags)
        assert [len(rows) for rows in table.splits.values()] == [3, 3]


def test_a_schema_says_that_a_key_is_a_number(tmp_path: Path) -> None:
    yesterday = write_files(
        tmp_path / "in", {"a.csv": b"uid,x\n" + b"".join(b"%d,1\n" % number for number in range(40))}
    )
    today = write_files(
        tmp_path / "new", {"a.csv": b"uid,x\n" + b"".join(b"%d,1\n%04d,2\n" % (n, n) for n in range(40))}
    )
    convert("csv", yesterday, tmp_path / "one")
    schema = tmp_path / "one" / "n" / "1.0.0" / "schema.pbtxt"
    table = convert("csv", today, tmp_path / "two", "--schema", schema, "--group_by", "uid", *_SPLITS)

    ids = {split: {row["uid"] for row in rows} for split, rows in table.splits.items()}
    assert len(table.rows) == 80
    assert ids["train"]
    assert ids["test"]
    assert not ids["train"] & ids["test"]


FRAMES = {
    f"{label}/video_{video:02}/frame{frame}.png": image(100 * video + 10 * frame + (label == "run"), "PNG")
    for label in ("run", "walk")
    for video in range(12)
    for frame in range(3)
}
_NOT_GROUPED = "are not grouped and may be in several splits; --group_by folder keeps the files of each folder in one"


@pytest.mark.parametrize(
    "flags", [("--group_by", "folder", "--folders", "label"), ("--folders", "label/group"), ("--folders", "label")]
)
def test_frames_of_a_video_stay_in_one_split(tmp_path: Path, run: Run, flags: tuple[str, ...]) -> None:
    folder = write_files(tmp_path / "in", FRAMES)
    command = ("images", "--input", folder, "--output", tmp_path / "out", "--name", "n", *_SPLITS)
    check_mistake(run(*command), "the same sub-folders repeat", "label/group")
    result = run(*command, *flags)
    assert result.status == 0, result.err
    contents = read_back(tmp_path / "out/n")
    splits: dict[str, set[str]] = {}
    for name, split in contents.split_of.items():
        splits.setdefault(name.rpartition("/")[0], set()).add(split)
    assert contents.label_of("walk/video_03/frame1.png") == "walk"
    assert len(contents.split_of) == len(FRAMES)
    is_drawn = flags == ("--folders", "label")
    assert {len(of_video) for of_video in splits.values()} == ({1, 2} if is_drawn else {1})
    assert any(_NOT_GROUPED in notice for notice in contents.dataset.manifest.notices) == is_drawn


def test_images_of_a_manifest_are_grouped_by_folder(tmp_path: Path, run: Run) -> None:
    table = "".join(["file_name,n\n", *(f"{name},1\n" for name in FRAMES)])
    folder = write_files(tmp_path / "in", {**FRAMES, "table.csv": table.encode()})
    flags = ("--manifest", folder / "table.csv", *_SPLITS, "--group_by", "folder")
    assert run("images", *flags, "--output", tmp_path / "out", "--name", "n").status == 0
    split_of = read_back(tmp_path / "out/n").split_of
    assert len({(name.rpartition("/")[0], split) for name, split in split_of.items()}) == 24
    assert set(split_of.values()) == {"train", "test"}


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ((), "--folders label/group needs --splits"),
        ((*_SPLITS, "--stratify_by", "label"), "contradicts --stratify_by label"),
        ((*_SPLITS, "--group_by", "folder"), "contradicts --group_by folder"),
    ],
)
def test_flags_that_contradict_a_level_of_groups(tmp_path: Path, run: Run, flags: tuple[str, ...], words: str) -> None:
    command = ("images", "--input", tmp_path, "--output", tmp_path / "out", "--name", "n", "--folders", "label/group")
    check_mistake(run(*command, *flags), words)
