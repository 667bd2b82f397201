"""What a converting command says, and the record that it leaves: `--json`, `--log_format json`, `--quiet`."""

import html
import json
from contextlib import chdir
from pathlib import Path

import pytest

from shardmill.metadata.versions import BuildRecord
from shardmill.pipelines import cli
from shardmill.reading.dataset import open_dataset
from tests.support.command import Run, write_files


@pytest.fixture
def flags(tmp_path: Path) -> list[object]:
    write_files(tmp_path, {"a.csv": b"a,b\n1,2\n3,4\n"})
    return ["csv", "--input", tmp_path / "a.csv", "--output", tmp_path / "sets", "--name", "rows"]


def test_the_record_is_written_and_printed(run: Run, tmp_path: Path, flags: list[object]) -> None:
    result = run(*flags, "--json")

    assert result.status == 0
    record = BuildRecord.from_json(result.out, "stdout")
    assert (record.name, record.version, record.status, record.splits) == ("rows", "1.0.0", "published", {"train": 2})
    written = (tmp_path / "sets" / "rows" / "builds" / "1.0.0.json").read_text()
    assert BuildRecord.from_json(written, "file").page_checks
    assert BuildRecord.from_json(written, "file").without_page_checks == record


def test_a_failure_has_a_record_too_and_that_of_what_stands_stays(
    run: Run, tmp_path: Path, flags: list[object]
) -> None:
    run(*flags)
    before = (tmp_path / "sets" / "rows" / "builds" / "1.0.0.json").read_text()
    write_files(tmp_path, {"a.csv": b'a,b\n1,"2"3\n'})

    result = run(*flags, "--overwrite", "--json")

    assert result.status == 1
    assert BuildRecord.from_json(result.out, "stdout").status == "failed"
    assert (tmp_path / "sets" / "rows" / "builds" / "1.0.0.json").read_text() == before
    failed = (tmp_path / "sets" / "rows" / "builds" / "1.0.0.failed.json").read_text()
    assert BuildRecord.from_json(failed, "file") == BuildRecord.from_json(result.out, "stdout")
    assert result.err == f"shardmill: error: {json.loads(failed)['reason']}\n"


def test_lines_are_json_for_logs(run: Run, tmp_path: Path, flags: list[object]) -> None:
    result = run(*flags, "--log_format", "json", "--shard_size", "100")

    lines = [json.loads(line) for line in result.err.splitlines()]
    assert result.out == ""
    assert [line["severity"] for line in lines] == ["WARNING", "INFO"]
    assert lines[0]["message"].startswith("--shard_size is 100 bytes")
    assert lines[1]["message"].startswith("rows 1.0.0 is published: 2 in train; ")
    assert lines[1]["build"]["status"] == "published"


def test_mistakes_are_json_too(run: Run, flags: list[object]) -> None:
    result = run(*flags, "--log_format=json", "--seeed", "1")

    (line,) = [json.loads(line) for line in result.err.splitlines()]
    assert (line["severity"], line["exit_status"], result.status) == ("ERROR", 2, 2)
    assert line["message"] == "unknown flag --seeed; did you mean --seed?"


def test_the_next_command_speaks_in_sentences_again(run: Run, flags: list[object]) -> None:
    run(*flags, "--log_format=json", "--seeed", "1")

    assert run(*flags, "--log_format", "xml").err == (
        "shardmill: error: --log_format xml: expected one of text, json\n"
    )


def test_quiet_says_nothing_but_what_is_wrong(run: Run, flags: list[object]) -> None:
    result = run(*flags, "--quiet", "--shard_size", "100")

    assert (result.status, result.out) == (0, "")
    assert result.err.startswith("shardmill: warning: --shard_size is 100 bytes")
    assert result.err.count("\n") == 1


def test_a_long_notice_is_cut_and_its_page_shows_all_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "empty_" + "column_" * 30
    files = {"in/a.csv": f"x,{name}\n1,\n2,\n".encode(), "n.yaml": b"name: n\noutput: out\ncsv: {input: in/a.csv}\n"}
    write_files(tmp_path, files)
    with chdir(tmp_path):
        assert cli.main(["csv", "--input", "in/a.csv", "--output", "out", "--name", "n"]) == 0
        converted = capsys.readouterr().out
        assert cli.main(["rebuild", "n.yaml", "--force"]) == 0
        rebuilt = capsys.readouterr().out
        for text in (converted, rebuilt):
            lines = text.splitlines()
            (notice,) = [line for line in lines if line.startswith("NOTE: ")]
            assert len(notice) <= 200
            (page,) = [line.removeprefix("Page of the build: ") for line in lines if line.startswith("Page of")]
            (full,) = open_dataset(str(Path("out/n") / Path(page).stem)).manifest.notices
            head, end = notice.removeprefix("NOTE: ").removesuffix(" (see the page)").split(" … ")
            assert full.startswith(head)
            assert full.endswith(end)
            assert full in html.unescape(Path(page).read_text())
