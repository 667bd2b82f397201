"""The steps of a publication: all of it is on its disk before `_SUCCESS` is, and files that are gone are said."""

import os
from pathlib import Path

import pytest

from shardmill.errors import JobError
from shardmill.metadata import file_names
from shardmill.pipelines.jobs import outcome
from shardmill.transforms.publishing import lease
from shardmill.transforms.publishing import publication as publishing
from shardmill.transforms.publishing.publish import publish
from shardmill.transforms.stores import local, storage
from tests.support.builds import FEATURES, build, contents, options, own
from tests.support.faults import RecordingOs

pytestmark = pytest.mark.slow

SHARDS = {"train": 2, "test": 1}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "flowers" / "1.0.0"


def test_all_is_on_the_disk_before_success(tmp_path: Path, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(build(directory, "older", counts=SHARDS), FEATURES, options(tmp_path, job="older"))
    (directory.parent / file_names.LATEST).write_text("0.9.0\n")
    made = build(directory, "new", rejects=1, counts=SHARDS)
    recorder = RecordingOs(directory)
    monkeypatch.setattr(local, "os", recorder)
    publish(made, FEATURES, options(tmp_path, job="new"))
    done = recorder.done
    temporary = file_names.temporary_folder("flowers", "new")

    sources = [source for what, source in done if what == "rename from" and source.startswith(f"{temporary}/")]
    names = [source for source in sources if not source.endswith(file_names.TEMP_SUFFIX)]
    assert len(names) == 3 + len(["features", "info", "schema", "stats", "figures", "labels", "rejects", "manifest"])
    folders = {temporary, f"{temporary}/metadata", f"{temporary}/metadata/{file_names.REJECTS_DIR}"}
    assert {os.path.dirname(name) for name in names} == folders
    journal = recorder.last(("link", file_names.PUBLISHING))
    staged = recorder.last(*(("sync", name) for name in names), *(("sync", folder) for folder in folders))
    assert staged < journal
    assert done[journal - 1] == ("sync", f"{temporary}/{file_names.PUBLISHING}")  # the journal's text, before its name
    assert done[journal + 1] == ("sync", ".")

    removed = recorder.last(("remove", file_names.SUCCESS))
    assert journal < removed < done.index(("rename from", names[0]))
    assert done[removed + 1] == ("sync", ".")  # else, after a power cut, it may stand beside files of two versions

    success = recorder.last(("rename to", file_names.SUCCESS))
    renamed = recorder.last(*(("rename from", name) for name in names))
    after = done[renamed + 2 : success]
    assert ("sync", ".") in after
    assert ("sync", file_names.REJECTS_DIR) in after
    assert done[success - 2] == ("sync", f"{file_names.SUCCESS}{file_names.TEMP_SUFFIX}")
    assert done[success + 1] == ("sync", ".")

    latest = recorder.last(("rename to", f"../{file_names.LATEST}"))
    assert success < latest < recorder.last(("remove", file_names.PUBLISHING))
    assert done[latest - 2][0] == "sync"
    assert done[latest + 1] == ("sync", "..")
    assert done[-1] == ("sync", ".")


def test_folders_that_a_job_makes_are_on_the_disk_before_anything_is_in_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or, after a power cut, a version that was published in a new tree is nowhere."""
    recorder = RecordingOs(tmp_path)
    monkeypatch.setattr(local, "os", recorder)
    directory = tmp_path / "new" / "tree" / "flowers" / "1.0.0"
    lease.take_lease(str(directory), file_names.temporary_folder("flowers", "new"), "new").release()
    above = [".", "new", "new/tree", "new/tree/flowers", "new/tree/flowers/1.0.0"]
    assert sorted(recorder.done[: len(above)]) == [("sync", folder) for folder in above]


class StoppedError(OSError):
    """What interrupts a publication."""


def begun(tmp_path: Path, directory: Path, monkeypatch: pytest.MonkeyPatch, moved: int = 0) -> publishing.Journal:
    """The journal of a publication that stopped when so many files were renamed; none of the older version was touched
    at 0."""
    made = build(directory, "new", counts=SHARDS)

    def stop(*_: object) -> None:
        raise StoppedError("stopped")

    def rename_some(sources: list[str], destinations: list[str], **_: object) -> None:
        for source, destination in zip(sources[:moved], destinations, strict=False):
            os.replace(source, destination)
        stop()

    with monkeypatch.context() as patch:
        patch.setattr(storage, *(("rename", rename_some) if moved else ("delete", stop)))
        with pytest.raises(
            JobError, match=r"was begun but failed: stopped; the next run, or `shardmill verify --repair"
        ):
            publish(made, FEATURES, options(tmp_path, job="new"))
    journal = publishing.read_journal(str(directory))
    assert journal is not None
    return journal


def lose(directory: Path, journal: publishing.Journal) -> str:
    """Delete the one file that a publication needs most, and has only once; its name."""
    move = next(move for move in journal.moves if (directory / move.temporary).exists())
    (directory / move.temporary).unlink()
    return move.file


@pytest.mark.parametrize("damage", ["gone", "cut", "changed after the rename"])
def test_what_is_gone_is_said_and_nothing_is_published(
    tmp_path: Path, directory: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    journal = begun(tmp_path, directory, monkeypatch, moved=2)
    name = journal.moves[0].file
    if damage == "gone":
        name = lose(directory, journal)
    elif damage == "cut":
        name = journal.moves[-1].file
        os.truncate(directory / journal.moves[-1].temporary, 5)
    else:
        data = (directory / name).read_bytes()
        (directory / name).write_bytes(data[:-1] + b"!")
    before = contents(tmp_path)
    number = len(journal.moves)
    sentence = (
        rf"cannot be completed: 1 of its {number} files are gone, such as {name}, .*; it is no data set; run its job"
        r" again$"
    )
    for _ in range(2):
        own(directory, journal.job)
        with pytest.raises(publishing.LostFilesError, match=sentence):
            publishing.complete_publication(str(directory), journal)
        with pytest.raises(publishing.LostFilesError, match=sentence):
            outcome.repair(str(directory))
        assert contents(tmp_path) == before  # a repair deletes nothing that somebody may still want

    own(directory, "next")
    said = publishing.complete_or_undo(str(directory), journal, True, "next")
    assert said is not None
    assert "run its job again" in said
    assert contents(tmp_path) == {}


def test_the_older_version_stands_where_files_of_the_newer_are_gone(
    tmp_path: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(build(directory, "older", counts=SHARDS), FEATURES, options(tmp_path, job="older"))
    before = contents(tmp_path)
    lose(directory, begun(tmp_path, directory, monkeypatch))
    (said,) = outcome.repair(str(directory))
    assert (
        "files are gone, such as flowers-test.tfrecord-00000-of-00001, which was beam-temp-flowers-new/test-0;" in said
    )
    assert said.endswith("the version published before is unchanged")
    assert contents(tmp_path) == before
