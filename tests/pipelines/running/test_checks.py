"""What is checked before a job starts."""

from dataclasses import replace
from pathlib import Path

import pytest

from shardmill.errors import UserError
from shardmill.pipelines.jobs.job import check_baseline, check_input
from shardmill.pipelines.jobs.registry import KINDS
from shardmill.transforms.options.job_options import CheckOptions
from tests.support.versions import make_version


@pytest.mark.parametrize(
    ("baseline", "sentence"),
    [("1.0.0", ""), ("LATEST", ""), ("1.0.7", "1.0.7 is not a data set"), ("gold", "no version or tag 'gold'")],
)
def test_the_version_to_compare_with_is_there(tmp_path: Path, baseline: str, sentence: str) -> None:
    make_version(tmp_path / "n", "1.0.0", latest=False, examples=2)
    plain = KINDS["csv"].make_config({"input": str(tmp_path), "output": str(tmp_path), "name": "n"})

    check_baseline(plain)
    config = replace(plain, checks=CheckOptions(baseline=baseline))
    if sentence:
        with pytest.raises(UserError, match=sentence):
            check_baseline(config)
    else:
        check_baseline(config)


@pytest.mark.parametrize(
    ("command", "name", "sentence"),
    [
        (
            "images",
            "photos.7z",
            "is an archive, and images in it are not read; unpack it, and give --input",
        ),
        ("arrays", "scans.RAR", "is an archive, and arrays in it are not read; unpack it, and give --input the folder"),
        ("images", "a.tar.gz", "the folder; tar files of samples, 1.jpg next to 1.cls, are for `shardmill webdataset`"),
        ("csv", "rows.csv.gz", ""),
        ("webdataset", "a.tar.gz", ""),
        ("webdataset", "a.zip", "is an archive, and tar files in it are not read"),
    ],
)
def test_archives_are_to_be_unpacked(tmp_path: Path, command: str, name: str, sentence: str) -> None:
    (tmp_path / name).write_bytes(b"x")
    (tmp_path / "folder.zip").mkdir()
    for given in (name, "*" + name[1:]):
        config = KINDS[command].make_config({"input": str(tmp_path / given), "output": "/o", "name": "n"})
        if sentence:
            with pytest.raises(UserError, match=sentence):
                check_input(config)
        else:
            check_input(config)
    check_input(KINDS[command].make_config({"input": str(tmp_path / "folder.zip"), "output": "/o", "name": "n"}))


@pytest.mark.parametrize("command", ["csv", "images", "reshard"])
def test_what_may_be_meant_by_what_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        Path(name).write_text("x")
    for given, hint in (
        ("train=a", "; a is there, and is given without train="),
        ("a,b", "; it is one path, not a list: give a folder that holds everything, or a glob such as 'data/*/*'"),
        ("a,c", ""),
        ("missing.zip", ""),
        ("missing.tar", ""),
    ):
        config = KINDS[command].make_config({"input": given, "output": "o", "name": "n"})
        with pytest.raises(UserError) as caught:
            check_input(config)
        assert str(caught.value) == f"--input {given}: no such file or folder{hint}"


def test_the_web_is_not_read() -> None:
    config = KINDS["images"].make_config({"input": "https://host/photos", "output": "/o", "name": "n"})
    with pytest.raises(UserError, match="https://host/photos: https:// is not read; download it first: img2dataset"):
        check_input(config)
