"""Publications that were killed at a rename, and data sets without their LATEST: `verify --repair` ends them."""

import os
import re
import signal
from functools import partial
from pathlib import Path

import pytest

from tests.support.command import Run, check_mistake, tree_bytes
from tests.support.processes import OTHER, command, stopped, strike_at_rename, version_of

pytestmark = pytest.mark.slow


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed(tmp_path: Path, source: Path) -> Path:
    """The version directory of a publication that was killed with two of its shards renamed."""
    result = stopped(tmp_path, partial(strike_at_rename, 2, kill), *command(source, tmp_path / "out"))
    assert result.status == -signal.SIGKILL
    directory = version_of(tmp_path / "out")
    assert len(list(directory.glob("n-train*"))) == 2
    assert (directory / "_PUBLISHING").exists()
    return directory


@pytest.mark.parametrize("above", [False, True], ids=["version", "folder above"])
def test_repair_completes_what_was_killed(
    tmp_path: Path, source: Path, run: Run, versions: dict[str, dict[str, bytes]], above: bool
) -> None:
    directory = killed(tmp_path, source)
    named = directory.parent if above else directory
    left = tree_bytes(tmp_path / "out")
    check_mistake(run("verify", named), "was interrupted while it published", f"`shardmill verify --repair {named}`")
    assert tree_bytes(tmp_path / "out") == left
    result = run("verify", "--repair", named)
    assert result.brief == (
        0,
        "verified: 24 examples in 4 shards, no fault\n",
        f"shardmill: completed the publication of {directory}, in which an earlier run was interrupted\n",
    )
    assert tree_bytes(tmp_path / "out") == versions["plain"]
    assert run("verify", "--repair", named) == (0, result.out, "")
    assert tree_bytes(tmp_path / "out") == versions["plain"]


def test_repair_completes_a_version_whose_shards_are_called_otherwise(tmp_path: Path, source: Path, run: Run) -> None:
    older = ("--file_template", "{SPLIT}-{SHARD_X_OF_Y}")
    newer = ("--file_template", "{SHARD_INDEX}={NUM_SHARDS}.{SPLIT}", *OTHER)
    assert run(*command(source, tmp_path / "out", *older)).status == 0
    assert run(*command(source, tmp_path / "fresh", *newer)).status == 0
    again = command(source, tmp_path / "out", *newer, "--overwrite")
    assert stopped(tmp_path, partial(strike_at_rename, 2, kill), *again).status == -signal.SIGKILL

    result = run("verify", "--repair", version_of(tmp_path / "out"))

    assert result.status == 0
    assert tree_bytes(version_of(tmp_path / "out")) == tree_bytes(version_of(tmp_path / "fresh"))
    assert len(list(version_of(tmp_path / "out").glob("*=00004.train"))) == 4


def test_verify_of_the_folder_names_a_newer_version_that_was_killed(tmp_path: Path, source: Path, run: Run) -> None:
    assert run(*command(source, tmp_path / "out", "--version", "0.9.0")).status == 0
    directory = killed(tmp_path, source)
    verified = (0, "verified: 24 examples in 4 shards, no fault\n")
    assert run("verify", directory.parent).brief == (
        *verified,
        f"shardmill: warning: {directory} is not verified: its job was interrupted while it published;"
        " --repair completes it\n",
    )
    assert run("verify", directory.parent / "0.9.0").brief == (*verified, "")
    repaired = run("verify", "--repair", directory.parent)
    assert repaired.brief == (
        *verified,
        f"shardmill: completed the publication of {directory}, in which an earlier run was interrupted\n",
    )


def without_lock(directory: Path) -> dict[str, bytes]:
    """Every file but the LOCK that a killed command leaves, and the next takes over."""
    return {name: data for name, data in tree_bytes(directory).items() if name != "LOCK"}


def test_repair_says_what_is_gone_and_deletes_nothing(tmp_path: Path, source: Path, run: Run) -> None:
    directory = killed(tmp_path, source)
    next(directory.glob("beam-temp-*/n-*")).unlink()
    left = without_lock(directory)
    for _ in range(2):
        result = run("verify", "--repair", directory)
        assert (result.status, result.out) == (1, "")
        assert re.fullmatch(
            rf"shardmill: error: the publication of {directory} cannot be completed: 1 of its \d+ files are gone,"
            r" such as "
            r"n-train.tfrecord-0000\d-of-00004, which was beam-temp-\S+; it is no data set; run its job again\n",
            result.err,
        )
        assert without_lock(directory) == left
    again = run(*command(source, tmp_path / "out"))
    assert again.status == 0
    assert "1 of its" in again.err
    assert run("verify", directory.parent).status == 0


def test_verify_says_that_a_publication_was_not_ended(tmp_path: Path, source: Path, run: Run) -> None:
    assert run(*command(source, tmp_path / "out")).status == 0
    directory = version_of(tmp_path / "out")
    (directory / "_PUBLISHING").write_text("{}")
    result = run("verify", directory)
    assert result.status == 1
    assert "_PUBLISHING: an earlier run was interrupted while it published; --repair completes it" in result.out


@pytest.mark.parametrize(
    ("named", "said"),
    [
        (None, "was missing; it"),
        ("9.9.9\n", "named 9.9.9, which is not published; it"),
        ("\x1b[2J\n", "named \\x1b[2J, which is not published; it"),
    ],
)
def test_repair_of_latest(
    tmp_path: Path, source: Path, run: Run, versions: dict[str, dict[str, bytes]], named: str | None, said: str
) -> None:
    assert run(*command(source, tmp_path / "out")).status == 0
    directory = version_of(tmp_path / "out")
    latest = directory.parent / "LATEST"
    for path in (directory.parent, directory):
        latest.unlink() if named is None else latest.write_text(named)
        result = run("verify", "--repair", path)
        assert result.brief == (
            0,
            "verified: 24 examples in 4 shards, no fault\n",
            f"shardmill: LATEST {said} names {directory} now\n",
        )
        assert tree_bytes(tmp_path / "out") == versions["plain"]


def test_which_of_two_versions_is_the_latest_is_not_guessed(tmp_path: Path, source: Path, run: Run) -> None:
    for version in ("1.0.0", "1.1.0"):
        assert run(*command(source, tmp_path / "out", "--version", version)).status == 0
    folder = tmp_path / "out" / "n"
    (folder / "LATEST").unlink()
    check_mistake(run("verify", "--repair", folder), "1.1.0, 1.0.0")
    assert not (folder / "LATEST").exists()
    assert run("verify", "--repair", folder / "1.0.0").err == (
        f"shardmill: LATEST was missing; it names {folder}/1.0.0 now\n"
    )
    assert run("verify", "--repair", folder / "1.1.0").err == ""
    assert (folder / "LATEST").read_text() == "1.0.0\n"
