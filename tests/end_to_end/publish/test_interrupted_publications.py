"""Publications that real commands begin, and that are interrupted while shards are renamed."""

import os
import signal
import threading
from functools import partial
from pathlib import Path

import pytest

from shardmill.addons import registry
from tests.support.command import Run, tree_bytes
from tests.support.processes import OTHER, command, stopped, strike_at_rename, version_of

pytestmark = pytest.mark.slow


def interrupt_and_go_on() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def interrupt_and_hang(number: int) -> None:
    """As on a disk that takes its time: the process ends while this rename is under way."""
    os.kill(os.getpid(), number)
    threading.Event().wait()


def hang_at_the_page(number: int) -> None:
    for pages in registry.modules("page"):
        setattr(pages, "write_page", lambda *_: interrupt_and_hang(number))  # noqa: B010


@pytest.mark.parametrize("older", [False, True], ids=["new", "overwrite"])
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
@pytest.mark.parametrize("end", ["next run", "repair"])
def test_interrupted_during_the_renames(
    tmp_path: Path,
    source: Path,
    run: Run,
    versions: dict[str, dict[str, bytes]],
    older: bool,
    number: int,
    status: int,
    end: str,
) -> None:
    output = tmp_path / "out"
    if older:
        assert run(*command(source, output, *OTHER)).status == 0
    arguments = command(source, output, *(["--overwrite"] if older else []))
    before = partial(strike_at_rename, 1, partial(interrupt_and_hang, number))
    directory = version_of(output)
    completes = f"the next run, or `shardmill verify --repair {directory}`, completes it"
    assert stopped(tmp_path, before, *arguments) == (
        status,
        "",
        f"shardmill: interrupted; the publication of {directory} had begun: {completes}\n",
    )
    assert not (directory / "_SUCCESS").exists()
    result = run("verify", "--repair", directory) if end == "repair" else run(*command(source, output))
    assert result.status == 0
    assert f"completed the publication of {directory}" in result.err
    assert tree_bytes(output) == versions["plain"]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_interrupted_when_all_is_published(tmp_path: Path, source: Path, run: Run, number: int, status: int) -> None:
    """While the page about the version is made: what became of it was not said."""
    output = tmp_path / "out"
    said = f"shardmill: interrupted; {version_of(output)} is published\n"
    before = partial(hang_at_the_page, number)
    assert stopped(tmp_path, before, *command(source, output)) == (status, "", said)
    page = output / "n/builds/1.0.0.html"
    assert (run("verify", version_of(output)).status, page.exists()) == (0, False)
    repaired = run("verify", "--repair", version_of(output))
    assert repaired.err == f"shardmill: wrote the page of {version_of(output)}, whose job had ended before it did\n"
    assert page.exists()


def test_later_commands_write_the_page(tmp_path: Path, source: Path, run: Run) -> None:
    output = tmp_path / "out"
    pages = {version: output / f"n/builds/{version}.html" for version in ("1.0.0", "1.0.1")}
    before = partial(hang_at_the_page, signal.SIGTERM)
    assert stopped(tmp_path, before, *command(source, output)).status == 143
    assert run(*command(source, output, *OTHER, "--dry_run")).status in (0, 2)
    assert not pages["1.0.0"].exists()
    assert "is a published data set" in run(*command(source, output, *OTHER)).err
    assert pages["1.0.0"].exists()
    pages["1.0.0"].unlink()
    assert run(*command(source, output, "--version", "1.0.1")).status == 0
    assert all(page.exists() for page in pages.values())
    pages["1.0.0"].unlink()
    made = run("report", version_of(output), "--record")
    assert (made.status, made.out.split(": n 1.0.0, ")[0]) == (0, str(pages["1.0.0"]))
    assert pages["1.0.0"].read_text().startswith("<!doctype html>")
    (output / "n/builds/1.0.0.json").unlink()
    assert "1.0.0 has no build record; --output writes" in run("report", version_of(output), "--record").err
    assert "give one of them" in run("report", version_of(output), "--record", "--json").err


def test_interrupted_during_renames_that_go_on(
    tmp_path: Path, source: Path, run: Run, versions: dict[str, dict[str, bytes]]
) -> None:
    for number in range(4):
        folder = tmp_path / str(number)
        folder.mkdir()
        output = folder / "out"
        result = stopped(folder, partial(strike_at_rename, number, interrupt_and_go_on), *command(source, output))
        directory = version_of(output)
        assert (result.status, result.out) == (130, "")
        begun = (
            f"the publication of {directory} had begun: the next run, or `shardmill verify --repair {directory}`,"
            " completes it"
        )
        assert result.err in {f"shardmill: interrupted; {said}\n" for said in (begun, f"{directory} is published")}
        assert run("verify", "--repair", directory).status == 0
        assert tree_bytes(output) == versions["plain"]
