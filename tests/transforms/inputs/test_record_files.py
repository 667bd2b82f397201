"""Which files belong together, by the order of their names."""

from pathlib import Path

import pytest

from shardmill.errors import UserError
from shardmill.transforms.formats.format import FileRef
from shardmill.transforms.inputs.folders import FileKind
from shardmill.transforms.inputs.listing import RecordFiles, Skipped
from tests.support.command import write_files

KIND = FileKind("text files", "txt")


def listed(*patterns: tuple[str, object]) -> list[tuple[str, ...]]:
    """The names of the files that belong together."""
    found = RecordFiles(tuple((name, str(pattern)) for name, pattern in patterns)).list_files(KIND)
    return [tuple(part.name for part in item.parts) for item in found if isinstance(item, FileRef)]


def test_one_input_is_in_order_and_has_shares_of_the_keys(tmp_path: Path) -> None:
    write_files(tmp_path, {"b.txt": b"bb", "a.txt": b"a", "c.md": b""})

    *others, a, b = RecordFiles((("", str(tmp_path)),)).list_files(KIND)

    assert others == [Skipped("c.md", ".md file")]
    assert isinstance(a, FileRef)
    assert isinstance(b, FileRef)
    assert (a.name, b.name) == ("a.txt", "b.txt")
    assert a.key_start == 0
    assert a.key_start + a.key_span == b.key_start
    assert b.key_span * 2 == a.key_span * 3  # by their bytes, and one


def test_globs_are_paired_in_the_order_of_their_names(tmp_path: Path) -> None:
    write_files(tmp_path, {f"{name}.{lang}": b"x" for name in "ab" for lang in ("de", "en")})
    found = listed(("de", tmp_path / "*.de"), ("en", tmp_path / "*.en"))
    assert found == [("a.de", "a.en"), ("b.de", "b.en")]


def test_a_folder_has_files_that_end_in_the_language(tmp_path: Path) -> None:
    write_files(tmp_path, {f"{split}/x.{lang}": b"x" for split in ("train", "test") for lang in ("de", "en.gz")})

    items = list(RecordFiles((("de", str(tmp_path)), ("en", str(tmp_path)))).list_files(KIND))

    files = [item for item in items if isinstance(item, FileRef)]
    assert files == items  # what another language has was not skipped
    assert [tuple(p.name for p in f.parts) for f in files] == [
        ("test/x.de", "test/x.en.gz"),
        ("train/x.de", "train/x.en.gz"),
    ]
    assert [file.size_bytes for file in files] == [2, 2]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (("a.de", "b.de", "a.en"), r"de=\S+ has 2 and --input en=\S+ has 1 files: files are paired"),
        (("a.de",), r"de=\S+ has 1 and --input en=\S+ has 0 files"),
        (
            ("dev.a.de", "train.a.de", "test.a.en", "train.a.en"),
            r"'dev.a.de' of --input de=\S+ would be paired with 'test.a.en' of en=\S+, which bears another split",
        ),
    ],
)
def test_files_that_cannot_be_paired(tmp_path: Path, files: tuple[str, ...], said: str) -> None:
    write_files(tmp_path, dict.fromkeys(files, b"x"))
    with pytest.raises(UserError, match=said):
        listed(("de", tmp_path / "*.de"), ("en", tmp_path / "*.en"))


def test_a_file_in_two_languages(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.de": b"x"})
    with pytest.raises(UserError, match=r"--input de=\S+ and en=\S+ both have the file \S+a.de"):
        listed(("de", tmp_path / "*.de"), ("en", tmp_path / "a.*"))
