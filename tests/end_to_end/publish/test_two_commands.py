"""Commands of one data set at once: one of them publishes, and the other says so; LATEST names the newest."""

import re
from functools import partial
from pathlib import Path

import pytest

from tests.support.command import Process, Run, check_mistake, tree_bytes
from tests.support.processes import OTHER, command, stop_at, version_of, wait_for

pytestmark = pytest.mark.slow


# Where the first of two commands stands when the second comes: it writes, publishes, has published but looks at it yet.
STOPS = {
    "writing": ("shardmill.transforms.publishing.publish", "check_counts"),
    "publishing": ("shardmill.transforms.publishing.publication", "_move_into_place"),
    "published": ("shardmill.pipelines.jobs.job", "open_published"),
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


def test_the_other_publishes_before_the_lease_is_taken(
    tmp_path: Path, source: Path, run: Run, versions: dict[str, dict[str, bytes]]
) -> None:
    """When its flags were checked nothing was published, so they are no mistake."""
    output, reached, go_on = tmp_path / "out", tmp_path / "reached", tmp_path / "go on"
    before = partial(stop_at, "shardmill.pipelines.jobs.outcome", "take_lease", reached, go_on)
    loser = Process(tmp_path / "loser", *command(source, output, *OTHER), before=before)
    wait_for(reached, loser.is_alive)
    assert run(*command(source, output)).status == 0
    go_on.touch()
    result = loser.result()
    said = f"shardmill: error: {version_of(output)} was published meanwhile by another job; nothing was written\n"
    assert result == (4, "", said)
    assert tree_bytes(output) == versions["plain"]


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
