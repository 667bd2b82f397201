"""What the types of columns are, what the summary says of them, and that the flags that notices name help."""

from pathlib import Path
from typing import Any

import shardmill
from tests.support.command import Run


def convert(
    run: Run, folder: Path, text: str, *flags: str, suffix: str = "csv"
) -> tuple[int, str, list[dict[str, Any]]]:
    """The exit status, what is printed, and the examples as they were stored."""
    (folder / f"rows.{suffix}").write_text(text)
    source = (suffix, "--input", folder / f"rows.{suffix}", "--output", folder / "out", "--name", "n", "--overwrite")
    result = run(*source, *flags)
    examples = list(shardmill.examples(folder / "out/n/1.0.0", split="train")) if result.status == 0 else []
    return result.status, result.out + result.err, examples


def test_the_summary_shows_each_column(run: Run, tmp_path: Path) -> None:
    rows = "".join(f"{n}, {n}5,{'' if n % 2 else n / 2},{'ab'[n % 2]}\n" for n in range(9))
    said = convert(run, tmp_path, f"age, fnlwgt,share,class\n{rows}", "--label", "class")[1].splitlines()
    at = next(number for number, line in enumerate(said) if line.startswith("feature"))
    columns = [line.split(maxsplit=2) for line in said[at : at + 5]]

    assert [words[0] for words in columns] == ["feature", "age", "'", "share", "class"]
    assert columns[2][1:] == ["fnlwgt'", said[at + 2].split(maxsplit=2)[2]]
    assert '" ' in said[at + 2]  # quotes show the space
    assert columns[3][1:2] == ["float32"]
    assert columns[3][2].startswith("4 ")
    assert "int64 (class_label, 2 classes)" in said[at + 4]


def test_the_summary_of_a_wide_table_is_a_screen(run: Run, tmp_path: Path) -> None:
    names = [f"gene{n}" for n in range(50)]
    said = convert(run, tmp_path, ",".join(names) + "\n" + ",".join("1" for _ in names) + "\n")[1]

    assert "gene29 " in said
    assert "gene30 " not in said
    assert "… and 20 more; shardmill inspect" in said
