"""Signals at any moment of a night: one sentence on stderr, and the next night leaves everything as if nothing had
happened."""

import os
import random
import signal
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from shardmill.addons.nightly import rebuild_command as rebuild
from shardmill.metadata.versions import BuildRecord
from shardmill.pipelines.commands import convert, verify
from tests.support.command import Process, Run, tree_bytes
from tests.support.nights import rows, write

pytestmark = pytest.mark.slow

VERSION = Path("sets/events/1.0.1")
MOMENTS: dict[str, Callable[[], bool]] = {
    "it began": lambda: VERSION.exists(),
    "shards are written": lambda: any(VERSION.glob("beam-temp-*/*tfrecord*")),
    "the publication began": lambda: (VERSION / "_PUBLISHING").exists(),
    "the manifest is there": lambda: (VERSION / "manifest.json").exists(),
    "it is published": lambda: (VERSION / "_SUCCESS").exists(),
}
NUMBERS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -signal.SIGKILL}


def use_folder(path: str) -> None:
    """Let temporary files of this process be in a folder."""
    tempfile.tempdir = path


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number.name)
@pytest.mark.parametrize("seed", range(5))
def test_a_signal(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, seed: int) -> None:
    (here / "tmp").mkdir()
    has_come, delay = list(MOMENTS.values())[seed % len(MOMENTS)], random.Random(seed).uniform(0, 0.04)
    write(rows(610))

    process = Process(here / "p", "rebuild", here / "events.yaml", before=partial(use_folder, str(here / "tmp")))
    monkeypatch.setattr(
        tempfile, "tempdir", str(here / "tmp")
    )  # after the start of the process, which has a socket there
    while process.is_alive() and not has_come():
        time.sleep(0.0002)
    time.sleep(delay)
    if process.is_alive():
        process.send_signal(number)
    ended = process.result()

    assert ended.status in (NUMBERS[number], 0), ended
    assert "Traceback" not in ended.err
    lines = ended.err.splitlines()
    assert all(line.startswith("shardmill: ") for line in lines), ended.err
    if ended.status > 0:
        assert lines[-1].startswith("shardmill: interrupted; ")
    assert run("rebuild", "events.yaml").status == 0
    # Beam makes its folder before shardmill can move it: a signal between the two leaves it there, empty
    beams = [path for path in (here / "tmp").glob("beam-*") if os.listdir(path)]
    assert not list((here / "tmp").glob("shardmill-*")) + beams
    write(rows(620))
    assert run("rebuild", "events.yaml").status == 0
    for version in ("1.0.1", "1.0.2"):
        record = BuildRecord.from_json(Path(f"sets/events/builds/{version}.json").read_bytes(), version)
        assert (record.status, bool(record.checks), sum(record.splits.values()) > 0) == ("published", True, True)
        assert Path(f"sets/events/builds/{version}.html").exists()
        assert run("verify", f"sets/events/{version}").err == ""
    assert not [name for name in tree_bytes(Path("sets")) if "LOCK" in name or "beam-temp" in name or ".tmp" in name]


def interrupt_as_reported(number: int) -> None:
    """Send this process a signal as it begins to report how a build ended, or a check."""

    def report(*_: object) -> None:
        os.kill(os.getpid(), number)
        time.sleep(10)

    convert._report_end = rebuild._report_end = verify.verify_version = report  # type: ignore[assignment]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
@pytest.mark.parametrize(
    ("words", "outcome"),
    [
        (["rebuild", "events.yaml"], "interrupted; events 1.0.1: published"),
        (["csv", "--input", "in", "--output", "sets", "--name", "others"], "interrupted; others 1.0.0: published"),
        (["verify", "sets/events"], "error: interrupted"),
    ],
    ids=["rebuild", "csv", "verify"],
)
def test_a_signal_after_the_build(run: Run, here: Path, number: signal.Signals, words: list[str], outcome: str) -> None:
    """The status tells the signal, and the message that the version is published."""
    write(rows(610))

    ended = Process(here / "p", *words, before=partial(interrupt_as_reported, number)).result()

    assert (ended.status, ended.err) == (NUMBERS[number], f"shardmill: {outcome}\n")
    assert run("versions", "sets/events").status == 0
