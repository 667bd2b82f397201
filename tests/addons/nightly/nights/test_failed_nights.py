"""A night that failed its checks: it can be looked at, and accepted as it is."""

import html
import io
import itertools
import json
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from pathlib import Path

import pytest
from PIL import Image

import shardmill
from shardmill.errors import UserError
from shardmill.metadata.versions import BuildRecord
from shardmill.pipelines import cli
from shardmill.transforms.options.job_options import Acceptance
from shardmill.transforms.publishing.acceptance import FailedVersion, accept_version
from tests.addons.nightly.nights.conftest import in_copy
from tests.support.builds import contents
from tests.support.command import Run, write_old_files
from tests.support.faults import faulty, in_child, kill
from tests.support.nights import recipe, rows, write

SETS, KEPT, NEW = Path("sets/events"), Path("sets/events/failed/1.0.1"), Path("sets/events/1.0.1")
ACCEPT = ("accept", SETS, "1.0.1", "--reason", "clicks have a data set of their own")


@pytest.fixture(scope="module")
def failed_night(good_night: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder and the message of a night in which a class is gone."""
    with in_copy(good_night, tmp_path_factory.mktemp("failed") / "night") as folder:
        write(rows(kinds=("buy", "view")))
        with redirect_stderr(io.StringIO()) as err:
            assert cli.main(["rebuild", "events.yaml"]) == 3
    return folder, err.getvalue()


@pytest.fixture
def failed(failed_night: tuple[Path, str], tmp_path: Path) -> Iterator[str]:
    """The message of that night, in a copy of its folder."""
    folder, message = failed_night
    with in_copy(folder, tmp_path / "night"):
        yield message


def png(number: int) -> bytes:
    """A picture of one colour, each of another."""
    out = io.BytesIO()
    Image.new("RGB", (8, 8), (number % 256, number // 256, 7)).save(out, "PNG")
    return out.getvalue()


def record() -> BuildRecord:
    return BuildRecord.from_json((SETS / "builds/1.0.1.json").read_bytes(), "record")


def test_the_advice_of_the_message_and_the_page(run: Run, failed: str) -> None:
    page = html.unescape((SETS / "builds/1.0.1.html").read_text())
    *advised, build_again, mend = re.findall(r"^  \w+: +(shardmill .*)  # ", failed, re.MULTILINE)
    assert f"<code>{build_again.replace('events.yaml', 'RECIPE')}</code>" in page
    assert build_again == "shardmill rebuild events.yaml --accept classes_gone,label_drift"
    assert mend == "shardmill rebuild events.yaml"
    assert [shlex.split(words)[1] for words in advised] == ["inspect", "diff", "accept"]
    before = contents(KEPT)
    for words in advised:
        assert f"<code>{words}</code>" in page
        if " accept " not in words:
            assert run(*shlex.split(words)[1:]).status == 0

    result = run(*shlex.split(advised[-1].replace("WHY", "'no clicks any more'"))[1:], "--by", "ada")

    assert (result.status, result.out) == (
        *(0, "sets/events: 1.0.1 is published, accepted by ada; LATEST names 1.0.1\n"),
    )
    after = contents(NEW)
    assert after.pop("_SUCCESS")
    assert after == {name: before[name] for name in after}
    assert not KEPT.exists()
    assert record().status == "published"
    assert {**record().accepted, "at": ""} == {
        "checks": ["classes_gone", "label_drift"],
        "by": "ada",
        "at": "",
        "reason": "no clicks any more",
    }
    assert sum(record().splits.values()) == 600
    page = html.unescape((SETS / "builds/1.0.1.html").read_text())
    assert "Accepted by ada at 20" in page
    assert "not published" not in page
    assert run("verify", SETS).status == 0
    again = run("rebuild", "events.yaml")
    assert again.out == "events: unchanged since 1.0.1: 1 file\n"


@pytest.mark.slow
def test_it_can_be_looked_at(run: Run, failed: str) -> None:
    inspected = run("inspect", KEPT, "--json")
    assert json.loads(inspected.out)["version"] == "1.0.1"
    verified = run("verify", KEPT)
    assert (verified.status, verified.err) == (0, "")
    assert verified.brief.out.endswith("no fault; it failed its checks and is not published\n")
    reported = run("report", KEPT, "--json")
    content = json.loads(reported.out)
    assert (content["verdict"]["severity"], content["changes"]["against"]) == ("error", "1.0.0")
    assert content["labels"][0]["before"] == {"version": "1.0.0", "classes": {"buy": 200, "click": 200, "view": 200}}
    for words in ((SETS, "1.0.0", "failed/1.0.1"), (SETS / "1.0.0", KEPT)):
        compared = run("diff", *words)
        assert (compared.status, "class click gone" in compared.out) == (0, True)
    assert run("report", SETS / "1.0.0", "--against", "failed/1.0.1", "--json").status == 0
    missing = run("inspect", SETS / "failed/1.0.7")
    assert (missing.status, "kept in sets/events/failed: 1.0.1" in missing.err) == (2, True)
    with pytest.raises(UserError, match="no _SUCCESS"):
        shardmill.load(KEPT)
    next(KEPT.glob("*train*")).write_bytes(b"damaged")
    assert run("verify", KEPT).status == 1


def test_the_page_shows_each_class_before_and_now(failed: str) -> None:
    page = (SETS / "builds/1.0.1.html").read_text()
    found = re.findall(r'<th scope="row">(\w+)</th><td class="n">([\d,]+)</td><td class="n">([\d,]+)</td>'
                       r'<td class="n[^"]*">([^<]*)</td>', page)  # fmt: skip
    assert found == [("click", "200", "0", "gone"), ("buy", "200", "300", "+50.0 %"), ("view", "200", "300", "+50.0 %")]


def truncate_shard() -> None:
    shard = next(KEPT.glob("*train*"))
    shard.write_bytes(shard.read_bytes()[:-1])


def damage_shard() -> None:
    shard = next(KEPT.glob("*test*"))
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)


def publish_another() -> None:
    shutil.copytree(SETS / "1.0.0", NEW)


def publish_newer() -> None:
    shutil.copytree(SETS / "1.0.0", SETS / "1.0.2")
    (SETS / "LATEST").write_text("1.0.2\n")


REFUSALS: dict[str, tuple[Callable[[], object], int, str]] = {
    "a shard is missing": (
        lambda: next(KEPT.glob("*train*")).unlink(),
        1,
        "00000-of-00001 is missing; nothing was pub",
    ),
    "a shard is cut short": (truncate_shard, 1, "is not the file that was written"),
    "a shard is damaged": (damage_shard, 1, "is not the file that was written"),
    "a metadata file is damaged": (
        lambda: (KEPT / "stats.json").write_text("{}"),
        1,
        "stats.json is not the file that",
    ),
    "the manifest is changed": (
        lambda: (KEPT / "manifest.json").write_text((KEPT / "manifest.json").read_text() + " "),
        *(1, "manifest.json is not the file that was written"),
    ),
    "nothing is kept": (lambda: shutil.rmtree(KEPT), 2, "no version that failed its checks is kept there"),
    "another build is published": (publish_another, 2, "is published already, by another build"),
    "a newer version is published": (publish_newer, 4, "names 1.0.2, which is newer and was published after 1.0.1"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refused(run: Run, failed: str, case: str) -> None:
    happens, status, says = REFUSALS[case]
    happens()
    before = contents(SETS)

    result = run(*ACCEPT)

    assert (result.status, says in result.err) == (status, True), result
    assert result.err.count("\n") == 1
    assert contents(SETS) == before


@pytest.mark.parametrize(("flag", "latest"), [("--keep_latest", "1.0.2"), ("--set_latest", "1.0.1")])
def test_a_newer_version_was_published_since(run: Run, failed: str, flag: str, latest: str) -> None:
    """Both flags are those that the message of the refusal names."""
    publish_newer()
    assert f"{flag} " in run(*ACCEPT).err

    result = run(*ACCEPT, flag)

    assert (result.status, (SETS / "LATEST").read_text()) == (0, f"{latest}\n")
    assert (NEW / "_SUCCESS").exists()


def test_a_backfill_that_failed_leaves_latest(run: Run, here: Path) -> None:
    """The newer version was there before: that is no surprise."""
    write(rows(240))
    assert run("rebuild", "events.yaml", "--version", "0.9.0").status == 3

    result = run("accept", SETS, "0.9.0", "--reason", "a holiday")

    assert (result.status, (SETS / "LATEST").read_text()) == (0, "1.0.0\n")
    assert "LATEST names 1.0.0" in result.out


@pytest.mark.parametrize("words", [("--reason", " "), ("--reason", "x", "--by", ""), ()])
def test_a_reason_is_needed(run: Run, failed: str, words: tuple[str, ...]) -> None:
    assert run("accept", SETS, "1.0.1", *words).status == 2


@pytest.mark.slow
def test_killed_at_every_file_operation(run: Run, failed: str, tmp_path: Path) -> None:
    """Whenever it is killed, the same command completes it."""
    expected = {name: data for name, data in contents(KEPT).items() if not name.startswith("_")}
    del expected["anomalies.pbtxt"]
    states = set()
    for number in itertools.count():
        folder = tmp_path / "killed"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree("sets", folder)

        def attempt(at: int = number, folder: Path = folder) -> None:
            with faulty(at, kill):
                accept_version(FailedVersion(str(folder / "events"), "1.0.1"), Acceptance((), "ada", "why"))

        status = in_child(attempt)
        directory = folder / "events/1.0.1"
        states.add((directory / "_SUCCESS").exists())
        if status == 9 and number % 5 and number > 3:  # the command takes a second
            continue
        result = run("accept", folder / "events", "1.0.1", "--reason", "why")
        assert result.status == 0, result
        found = {name: data for name, data in contents(directory).items() if name != "_SUCCESS"}
        assert found == expected
        assert not (folder / "events/failed/1.0.1").exists()
        assert (folder / "events/LATEST").read_text() == "1.0.1\n"
        if status == 0:
            break
    assert number > 40
    assert states == {True, False}


def test_checks_are_passed_over_once(run: Run, failed: str) -> None:
    (words,) = re.findall(r"shardmill (rebuild events.yaml --accept \S*)", failed)
    partly = run("rebuild", "events.yaml", "--accept", "classes_gone")
    assert (partly.status, "label_drift" in partly.err) == (3, True)

    result = run(*words.split())

    assert result.status == 0, result.err
    assert "warning: events: accepted: classes_gone: 1 class is gone since 1.0.0: 'click'" in result.err
    assert record().accepted["checks"] == ["classes_gone", "label_drift"]
    assert "@" in record().accepted["by"]
    write(rows(kinds=("buy",)))
    assert run("rebuild", "events.yaml").status == 3


def test_nothing_is_recorded_where_nothing_failed(run: Run, here: Path) -> None:
    write(rows(610))
    assert run("rebuild", "events.yaml", "--accept", "classes_gone").status == 0
    assert record().accepted == {}


def test_unknown_checks(run: Run, here: Path) -> None:
    result = run("rebuild", "events.yaml", "--accept", "clases_gone")
    assert result.status == 2
    assert "there is no check 'clases_gone'; the checks are examples_under, examples_over, columns_gone" in result.err
    recipe("---\n" + Path("events.yaml").read_text().replace("name: events", "name: more"))
    result = run("rebuild", "events.yaml", "--accept", "classes_gone")
    assert (result.status, "there are 2 recipes" in result.err) == (2, True)


def test_the_next_night_copies_records_of_an_accepted_version(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_old_files(Path("photos"), {f"{'abc'[number % 3]}/{number}.png": png(number) for number in range(90)})
    Path("photos.yaml").write_text("name: photos\noutput: sets\nimages: {input: photos}\n")
    assert run("rebuild", "photos.yaml").status == 0
    shutil.rmtree("photos/c")
    assert run("rebuild", "photos.yaml").status == 3
    assert run("accept", "sets/photos", "1.0.1", "--reason", "c is gone").status == 0
    Path("photos/a/new.png").write_bytes(png(1_000))

    result = run("rebuild", "photos.yaml", "--json")

    found = BuildRecord.from_json(result.out, "stdout")
    assert (found.version, found.status, found.reused, found.read) == ("1.0.2", "published", 60, 1)


def test_shards_of_another_name_and_rejects(run: Run, here: Path) -> None:
    template = "'{SPLIT}-{SHARD_X_OF_Y}.{FILEFORMAT}'"
    recipe(f"  compression: gzip\n  file_template: {template}\n  num_shards: 3\n")
    write([*rows(kinds=("buy", "view")), ["7", "buy", 'a"b', "x"], ["8", 'b"y', "1", '"x"y']])
    assert run("rebuild", "events.yaml").status == 3

    assert run(*ACCEPT).status == 0

    names = set(contents(NEW))
    assert {"train-00000-of-00003.tfrecord.gz", "rejects/rejects-00000-of-00001.jsonl"} <= names
    verified = run("verify", SETS)
    assert (verified.status, verified.brief.out.endswith("in 6 shards, no fault\n")) == (0, True), verified
