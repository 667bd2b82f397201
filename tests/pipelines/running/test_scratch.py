"""Temporary directories of the launcher: those of the dead are cleared, those of the living never."""

import os
import tempfile
from pathlib import Path

import pytest

from shardmill.pipelines.jobs.runner import scratch_folder
from tests.support.faults import in_child


def test_the_next_run_clears_what_a_killed_one_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "shardmill-of-somebody").mkdir()

    def killed() -> None:
        with scratch_folder("progress"):
            os._exit(9)

    assert in_child(killed) == 9
    (dead,) = tmp_path.glob("shardmill-progress-*")
    with scratch_folder("progress") as mine:
        assert not dead.exists()
        with scratch_folder("verify") as other:
            assert Path(mine).is_dir()
            assert Path(other).is_dir()
        assert Path(mine).is_dir()
    assert [path.name for path in tmp_path.iterdir()] == ["shardmill-of-somebody"]
