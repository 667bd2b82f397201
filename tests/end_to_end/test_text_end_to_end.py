"""Text end to end: an example a line, an example a file."""

import gzip
from pathlib import Path

import pytest

from tests.support.command import Run, check_mistake, write_files
from tests.support.table_results import convert

LINES = [f"line {number}: naïve “text” {'x' * (number % 40)}" for number in range(2000)]


def text(lines: list[str], end: str = "\n") -> bytes:
    return "".join(f"{line}{end}" for line in lines).encode()


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2,000 lines in two classes, with line ends and compression of both kinds, blank lines among them."""
    files = {
        "neg/a.txt": text(LINES[:500]),
        "neg/b.txt": text(LINES[500:800], "\r\n"),
        "pos/c.txt.gz": gzip.compress(text(["", *LINES[800:1500], "  "])),
        "pos/deep/d.txt": text(LINES[1500:]).rstrip(b"\n"),
    }
    return write_files(tmp_path_factory.mktemp("text"), files)


def test_a_line_an_example(folder: Path, tmp_path: Path) -> None:
    table = convert("text", folder, tmp_path, "--num_shards", 6, "--line_numbers", "--block_size", "2KiB")
    assert table.features == {"text": "bytes", "label": "int64", "filename": "bytes", "line_number": "int64"}
    assert sorted(table.column("text")) == sorted(line.encode() for line in LINES)
    assert (table.directory / "label.labels.txt").read_text() == "neg\npos\n"
    assert "passed over 2 blank lines" in table.dataset.manifest.notices
    starts = {
        b"neg/a.txt": (0, 1, 0),
        b"neg/b.txt": (500, 1, 0),
        b"pos/c.txt.gz": (800, 2, 1),
        b"pos/deep/d.txt": (1500, 1, 1),
    }
    for row in table.rows:
        first, line, label = starts[row["filename"]]
        assert row["text"].decode() == LINES[first + row["line_number"] - line]
        assert row["label"] == label
    assert set(table.sizes["train"]) == {333, 334}
    assert table.stats()["text"]["length_bytes"]["max"] == max(len(line.encode()) for line in LINES)


def test_lines_without_classes(folder: Path, tmp_path: Path) -> None:
    table = convert("text", folder / "neg", tmp_path, "--splits", "train=0.5,test=0.5")
    assert table.features == {"text": "bytes"}
    assert sorted(table.column("text")) == sorted(line.encode() for line in LINES[:800])
    assert 320 < len(table.splits["train"]) < 480


def test_lines_in_another_encoding(tmp_path: Path) -> None:
    source = write_files(tmp_path / "in", {"a.txt": "café\nœuvre\n".encode("cp1252")})
    texts = convert("text", source, tmp_path, "--encoding", "cp1252").column("text")
    assert sorted(texts) == sorted(["café".encode(), "œuvre".encode()])


def test_a_file_an_example(tmp_path: Path) -> None:
    files = {
        f"{label}/{n}.txt": f"{label} review {n}\nsecond line é".encode() for label in ("neg", "pos") for n in range(40)
    }
    odd = {
        "pos/bom.txt": "\ufeffmark".encode(),
        "pos/empty.txt": b"",
        "pos/blank.txt": b" \n",
        "neg/latin.txt": b"\xe9",
    }
    source = write_files(tmp_path / "in", {**files, **odd})
    flags = ("--record", "file", "--splits", "train=0.75,test=0.25", "--stratify_by", "label", "--num_shards", 2)
    table = convert("text", source, tmp_path, *flags, "--max_reject_fraction", 0.1)
    assert table.features == {"text": "bytes", "label": "int64", "filename": "bytes"}
    by_name = {row["filename"].decode(): row for row in table.rows}
    assert by_name.keys() == {*files, "pos/bom.txt"}
    assert all(by_name[name]["text"] == content for name, content in files.items())
    assert by_name["pos/bom.txt"]["text"] == b"mark"
    assert {row["label"] for name, row in by_name.items() if name.startswith("pos")} == {1}
    assert {r["source"]: r["reason"] for r in table.rejects()} == {
        "neg/latin.txt": "byte 0 is not utf-8: unexpected end of data; --encoding cp1252 reads it as 'é'",
        "pos/blank.txt": "the file holds nothing but white space",
        "pos/empty.txt": "the file is empty",
    }
    counted = [table.stats(split)["label"]["classes"] for split in ("train", "test")]
    assert {name: counted[0][name] + counted[1][name] for name in ("neg", "pos")} == {"neg": 40, "pos": 41}


def test_files_in_another_encoding(tmp_path: Path) -> None:
    source = write_files(tmp_path / "in", {"a.txt": "café".encode("utf-16")})
    assert convert("text", source, tmp_path, "--record", "file", "--encoding", "utf-16").column("text") == [
        "café".encode()
    ]


def test_file_mistakes(tmp_path: Path, run: Run) -> None:
    source = write_files(tmp_path / "in", {"a.txt": b"x"})
    arguments = ("text", "--input", source, "--output", tmp_path / "out", "--name", "n", "--record", "file")
    check_mistake(run(*arguments, "--line_numbers"), "--line_numbers needs --record line")
    check_mistake(run(*arguments, "--encoding", "klingon"), "--encoding klingon: unknown encoding 'klingon'")
    (tmp_path / "in" / "a.txt").unlink()
    check_mistake(run(*arguments), "nothing matches --input")


def test_dry_run_of_files(tmp_path: Path, run: Run) -> None:
    source = write_files(tmp_path / "in", {"a/1.txt": b"x", "b/2.txt": b"y"})
    result = run(
        "text", "--record", "file", "--input", source, "--output", tmp_path / "out", "--name", "n", "--dry_run"
    )
    assert (result.status, (tmp_path / "out").exists()) == (0, False)
    assert "2 files" in result.out


STORIES = b"Once upon\na time.\n<|endoftext|>\n\n  Second story.\n\nEnd.\r\n<|endoftext|>\n<|endoftext|>\nThird\n"


@pytest.mark.parametrize(
    ("flags", "texts", "configuration", "notices"),
    [
        (
            ("--separator", "<|endoftext|>"),
            [b"Once upon\na time.", b"  Second story.\n\nEnd.", b"Third"],
            {"separator": "<|endoftext|>"},
            ["passed over 1 empty document"],
        ),
        (
            ("--record", "paragraph"),
            [b"Once upon\na time.\n<|endoftext|>", b"  Second story.", b"End.\r\n<|endoftext|>\n<|endoftext|>\nThird"],
            {"text_unit": "paragraph"},
            [],
        ),
        (
            ("--separator", "===="),
            [STORIES.strip()],
            {"separator": "===="},
            ["1 record, such as 'a.txt': no --separator in its file, which is one document"],
        ),
        (("--record", "line"), [*filter(None, STORIES.replace(b"\r", b"").split(b"\n"))], {"text_unit": "line"}, None),
    ],
)
def test_documents_of_several_lines(
    tmp_path: Path,
    flags: tuple[str, ...],
    texts: list[bytes],
    configuration: dict[str, str],
    notices: list[str] | None,
) -> None:
    source = write_files(tmp_path / "in", {"a.txt": STORIES})
    table = convert("text", source, tmp_path, *flags, "--splits", "train=1", "--no_shuffle")
    assert table.column("text") == texts
    assert configuration.items() <= table.dataset.manifest.configuration.items()
    assert notices is None or list(table.dataset.manifest.notices) == notices
