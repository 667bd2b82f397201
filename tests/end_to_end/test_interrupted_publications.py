"""Publications that real commands begin, and do not end: killed and interrupted at a rename, raced by another, and
repaired."""

import importlib
import multiprocessing
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Process, Result, Run, check_mistake, image, tree_bytes, write_files

SHARD = re.compile(r"n-train\.tfrecord-\d{5}-of-00004|\d{5}=00004\.train")
OTHER = ("--seed", "7")  # so that the newer version has other bytes in files of the same names


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(
        tmp_path_factory.mktemp("source") / "in",
        {f"{'ab'[n % 2]}/{n}.png": image(n, "PNG", (9 + n, 7)) for n in range(24)},
    )


def command(source: Path, output: Path, *flags: object) -> tuple[object, ...]:
    return ("images", "--input", source, "--output", output, "--name", "n", "--num_shards", "4", *flags)


@pytest.fixture(scope="module")
def versions(source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    """What is published below --output where nothing disturbs it."""
    made = {}
    for version, flags in {"plain": (), "other": OTHER}.items():
        folder = tmp_path_factory.mktemp(version)
        assert Process(folder / "process", *command(source, folder / "out", *flags)).result().status == 0
        made[version] = tree_bytes(folder / "out")
    assert made["plain"].keys() == made["other"].keys()
    return made


def strike_at_rename(number: int, strike: Callable[[], None]) -> None:
    """Let `strike` be called in this process just before a shard's rename `number` of a publication."""
    replace = os.replace
    seen = []

    def struck(source: Any, destination: Any, **more: Any) -> None:
        if SHARD.fullmatch(os.path.basename(destination)) and "beam-temp-" in os.fspath(source):
            if "beam-temp-" not in os.fspath(destination):
                seen.append(destination)
            if len(seen) == number + 1:
                strike()
        replace(source, destination, **more)

    os.replace = struck  # type: ignore[assignment]


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def interrupt_and_go_on() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def interrupt_and_hang(number: int) -> None:
    """As on a disk that takes its time: the process ends while this rename is under way."""
    os.kill(os.getpid(), number)
    threading.Event().wait()


def stopped(folder: Path, before: Callable[[], None], *arguments: object) -> Result:
    return Process(folder / "process", *arguments, before=before).result()


def version_of(output: Path) -> Path:
    return output / "n" / "1.0.0"


def killed(tmp_path: Path, source: Path) -> Path:
    """The version directory of a publication that was killed with two of its shards renamed."""
    result = stopped(tmp_path, partial(strike_at_rename, 2, kill), *command(source, tmp_path / "out"))
    assert result.status == -signal.SIGKILL
    directory = version_of(tmp_path / "out")
    assert len(list(directory.glob("n-train*"))) == 2
    assert (directory / "_PUBLISHING").exists()
    return directory


@pytest.mark.parametrize("above", [False, True], ids=["version", "folder above"])
def test_repair_completes_what_was_killed(
    tmp_path: Path, source: Path, run: Run, versions: dict[str, dict[str, bytes]], above: bool
) -> None:
    directory = killed(tmp_path, source)
    named = directory.parent if above else directory
    left = tree_bytes(tmp_path / "out")
    check_mistake(run("verify", named), "was interrupted while it published", f"`shardmill verify --repair {named}`")
    assert tree_bytes(tmp_path / "out") == left
    result = run("verify", "--repair", named)
    assert result == (
        0,
        "verified: 24 examples in 4 shards, no fault\n",
        f"shardmill: completed the publication of {directory}, in which an earlier run was interrupted\n",
    )
    assert tree_bytes(tmp_path / "out") == versions["plain"]
    assert run("verify", "--repair", named) == (0, result.out, "")
    assert tree_bytes(tmp_path / "out") == versions["plain"]


def test_repair_completes_a_version_whose_shards_are_called_otherwise(tmp_path: Path, source: Path, run: Run) -> None:
    older = ("--file_template", "{SPLIT}-{SHARD_X_OF_Y}")
    newer = ("--file_template", "{SHARD_INDEX}={NUM_SHARDS}.{SPLIT}", *OTHER)
    assert run(*command(source, tmp_path / "out", *older)).status == 0
    assert run(*command(source, tmp_path / "fresh", *newer)).status == 0
    again = command(source, tmp_path / "out", *newer, "--overwrite")
    assert stopped(tmp_path, partial(strike_at_rename, 2, kill), *again).status == -signal.SIGKILL

    result = run("verify", "--repair", version_of(tmp_path / "out"))

    assert result.status == 0
    assert tree_bytes(version_of(tmp_path / "out")) == tree_bytes(version_of(tmp_path / "fresh"))
    assert len(list(version_of(tmp_path / "out").glob("*=00004.train"))) == 4


def test_verify_of_the_folder_names_a_newer_version_that_was_killed(tmp_path: Path, source: Path, run: Run) -> None:
    assert run(*command(source, tmp_path / "out", "--version", "0.9.0")).status == 0
    directory = killed(tmp_path, source)
    verified = (0, "verified: 24 examples in 4 shards, no fault\n")
    assert run("verify", directory.parent) == (
        *verified,
        f"shardmill: warning: {directory} is not verified: its job was interrupted while it published;"
        " --repair completes it\n",
    )
    assert run("verify", directory.parent / "0.9.0") == (*verified, "")
    repaired = run("verify", "--repair", directory.parent)
    assert repaired == (
        *verified,
        f"shardmill: completed the publication of {directory}, in which an earlier run was interrupted\n",
    )


def without_lock(directory: Path) -> dict[str, bytes]:
    """Every file but the LOCK that a killed command leaves, and the next takes over."""
    return {name: data for name, data in tree_bytes(directory).items() if name != "LOCK"}


def test_repair_says_what_is_gone_and_deletes_nothing(tmp_path: Path, source: Path, run: Run) -> None:
    directory = killed(tmp_path, source)
    next(directory.glob("beam-temp-*/n-*")).unlink()
    left = without_lock(directory)
    for _ in range(2):
        result = run("verify", "--repair", directory)
        assert (result.status, result.out) == (1, "")
        assert re.fullmatch(
            rf"shardmill: error: the publication of {directory} cannot be completed: 1 of its \d+ files are gone,"
            r" such as "
            r"n-train.tfrecord-0000\d-of-00004, which was beam-temp-\S+; it is no data set; run its job again\n",
            result.err,
        )
        assert without_lock(directory) == left
    again = run(*command(source, tmp_path / "out"))
    assert again.status == 0
    assert "1 of its" in again.err
    assert run("verify", directory.parent).status == 0


def test_a_journal_that_cannot_be_read_is_a_sentence(tmp_path: Path, source: Path, run: Run) -> None:
    directory = killed(tmp_path, source)
    (directory / "_PUBLISHING").write_text("{}")
    left = without_lock(directory)
    for arguments in (("verify", "--repair", directory), command(source, tmp_path / "out")):
        result = run(*arguments)
        assert result.status in (1, 2)
        assert result.err.startswith(f"shardmill: error: {directory}/_PUBLISHING is not the journal of a publication")
        assert result.err.count("\n") == 1
        assert without_lock(directory) == left


def test_verify_says_that_a_publication_was_not_ended(tmp_path: Path, source: Path, run: Run) -> None:
    assert run(*command(source, tmp_path / "out")).status == 0
    directory = version_of(tmp_path / "out")
    (directory / "_PUBLISHING").write_text("{}")
    result = run("verify", directory)
    assert result.status == 1
    assert "_PUBLISHING: an earlier run was interrupted while it published; --repair completes it" in result.out


@pytest.mark.parametrize(
    ("named", "said"),
    [
        (None, "was missing; it"),
        ("", "was missing; it"),
        ("9.9.9\n", "named 9.9.9, which is not published; it"),
        ("../n/1.0.0\n", "named ../n/1.0.0, which is not published; it"),
        ("\x1b[2J\n", "named \\x1b[2J, which is not published; it"),
    ],
)
def test_repair_of_latest(
    tmp_path: Path, source: Path, run: Run, versions: dict[str, dict[str, bytes]], named: str | None, said: str
) -> None:
    assert run(*command(source, tmp_path / "out")).status == 0
    directory = version_of(tmp_path / "out")
    latest = directory.parent / "LATEST"
    for path in (directory.parent, directory):
        latest.unlink() if named is None else latest.write_text(named)
        result = run("verify", "--repair", path)
        assert result == (
            0,
            "verified: 24 examples in 4 shards, no fault\n",
            f"shardmill: LATEST {said} names {directory} now\n",
        )
        assert tree_bytes(tmp_path / "out") == versions["plain"]


def test_which_of_two_versions_is_the_latest_is_not_guessed(tmp_path: Path, source: Path, run: Run) -> None:
    for version in ("1.0.0", "1.1.0"):
        assert run(*command(source, tmp_path / "out", "--version", version)).status == 0
    folder = tmp_path / "out" / "n"
    (folder / "LATEST").unlink()
    check_mistake(run("verify", "--repair", folder), "1.1.0, 1.0.0")
    assert not (folder / "LATEST").exists()
    assert run("verify", "--repair", folder / "1.0.0").err == (
        f"shardmill: LATEST was missing; it names {folder}/1.0.0 now\n"
    )
    assert run("verify", "--repair", folder / "1.1.0").err == ""
    assert (folder / "LATEST").read_text() == "1.0.0\n"


@pytest.mark.parametrize("older", [False, True], ids=["new", "overwrite"])
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
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


def wait_for(sign: Path, is_alive: Callable[[], bool]) -> None:
    """Wait for a sign as long as the process that is to give it is alive."""
    while not sign.exists():
        assert is_alive() or sign.exists(), f"{sign.name}: the process that was to say so has ended"
        time.sleep(0.0005)


def stop_at(module: str, name: str, reached: Path, go_on: Path) -> None:
    """Let this process stop each time it calls a function, until another lets it go on."""
    place = importlib.import_module(module)
    then = getattr(place, name)
    tests = multiprocessing.parent_process()
    assert tests is not None

    def stop(*arguments: Any, **more: Any) -> Any:
        reached.touch()
        wait_for(go_on, tests.is_alive)
        return then(*arguments, **more)

    setattr(place, name, stop)


# Where the first of two commands stands when the second comes: it writes, publishes, has published but looks at it yet.
STOPS = {
    "writing": ("transforms.publishing.publish", "check_counts"),
    "publishing": ("transforms.publishing.publication", "_place"),
    "published": ("pipelines.running.convert", "published"),
}


def test_a_sign_is_not_waited_for_when_its_process_has_ended(tmp_path: Path) -> None:
    ended = Process(tmp_path / "ended", "no such command")
    with pytest.raises(AssertionError, match="has ended"):
        wait_for(tmp_path / "sign", ended.is_alive)
    assert ended.result().status == 2


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("overwrite", [False, True])
def test_two_commands_at_once(
    tmp_path: Path,
    source: Path,
    run: Run,
    versions: dict[str, dict[str, bytes]],
    overwrite: bool,
    stop: str,
    request: pytest.FixtureRequest,
) -> None:
    """The second stands back at once, names the first and writes nothing, however far that one is."""
    output, reached, go_on = tmp_path / "out", tmp_path / "reached", tmp_path / "go on"
    request.addfinalizer(go_on.touch)  # or the first is waited for when this fails
    flags = ["--overwrite"] if overwrite else []
    if overwrite:
        assert run(*command(source, output, *OTHER)).status == 0
    before = partial(stop_at, *STOPS[stop], reached, go_on)
    first = Process(tmp_path / "first", *command(source, output, *flags), before=before)
    wait_for(reached, first.is_alive)
    there = tree_bytes(output)
    for arguments in (command(source, output, *flags, *OTHER), ("verify", "--repair", version_of(output))):
        result = run(*arguments)
        if arguments[0] == "verify" and stop != "publishing":  # there is nothing to repair
            continue
        if stop == "published" and not overwrite:
            check_mistake(result, "is a published data set")
            continue
        assert (result.status, result.out) == (4, "")
        assert re.fullmatch(
            rf"shardmill: error: {version_of(output)} is being built by process \d+ of \S+ on \S+ since \S+Z;"
            r" nothing was written: wait for it, or give another --version\n",
            result.err,
        )
        assert tree_bytes(output) == there
    go_on.touch()
    assert first.result().status == 0
    assert tree_bytes(output) == versions["plain"]


def test_two_commands_that_start_at_once(tmp_path: Path, source: Path, versions: dict[str, dict[str, bytes]]) -> None:
    """With --overwrite one may also follow the other; both look whole, and what is there is of one of them."""
    for round_number in range(3):
        output, go_on = tmp_path / f"out {round_number}", tmp_path / f"go on {round_number}"
        before = partial(stop_at, "pipelines.running.convert", "take_lease", tmp_path / "reached", go_on)
        processes = {
            version: Process(
                tmp_path / f"{version} {round_number}", *command(source, output, "--overwrite", *flags), before=before
            )
            for version, flags in {"plain": (), "other": OTHER}.items()
        }
        go_on.touch()
        results = {version: process.result() for version, process in processes.items()}
        assert {result.status for result in results.values()} in ({0}, {0, 4}), results
        won = [version for version, result in results.items() if result.status == 0]
        assert any(tree_bytes(output) == versions[version] for version in won), results


def test_a_backfill_does_not_move_latest(tmp_path: Path, source: Path, run: Run) -> None:
    output = tmp_path / "out"
    latest = output / "n" / "LATEST"
    assert run(*command(source, output, "--version", "1.0.10")).status == 0
    result = run(*command(source, output, "--version", "1.0.9"))
    assert result.status == 0
    assert result.err.endswith(
        "shardmill: LATEST names 1.0.10 as before, which is newer; --set_latest lets it name 1.0.9\n"
    )
    assert latest.read_text() == "1.0.10\n"
    result = run(*command(source, output, "--version", "1.0.9", "--overwrite", "--set_latest"))
    assert (result.status, "LATEST" in result.err) == (0, False)
    assert latest.read_text() == "1.0.9\n"


def test_a_job_that_is_outrun_says_so(tmp_path: Path, source: Path, run: Run) -> None:
    output, reached, go_on = tmp_path / "out", tmp_path / "reached", tmp_path / "go on"
    before = partial(stop_at, *STOPS["writing"], reached, go_on)
    first = Process(tmp_path / "first", *command(source, output, "--version", "1.0.1"), before=before)
    wait_for(reached, first.is_alive)
    assert run(*command(source, output, "--version", "1.0.2")).status == 0
    go_on.touch()
    status, _, err = first.result()
    assert status == 4
    assert (
        f"{output}/n/1.0.1 is published, but LATEST names 1.0.2, which another job published while this one ran" in err
    )
    assert run("verify", output / "n" / "1.0.1").status == 0
    assert (output / "n" / "LATEST").read_text() == "1.0.2\n"
