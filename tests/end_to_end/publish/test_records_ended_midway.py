"""Jobs over records that are ended from outside while they stage or write: by a signal, a full disk, files that
vanish."""

import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command import Process, Result, Run, tree_bytes, write_files
from tests.support.table_results import TOLERANT, Table, check_consistent, read_table

pytestmark = pytest.mark.slow

ROWS = 20_000
Make = Callable[[int], bytes]
MANY: dict[str, tuple[str, Make]] = {
    "csv": ("csv", lambda number: b"%d,%x\n" % (number, number * 2654435761)),
    "jsonl": ("jsonl", lambda number: b'{"a": %d, "b": "%x"}\n' % (number, number * 2654435761)),
}
SLOWLY = ("--block_size", "1KiB")  # so that a signal comes while blocks are staged, however late it comes


@pytest.fixture(scope="session", params=list(MANY))
def many(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four files of many small rows; the folder's name is the command that reads it."""
    suffix, make = MANY[request.param]
    start = b"a,b\n" if suffix == "csv" else b""
    parts = [range(part, ROWS, 4) for part in range(4)]
    files = {f"{number}.{suffix}": start + b"".join(map(make, part)) for number, part in enumerate(parts)}
    return write_files(tmp_path_factory.mktemp("many") / request.param, files)


def command(source: Path, output: Path, *flags: object) -> tuple[object, ...]:
    return (source.name, "--input", source, "--output", output, "--name", "n", "--splits", "train=0.9,test=0.1", *flags)


def wait_for_runs(process: Process, output: Path, number: int) -> None:
    """Wait until so many runs lie in the job's temporary directory."""
    while process.is_alive() and sum(1 for _ in output.glob("n/1.0.0/beam-temp-*/run-*")) < number:
        time.sleep(0.001)
    assert process.is_alive()


def check_failed(result: Result, *words: str) -> None:
    """As check_failure, of a process that may have said how far it is before."""
    assert (result.status, result.out) == (1, ""), result
    (line,) = (line for line in result.err.splitlines() if not line.startswith("n: "))
    assert line.startswith("shardmill: error: ")
    for word in words:
        assert word in line, line


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_ended_while_staging_and_run_again(many: Path, run: Run, tmp_path: Path, number: int) -> None:
    output, directory = tmp_path / "out", tmp_path / "out" / "n" / "1.0.0"
    process = Process(tmp_path / "process", *command(many, output, *SLOWLY))
    wait_for_runs(process, output, 20)
    process.send_signal(number)
    result = process.result()
    if number == signal.SIGINT:
        assert result.status == 130
        assert result.err.splitlines()[-1] == "shardmill: interrupted; nothing was published"
    else:
        assert result.status == -number
    assert all(name.startswith("beam-temp-") or name == "LOCK" for name in tree_bytes(directory))
    assert run(*command(many, output)).status == 0
    assert {path.name.split("-")[0] for path in directory.iterdir()} == {
        "FeatureStats.pb", "_SUCCESS", "dataset_info.json", "features.json", "manifest.json", "n", "schema.pbtxt",
        "stats.json",
    }  # fmt: skip
    assert sorted(path.name for path in directory.parent.iterdir()) == ["1.0.0", "LATEST", "builds"]
    check_rows(read_table(output / "n"), ROWS)


def check_rows(table: Table, rows: int) -> None:
    assert sorted((row["a"], row["b"]) for row in table.rows) == [(n, b"%x" % (n * 2654435761)) for n in range(rows)]
    check_consistent(table)


def test_files_that_vanish_while_the_job_runs(many: Path, tmp_path: Path) -> None:
    """Of CSV it fails the job; lines that are gone are rejects."""
    folder, output = tmp_path / many.name, tmp_path / "out"
    shutil.copytree(many, folder)
    process = Process(tmp_path / "process", *command(folder, output, *SLOWLY, *TOLERANT))
    wait_for_runs(process, output, 20)
    for file in sorted(folder.iterdir())[1:]:
        file.unlink()
    result = process.result()
    if many.name == "csv":
        check_failed(
            result, ".csv can no longer be read: No such file or directory; leave the input as it is while a job runs"
        )
        assert not output.exists()
        return
    assert result.status == 0, result
    table = read_table(output / "n")
    check_consistent(table)
    rejects = table.rejects()
    assert rejects
    assert all("cannot be read after 0 bytes: No such file or directory" in reject["reason"] for reject in rejects)
    found = {row["a"]: row["b"] for row in table.rows}
    assert set(range(0, ROWS, 4)) <= found.keys()
    assert all(value == b"%x" % (number * 2654435761) for number, value in found.items())
