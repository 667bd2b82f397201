"""Files below a folder or matching a glob; which files belong together, by the order of their names."""

import fnmatch
import glob
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.errors import UserError
from shardmill.metadata.manifest import Reject
from shardmill.transforms.formats.format import FileRef
from shardmill.transforms.inputs import listing
from shardmill.transforms.inputs.folders import IMAGES, FileKind
from shardmill.transforms.stores.protocol import FileStat
from tests.support.command import write_files
from tests.support.jobs import Jobs


def touch(root: Path, *names: str) -> Path:
    return write_files(root, dict.fromkeys(names, b"12345"))


def listed(pattern: object, kind: FileKind = IMAGES) -> list[listing.ListingItem]:
    """Return a listing, sorted, in which files have a size and no times."""
    items = listing.list_singly(listing.list_input(str(pattern), kind))
    return sorted((FileStat(i.path, i.size_bytes) if isinstance(i, FileStat) else i for i in items), key=str)


def found(pattern: object) -> list[str]:
    return listing.find_names(listed(pattern))


def others(pattern: object) -> list[listing.ListingItem]:
    return [item for item in listed(pattern) if not isinstance(item, FileStat)]


@pytest.mark.parametrize(
    ("pattern", "excluded"),
    [
        ("thumbs", ["a/thumbs/x.jpg", "thumbs/y.jpg"]),
        ("thumbs/", ["a/thumbs/x.jpg", "thumbs/y.jpg"]),
        ("/thumbs", ["thumbs/y.jpg"]),
        ("a/thumbs", ["a/thumbs/x.jpg"]),
        ("a/*", ["a/b.jpg", "a/thumbs/x.jpg"]),
        ("**/x.jpg", ["a/thumbs/x.jpg"]),
        ("[xy].jpg", ["a/thumbs/x.jpg", "thumbs/y.jpg"]),
        ("b", []),
    ],
)
def test_patterns_of_exclude(pattern: str, excluded: list[str]) -> None:
    names = ["a/b.jpg", "a/thumbs/x.jpg", "c.jpg", "thumbs/y.jpg"]
    assert [name for name in names if listing.find_exclusion(name, ["*.txt", pattern]) == pattern] == excluded


def test_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_FILES_AT_ONCE", 2)
    names = ("a.jpg", "cat/b.PNG", "cat/c.gif", "cat/d.txt.jpg", "cat/deep/c.webp", "cat/e.bmp", "train/cat/d.tiff")
    touch(tmp_path, *names, "cat/c.txt")

    assert listed(tmp_path) == [*(FileStat(name, 5) for name in names), listing.Skipped("cat/c.txt", ".txt file")]
    assert listed(f"{tmp_path}/") == listed(tmp_path)


def test_what_is_passed_over_is_said(tmp_path: Path) -> None:
    touch(tmp_path, "cat/a.jpg", "cat/notes.txt", ".hidden.jpg", ".git/x.jpg", "LICENSE")
    (tmp_path / "dog").mkdir()
    os.mkfifo(tmp_path / "pipe.jpg")

    assert found(tmp_path) == ["cat/a.jpg"]
    names = {item.name for item in others(tmp_path) if isinstance(item, listing.Skipped)}
    assert names == {"cat/notes.txt", ".hidden.jpg", ".git", "LICENSE", "dog", "pipe.jpg"}
    assert listing.Skipped("dog", "folder without images") in others(tmp_path)


def test_odd_names(tmp_path: Path) -> None:
    names = ["a b", "100%", "#1", 'it\'s "q"', "new\nline", "[x]", "*", "ü", "-rf", "a\\b"]
    expected = sorted(f"cat/{name}.jpg" for name in names)
    touch(tmp_path, *expected)

    assert found(tmp_path) == found(f"{tmp_path}/*/*.jpg") == expected


def test_names_that_are_not_utf_8_are_rejected(tmp_path: Path) -> None:
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.jpg"))).touch()
    touch(tmp_path, "a.jpg", "b.jpg")

    reject = Reject("\\xff.jpg", None, "index", "the file name is not UTF-8; rename the file")
    assert listed(tmp_path) == listed(f"{tmp_path}/*.jpg") == [FileStat("a.jpg", 5), FileStat("b.jpg", 5), reject]


def test_links_are_followed_but_not_round(tmp_path: Path) -> None:
    touch(tmp_path, "cat/a.jpg")
    touch(tmp_path.parent / "elsewhere", "b.jpg")
    (tmp_path / "dog").symlink_to(tmp_path.parent / "elsewhere")
    (tmp_path / "cat" / "c.jpg").symlink_to("a.jpg")
    (tmp_path / "cat" / "up").symlink_to("..")

    assert found(tmp_path) == ["cat/a.jpg", "cat/c.jpg", "dog/b.jpg"]
    assert listing.Skipped("cat/up", "symbolic link loop") in others(tmp_path)
    assert found(f"{tmp_path}/**/*.jpg") == ["cat/a.jpg", "cat/c.jpg", "dog/b.jpg"]


@pytest.mark.parametrize("pattern", ["", "/*", "/**"])
def test_links_that_lead_nowhere(tmp_path: Path, pattern: str) -> None:
    touch(tmp_path, "a.jpg")
    (tmp_path / "gone.jpg").symlink_to("nothing")
    (tmp_path / "self.jpg").symlink_to("self.jpg")
    (tmp_path / "one.jpg").symlink_to("other.jpg")
    (tmp_path / "other.jpg").symlink_to("one.jpg")
    (tmp_path / "self").symlink_to("self")

    found_ = listed(f"{tmp_path}{pattern}")

    assert [item for item in found_ if isinstance(item, FileStat)] == [FileStat("a.jpg", 5)]
    rejects = {item.source: item.reason for item in found_ if isinstance(item, Reject)}
    assert rejects.keys() >= {"gone.jpg", "self.jpg", "one.jpg", "other.jpg"}
    assert all(reason.startswith("dangling or looping symbolic link: ") for reason in rejects.values())


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.jpg", ["a.jpg"]),
        ("*/*.jpg", ["cat/b.jpg", "dog/c.jpg"]),
        ("cat/*", ["b.jpg", "notes.txt"]),
        ("[cd]*/*.jpg", ["cat/b.jpg", "dog/c.jpg"]),
        ("?at/*.jpg", ["cat/b.jpg"]),
        ("**/*.jpg", ["a.jpg", "cat/b.jpg", "cat/deep/e.jpg", "dog/c.jpg"]),
        ("**/**/*.jpg", ["a.jpg", "cat/b.jpg", "cat/deep/e.jpg", "dog/c.jpg"]),
        ("cat/**/*.jpg", ["b.jpg", "deep/e.jpg"]),
        ("**", ["a.jpg", "cat/b.jpg", "cat/deep/e.jpg", "cat/notes.txt", "dog/c.jpg"]),
        ("*.png", []),
        ("{cat,dog}/*.jpg", ["cat/b.jpg", "dog/c.jpg"]),
        ("{cat,dog/c.jpg}", ["cat/b.jpg", "cat/deep/e.jpg", "dog/c.jpg"]),
        ("{cat/deep,dog}/{c,e}.jpg", ["cat/deep/e.jpg", "dog/c.jpg"]),
        ("{c,ca,d}*/*.jpg", ["cat/b.jpg", "dog/c.jpg"]),
        ("cat/{b,notes}.*", ["b.jpg", "notes.txt"]),
    ],
)
def test_globs(tmp_path: Path, pattern: str, names: list[str]) -> None:
    touch(tmp_path, "a.jpg", "cat/b.jpg", "cat/notes.txt", "dog/c.jpg", "cat/deep/e.jpg", ".git/d.jpg", "cat/.x.jpg")

    assert found(tmp_path / pattern) == names


def test_a_glob_relative_to_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, "cat/b.jpg", "a.jpg")
    monkeypatch.chdir(tmp_path)

    assert found("*/*.jpg") == ["cat/b.jpg"]
    assert found("./*.jpg") == ["a.jpg"]
    assert found("**/*.jpg") == ["a.jpg", "cat/b.jpg"]
    assert found("cat/*.jpg") == ["b.jpg"]
    assert found(".") == ["a.jpg", "cat/b.jpg"]


@pytest.mark.parametrize("pattern", ["dt={01,02,03}/*.csv", "dt={01,02,03}", "{dt=01/a.csv,dt=02/a.csv,dt=03/a.csv}"])
def test_a_choice_that_nothing_is_there_for_is_said(tmp_path: Path, pattern: str) -> None:
    touch(tmp_path, "dt=01/a.csv", "dt=03/a.csv", "dt=04/a.csv")

    items = listed(f"{tmp_path}/{pattern}", FileKind("CSV files", "csv"))

    missing = pattern.replace("{01,02,03}", "02").replace("{dt=01/a.csv,dt=02/a.csv,dt=03/a.csv}", "dt=02/a.csv")
    there = (FileStat(f"dt={day}/a.csv", 5) for day in ("01", "03"))
    assert items == [*there, listing.Skipped(missing, listing.NO_MATCH)]


def test_choices() -> None:
    assert listing.expand_choices("a/{b,c}/{d,e}*") == ["a/b/d*", "a/b/e*", "a/c/d*", "a/c/e*"]
    assert listing.expand_choices("a/{b,{c,b}}") == ["a/b", "a/c"]
    assert listing.expand_choices("a/{b}/*") == ["a/{b}/*"]


def test_a_folder_named_like_a_glob_and_one_file(tmp_path: Path) -> None:
    touch(tmp_path, "[x]/a.jpg", "x/b.jpg", "{x,y}/c.jpg")

    assert not listing.is_glob(f"{tmp_path}/[x]")
    assert found(tmp_path / "[x]") == found(tmp_path / "[x]" / "a.jpg") == ["a.jpg"]
    assert found(tmp_path / "{x,y}") == ["c.jpg"]


@pytest.mark.parametrize(
    ("pattern", "root"),
    [
        ("photos/*/*.jpg", "photos"),
        ("photos/cat*/x", "photos"),
        ("*.jpg", "."),
        ("/*.jpg", "/"),
        ("/data/p?/x", "/data"),
        ("gs://bucket/photos/**", "gs://bucket/photos"),
        ("gs://bucket/photos/", "gs://bucket/photos"),
        ("gs://bucket/dt={2026/11/19,2026/11/20}/*", "gs://bucket"),
        ("{a,b}/*", "."),
        ("photos/", "photos"),
        ("/", "/"),
    ],
)
def test_roots(pattern: str, root: str) -> None:
    assert listing.input_root(pattern) == root


def test_matches_as_the_glob_module_does(tmp_path: Path) -> None:
    names = ["a.jpg", "b.png", ".h.jpg", "cat/b.jpg", "cat/.x.jpg", "cat/deep/e.jpg", ".git/d.jpg", ".git/deep/f.jpg"]
    touch(tmp_path, *names)
    patterns = ["*", "*/*", "**", "**/*.jpg", "c*/**", "**/deep/*", "[ab].*", "**/**", "*/**/*.jpg", ".*", "**/.*"]
    for pattern in patterns:
        found = glob.glob(pattern, root_dir=tmp_path, recursive=True)
        expected = {name for name in found if (tmp_path / name).is_file()}
        assert {name for name in names if listing.matches_glob(name.split("/"), pattern.split("/"))} == expected, (
            pattern
        )


def recursive_match(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """The definition of `matches`, which takes exponential time."""
    if not pattern:
        return not parts
    is_hidden = bool(parts) and parts[0].startswith(".")
    if pattern[0] == "**":
        below = bool(parts) and not is_hidden
        return recursive_match(parts, pattern[1:]) or (below and recursive_match(parts[1:], pattern))
    if not parts or (is_hidden and not pattern[0].startswith(".")):
        return False
    return fnmatch.fnmatchcase(parts[0], pattern[0]) and recursive_match(parts[1:], pattern[1:])


@given(
    st.lists(st.sampled_from(["a", "b", ".a", ""]), max_size=6),
    st.lists(st.sampled_from(["**", "*", "a", ".*", ".**", "***", ""]), max_size=6),
)
def test_matches_by_its_definition(parts: list[str], pattern: list[str]) -> None:
    assert listing.matches_glob(parts, pattern) is recursive_match(parts, pattern)


@pytest.mark.parametrize("pattern", ["**/" * 9 + "*.jpg", "a/**/" * 9 + "c"])
def test_each_part_of_a_path_is_compared_once_with_each_of_a_glob(
    monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    compare, compared = fnmatch.fnmatchcase, []

    def count(name: str, wanted: str) -> bool:
        compared.append((name, wanted))
        return compare(name, wanted)

    monkeypatch.setattr(fnmatch, "fnmatchcase", count)
    path = ["a"] * 14

    assert not listing.matches_glob(path, pattern.split("/"))
    assert len(compared) <= len(path) * len(pattern.split("/"))


@pytest.mark.parametrize(
    ("command", "file", "plural"),
    [("csv", "a.csv", "CSV files"), ("jsonl", "a.jsonl", "JSON lines"), ("text", "a.txt", "text files")],
)
def test_what_is_passed_over_is_said_alike_by_every_route(jobs: Jobs, command: str, file: str, plural: str) -> None:
    files = {file: b'{"a": 1}\n{"a": 2}\n', "LICENSE": b"", "NOTICE": b"", "x/y.zip": b"", "z/y.zip": b""}
    result = jobs.run(f"{command} --dry_run", files=files)
    said = [line for line in (result.out + result.err.replace(";", "\n")).splitlines() if "passed over" in line]
    assert [line.partition("passed over ")[2] for line in said] == [
        "2 .zip files, such as 'x/y.zip'",
        "1 file without data, such as 'LICENSE'",
        "1 file without suffix, such as 'NOTICE'",
        f"2 folders without {plural}, such as 'x'",
    ]


KIND = FileKind("text files", "txt")


def list_pairs(folder: Path, *patterns: str) -> list[tuple[str, ...]]:
    """The names of the files that belong together, in the languages de and en."""
    given = tuple((language, str(folder / pattern)) for language, pattern in zip(("de", "en"), patterns, strict=True))
    found = list(listing.RecordFiles(given).list_files(KIND))
    files = [item for item in found if isinstance(item, FileRef)]
    assert files == found  # what is of another language was not skipped
    return [tuple(part.name for part in file.parts) for file in files]


def test_one_input_is_in_order_and_has_shares_of_the_keys(tmp_path: Path) -> None:
    write_files(tmp_path, {"b.txt": b"bb", "a.txt": b"a", "c.md": b""})

    *others, a, b = listing.RecordFiles((("", str(tmp_path)),)).list_files(KIND)

    assert others == [listing.Skipped("c.md", "file without data")]
    assert isinstance(a, FileRef)
    assert isinstance(b, FileRef)
    assert [(file.name, file.size_bytes) for file in (a, b)] == [("a.txt", 1), ("b.txt", 2)]
    assert (a.key_start, a.key_start + a.key_span) == (0, b.key_start)
    assert b.key_span * 2 == a.key_span * 3  # by their bytes, and one


@pytest.mark.parametrize(
    ("files", "patterns", "paired"),
    [
        (["a.de", "a.en", "b.de", "b.en"], ["*.de", "*.en"], [("a.de", "a.en"), ("b.de", "b.en")]),
        (
            ["train/x.de", "train/x.en.gz", "test/x.de", "test/x.en.gz"],
            ["", ""],  # files of a folder end in the language
            [("test/x.de", "test/x.en.gz"), ("train/x.de", "train/x.en.gz")],
        ),
    ],
)
def test_files_are_paired_in_the_order_of_their_names(
    tmp_path: Path, files: list[str], patterns: list[str], paired: list[tuple[str, str]]
) -> None:
    assert list_pairs(touch(tmp_path, *files), *patterns) == paired


@pytest.mark.parametrize(
    ("files", "english", "said"),
    [
        (("a.de", "b.de", "a.en"), "*.en", r"de=\S+ has 2 and --input en=\S+ has 1 files: files are paired"),
        (("a.de",), "*.en", r"de=\S+ has 1 and --input en=\S+ has 0 files"),
        (
            ("dev.a.de", "train.a.de", "test.a.en", "train.a.en"),
            "*.en",
            r"'dev.a.de' of --input de=\S+ would be paired with 'test.a.en' of en=\S+, whose name has another split",
        ),
        (("a.de",), "a.*", r"--input de=\S+ and en=\S+ both have the file \S+a.de"),
    ],
)
def test_files_that_cannot_be_paired(tmp_path: Path, files: tuple[str, ...], english: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        list_pairs(touch(tmp_path, *files), "*.de", english)
