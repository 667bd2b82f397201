"""A store that is gone for good as a job runs: who interrupts the job is told what is left there, at once."""

import os
import signal
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from shardmill.transforms.stores import protocol
from tests.support.buckets import Bucket, flags_by
from tests.support.command import Process, Run
from tests.support.faulty_store import faulty

pytestmark = pytest.mark.slow

FOREVER = 10**9


def prepare(environment: Mapping[str, str]) -> None:
    os.environ.update(environment)
    protocol.TIMEOUT_S = 1.0


def test_what_is_left_is_said_and_the_next_run_clears_it(
    run: Run, bucket: Bucket, local_photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("images", "--input", local_photos, "--output", f"{bucket.url}/sets", "--name", "n")
    directory = f"{bucket.url}/sets/n/1.0.0"
    with faulty(bucket.endpoint) as store:  # type: ignore[attr-defined]
        google = bucket.url.startswith("gs:")
        environment = {**bucket.environment, "STORAGE_EMULATOR_HOST": store.endpoint} if google else {}
        flags = [] if google else flags_by(bucket, store.endpoint)
        store.fail("reset", FOREVER, "uploadType=resumable" if google else ".tfrecord", FOREVER)
        process = Process(tmp_path / "process", *words, *flags, before=partial(prepare, environment))
        while process.is_alive() and not store.failed:
            time.sleep(0.01)
        store.fail("reset", FOREVER, "", FOREVER)
        process.send_signal(signal.SIGINT)
        result = process.result()
        left = bucket.names("sets")
        store.fail("", 0)
        if google:
            monkeypatch.setenv("STORAGE_EMULATOR_HOST", store.endpoint)
        assert run(*words, *flags).status == 0

    assert result.status == 130, result
    told = result.err.splitlines()
    assert told[0].startswith(f"shardmill: warning: {directory}/beam-temp-n-")
    assert told[0].endswith(
        " could not be deleted, nor perhaps LOCK next to it; the next run deletes them: the store no longer answers"
    )
    said = f"interrupted; it is not known whether {directory} is published; if that had begun, the next run, or"
    assert said in told[-1]
    assert "sets/n/1.0.0/LOCK" in left
    assert not [name for name in bucket.names("sets") if "beam-temp" in name or name.endswith("LOCK")]
