"""A disk on which each reading and writing takes long: the lease is renewed all the time, and nothing is lost."""

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from shardmill.reading.dataset import open_dataset
from shardmill.transforms.publishing import lease
from shardmill.transforms.stores import local
from tests.support.command import Process, image_tree, write_files

pytestmark = pytest.mark.slow

LEASE_S, PAUSE_S = 5.0, 0.15


def slow_down() -> None:
    """Let each call of this process that reads a file, writes to one or syncs it take long; its lease is short."""

    def take_long(quick: Callable[..., Any], *given: Any) -> Any:
        time.sleep(PAUSE_S)
        return quick(*given)

    lease.LEASE_SECONDS = LEASE_S
    for name in ("read_bytes", "read_range", "read_small", "_sync"):
        setattr(local, name, partial(take_long, getattr(local, name)))
    write = local._File.write
    vars(local)["_File"] = type("_File", (local._File,), {"write": lambda *given: take_long(write, *given)})


def test_a_slow_job_keeps_its_lease(tmp_path: Path) -> None:
    write_files(tmp_path / "in", image_tree("ab", 30))
    version, ages = tmp_path / "out/n/1.0.0", list[float]()
    job = Process(
        tmp_path / "p",
        "images",
        "--input",
        tmp_path / "in",
        "--output",
        tmp_path / "out",
        "--name",
        "n",
        before=slow_down,
    )
    while job.is_alive():
        with suppress(FileNotFoundError):
            ages.append(time.time() - (version / "LOCK").stat().st_mtime)
        time.sleep(0.05)
    result = job.result()

    assert (result.status, result.err) == (0, "")
    assert len(ages) > LEASE_S / 0.05, "the job was as long as a lease"
    assert max(ages) < LEASE_S, "others may take the lease"
    assert sum(split.examples for split in open_dataset(str(version)).manifest.splits) == 60
