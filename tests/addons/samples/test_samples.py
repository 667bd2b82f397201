"""`shardmill sample` and `selftest`: the files are those of the pages, none is replaced, and a fault is found."""

import zipfile
from pathlib import Path

import pytest

from shardmill.addons.samples.commands import KINDS
from shardmill.reading import plain_examples
from tests.support.command import Run
from tests.support.sample_files import ARCHIVE, sample_files

# The bytes of other files depend on versions of libraries
_TEXTS = (".csv", ".jsonl", ".txt", ".xml", ".de", ".en", ".yaml")


def test_the_archive_has_the_data_of_the_pages(tmp_path: Path) -> None:
    made = sample_files(tmp_path)
    with zipfile.ZipFile(ARCHIVE) as archive:
        found = {name: archive.read(name) for name in archive.namelist()}

    assert found.keys() == made.keys()
    assert {name.partition("/")[0] for name in found} == KINDS.keys()
    assert [name for name, data in found.items() if name.endswith(_TEXTS) and data != made[name]] == []


def test_no_file_of_the_user_is_replaced(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("mine\n")

    result = run("sample", "table", tmp_path)

    assert (result.status, (tmp_path / "rows.csv").read_text()) == (2, "mine\n")
    assert f"{tmp_path}/rows.csv is there and differs from the sample; give another folder" in result.err
    assert len(list(tmp_path.iterdir())) == 1


def test_samples_are_written_twice(run: Run, tmp_path: Path) -> None:
    first, second = run("sample", "photos", tmp_path), run("sample", "photos", tmp_path)

    assert (first.status, first) == (0, second)
    assert first.out.endswith("\nshardmill images --input photos --output datasets --name photos\n")
    assert len(list((tmp_path / "photos").rglob("*.jpg"))) == 40


def test_selftest_reads_what_it_makes(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run("selftest")
    assert (result.status, len(result.out.splitlines())) == (0, len(KINDS) + 1)
    assert "photos: 40 examples converted, verified and read\n" in result.out

    monkeypatch.setattr(plain_examples, "examples", lambda *_, **__: [{}])  # one of each split
    assert run("selftest").status == 1
