"""The Python interface: each function does what its command does and returns it, for scripts and for notebooks."""

import inspect
import json
import logging
import re
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import shardmill
from shardmill.pipelines import cli
from shardmill.pipelines.jobs.registry import KINDS, entries
from shardmill.pipelines.reports import log
from tests.support.command import Run, image_tree, tree_bytes, write_files
from tests.support.small_data_set import make_version

JOBS = ("rebuild", "verify")  # functions that run a job and show its progress
LOOKS = ("index", "inspect", "view", "diff", "report", "versions", "tag", "rollback", "accept", "retain")
# Flags that only a command line needs: how it prints, and the status that it exits with
COMMAND_LINE = {"verbose", "help", "log_format", "quiet", "debug", "json", "unchanged_status", "no_browser"}


class Html(HTMLParser):
    """The text of HTML whose elements are all closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.attributes: dict[str, str | None] = {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes |= dict(attrs)
        if tag != "img":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def shown(result: Any) -> list[str]:
    """The words that a notebook shows for a result: of its HTML by element, or by line of its text."""
    return Html(result._repr_html_()).words if hasattr(result, "_repr_html_") else repr(result).splitlines()


@pytest.fixture(autouse=True)
def nothing_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[None]:
    """No function prints anything, where nobody has set up logging."""
    before = log.LOG.level
    monkeypatch.setattr(log.LOG, "handlers", [logging.NullHandler()])
    monkeypatch.setattr(log.LOG, "propagate", True)
    log.LOG.setLevel(logging.NOTSET)
    yield
    log.LOG.setLevel(before)
    if "run" not in request.fixturenames:
        assert capsys.readouterr() == ("", "")


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    """1.0.0, of 2 examples, to 1.0.2, of 4, which LATEST names."""
    for index in range(3):
        make_version(tmp_path / "n", f"1.0.{index}", latest=True, examples=index + 2)
    return tmp_path / "n"


RECIPE = (
    "name: rows\noutput: {0}/sets\ncsv: {{input: {0}/in, label: city}}\nretain: {{min_versions: 5, max_age: 30d}}\n"
)


def write_rows(folder: Path, *cities: str) -> None:
    lines = (f"{n},{cities[n % len(cities)]}\n" for n in range(60))
    write_files(folder, {"in/a.csv": "".join(["n,city\n", *lines]).encode()})


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table, a recipe, and the version 1.0.0 of `rows` made of them."""
    folder = tmp_path_factory.mktemp("built")
    write_rows(folder, "Oslo", "Rome", "Bern")
    (folder / "rows.yaml").write_text(RECIPE.format(folder))
    assert shardmill.rebuild(folder / "rows.yaml").status == "published"
    return folder


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    """A copy of that."""
    copy = Path(shutil.copytree(built, tmp_path / "copy"))
    recipe = copy / "rows.yaml"
    recipe.write_text(recipe.read_text().replace(str(built), str(copy)))
    return copy


@pytest.mark.parametrize("name", [*JOBS, *LOOKS])
def test_a_function_has_the_flags_and_arguments_of_its_command(name: str) -> None:
    actions = cli.parsers()[name]._actions
    flags = {option[2:].replace("-", "_") for action in actions for option in action.option_strings if option[1] == "-"}
    words = [(action.nargs != "?") for action in actions if not action.option_strings]
    parameters = inspect.signature(getattr(shardmill, name)).parameters.values()
    keywords = {one.name for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY}
    positional = [one for one in parameters if one.kind is not inspect.Parameter.KEYWORD_ONLY]

    assert keywords - {"beam_options", "progress"} == flags - COMMAND_LINE - {"help_all"}
    assert "beam_options" in keywords
    assert ("progress" in keywords) == (name in JOBS)
    assert [one.default is inspect.Parameter.empty for one in positional] == words


def test_every_function_has_its_command_and_says_what_it_takes_returns_and_raises() -> None:
    functions = {entry.exports[0] for entry in entries().values() if entry.exports}
    assert functions == {*JOBS, *LOOKS} == {*entries()} - {*KINDS, "completion", "sample", "selftest"}
    for name in (*functions, "convert", "plan", "write"):
        text = inspect.getdoc(getattr(shardmill, name)) or ""
        sections = re.split(r"^(Args|Returns|Raises):$", text, flags=re.MULTILINE)
        assert sections[1::2] == ["Args", "Returns", "Raises"], name
        documented = re.findall(r"^ {4}(\w+): ", sections[2], re.MULTILINE)
        assert documented == list(inspect.signature(getattr(shardmill, name)).parameters), name


def test_versions(run: Run, parent: Path) -> None:
    write_files(parent, {"TAGS/a<b": b"1.0.0\n"})
    found = shardmill.versions(parent)

    assert [(row.version, row.examples, row.latest, row.tags) for row in found] == [
        ("1.0.2", 4, True, ()),
        ("1.0.1", 3, False, ()),
        ("1.0.0", 2, False, ("a<b",)),
    ]
    assert (len(found), found[0].version, found.latest, found.directory) == (3, "1.0.2", "1.0.2", str(parent))
    assert f"{found!r}\n" == run("versions", parent).out
    (parent / "LATEST").unlink()
    assert "NOTE: there is no LATEST" in shown(shardmill.versions(f"{parent}/"))


def test_tags(run: Run, parent: Path) -> None:
    found = shardmill.tag(parent, "1.0.0", "good")
    assert (found.before, found.version, found.tag) == ("", "1.0.0", "good")
    assert repr(found) == f"{parent}: good names 1.0.0"
    with pytest.raises(shardmill.UserError, match=r"names 1\.0\.0 already"):
        shardmill.tag(str(parent), "1.0.1", "good")
    assert repr(shardmill.tag(parent, "1.0.1", "good", move=True)) == f"{parent}: good: 1.0.0 -> 1.0.1"
    assert shown(shardmill.tag(parent, "good", delete=True)) == [f"{parent}: good no longer names 1.0.1"]
    with pytest.raises(shardmill.UserError, match="give the version, then the tag"):
        shardmill.tag(parent, "1.0.0")
    assert not list((parent / "TAGS").iterdir())


def test_rollback(parent: Path) -> None:
    found = shardmill.rollback(parent)
    assert (found.before, found.version, found.warnings) == ("1.0.2", "1.0.1", ())
    assert repr(found) == f"{parent}: LATEST: 1.0.2 -> 1.0.1"
    assert shown(shardmill.rollback(str(parent), "1.0.1")) == [f"{parent}: LATEST names 1.0.1 already"]
    write_files(parent, {"1.0.3/LOCK": b"{}", "1.0.3/beam-temp-n-x/part": b""})
    found = shardmill.rollback(parent, "1.0.0")
    assert (parent / "LATEST").read_text() == "1.0.0\n"
    assert repr(found).count("once it is published LATEST names it") == len(found.warnings) == 1
    with pytest.raises(shardmill.UserError, match=r"no version older than 1\.0\.0"):
        shardmill.rollback(parent)


def test_diff(run: Run, folder: Path) -> None:
    (folder / "in/b.csv").write_text("n,city\n" + "".join(f"{n},Rome\n" for n in range(60, 75)))
    assert shardmill.rebuild(folder / "rows.yaml").version == "1.0.1"
    sets = folder / "sets/rows"

    found = shardmill.diff(sets, "1.0.0", "LATEST")

    assert (found.old, found.new) == ("1.0.0", "1.0.1")
    assert found.differences[0].words == "60 -> 75 rows"
    assert f"{found!r}\n" == run("diff", sets, "1.0.0", "1.0.1").out
    assert found.content == json.loads(run("diff", sets, "1.0.0", "1.0.1", "--json").out)
    assert repr(shardmill.diff(sets / "1.0.0", str(sets / "1.0.1"))) == repr(found)
    for words in ((sets,), (sets, "1.0.0"), (sets, "1.0.0", "1.0.9")):
        with pytest.raises(shardmill.UserError):
            shardmill.diff(*words)


def test_report(run: Run, folder: Path) -> None:
    sets = folder / "sets/rows"
    found = shardmill.report(sets)
    assert (found.severity, found.text, found.output) == ("unknown", "rows 1.0.0, good; some checks had no data", None)
    assert found.content == json.loads(run("report", sets, "--json").out)
    assert not (folder / "report.html").exists()

    page = folder / "page.html"
    assert shown(shardmill.report(str(sets / "1.0.0"), output=page))[0] == found.text
    assert run("report", sets, "--output", folder / "other.html").status == 0
    assert page.read_bytes() == (folder / "other.html").read_bytes()
    with pytest.raises(shardmill.UserError, match=r"--output .*/rows\.yaml/x\.html"):
        shardmill.report(sets, output=folder / "rows.yaml/x.html")
    with pytest.raises(shardmill.UserError, match=r"1\.0\.7"):
        shardmill.report(sets, against="1.0.7")
    (sets / "1.0.0/manifest.json").write_text("{}")
    with pytest.raises(shardmill.CorruptDataError):
        shardmill.report(sets)


def test_inspect(run: Run, folder: Path) -> None:
    sets = folder / "sets/rows"
    found = shardmill.inspect(sets, examples=1, split="train")
    words = ("inspect", sets, "--examples", 1, "--split", "train")
    assert f"{found!r}\n" == run(*words).out
    assert json.loads(json.dumps(found.content)) == json.loads(run(*words, "--json").out)
    assert (found.dataset.manifest.name, len(found.examples)) == ("rows", 1)
    assert {"rows 1.0.0", "train", "60", "class_label, 3 classes", "Features"} <= set(shown(found))
    wrongs: list[dict[str, Any]] = [{"split": "tset"}, {"examples": -1}, {"samples": 0}, {"contact_sheet": True}]
    for wrong in wrongs:
        with pytest.raises(shardmill.UserError, match=next(iter(wrong))):
            shardmill.inspect(sets, **wrong)


def test_what_was_published_a_plan_and_a_contact_sheet_are_shown_in_a_notebook(tmp_path: Path) -> None:
    source = write_files(tmp_path / "in", {**image_tree(("c<t", "dog"), 4), "dog/broken.jpg": b"no", "readme.md": b""})
    where: dict[str, Any] = {"input": source, "output": tmp_path, "name": "d", "max_reject_fraction": 0.5}
    published = shardmill.convert("images", **where)

    assert (published.version, published.splits, published.rejected) == ("1.0.0", {"train": 8}, 1)
    assert any("readme.md" in notice for notice in published.notices)
    words = shown(published)
    assert words[:5] == [f"Published: {tmp_path}/d/1.0.0", "split", "examples", "train", "8"]
    assert any(word.startswith("1 records rejected") for word in words)
    assert any(word.startswith("NOTE: ") and "readme.md" in word for word in words)
    plan = shardmill.plan("images", **where, version="1.0.1")
    assert repr(plan) == plan.text
    described = shardmill.info(published.directory)
    assert {"d 1.0.0", "label", "train", "8"} <= set(shown(described))
    assert repr(described) == str(described)

    found = shardmill.inspect(published.directory, contact_sheet=tmp_path / "sheet.png", samples=4)
    assert found.contact_sheet == (tmp_path / "sheet.png").read_bytes()
    assert repr(found).endswith(f"{tmp_path}/sheet.png: 4 images")
    assert str(Html(found._repr_html_()).attributes["src"]).startswith("data:image/png;base64,iVBOR")
    assert shardmill.inspect(published.directory, contact_sheet=True, samples=4).contact_sheet == found.contact_sheet


def test_verify(run: Run, folder: Path) -> None:
    sets = folder / "sets/rows"
    found = shardmill.verify(sets)
    assert (found.ok, found.faults, found.notices) == (True, (), ())
    assert (found.directory, found.examples, found.shards) == (str(sets / "1.0.0"), 60, 1)
    assert f"{found!r}\nsha256 of its manifest.json: {found.sha256}\n" == run("verify", sets).out
    assert shown(found) == ["verified: 60 examples in 1 shard, no fault"]

    (sets / "LATEST").unlink()
    assert "LATEST was missing" in shardmill.verify(sets / "1.0.0", repair=True).notices[0]
    assert (sets / "LATEST").read_text() == "1.0.0\n"

    (shard,) = (sets / "1.0.0").glob("*.tfrecord*")
    shard.write_bytes(shard.read_bytes()[:-1] + b"\xff")
    (sets / "1.0.0/more.txt").write_text("")
    found = shardmill.verify(str(sets / "1.0.0"), decode=True)
    assert not found.ok
    assert {fault.file for fault in found.faults} == {shard.name}
    assert [f"{fault}\n" for fault in found.faults] == run("verify", sets).out.splitlines(keepends=True)
    assert "1 file is no part of the data set" in found.notices[0]
    assert set(found.notices) <= set(shown(found))
    for directory in (folder / "none", folder / "in"):
        with pytest.raises(shardmill.UserError):
            shardmill.verify(directory)


def settings() -> list[object]:
    return [signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT), threading.active_count()]


def test_rebuild_publishes_what_changed(run: Run, folder: Path) -> None:
    before, recipe = settings(), folder / "rows.yaml"
    found = shardmill.rebuild(recipe)
    assert (found.status, found.ok, found.version, found.error) == ("unchanged", True, "1.0.0", None)
    assert found.directory == str(folder / "sets/rows/1.0.0")
    assert repr(found).startswith("rows 1.0.0: unchanged\nunchanged since 1.0.0")

    found = shardmill.rebuild(str(recipe), dry_run=True, force=True)
    assert (found.status, found.version, found.ok) == ("planned", "1.0.1", True)
    assert "Would write" in repr(found)
    assert not (folder / "sets/rows/1.0.1").exists()

    found = shardmill.rebuild(recipe, force=True, full=True)
    assert (found.status, found.version, found.splits) == ("published", "1.0.1", {"train": 60})
    assert {"rows 1.0.1: published", "60 in train"} <= set(shown(found))
    assert settings() == before
    assert run("rebuild", recipe, "--force", "--full").status == 0
    ours, theirs = (tree_bytes(folder / "sets/rows" / version) for version in ("1.0.1", "1.0.2"))
    assert ours.keys() == theirs.keys()
    assert {name for name in ours if ours[name] != theirs[name]} <= {"manifest.json", "_SUCCESS", "dataset_info.json"}


def test_a_failed_check_is_an_outcome_that_can_be_accepted(folder: Path) -> None:
    """Once, or as a version; and the webhook is notified."""
    recipe, sets = folder / "rows.yaml", folder / "sets/rows"
    write_rows(folder, "Oslo", "Rome")
    server = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{server.getsockname()[1]}/"
    recipe.write_text(f"{recipe.read_text()}on_failure: {{webhook: '{url}'}}\n")
    with server, ThreadPoolExecutor(1) as pool:
        sent = pool.submit(answer, server)
        found = shardmill.rebuild(recipe)
        assert json.loads(sent.result())["status"] == "checks_failed"

    assert (found.status, found.ok, found.version) == ("checks_failed", False, "1.0.1")
    assert "classes_gone" in found.failed_checks
    assert isinstance(found.error, shardmill.JobError)
    assert found.error.exit_status == 3
    assert any(word.startswith("error: classes_gone: ") for word in shown(found))
    assert found.directory == f"{sets}/failed/1.0.1"
    assert shardmill.verify(found.directory).is_published is False
    with pytest.raises(shardmill.UserError, match="--reason is empty"):
        shardmill.accept(sets, "1.0.1", reason=" ")
    with pytest.raises(shardmill.UserError, match="exclude each other"):
        shardmill.accept(sets, "1.0.1", reason="x", keep_latest=True, set_latest=True)
    accepted = shardmill.accept(sets, "failed/1.0.1", reason="Bern is closed", by="me")
    assert (accepted.version, accepted.by, accepted.latest, accepted.is_new) == ("1.0.1", "me", "1.0.1", True)
    assert shown(accepted) == [f"{sets}: 1.0.1 is published, accepted by me; LATEST names 1.0.1"]
    assert not shardmill.accept(sets, "1.0.1", reason="again").is_new

    recipe.write_text(RECIPE.format(folder))
    write_rows(folder, "Oslo")
    failed = shardmill.rebuild(recipe).failed_checks
    assert shardmill.rebuild(recipe, accept=",".join(failed), dry_run=True).status == "planned"
    assert shardmill.rebuild(recipe, accept=failed).status == "published"


def answer(server: socket.socket) -> bytes:
    """Answer one request; its body."""
    connection, _ = server.accept()
    with connection, connection.makefile("rwb") as file:
        headers = dict(line.split(b": ", 1) for line in iter(file.readline, b"\r\n") if b": " in line)
        body = file.read(int(headers[b"Content-Length"]))
        file.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    return body


def test_values_of_names_and_of_the_date(folder: Path) -> None:
    recipe = folder / "named.yaml"
    version = "version: '{YYYY}.{MM}.{DD}'\ncsv: {input: '${IN}/*.csv'}\n"
    recipe.write_text(f"name: named\noutput: {folder}/sets\n{version}")
    found = shardmill.rebuild(recipe, set={"IN": f"{folder}/in"}, date=date(2026, 11, 20))
    assert found.version == "2026.11.20"
    assert shardmill.rebuild(recipe, set={"IN": f"{folder}/in"}, date="2026-11-20").status == "unchanged"
    with pytest.raises(shardmill.UserError, match="IN"):
        shardmill.rebuild(recipe)


def test_mistakes_and_failures_of_a_rebuild_are_raised(folder: Path) -> None:
    recipe = folder / "rows.yaml"
    for text, words in (
        ("nmae: x\n", "bad.yaml line 1: there is no command"),
        (recipe.read_text().replace("label: city", "label: town"), "town"),
    ):
        (folder / "bad.yaml").write_text(text)
        with pytest.raises(shardmill.UserError, match=words):
            shardmill.rebuild(folder / "bad.yaml")
    (folder / "two.yaml").write_text("\n---\n".join(recipe.read_text().replace("rows", name) for name in "ab"))
    with pytest.raises(shardmill.UserError, match="holds 2 recipes"):
        shardmill.rebuild(folder / "two.yaml")
    with pytest.raises(shardmill.UserError, match="--version"):
        shardmill.rebuild(recipe, version="one")
    (folder / "in/a.csv").write_bytes(b"n,city\n1,Oslo\n2\n3,4,5\n")
    with pytest.raises(shardmill.JobError, match="rejected") as failed:
        shardmill.rebuild(recipe)
    assert failed.value.exit_status == 1


def test_retain(run: Run, parent: Path, folder: Path) -> None:
    assert repr(shardmill.retain(parent)) == f"{parent}: no version expires: give --min_versions and --max_age"
    for index in range(3):
        shutil.rmtree(parent / f"1.0.{index}")
        make_version(parent, f"1.0.{index}", latest=True, age=(2 - index) * 86_400)
    found = shardmill.retain(parent, min_versions=1, max_age=3600, dry_run=True)
    assert [message.split()[1:4] for message in found.messages] == [["would", "delete", f"1.0.{n},"] for n in (0, 1)]
    assert (parent / "1.0.0").exists()
    found = shardmill.retain(str(parent), min_versions=1, max_age="1h")
    assert (found.ok, len(shown(found))) == (True, 2)
    assert not (parent / "1.0.0").exists()
    assert shardmill.retain(folder / "rows.yaml").messages == ("rows: nothing to delete",)
    with pytest.raises(shardmill.UserError, match="give --min_versions and --max_age"):
        shardmill.retain(parent, min_versions=1)
    with pytest.raises(shardmill.UserError, match="have no meaning with the recipe"):
        shardmill.retain(folder / "rows.yaml", min_versions=1, max_age="1h")


ARGUMENTS: dict[str, tuple[str, ...]] = {"diff": ("1.0.0", "1.0.1"), "tag": ("1.0.0", "x"), "accept": ("1.0.0",)}


@pytest.mark.parametrize("name", [*JOBS, *LOOKS])
def test_a_path_that_is_not_there(name: str, tmp_path: Path) -> None:
    reason = {"reason": "x"} if name == "accept" else {}
    with pytest.raises(shardmill.UserError, match="none"):
        getattr(shardmill, name)(f"{tmp_path}/none", *ARGUMENTS.get(name, ()), **reason)


def test_options_of_beam_are_checked(parent: Path) -> None:
    where: dict[str, Any] = {"input": "x", "output": "y", "name": "n"}
    calls: tuple[tuple[Callable[[], object], str], ...] = (
        (lambda: shardmill.versions(parent, beam_options=["--regoin", "x"]), "--regoin"),
        (lambda: shardmill.rollback(parent, beam_options=["--runner", "FlinkRunner"]), "--runner"),
        (lambda: shardmill.plan("csv", **where, beam_options=["--regoin", "x"]), "--regoin"),
        (lambda: shardmill.versions(parent, beam_options="--x"), "is a text; expected a list"),
        (lambda: shardmill.rebuild("x", beam_options=""), "is a text; expected a list"),
    )
    for call, words in calls:
        with pytest.raises(shardmill.UserError, match=words):
            call()


def test_progress_is_printed_where_nobody_has_set_up_logging(capsys: pytest.CaptureFixture[str]) -> None:
    log.log_progress("rows: 10 s, writing")
    assert capsys.readouterr() == ("", "rows: 10 s, writing\n")
    log.LOG.setLevel(logging.INFO)
    log.log_progress("rows: 20 s, writing")
    assert capsys.readouterr() == ("", "")


def test_the_module_of_a_function_is_imported_with_its_first_use() -> None:
    assert all(hasattr(sys.modules[getattr(shardmill, name).__module__], name) for name in shardmill.__all__)
