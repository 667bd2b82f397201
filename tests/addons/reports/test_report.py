"""`shardmill report` on data sets that were written: the page, its content as JSON, and how it ends."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Result, Run, check_failure, check_mistake
from tests.support.reading import make
from tests.support.small_data_set import edit_manifest


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Versions 1.0.0 and 1.0.1 of a table, the second with more rows, of which one is rejected."""
    folder = tmp_path_factory.mktemp("zoo")
    for version, rows, bad in (("1.0.0", 20, ""), ("1.0.1", 30, '{"age": <b>}\n')):
        lines = [f'{{"age": {n}, "animal": "{"cat" if n % 3 else "dog"}"}}\n' for n in range(rows)]
        (folder / "rows.jsonl").write_text("".join(lines) + bad)
        flags = ["--label", "animal", "--version", version, "--max_reject_fraction", "0.5"]
        make("jsonl", folder / "rows.jsonl", folder, *flags)
    return folder / "n"


@pytest.fixture
def parent(built: Path, tmp_path: Path) -> Path:
    """A copy of that."""
    return Path(shutil.copytree(built, tmp_path / "n"))


def test_page(built: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    first, again = (run("report", built, "--output", tmp_path / name) for name in ("a.html", "b.html"))

    assert (first.status, first.err) == (0, "")
    assert first.out == f"{tmp_path}/a.html: n 1.0.1, look at it\n"
    text = (tmp_path / "a.html").read_text()
    assert again.status == 0
    assert (tmp_path / "b.html").read_text() == text
    for shown in ("n 1.0.1", "<dt>examples</dt><dd>30</dd>", "1 of 31 records read", "rows.jsonl", "20 -&gt; 30 rows"):
        assert shown in text
    assert text.rstrip().endswith("</html>")

    monkeypatch.chdir(tmp_path)
    assert run("report", built / "1.0.0").out.startswith("report.html: n 1.0.0, ")
    assert "<dt>examples</dt><dd>20</dd>" in (tmp_path / "report.html").read_text()


def test_every_build_has_its_page(built: Path, tmp_path: Path, run: Run) -> None:
    """With what changed since the version before; what `shardmill report` writes later is the same."""
    first, second = ((built / "builds" / f"{version}.html").read_text() for version in ("1.0.0", "1.0.1"))

    assert "No version before it is on record" in first
    assert "Since 1.0.0" in second
    assert "Checked against 1.0.0 for this page" in second
    assert run("report", built, "--output", tmp_path / "page.html").status == 0
    assert (tmp_path / "page.html").read_text() == second


def test_what_the_page_checked_is_on_record(parent: Path, run: Run) -> None:
    """So that it is not measured again whenever somebody asks; what a build itself checked is none of it."""
    path = parent / "builds/1.0.1.json"
    record = json.loads(path.read_text())

    def report(page_checks: list[Any]) -> Result:
        path.write_text(json.dumps(record | {"page_checks": page_checks}))
        return run("report", parent, "--json")

    found = json.loads(run("report", parent, "--json").out)["verdict"]
    assert record["checks"] == []
    assert record["page_checks"] == found["checks"]
    then = json.loads(report([{**found["checks"][0], "sentence": "as it was then"}]).out)["verdict"]["checks"]
    assert [one["sentence"] for one in then] == ["as it was then"]
    assert json.loads(report([]).out)["verdict"] == found
    assert "the record of its build has a check that is none" in report([{"check": "drift"}]).err


def test_a_replaced_version_is_compared_with(parent: Path, tmp_path: Path, run: Run) -> None:
    (tmp_path / "rows.jsonl").write_text('{"age": 7, "animal": "cat"}\n' * 40)
    make("jsonl", tmp_path / "rows.jsonl", tmp_path, "--label", "animal", "--version", "1.0.1", "--overwrite")

    page = (parent / "builds/1.0.1.html").read_text()
    assert "Since 1.0.1" in page
    assert "30 -&gt; 40 rows" in page
    why = json.loads(run("report", parent, "--json").out)["changes"]["why"]
    assert why.startswith("It replaced the version of the same number. Its changes at that time: since 1")


def test_the_same_input_gives_the_same_page_but_for_its_time(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n" + "".join(f"{n},{n % 3}\n" for n in range(30)))
    one, other = (
        (
            make("csv", tmp_path / "rows.csv", tmp_path / output, "--num_shards", 2).parent / "builds/1.0.0.html"
        ).read_text()
        for output in ("one", "other")
    )

    built = re.compile("<dt>built</dt><dd>.*?</dd>")
    assert len(built.findall(one)) == 1
    assert built.sub("", one) == built.sub("", other)


def test_a_page_that_cannot_be_written_fails_no_build(tmp_path: Path, run: Run) -> None:
    (tmp_path / "rows.csv").write_text("a\n1\n")
    (tmp_path / "n/builds/1.0.0.html").mkdir(parents=True)

    result = run("csv", "--input", tmp_path / "rows.csv", "--output", tmp_path, "--name", "n")

    assert result.status == 0
    assert (tmp_path / "n/1.0.0/_SUCCESS").exists()
    assert result.err.count("the page of this build could not be written: ") == 1
    assert not list((tmp_path / "n/builds").glob("*.tmp"))


def test_json_is_the_content(built: Path, run: Run) -> None:
    found = json.loads(run("report", built, "--json", "--against", "1.0.0").out)
    stats = json.loads((built / "1.0.1" / "stats.json").read_text())["splits"]["train"]["features"]

    keys = "format name version verdict splits changes labels features pictures duplicates near_duplicates rejects"
    assert " ".join(found) == f"{keys} shards made"
    assert found["format"] == 1
    assert found["verdict"]["checked"] == "Checked now, against 1.0.0."
    checks = {check["check"]: check for check in found["verdict"]["checks"]}
    assert checks["rejects_over"]["sentence"] == "1 of 31 records were rejected"
    assert {feature["name"]: feature["splits"]["train"] for feature in found["features"]} == stats
    assert found["changes"]["against"] == "1.0.0"
    assert "20 -> 30 rows" in [one["words"] for one in found["changes"]["differences"]]
    assert [label["splits"]["train"] for label in found["labels"]] == [{"cat": 20, "dog": 10}]
    assert found["rejects"]["records"] == 1
    assert found["rejects"]["reasons"][0]["names"]


def test_the_checks_of_the_build_are_told(parent: Path, run: Run) -> None:
    path = parent / "builds" / "1.0.1.json"
    check = {"check": "rejects", "severity": "error", "sentence": "too many"}
    changes = {"baseline": "1.0.0", "checks": [check], "since": "since 1.0.0: more"}
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    found = json.loads(run("report", parent, "--json").out)

    assert found["verdict"]["severity"] == "error"
    assert found["verdict"]["checked"] == "Checked before it was published, against 1.0.0."
    assert found["changes"]["against"] == "1.0.0"
    shutil.rmtree(parent / "1.0.0")
    found = json.loads(run("report", parent, "--json").out)
    assert found["changes"]["against"] is None
    assert "1.0.0, the version before it, cannot be read any more" in found["changes"]["why"]
    assert "since 1.0.0: more" in found["changes"]["why"]


@pytest.mark.parametrize(
    ("damaged", "status", "said"),
    [
        ("1.0.1/stats.json", 2, "has no stats.json, which a report is made of"),
        ("1.0.1/_SUCCESS", 2, "has no _SUCCESS"),
        ("1.0.1/rejects/rejects-00000-of-00001.jsonl", 1, "is not the file that was written"),
        ("", 2, "9.9.9 is not a data set: "),
        ("1.0.0/_SUCCESS", 2, "has no _SUCCESS"),
        ("1.0.0/stats.json", 2, "has no stats.json, which a report is made of"),
        ("1.0.0/manifest.json", 1, "manifest.json is missing"),
    ],
)
def test_no_half_page(parent: Path, tmp_path: Path, run: Run, damaged: str, status: int, said: str) -> None:
    """Of a version or a baseline that is damaged; the page that is there stays as it is."""
    if damaged.endswith(".jsonl"):
        (parent / damaged).write_text("{}\n")
    elif damaged:
        (parent / damaged).unlink()
    (tmp_path / "page.html").write_text("the page of yesterday")

    for flags in (("--output", tmp_path / "page.html"), ("--json",)):
        result = run("report", parent / "1.0.1", "--against", "1.0.0" if damaged else "9.9.9", *flags)
        (check_mistake if status == 2 else check_failure)(result, said)
    assert (tmp_path / "page.html").read_text() == "the page of yesterday"


def test_mistakes(built: Path, run: Run) -> None:
    check_mistake(run("report", built, "--json", "--output", "x.html"), "give one of them")
    check_mistake(run("report", built, "--output", "/proc/x/y.html"), "--output /proc/x/y.html: ")


@pytest.mark.parametrize("known", [{}, {"age": {"count": 30, "missing": 0}}])
def test_statistics_of_a_former_time(parent: Path, tmp_path: Path, run: Run, known: dict[str, object]) -> None:
    """Of before there were histograms and classes: the page shows what there is, and says what is not known."""
    stats = parent / "1.0.1/stats.json"
    of_split = json.loads(stats.read_text())["splits"]["train"]
    stats.write_text(json.dumps({"splits": {"train": {**of_split, "features": known}}}))
    edit_manifest(parent / "1.0.1", lambda manifest: manifest["files"].pop("stats.json"))

    assert run("report", parent, "--output", tmp_path / "page.html").status == 0
    text = (tmp_path / "page.html").read_text()
    assert "Not on record for train" in text
    assert "<dt>examples</dt><dd>30</dd>" in text
    assert text.rstrip().endswith("</html>")


def test_two_data_sets_of_different_features(parent: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("city,height\n" + "Oslo,2\n" * 30)
    make("csv", tmp_path / "rows.csv", tmp_path, "--version", "1.0.2")

    page = (parent / "builds/1.0.2.html").read_text()
    for shown in ("Since 1.0.1", "column age gone", "column city new", "columns_gone"):
        assert shown in page
