"""`shardmill rebuild`, night by night: what is published, the exit status, and the sentence."""

import http.server
import importlib
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import shardmill
from shardmill.addons.nightly.recipe import Recipe, load_recipes
from shardmill.metadata.versions import BuildRecord
from tests.support.command import REPOSITORY, Process, Run, write_files
from tests.support.pages import blocks, commands

NIGHTLY, FAILED_NIGHT = REPOSITORY / "docs" / "nightly.md", REPOSITORY / "docs" / "failed-night.md"


def write_night(folder: Path, day: str, rows: int, kinds: tuple[str, ...] = ("buy", "click", "view")) -> None:
    """A day's file of events, of which there are as many of each kind."""
    lines = (f"{day}{n:05},{kinds[n % len(kinds)]},{n % 97 / 10}" for n in range(rows))
    path = folder / f"dt={day}" / "part.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("id,kind,amount\n" + "".join(f"{line}\n" for line in lines))


RECIPE = """\
name: events
output: {root}/sets
version: 1.0.{{YYYY}}{{MM}}{{DD}}
window: 2d
csv:
  input: {root}/in/dt={{YYYY}}-{{MM}}-{{DD}}/*.csv
  label: kind
  splits: train=0.9,test=0.1
labels: keep
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "events.yaml"
    path.write_text(RECIPE.format(root=tmp_path))
    write_night(tmp_path / "in", "2026-11-19", 600)
    write_night(tmp_path / "in", "2026-11-20", 600)
    return path


def latest_of(folder: Path) -> str:
    return (folder / "LATEST").read_text().strip()


def record_of(folder: Path, version: str) -> BuildRecord:
    return BuildRecord.from_json((folder / "builds" / f"{version}.json").read_bytes(), "record")


def test_three_nights_of_which_one_is_bad(run: Run, tmp_path: Path, recipe: Path) -> None:
    planned = run("rebuild", recipe, "--date", "2026-11-20", "--dry_run")

    assert (planned.status, planned.err, "1,200 rows\n" in planned.out) == (0, "", True)
    assert planned.out.startswith("events: there is no version yet: 1.0.20261120 would be built\n")
    assert not (tmp_path / "sets").exists()

    first = run("rebuild", recipe, "--date", "2026-11-20")

    assert first.status == 0, first.err
    assert "events 1.0.20261120 is published: " in first.out
    assert latest_of(tmp_path / "sets/events") == "1.0.20261120"
    good = record_of(tmp_path / "sets/events", "1.0.20261120")
    assert (good.status, sum(good.splits.values()), good.reason) == ("published", 1200, "there is no version yet")

    again = run("rebuild", recipe, "--date", "2026-11-20", "--unchanged_status", "99")

    assert (again.status, again.out) == (99, "events: unchanged since 1.0.20261120: 2 files\n")
    assert record_of(tmp_path / "sets/events", "1.0.20261120") == good

    write_night(tmp_path / "in", "2026-11-21", 600, ("click",))
    bad = run("rebuild", recipe, "--date", "2026-11-21", "--json")

    assert bad.status == 3, bad.err
    assert latest_of(tmp_path / "sets/events") == "1.0.20261120"
    said = BuildRecord.from_json(bad.out, "stdout")
    assert said.status == "checks_failed"
    assert record_of(tmp_path / "sets/events", "1.0.20261121").status == "checks_failed"
    assert "shardmill: error: events: " in bad.err

    write_night(tmp_path / "in", "2026-11-21", 600)
    third = run("rebuild", recipe, "--date", "2026-11-21", "--json")

    assert third.status == 0, third.err
    done = BuildRecord.from_json(third.out, "stdout")
    assert (done.status, done.version, done.baseline) == ("published", "1.0.20261121", "1.0.20261120")
    assert done == record_of(tmp_path / "sets/events", "1.0.20261121")
    assert done.checks
    assert latest_of(tmp_path / "sets/events") == "1.0.20261121"
    assert shardmill.info(str(tmp_path / "sets" / "events")).version == "1.0.20261121"


class Hook(http.server.BaseHTTPRequestHandler):
    """Takes what is posted."""

    posted: list[dict[str, Any]]

    def do_POST(self) -> None:
        self.posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200 if self.path == "/good" else 500)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def hook() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    posted: list[dict[str, Any]] = []
    server = http.server.HTTPServer(("127.0.0.1", 0), type("Bound", (Hook,), {"posted": posted}))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", posted
    server.shutdown()
    server.server_close()


def small(root: Path, name: str, **more: str) -> str:
    lines = "".join(f"{key}: {value}\n" for key, value in more.items())
    return f"name: {name}\noutput: {root}/sets\ncsv:\n  input: {root}/{name}.csv\n{lines}"


def test_several_recipes_go_on_and_somebody_is_told(
    run: Run, tmp_path: Path, hook: tuple[str, list[dict[str, Any]]]
) -> None:
    url, posted = hook
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "c.csv").write_text("x,y\n1,2\n")
    recipes = tmp_path / "recipes"
    recipes.mkdir()
    (recipes / "a.yaml").write_text(small(tmp_path, "a"))
    (recipes / "b.yaml").write_text(
        small(tmp_path, "b", on_failure=f"{{webhook: '{url}/good'}}") + "---\nname: d\nouput: x\n"
    )
    (recipes / "c.yaml").write_text(small(tmp_path, "c"))

    result = run("rebuild", recipes)

    assert result.status == 2
    assert "a 1.0.0 is published: 1 in train" in result.out
    assert "c 1.0.0 is published: 1 in train" in result.out
    assert result.out.endswith("4 recipes: 2 published, 1 failed, 1 mistaken\n")
    assert f"b.yaml line 4: --input {tmp_path}/b.csv: no such file or folder" in result.err
    assert "b.yaml line 7: there is no command" in result.err
    (told,) = posted
    assert (told["name"], told["status"]) == ("b", "failed")
    assert told["text"].startswith("b 1.0.0: failed: ")


def test_a_webhook_that_fails_is_said_and_changes_nothing(
    run: Run, tmp_path: Path, hook: tuple[str, list[dict[str, Any]]]
) -> None:
    (tmp_path / "b.yaml").write_text(small(tmp_path, "b", on_failure=f"{{webhook: '{hook[0]}/secret'}}"))

    result = run("rebuild", tmp_path / "b.yaml")

    assert result.status == 2
    assert "shardmill: warning: on_failure: the webhook answered 500" in result.err
    assert "secret" not in result.err


MOMENTS = {
    "the input is looked at": "shardmill.addons.nightly.planning.find_inputs",
    "the job runs": "shardmill.transforms.publishing.publish.check_before_publishing",
    "old versions are deleted": "shardmill.addons.nightly.rebuild.retain_by_recipe",
}


def interrupt_at(moment: str, number: int) -> None:
    """Let this process be sent a signal at that moment, which then takes long."""
    module, _, name = MOMENTS[moment].rpartition(".")

    def interrupted(*_: object, **__: object) -> None:
        os.kill(os.getpid(), number)
        time.sleep(60)

    setattr(importlib.import_module(module), name, interrupted)


@pytest.mark.parametrize(
    ("moment", "number", "status", "first"),
    [
        ("the input is looked at", signal.SIGTERM, 143, True),
        ("the job runs", signal.SIGINT, 130, False),
        ("old versions are deleted", signal.SIGHUP, 129, False),
    ],
)
def test_an_interrupted_night_is_on_record_and_somebody_is_told(
    run: Run, tmp_path: Path, hook: tuple[str, list[dict[str, Any]]], moment: str, number: int, status: int, first: bool
) -> None:
    path = tmp_path / "b.yaml"
    path.write_text(small(tmp_path, "b", on_failure=f"{{webhook: '{hook[0]}/good'}}"))
    (tmp_path / "b.csv").write_text("x,y\n1,2\n")
    version = "1.0.0" if first else "1.0.1"
    assert first or run("rebuild", path).status == 0
    (tmp_path / "b.csv").write_text("x,y\n1,2\n3,4\n")

    process = Process(tmp_path / "p", "rebuild", path, "--json", before=partial(interrupt_at, moment, number))
    result = process.result()

    written = record_of(tmp_path / "sets/b", version)
    assert BuildRecord.from_json(result.out, "stdout") == written
    if moment == "old versions are deleted":
        said = f"shardmill: interrupted; {tmp_path / 'sets/b' / version} is published"
        assert (result.status, result.err.splitlines()[-1]) == (status, said)
        assert (written.status, hook[1]) == ("published", [])
        return
    assert (result.status, result.err.splitlines()[-1]) == (status, "shardmill: interrupted; nothing was published")
    assert (written.status, written.reason) == ("interrupted", "nothing was published")
    (told,) = hook[1]
    assert told["text"] == f"b {version}: interrupted: nothing was published"
    assert first or latest_of(tmp_path / "sets/b") == "1.0.0"
    assert not (tmp_path / "sets/b" / version).exists()

    assert run("rebuild", path).status == 0
    assert latest_of(tmp_path / "sets/b") == version
    assert record_of(tmp_path / "sets/b", version).status == "published"


def test_auto_is_the_next_patch_and_force_builds_what_is_unchanged(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "a.yaml").write_text(small(tmp_path, "a", unchanged_status="99"))

    statuses = [run("rebuild", tmp_path / "a.yaml", *more).status for more in ((), (), ("--force",))]

    assert statuses == [0, 99, 0]
    assert sorted(path.name for path in (tmp_path / "sets" / "a").glob("1.*")) == ["1.0.0", "1.0.1"]


def test_what_is_not_asked_of_one_recipe_is_not_asked_of_several(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(small(tmp_path, "a") + "---\n" + small(tmp_path, "b"))

    result = run("rebuild", tmp_path / "a.yaml", "--version", "1.0.0")

    assert result.status == 2
    assert "--version 1.0.0 is about one data set, and there are 2 recipes" in result.err


def test_a_mistake_in_beams_options_has_its_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "a.yaml").write_text(small(tmp_path, "a") + "beam:\n  regoin: eu\n")

    result = run("rebuild", tmp_path / "a.yaml")

    assert result.status == 2
    assert f"{tmp_path}/a.yaml line 6: unknown flag --regoin=eu; did you mean --region?" in result.err


@pytest.mark.parametrize("more", [(), ("--dry_run",)], ids=["built", "planned"])
@pytest.mark.parametrize("output", ["plain", "plain/deeper", "in"])
def test_an_output_that_cannot_be_has_its_line(run: Run, tmp_path: Path, output: str, more: tuple[str, ...]) -> None:
    (tmp_path / "plain").touch()
    write_files(tmp_path / "in", {"a.csv": b"x,y\n1,2\n"})
    (tmp_path / "a.yaml").write_text(f"name: a\noutput: {tmp_path}/{output}\ncsv: {{input: {tmp_path}/in}}\n")

    start, end = (" ", "inside --input") if output == "in" else (": ", "not a folder; give another --output")
    result = run("rebuild", tmp_path / "a.yaml", *more)

    assert result.status == 2
    assert f"line 2: --output{start}{tmp_path}/{output} is {end}" in result.err


def test_a_first_night_that_fails_is_on_record_and_a_mistake_writes_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('x,y\n1,"2"3\n')
    (tmp_path / "a.yaml").write_text(small(tmp_path, "a"))
    failed = run("rebuild", tmp_path / "a.yaml")
    assert failed.status == 1
    written = record_of(tmp_path / "sets/a", "1.0.0")
    assert failed.err == f"shardmill: error: a: {written.reason}\n"
    assert written.status == "failed"

    (tmp_path / "b.yaml").write_text(small(tmp_path, "b"))
    assert run("rebuild", tmp_path / "b.yaml").status == 2
    assert not (tmp_path / "sets/b").exists()


def test_the_nights_of_the_page(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first commands of both pages on nights."""
    monkeypatch.chdir(tmp_path)
    ends = []
    for page in (NIGHTLY, FAILED_NIGHT):
        for (command, *words), _ in commands(blocks(page)[0]):
            if command == "mv":
                Path(words[0]).rename(words[1])
            else:
                ends.append(run(*words))

    assert [end.status for end in ends] == [*[0] * 9, 3], [end.err for end in ends]
    assert ends[4].out == "digits: unchanged since 1.0.0: 200 files\n"
    assert Path("demo/nightly/digits/LATEST").read_text() == "1.0.1\n"
    assert "classes_gone: 1 class is gone since 1.0.0: '7'" in ends[9].err
    assert Path("demo/nights/digits/failed/1.0.1/anomalies.pbtxt").exists()
    assert Path("demo/nights/digits/LATEST").read_text() == "1.0.0\n"


def test_the_recipe_of_the_page(tmp_path: Path) -> None:
    text, window = (block.text for block in blocks(NIGHTLY) if block.language == "yaml")
    (tmp_path / "window.yaml").write_text(window)
    (other,) = load_recipes([str(tmp_path / "window.yaml")], {}, date(2026, 11, 20), {})
    assert isinstance(other, Recipe), other
    assert (other.build.window, other.options["on_other_columns"]) == (7, "reject")
    (tmp_path / "events.yaml").write_text(text)

    (recipe,) = load_recipes([str(tmp_path / "events.yaml")], {}, date(2026, 11, 20), {"BUCKET": "gs://b"})

    assert isinstance(recipe, Recipe), recipe
    assert recipe.options["input"].startswith("gs://b/events/dt={2026-11-14,2026-11-15,")
    assert (recipe.build.version, recipe.checks.limits["label_drift"].error) == ("1.0.20261120", 0.3)


def test_a_day_of_the_window_that_is_not_there(run: Run, recipe: Path) -> None:
    """Every night says so, the quiet and the unchanged ones too."""
    said = "shardmill: warning: events: no file is there for 1 part of the input, such as dt=2026-11-21/*.csv\n"
    first = run("rebuild", recipe, "--date", "2026-11-21")
    assert (first.err, "without a file" in first.out) == (said, False)  # once
    assert "choice without a file" in record_of(recipe.parent / "sets/events", "1.0.20261121").notices[0]
    for flags, status in ((("--force", "--overwrite"), 0), ((), 99)):
        result = run("rebuild", recipe, "--date", "2026-11-21", "--quiet", "--unchanged_status", 99, *flags)
        assert result == (status, "", said)
