"""The process of TensorFlow: begun ahead, taken once, and never left behind."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from shardmill.errors import JobError
from shardmill.transforms.values.graph_process import GraphProcess, graph_process, prestarted
from tests.support.processes import is_there

FOLDERS = "shardmill-transform-*"


def test_the_process_that_was_begun_ahead_is_taken_once() -> None:
    with prestarted():
        with prestarted(), graph_process() as first:
            assert first.folder.is_dir()
        with graph_process() as second:
            assert second.pid != first.pid
    assert not is_there(first.pid)
    assert not first.folder.exists()


def test_one_that_nobody_takes_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with prestarted():
        assert len(list(tmp_path.glob(FOLDERS))) == 1
    assert list(tmp_path.glob(FOLDERS)) == []


def test_it_ends_with_whoever_began_it(tmp_path: Path) -> None:
    program = (
        "import time; from shardmill.transforms.values.graph_process import GraphProcess as G; p = G(); print(p.pid)"
    )
    launcher = subprocess.Popen(
        [sys.executable, "-u", "-c", f"{program}; time.sleep(600)"],
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    with launcher:
        assert launcher.stdout is not None
        pid = int(launcher.stdout.readline())
        launcher.send_signal(signal.SIGKILL)
    while is_there(pid):
        time.sleep(0.05)


def test_what_it_cannot_do_is_one_sentence() -> None:
    process = GraphProcess()
    try:
        with pytest.raises(JobError, match=r"TensorFlow Transform could not write the graph .*job\.json"):
            process.run()
    finally:
        process.close()
