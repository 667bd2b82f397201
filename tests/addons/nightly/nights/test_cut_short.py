"""Nights that are cut short: by another builder, by death at any moment, by a disk that is full."""

import importlib
import json
import os
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from shardmill.metadata.versions import BuildRecord
from shardmill.reading.dataset import open_dataset
from shardmill.transforms.publishing import lease
from tests.support.command import Process, Run
from tests.support.faults import kill
from tests.support.nights import rows, write
from tests.support.processes import SmallDisk

pytestmark = pytest.mark.slow


def test_two_builders(run: Run, here: Path) -> None:
    write(rows(610))
    with lease.hold_lease("sets/events/1.0.1", "beam-temp-events-other", "other"):
        result = run("rebuild", "events.yaml", "--json")

    assert result.status == 4
    assert BuildRecord.from_json(result.out, "stdout").status == "locked"
    assert f"is being built by process {os.getpid()} of " in result.err
    assert not Path("sets/events/builds/1.0.1.json").exists()
    assert Path("sets/events/LATEST").read_text() == "1.0.0\n"

    assert run("rebuild", "events.yaml").status == 0
    assert Path("sets/events/LATEST").read_text() == "1.0.1\n"


def dies_as_it_publishes() -> None:
    """Let this process be killed before it renames the first shard of a publication."""
    replace = os.replace

    def struck(source: Any, destination: Any, **more: Any) -> None:
        if ".tfrecord-" in os.fspath(destination) and "beam-temp-" not in os.fspath(destination):
            kill()
        replace(source, destination, **more)

    os.replace = struck  # type: ignore[assignment]


def test_what_a_dead_job_began_to_publish_is_not_tonights(run: Run, here: Path) -> None:
    """It is of its own input: it is completed, and then compared with tonight's."""
    write(rows(610))
    dead = Process(here / "process", "rebuild", here / "events.yaml", before=dies_as_it_publishes)
    assert dead.result().status == 9
    assert Path("sets/events/1.0.1/_PUBLISHING").exists()
    write(rows(640))

    result = run("rebuild", "events.yaml", "--log_format", "json")

    said = [json.loads(line)["message"] for line in result.err.splitlines()]
    assert (result.status, result.out) == (0, "")
    assert said[0].endswith("sets/events/1.0.1, in which an earlier run was interrupted")
    assert said[1] == "events: 0 files new, 1 changed, 0 gone"
    made = [open_dataset(f"sets/events/1.0.{patch}").manifest for patch in range(3)]
    assert [sum(split.examples for split in manifest.splits) for manifest in made] == [600, 610, 640]
    assert "600 -&gt; 610 rows" in Path("sets/events/builds/1.0.1.html").read_text()
    assert Path("sets/events/LATEST").read_text() == "1.0.2\n"


def dies_at(moment: str) -> None:
    """Let this process be killed at a moment."""
    module, _, name = moment.rpartition(".")
    setattr(importlib.import_module(module), name, lambda *_, **__: kill())


@pytest.mark.parametrize(
    ("moment", "latest", "says"),
    [
        ("shardmill.addons.nightly.planning.find_inputs", "1.0.0", "events 1.0.1 is published"),
        ("shardmill.transforms.publishing.lease.Lease", "1.0.0", "events 1.0.1 is published"),
        ("shardmill.transforms.publishing.publish.check_before_publishing", "1.0.0", "events 1.0.1 is published"),
        ("shardmill.transforms.publishing.publication._update_names", "1.0.0", "unchanged since 1.0.1"),
        ("shardmill.addons.nightly.rebuild.retain_by_recipe", "1.0.1", "unchanged since 1.0.1"),
    ],
)
def test_killed(run: Run, here: Path, moment: str, latest: str, says: str) -> None:
    """Nothing says why, but LATEST names a version that is whole, and the next night does what is left to do."""
    write(rows(610))
    dead = Process(here / "process", "rebuild", here / "events.yaml", before=partial(dies_at, moment))

    assert dead.result().status == 9
    assert Path("sets/events/LATEST").read_text().strip() == latest
    assert open_dataset("sets/events").manifest.version == latest
    result = run("rebuild", "events.yaml")

    assert (result.status, says in result.out) == (0, True), result
    assert Path("sets/events/LATEST").read_text() == "1.0.1\n"
    assert sorted(path.name for path in Path("sets/events").glob("1.0.*")) == ["1.0.0", "1.0.1"]
    assert not list(Path("sets/events/1.0.1").glob("beam-temp-*"))


def test_disk_full(here: Path) -> None:
    """The version before stands; of the new one nothing is left, for there was no room."""
    Path("in/a.csv").write_text("id,kind,amount,city\n" + "".join(f"{n},buy,1,{n:0900}\n" for n in range(1000)))
    disk = SmallDisk(here / "sets", 1 << 19, here / "left.json")

    result = Process(here / "process", "rebuild", here / "events.yaml", before=disk).result()

    assert (result.status, result.out) == (1, "events: 0 files new, 1 changed, 0 gone\n")
    assert re.fullmatch(r"shardmill: error: events: .*sets/events/1[.]0[.]1/.*: (No space|File too) .*\n", result.err)
    left = json.loads((here / "left.json").read_text())
    assert {name for name in left if not name.startswith("events/1.0.0/")} <= {
        "events/LATEST",
        *(f"events/builds/{name}" for name in ("1.0.0.html", "1.0.0.inputs", "1.0.0.json", "1.0.1.json")),
    }


def test_a_record_that_cannot_be_written_hides_nothing(run: Run, here: Path) -> None:
    write([])
    Path("sets/events/builds/1.0.1.json").mkdir()

    result = run("rebuild", "events.yaml")

    assert (result.status, result.out) == (2, "events: 0 files new, 1 changed, 0 gone\n")
    warning, error = result.err.splitlines()
    assert warning.startswith("shardmill: warning: the record of this build could not be written: ")
    assert error == "shardmill: error: events: events.yaml line 4: --input in has no rows"
