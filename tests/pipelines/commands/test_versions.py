"""`shardmill versions`, `rollback` and `tag`."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from shardmill.errors import JobError, UserError
from shardmill.metadata.versions import BuildRecord
from shardmill.pipelines.commands.pointers import delete_tag, set_tag
from shardmill.transforms.publishing import lease
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import StoredFile
from tests.support.command import Run, check_failure, check_mistake, tree_bytes, write_files
from tests.support.small_data_set import make_version


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    """1.0.0, of 2 examples, to 1.0.2, of 4, which LATEST names."""
    for index in range(3):
        make_version(tmp_path / "n", f"1.0.{index}", latest=True, examples=index + 2)
    return tmp_path / "n"


def latest(parent: Path) -> str:
    return (parent / "LATEST").read_text().strip()


def test_what_there_is(run: Run, parent: Path) -> None:
    for version, severities in {"1.0.0": ("ok",), "1.0.1": ("warn", "ok", "error"), "1.0.2": ("warn", "warn")}.items():
        checks = tuple({"severity": severity} for severity in severities)
        record = BuildRecord("n", version, "published", "2026-11-20T03:00:00Z", checks=checks)
        write_files(parent, {f"builds/{version}.json": record.to_json().encode()})
    write_files(parent, {"TAGS/good": b"1.0.0\n", "TAGS/a": b"1.0.0\n"})
    others = {"1.0.3/beam-temp-n-x/part": b"", "failed/1.0.2/manifest.json": b"", "1.0.1/manifest.json": b"{}"}
    write_files(parent, others)

    result = run("versions", parent)
    assert result.status == 0
    head, *lines = (line.split() for line in result.out.splitlines())
    assert head == ["version", "published", "examples", "size", "named", "by", "checks"]
    assert [line[0] for line in lines] == ["1.0.2", "1.0.1", "1.0.0"]
    assert lines[0][3:] == ["4", "120", "B", "LATEST", "0", "errors,", "2", "warnings"]
    assert lines[1][3:] == ["damaged", "1", "error,", "1", "warning"]
    assert lines[2][3:] == ["2", "60", "B", "a,", "good", "passed"]

    rows = json.loads(run("versions", parent, "--json").out)
    assert [(row["version"], row["examples"], row["latest"], row["tags"]) for row in rows] == [
        ("1.0.2", 4, True, []),
        ("1.0.1", None, False, []),
        ("1.0.0", 2, False, ["a", "good"]),
    ]
    assert rows[0]["published"].endswith("Z")

    (parent / "1.0.1/_SUCCESS").unlink()
    write_files(parent, {"LATEST": b"1.0.7\n"})
    out = run("versions", parent).out
    assert "1.0.1    no: a deletion began" in out
    assert "NOTE: LATEST names 1.0.7, which is not published" in out
    (parent / "LATEST").unlink()
    assert "NOTE: there is no LATEST" in run("versions", parent).out


@pytest.mark.parametrize("command", [("versions",), ("rollback",), ("tag", "1.0.0", "x")])
def test_mistakes_in_the_folder(run: Run, parent: Path, tmp_path: Path, command: tuple[str, ...]) -> None:
    name, *rest = command
    check_mistake(run(name, parent / "1.0.0", *rest), "1.0.0 is one version; give the folder of all of them")
    check_mistake(run(name, tmp_path / "none", *rest), "none")


def test_rollback_goes_one_back_and_again_and_to_a_version_or_a_tag(run: Run, parent: Path) -> None:
    before = tree_bytes(parent)
    assert run("rollback", parent).out == f"{parent}: LATEST: 1.0.2 -> 1.0.1\n"
    assert latest(parent) == "1.0.1"
    assert run("rollback", f"{parent}/").status == 0
    check_mistake(run("rollback", parent), "has no version older than 1.0.0")
    assert tree_bytes(parent) == before | {"LATEST": b"1.0.0\n"}

    write_files(parent, {"TAGS/good": b"1.0.1\n"})
    assert run("rollback", parent, "good").status == 0
    assert latest(parent) == "1.0.1"
    assert run("rollback", parent, "1.0.2").out == f"{parent}: LATEST: 1.0.1 -> 1.0.2\n"  # forward, too
    assert run("rollback", parent, "1.0.2").out == f"{parent}: LATEST names 1.0.2 already\n"


def test_rollback_from_a_latest_that_is_lost(run: Run, parent: Path) -> None:
    write_files(parent, {"LATEST": b"1.0.9\n"})
    assert run("rollback", parent).out == f"{parent}: LATEST: 1.0.9 -> 1.0.2\n"
    (parent / "LATEST").unlink()
    check_mistake(run("rollback", parent), "give the version to roll back to")
    assert run("rollback", parent, "1.0.1").out == f"{parent}: LATEST: none -> 1.0.1\n"
    assert latest(parent) == "1.0.1"


def test_rollback_to_what_is_not_whole_changes_nothing(run: Run, parent: Path) -> None:
    next((parent / "1.0.1").glob("n-*")).unlink()
    check_mistake(run("rollback", parent), "nothing was changed: 1.0.1 is damaged: n-train.tfrecord-", "is missing")
    check_mistake(run("rollback", parent, "1.0.9"), "1.0.9 is not a data set", "published in")
    check_mistake(run("rollback", parent, "nice"), "has no version or tag 'nice'")
    assert latest(parent) == "1.0.2"


def test_rollback_waits_for_a_publication_which_would_undo_it(run: Run, parent: Path) -> None:
    write_files(parent, {"1.0.2/_PUBLISHING": b"{}"})
    check_failure(run("rollback", parent), "is being published", "verify --repair")
    assert latest(parent) == "1.0.2"


def test_rollback_as_a_version_is_built_is_told_of_it(run: Run, parent: Path) -> None:
    """For that build undoes it."""
    with lease.hold_lease(str(parent / "1.0.3"), "beam-temp-n-0123", "0123"):
        result = run("rollback", parent)

    assert (result.status, result.out) == (0, f"{parent}: LATEST: 1.0.2 -> 1.0.1\n")
    assert result.err == (
        "shardmill: warning: 1.0.3 is being built, or its job was interrupted: once it is published LATEST names it, if"
        " it is newer than 1.0.1\n"
    )


def test_tags_are_given_moved_and_taken_away(run: Run, parent: Path) -> None:
    assert run("tag", parent, "LATEST", "good").out == f"{parent}: good names 1.0.2\n"
    assert run("tag", parent, "1.0.2", "good").out == f"{parent}: good names 1.0.2\n"
    check_mistake(run("tag", parent, "1.0.0", "good"), "good names 1.0.2 already; give --move")
    assert run("tag", parent, "1.0.0", "good", "--move").out == f"{parent}: good: 1.0.2 -> 1.0.0\n"
    assert run("tag", parent, "good", "same").out == f"{parent}: same names 1.0.0\n"
    assert (parent / "TAGS/same").read_text() == "1.0.0\n"
    assert run("tag", parent, "good", "--delete").out == f"{parent}: good no longer names 1.0.0\n"
    assert sorted(path.name for path in (parent / "TAGS").iterdir()) == ["same"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("1.0.0",), "give the version, then the tag"),
        (("1.0.0", "a/b"), "cannot be a tag"),
        (("1.0.0", "latest"), "cannot be a tag"),
        (("1.0.0", "2.0.0"), "cannot be a tag"),
        (("1.0.9", "x"), "1.0.9 is not a data set"),
        (("what", "x"), "has no version or tag 'what'"),
        (("x", "--delete"), "has no tag 'x'"),
        (("1.0.0", "x", "--delete"), "--delete takes the tag alone"),
        (("1.0.0", "x", "--mvoe"), "did you mean --move?"),
    ],
)
def test_mistakes_in_tags(run: Run, parent: Path, words: tuple[str, ...], said: str) -> None:
    before = tree_bytes(parent)
    check_mistake(run("tag", parent, *words), said)
    assert tree_bytes(parent) == before


@pytest.mark.parametrize("before", ["", "1.0.0"])
def test_of_two_who_give_a_tag_at_once_one_does(parent: Path, before: str) -> None:
    if before:
        set_tag(str(parent), before, "good", move=True)
    both = Barrier(2)

    def give(version: str) -> bool:
        both.wait()
        try:
            set_tag(str(parent), version, "good", move=bool(before))
        except (JobError, UserError):
            return False
        return True

    for _ in range(20):
        if not before:
            (parent / "TAGS/good").unlink(missing_ok=True)
        with ThreadPoolExecutor(2) as pool:
            done = dict(zip(("1.0.1", "1.0.2"), pool.map(give, ("1.0.1", "1.0.2")), strict=True))
        named = (parent / "TAGS/good").read_text().strip()
        assert done[named]
        assert before or sum(done.values()) == 1
        assert [path.name for path in (parent / "TAGS").iterdir()] == ["good"]


def test_a_tag_that_another_moved_meanwhile_stands(parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_tag(str(parent), "1.0.0", "good", move=False)
    real = storage.read

    def read(path: str) -> StoredFile | None:
        """What was there before another moved the tag."""
        found = real(path)
        (parent / "TAGS/good").write_text("1.0.2\n")
        return found

    monkeypatch.setattr("shardmill.transforms.stores.storage.read", read)
    with pytest.raises(JobError, match=r"the tag good of .* was changed by another job meanwhile, and this command"):
        set_tag(str(parent), "1.0.1", "good", move=True)
    (parent / "TAGS/good").write_text("1.0.1\n")
    with pytest.raises(JobError, match="was changed by another job meanwhile"):
        delete_tag(str(parent), "good")
    assert (parent / "TAGS/good").read_text() == "1.0.2\n"
