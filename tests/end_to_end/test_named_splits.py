"""Files of records that are called as splits are, as Hugging Face's are: no folder says so, and the job does."""

from pathlib import Path

import pytest

from tests.support.command import Run, write_files

_SAID = "files are called as splits are, and all examples are in train: 2 as train, such as 'train-0.csv', 1 as test"
_ROWS = b"x,y\n" + b"1,2\n3,4\n" * 20


def convert(run: Run, source: Path, command: str, *flags: str) -> str:
    done = run(command, "--input", source, "--output", source.parent / "out", "--name", "d", *flags)
    assert done.status == 0, done.err
    return done.out


@pytest.mark.parametrize("command", ["csv", "text"])
def test_it_is_said(run: Run, tmp_path: Path, command: str) -> None:
    names: tuple[str, ...] = ("train-0.csv", "train-1.csv", "test.csv", "trains.csv", "more.csv")
    if command == "text":
        names = tuple(name.replace(".csv", ".txt") for name in names)
    source = write_files(tmp_path / "in", dict.fromkeys(names, _ROWS))

    assert _SAID.replace(".csv", ".txt" if command == "text" else ".csv") in convert(run, source, command)


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
    source = write_files(tmp_path / "in", dict.fromkeys(names, _ROWS))

    assert "called as splits are" not in convert(run, source, "csv", *flags)


def test_shards_of_several_splits_are_said_to_become_one(run: Run, tmp_path: Path) -> None:
    source = write_files(tmp_path / "in", {"rows.csv": b"x\n" + b"".join(b"%d\n" % number for number in range(40))})
    convert(run, source, "csv", "--splits", "train=0.5,test=0.5")
    again = ["reshard", "--input", tmp_path / "out" / "d" / "1.0.0" / "*tfrecord*", "--name", "d"]
    one = run(*again, "--output", tmp_path / "one")
    named = "1 as train, such as 'd-train.tfrecord-00000-of-00001', 1 as test, such as 'd-test.tfrecord-00000-of-00001'"
    assert f"all examples are in train: {named}" in one.out
    two = run(*again, "--output", tmp_path / "two", "--splits", "train=0.5,test=0.5")
    assert two.status == 0
    assert "called as splits are" not in two.out
