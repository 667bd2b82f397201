"""docs/benchmarks.md names its commands, which write it and the numbers of README.md.

Its table of a tebibyte is what the planning code computes.
"""

import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from shardmill.transforms.options.job_options import DEFAULT_SHARD_SIZE
from shardmill.transforms.records.staging import MAX_SLICES
from tests.support.command import REPOSITORY
from tests.support.tebibyte import TOTAL, planned, rows_of, table

sys.path.insert(0, str(REPOSITORY / "benchmarks"))
import run_all
import tables

PAGE, README = tables.PAGE.read_text(), tables.README.read_text()


MOST_BYTES = 64 << 20  # of side inputs, all together: what a worker holds of them for as long as the job takes


def test_the_table() -> None:
    assert table() in PAGE


def test_every_measurement_names_its_command() -> None:
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
    losses = sections.pop("Where shardmill loses")

    assert [name for name, text in sections.items() if not re.search(r"python (benchmarks/|-m tests)", text)] == []
    assert losses.count("\n- **") >= 5
    assert [name for name in re.findall(r"benchmarks/\w+\.py", PAGE) if not (REPOSITORY / name).exists()] == []


@pytest.mark.parametrize("growth", [1, 3])
def test_side_inputs_are_small(growth: int) -> None:
    _, sides = planned(TOTAL * growth, TOTAL * growth // DEFAULT_SHARD_SIZE)
    assert 0 < sum(sides.values()) < MOST_BYTES


def test_slices() -> None:
    number, size = dict(rows_of(Fraction(1)))["slices"].split(" of ")
    assert int(number.replace(",", "")) <= 1.01 * MAX_SLICES
    assert float(size.removesuffix(" kB")) >= 64


def test_each_script_of_make_bench_has_its_block() -> None:
    assert sorted(tables.blocks(PAGE)) == sorted(run_all.SCRIPTS)
    assert [name for name in run_all.SCRIPTS if not (REPOSITORY / "benchmarks" / name).exists()] == []


def test_each_comment_of_the_page_belongs_to_a_block() -> None:
    assert PAGE.count("<!-- ") == 2 * (len(run_all.SCRIPTS) + 1)  # and the losses


def test_numbers_of_the_readme_are_those_of_the_page() -> None:
    rows = re.findall(r"^\|.*\| ([\d.]+) \| ([\d.]+) \| `(bench_\w+\.py)` \|$", README, re.MULTILINE)
    found = tables.blocks(PAGE)

    assert rows
    assert [
        row for row in rows if row[2] in found and not all(f" {value} " in found[row[2]] for value in row[:2])
    ] == []


def test_a_block_is_replaced_and_its_losses_are_listed() -> None:
    page = "# B\n\n<!-- losses -->\n<!-- end of losses -->\n## A, b c\n<!-- bench_x.py -->\nold\n"
    page += "<!-- end of bench_x.py -->\n"
    text = "new\n\n" + tables._LOSSES + " ".join(tables.losses({"`a`": 2.0, "b": 1.0, "c": 1.999, "d": 4.0}, "`a`"))
    page = tables.collect_losses(tables.replace_block(page, "bench_x.py", text))

    assert tables.blocks(page)["bench_x.py"] == f"\n{text}\n\n"
    assert "\n- **[A, b c](#a-b-c).** `a` takes 2.00 times the seconds of b.\n\n<!-- end of losses -->\n" in page
    assert tables.collect_losses(page) == page
    with pytest.raises(ValueError, match="no block of bench_y"):
        tables.replace_block(page, "bench_y.py", "")


def test_rows_of_a_script_are_replaced() -> None:
    readme = "|a|\n| x | 1 | `bench_x.py` |\n| y | 2 | `bench_x.py` |\n| z | 3 | `bench_z.py` |\n"

    assert tables.replace_rows(readme, "bench_x.py", ["| n |"]) == "|a|\n| n |\n| z | 3 | `bench_z.py` |\n"
    assert tables.replace_rows(readme, "bench_y.py", ["| n |"]) == readme


def test_a_script_that_fails_does_not_end_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, *_ = run_all.SCRIPTS
    ran = []

    def run(command: list[str], **_: object) -> None:
        ran.append(command)
        if command[1].endswith(first):
            raise subprocess.CalledProcessError(1, command)
        if command[1].endswith(second):
            raise subprocess.TimeoutExpired(command, 1800)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(sys, "argv", ["run_all.py"])

    assert run_all.main() == 1
    _environments, *scripts = ran
    assert [command[1].rpartition("/")[2] for command in scripts] == list(run_all.SCRIPTS)
    assert all(command[-1] == "--write" for command in scripts)
    assert f"\nfailed: {first}, {second}\n" in capsys.readouterr().out


def test_results_are_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page, readme = tmp_path / "page.md", tmp_path / "README.md"
    page.write_text(
        "# B\n\n<!-- losses -->\n<!-- end of losses -->\n\n## A\n\n<!-- bench_x.py -->\n<!-- end of bench_x.py -->\n"
    )
    readme.write_text("| x | 1 | `bench_x.py` |\n")
    monkeypatch.setattr(tables, "PAGE", page)
    monkeypatch.setattr(tables, "README", readme)
    monkeypatch.setattr(sys, "argv", ["benchmarks/bench_x.py", "--write", "--rounds", "1"])
    shown = tables.table(["", "seconds"], [["a" * 200, "1.0"]])
    results = f"{'word ' * 40}\n\n{shown}\n\n{tables.wrap_item('word ' * 40)}"
    slower = tables.losses({"`a`": 2.0, "b": 1.0}, "`a`")

    tables.publish(results, False, losses=slower, readme=["| y | 2 | `bench_x.py` |"])
    assert "<!-- bench_x.py -->\n<!-- end" in page.read_text()
    tables.publish(results, True, losses=slower, readme=["| y | 2 | `bench_x.py` |"])

    written = page.read_text()
    assert "\n`python benchmarks/bench_x.py --rounds 1`, " in written
    assert f"\n{shown}\n" in written
    assert [line for line in written.splitlines() if len(line) > 120 and not line.startswith("|")] == []
    assert "\n- **[A](#a).** `a` takes 2.00 times the seconds of b.\n" in written
    assert readme.read_text() == "| y | 2 | `bench_x.py` |\n"
    assert capsys.readouterr().out.count(shown) == 2
