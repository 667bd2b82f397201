"""Bad images, and manifests with bad rows: each is a line in rejects/ with its reason, and changes no other byte."""

import errno
import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from shardmill.pipelines import cli
from tests.support.command import Contents, image, image_tree, read_back, write_files
from tests.support.image_jobs import GOOD, SHARDS, write_manifest
from tests.support.jobs import Jobs
from tests.support.masks import png_header


class Bad(NamedTuple):
    """A file that is no good, and words of the reason that must be given for it."""

    name: str
    content: bytes
    reason: str


def cut(image_format: str, keep: float = 0.6) -> bytes:
    """The beginning of an image file."""
    whole = image(3, image_format, (40, 30))
    return whole[: int(len(whole) * keep)]


BAD_FILES = [
    Bad("zero.jpg", b"", "the file is empty"),
    Bad("zero.png", b"", "the file is empty"),
    Bad("cut.jpg", cut("JPEG"), "truncated: the jpeg has no end"),
    Bad("cut.png", cut("PNG"), "truncated: the png has no end"),
    Bad("cut.gif", cut("GIF"), "truncated: the gif has no end"),
    Bad("cut.bmp", cut("BMP"), "truncated: the bmp has no end"),
    Bad("cut.webp", cut("WEBP"), "truncated: the webp has no end"),
    *(
        Bad(f"head.{f}", image(0, f)[:9], f"truncated: the {f} header is cut short")
        for f in ("jpeg", "png", "gif", "bmp")
    ),
    Bad("head.webp", image(0, "WEBP")[:16], "truncated: the webp header is cut short"),
    Bad("one.byte.jpg", b"\xff", "not an image"),
    Bad("text.jpg", b"<html>404 Not Found</html>", "not an image: a web page (HTML)"),
    Bad("riff.webp", b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(20), "not an image: a RIFF file of b'WAVE'"),
    Bad("scan.tif", image(0, "TIFF"), "--image_format jpeg or png"),
    Bad("bomb.png", png_header(100_000, 100_000), "100000 x 100000 pixels is more than --max_pixels"),
    Bad("flat.png", png_header(0, 7), "0 x 7 pixels"),
]
ODD_NAMES = [
    *("with space", "quote'and\"quote", "per%20cent%s", "hash#tag?", "line\nbreak\ttab", "[brackets]", "star*"),
    *("back\\slash", "-dash", "naïve-日本語", "gs:colon", "{braces},comma;"),
]
UNREAD = {
    "ant/not-utf-8-\\xff\\xfe.jpg": "the file name is not UTF-8",
    "folder-\\xff/1.jpg": "the file name is not UTF-8",
    "bee/dangling.jpg": "dangling or looping symbolic link: No such file or directory",
    "bee/self.jpg": f"dangling or looping symbolic link: {os.strerror(errno.ELOOP)}",
}


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Contents:
    """The good files alone."""
    root = tmp_path_factory.mktemp("good")
    write_files(root / "in", GOOD)
    assert cli.main(["images", "--input", str(root / "in"), "--output", str(root), "--name", "n", *SHARDS]) == 0
    return read_back(root / "n")


@pytest.fixture(scope="session")
def disturbed(tmp_path_factory: pytest.TempPathFactory) -> Contents:
    """The good files with every bad one, and every odd name, among them."""
    root = tmp_path_factory.mktemp("bad")
    folder = write_files(root / "in", GOOD)
    write_files(folder / "bee", {bad.name: bad.content for bad in BAD_FILES})
    write_files(folder / "ant", {f"{name}.jpg": image(7) for name in ODD_NAMES})
    write_files(
        folder / "ant", {"pixel.png": image(1, "PNG", (1, 1)), os.fsdecode(b"not-utf-8-\xff\xfe.jpg"): image(1)}
    )
    write_files(folder / os.fsdecode(b"folder-\xff"), {"1.jpg": image(1)})
    links = {"dangling.jpg": "nowhere.jpg", "self.jpg": "self.jpg", "linked.jpg": "000.jpg", "here": "."}
    for name, target in {**links, "round": "about", "about": "round", "up": ".."}.items():
        (folder / "bee" / name).symlink_to(target)
    os.mkfifo(folder / "bee" / "pipe.jpg")
    (folder / "cow").mkdir()
    (folder / "dog" / "puppies").mkdir(parents=True)
    words = ["images", "--input", str(folder), "--output", str(root), "--name", "n", *SHARDS]
    assert cli.main([*words, "--max_reject_fraction", "0.9"]) == 0
    return read_back(root / "n")


def test_bad_files_are_rejects_with_their_reasons_and_nothing_else_is(disturbed: Contents) -> None:
    expected = {f"bee/{bad.name}": ("write", bad.reason) for bad in BAD_FILES}
    expected |= {name: ("index", reason) for name, reason in UNREAD.items()}
    found = {reject["source"]: reject for reject in disturbed.rejects()}
    assert found.keys() == expected.keys()
    for name, (stage, reason) in expected.items():
        assert reason in found[name]["reason"]
        assert (found[name]["stage"], found[name]["line"]) == (stage, None)
    names = {*GOOD, *(f"ant/{name}.jpg" for name in ODD_NAMES), "ant/pixel.png", "bee/linked.jpg"}
    assert disturbed.records.keys() == names
    manifest = disturbed.dataset.manifest
    assert manifest.input["records"] == len(names) + len(found)
    assert manifest.rejects["records"] == len(disturbed.rejects()) == len(found)


def test_bad_files_change_no_byte_and_no_split_of_the_others(undisturbed: Contents, disturbed: Contents) -> None:
    assert undisturbed.records.keys() == GOOD.keys()
    for name in GOOD:
        assert disturbed.records[name] == undisturbed.records[name]
        assert disturbed.split_of[name] == undisturbed.split_of[name]
    for split, names in undisturbed.splits.items():
        assert [name for name in disturbed.splits[split] if name in GOOD] == names


def test_odd_names_and_an_image_of_one_pixel_are_kept_as_they_are(disturbed: Contents) -> None:
    for name in (f"ant/{name}.jpg" for name in ODD_NAMES):
        assert disturbed.example(name)["filename"] == [name.encode()]
        assert disturbed.example(name)["image"] == [image(7)]
    example = disturbed.example("ant/pixel.png")
    assert (list(example["height"]), list(example["width"])) == ([1], [1])
    assert example["image"] == [image(1, "PNG", (1, 1))]


def test_what_was_passed_over_is_said(disturbed: Contents) -> None:
    notices = "\n".join(disturbed.dataset.manifest.notices)
    assert "passed over 2 symbolic link loops, such as 'bee/here'" in notices
    assert "passed over 2 broken symbolic links, such as 'bee/about'" in notices
    assert "passed over 1 special file, such as 'bee/pipe.jpg'" in notices
    assert "passed over 2 folders without images, such as 'cow'" in notices


def test_symbolic_link_loop_below_a_glob_is_passed_over(jobs: Jobs) -> None:
    tree = image_tree(("ant", "bee"), 2)
    files = tree | dict.fromkeys(("ant/one->..", "ant/two->..", "bee/three->.."), b"")
    made = jobs.build("images --input 'in/**/*.jpg'", files=files)
    assert made.contents.records.keys() == tree.keys()
    assert any("symbolic link loop" in notice for notice in made.notices)


def test_folders_nested_too_deep_stop_the_job_or_are_one_reject(jobs: Jobs, tmp_path: Path) -> None:
    jobs.write({"a/1.jpg": image(1)})
    os.chdir("in/a")
    for _ in range(1000):  # one by one, as no single path may be so long
        os.mkdir("d")
        os.chdir("d")
    os.chdir(tmp_path)
    flags = "images --max_reject_fraction 0.5"
    try:
        jobs.fail(flags, "at least 1 record in 1 damaged file cannot be read")
        made = jobs.build(f"{flags} --on_damaged_file reject")
    finally:
        # Python's own rmtree, by which pytest clears up, would not get down there
        subprocess.run(["rm", "-r", "in"], check=True)
    assert made.contents.records.keys() == {"a/1.jpg"}
    assert ["over 500 deep" in reject["reason"] for reject in made.rejects] == [True]


def test_link_to_another_folder_is_followed(jobs: Jobs) -> None:
    files = {"../elsewhere/1.jpg": image(1), "ant/0.jpg": image(0), "bee->../elsewhere": b""}
    assert jobs.build("images", files=files).contents.label_of("bee/1.jpg") == "bee"


MANIFEST_ROWS = [f"{name},{name[:3]},{number}" for number, name in enumerate(GOOD)]


@pytest.fixture(scope="session")
def undisturbed_manifest(tmp_path_factory: pytest.TempPathFactory) -> Contents:
    """The good rows alone."""
    root = tmp_path_factory.mktemp("goodrows")
    manifest = write_manifest(root / "in", MANIFEST_ROWS)
    assert cli.main(["images", "--manifest", str(manifest), "--output", str(root), "--name", "n", *SHARDS]) == 0
    return read_back(root / "n")


OUTSIDE = "lies outside the manifest's folder"
# Each row, words of its reason, and its source if that is not its first field; the source of "" is the manifest
BAD_ROWS: list[tuple[bytes, str, str | None]] = [
    (b"ant/gone.jpg,ant,1", "no such file", None),
    (b"ant/000.jpg,ant,0", "duplicate of line 2 in", None),
    (b"./ant//000.jpg,ant,0", "duplicate of line 2 in", "ant/000.jpg"),
    (b"ant/too-few.jpg,ant", "the row has 2 fields; expected 3", ""),
    (b"ant/too-many.jpg,ant,1,2", "the row has 4 fields; expected 3", ""),
    (b"ant/caf\xe9.jpg,ant,1", "column 'file_name': byte 0xe9 (é in cp1252) is not utf-8", ""),
    (b"../outside.jpg,ant,1", f"{OUTSIDE}; give --allow_outside", None),
    (b"ant/../../outside.jpg,ant,1", OUTSIDE, None),
    (b"/etc/hostname,ant,1", OUTSIDE, None),
    (b"gs://bucket/a.jpg,ant,1", OUTSIDE, None),
    (b",ant,1", "the row has no file_name", ""),
    (b"nul\0.jpg,ant,1", "NUL", None),
    (b"ant,ant,1", "not a regular file", None),
    (b"pipe.jpg,ant,1", "not a regular file", None),
    (b"dangling.jpg,ant,1", "no such file", None),
    (b"looping.jpg,ant,1", os.strerror(errno.ELOOP), None),
    (b"no-label.jpg,,1", "no label", None),
    (b"text.jpg,ant,1", "not an image", None),
    (b"ant/" + b"x" * 300 + b",ant,1", os.strerror(errno.ENAMETOOLONG), None),
]


def test_bad_rows_are_rejects_and_change_no_byte_of_the_others(undisturbed_manifest: Contents, jobs: Jobs) -> None:
    """The good rows, then the bad ones; a BOM, CRLF, blank lines and a last line without an end besides."""
    jobs.write({**GOOD, "no-label.jpg": image(1), "text.jpg": b"text", "../outside.jpg": image(2)})
    os.mkfifo("in/pipe.jpg")
    jobs.write({"dangling.jpg->nowhere": b"", "looping.jpg->looping.jpg": b""})
    lines = [b"file_name,label,age", *(row.encode() for row in MANIFEST_ROWS), *(row for row, *_ in BAD_ROWS)]
    text = b"\xef\xbb\xbf" + b"\r\n".join([*lines[:5], b"", *lines[5:]])

    command = "images --manifest in/meta.csv --encoding utf-8 --max_reject_fraction 0.9"
    made = jobs.build(command, *SHARDS, files={"meta.csv": text})

    by_line = {reject["line"]: reject for reject in made.rejects}
    assert len(made.rejects) == len(BAD_ROWS)
    for line, (row, reason, source) in enumerate(BAD_ROWS, 1 + len(MANIFEST_ROWS) + 1 + 1):  # a header, a blank line
        reject = by_line[line]
        expected = {None: row.partition(b",")[0].decode(errors="replace"), "": "in/meta.csv"}.get(source, source)
        assert reject["source"] == expected
        assert reason in reject["reason"]
        assert reject["stage"] == ("write" if row.startswith(b"text") else "index")
    assert made.contents.records == undisturbed_manifest.records
    assert made.contents.splits == undisturbed_manifest.splits
    assert made.manifest.features == undisturbed_manifest.dataset.manifest.features


def test_names_outside_the_manifests_folder_are_read_when_allowed(jobs: Jobs, tmp_path: Path) -> None:
    other = f"{tmp_path}/other/b.jpg"
    table = f"file_name\n../a.jpg\n{other}\n{tmp_path}/in/c.jpg\n"
    files = {"../a.jpg": image(1), "../other/b.jpg": image(2), "c.jpg": image(3), "meta.csv": table}
    made = jobs.build("images --manifest in/meta.csv --max_reject_fraction 0.9", files=files)
    assert made.contents.records.keys() == {"c.jpg"}
    assert [reject["source"] for reject in made.rejects] == ["../a.jpg", other]
    contents = jobs.build("images --manifest in/meta.csv --overwrite --allow_outside").contents
    assert {name: contents.example(name)["image"] for name in contents.records} == {
        "../a.jpg": [image(1)],
        other: [image(2)],
        "c.jpg": [image(3)],
    }


def test_names_are_relative_to_the_manifests_folder_however_it_is_given(jobs: Jobs, tmp_path: Path) -> None:
    """A folder within it that bears its own name is no reason to look elsewhere, nor is a relative path to it."""
    table = f"file_name\nin/a.jpg\n{tmp_path}/in/./a.jpg\n"
    files = {"a.jpg": image(1), "in/a.jpg": image(2), "meta.csv": table}
    contents = jobs.build("images --manifest in/meta.csv", files=files).contents
    found = {name: contents.example(name)["image"] for name in contents.records}
    assert found == {"a.jpg": [image(1)], "in/a.jpg": [image(2)]}
