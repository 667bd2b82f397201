"""Bad input end to end: a bad record is a line in rejects/ and changes no other; a user's mistake is one sentence and
status 2."""

import errno
import io
import json
import os
import shutil
import struct
import subprocess
import time
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest
from PIL import Image

from pipelines import cli
from pipelines.kinds.registry import KINDS
from shardmill.rejects import Reject
from tests.support.command import (
    Contents,
    Process,
    Run,
    bind_root_to_permissions,
    check_mistake,
    image,
    image_tree,
    read_back,
    tree_bytes,
    write_files,
)
from transforms.files.images.encode import ImageEncoder
from transforms.files.references import PLANNED
from transforms.workers.batches import to_batch

GOOD = image_tree(("ant", "bee"), 6)
SHARDS = ("--splits", "train=0.7,test=0.3", "--num_shards", "2")


class Bad(NamedTuple):
    """A file that is no good, and words of the reason that must be given for it."""

    name: str
    content: bytes
    reason: str


def png_header(width: int, height: int) -> bytes:
    """A PNG of one byte of pixels whose header claims any size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")


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
    "with space.jpg",
    "quote'and\"quote.jpg",
    "per%20cent%s.jpg",
    "hash#tag?.jpg",
    "line\nbreak\ttab.jpg",
    "[brackets].jpg",
    "star*.jpg",
    "back\\slash.jpg",
    "-dash.jpg",
    "naïve-日本語.jpg",
    "gs:colon.jpg",
    "{braces},comma;.JPG",
]


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
    write_files(folder / "ant", {name: image(7) for name in ODD_NAMES})
    write_files(folder / "ant", {"pixel.png": image(1, "PNG", (1, 1))})
    (folder / "ant" / os.fsdecode(b"not-utf-8-\xff\xfe.jpg")).write_bytes(image(1))
    (folder / os.fsdecode(b"folder-\xff")).mkdir()
    (folder / os.fsdecode(b"folder-\xff") / "1.jpg").write_bytes(image(1))
    (folder / "bee" / "dangling.jpg").symlink_to("nowhere.jpg")
    (folder / "bee" / "self.jpg").symlink_to("self.jpg")
    (folder / "bee" / "linked.jpg").symlink_to("000.jpg")
    (folder / "bee" / "here").symlink_to(".")
    (folder / "bee" / "round").symlink_to("about")
    (folder / "bee" / "about").symlink_to("round")
    (folder / "bee" / "up").symlink_to("..")
    os.mkfifo(folder / "bee" / "pipe.jpg")
    (folder / "cow").mkdir()
    (folder / "dog" / "puppies").mkdir(parents=True)
    arguments = [
        "images",
        "--input",
        str(folder),
        "--output",
        str(root),
        "--name",
        "n",
        *SHARDS,
        "--max_reject_fraction",
        "0.9",
    ]
    assert cli.main(arguments) == 0
    return read_back(root / "n")


@pytest.mark.parametrize("bad", BAD_FILES, ids=lambda bad: bad.name)
def test_bad_file_is_one_reject_with_its_reason(disturbed: Contents, bad: Bad) -> None:
    (reject,) = (reject for reject in disturbed.rejects() if reject["source"] == f"bee/{bad.name}")
    assert bad.reason in reject["reason"]
    assert (reject["stage"], reject["line"]) == ("write", None)
    assert f"bee/{bad.name}" not in disturbed.records


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("ant/not-utf-8-\\xff\\xfe.jpg", "the file name is not UTF-8"),
        ("folder-\\xff/1.jpg", "the file name is not UTF-8"),
        ("bee/dangling.jpg", "dangling or looping symbolic link: No such file or directory"),
        ("bee/self.jpg", f"dangling or looping symbolic link: {os.strerror(errno.ELOOP)}"),
    ],
)
def test_name_or_link_that_cannot_be_followed_is_one_reject(disturbed: Contents, name: str, reason: str) -> None:
    (reject,) = (reject for reject in disturbed.rejects() if reject["source"] == name)
    assert reason in reject["reason"]
    assert reject["stage"] == "index"


def test_nothing_else_is_rejected_and_nothing_is_lost(disturbed: Contents) -> None:
    assert len(disturbed.rejects()) == len(BAD_FILES) + 4
    names = {*GOOD, *(f"ant/{name}" for name in ODD_NAMES), "ant/pixel.png", "bee/linked.jpg"}
    assert disturbed.records.keys() == names
    manifest = disturbed.dataset.manifest
    assert manifest.input["records"] == len(names) + len(disturbed.rejects())
    assert manifest.rejects["records"] == len(disturbed.rejects())


def test_bad_files_change_no_byte_and_no_split_of_the_others(undisturbed: Contents, disturbed: Contents) -> None:
    assert undisturbed.records.keys() == GOOD.keys()
    for name in GOOD:
        assert disturbed.records[name] == undisturbed.records[name]
        assert disturbed.split_of[name] == undisturbed.split_of[name]
    for split, names in undisturbed.splits.items():
        assert [name for name in disturbed.splits[split] if name in GOOD] == names


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_name_is_kept_as_it_is(disturbed: Contents, name: str) -> None:
    assert disturbed.example(f"ant/{name}")["filename"] == [f"ant/{name}".encode()]
    assert disturbed.example(f"ant/{name}")["image"] == [image(7)]


def test_image_of_one_pixel_is_accepted(disturbed: Contents) -> None:
    example = disturbed.example("ant/pixel.png")
    assert (example["height"].tolist(), example["width"].tolist()) == ([1], [1])  # type: ignore[union-attr]
    assert example["image"] == [image(1, "PNG", (1, 1))]


def test_what_was_passed_over_is_said(disturbed: Contents) -> None:
    notices = "\n".join(disturbed.dataset.manifest.notices)
    assert "passed over 2 symbolic link loops, such as 'bee/here'" in notices
    assert "passed over 2 broken symbolic links, such as 'bee/about'" in notices
    assert "passed over 1 special file, such as 'bee/pipe.jpg'" in notices
    assert "passed over 2 folders without images, such as 'cow'" in notices


def test_symbolic_link_loop_below_a_glob_is_passed_over(run: Run, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", image_tree(("ant", "bee"), 2))
    for name in ("ant/one", "ant/two", "bee/three"):
        (folder / name).symlink_to("..")
    assert run("images", "--input", f"{folder}/**/*.jpg", "--output", tmp_path, "--name", "n").status == 0
    contents = read_back(tmp_path / "n")
    assert contents.records.keys() == {"ant/000.jpg", "ant/001.jpg", "bee/000.jpg", "bee/001.jpg"}
    assert any("symbolic link loop" in notice for notice in contents.dataset.manifest.notices)


def test_folders_nested_too_deep_stop_the_job_or_are_one_reject(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_files(tmp_path / "in", {"a/1.jpg": image(1)})
    monkeypatch.chdir(folder / "a")
    for _ in range(1000):  # one by one, as no single path may be so long
        os.mkdir("d")
        os.chdir("d")
    monkeypatch.chdir(tmp_path)
    flags = ("--output", tmp_path / "out", "--name", "n", "--max_reject_fraction", "0.5")
    try:
        stopped = run("images", "--input", folder, *flags)
        passed = run("images", "--input", folder, *flags, "--on_damaged_file", "reject")
    finally:
        # Python's own rmtree, by which pytest clears up, would not get down there
        subprocess.run(["rm", "-r", folder], check=True)
    assert stopped.status == 1
    assert "at least 1 record in 1 damaged file cannot be read" in stopped.err
    assert passed.status == 0
    contents = read_back(tmp_path / "out" / "n")
    assert contents.records.keys() == {"a/1.jpg"}
    assert ["more than 500 deep" in reject["reason"] for reject in contents.rejects()] == [True]


def test_link_to_another_folder_is_followed(run: Run, tmp_path: Path) -> None:
    write_files(tmp_path / "elsewhere", {"1.jpg": image(1)})
    folder = write_files(tmp_path / "in", {"ant/0.jpg": image(0)})
    (folder / "bee").symlink_to(tmp_path / "elsewhere")
    assert run("images", "--input", folder, "--output", tmp_path, "--name", "n").status == 0
    assert read_back(tmp_path / "n").label_of("bee/1.jpg") == "bee"


def test_file_without_read_permission_is_one_reject_and_a_folder_who_knows_how_many(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", GOOD)
    (folder / "ant" / "003.jpg").chmod(0)
    write_files(folder / "locked", {"1.jpg": image(1)}).chmod(0)
    command = (
        "images",
        "--input",
        folder,
        "--output",
        tmp_path,
        "--name",
        "n",
        *SHARDS,
        "--max_reject_fraction",
        "0.5",
    )
    failed = Process(tmp_path / "failed", *command, before=bind_root_to_permissions).result()
    assert failed.status == 1
    assert "at least 1 record in 1 damaged file cannot be read" in failed.err
    flags = ("--on_damaged_file", "reject")
    result = Process(tmp_path / "process", *command, *flags, before=bind_root_to_permissions).result()
    (folder / "locked").chmod(0o755)
    assert result.status == 0, result.err
    contents = read_back(tmp_path / "n")
    assert contents.records.keys() == GOOD.keys() - {"ant/003.jpg"}
    lost = {"records": 1, "size_bytes": 0, "count": "at least"}
    assert contents.rejects() == [
        {"source": "ant/003.jpg", "line": None, "stage": "write", "reason": "cannot be read: Permission denied"},
        {
            "source": "locked/",
            "line": None,
            "stage": "index",
            "reason": "cannot list the folder: Permission denied",
            **lost,
        },
    ]


def test_file_that_is_gone_when_it_is_read_is_one_reject(tmp_path: Path) -> None:
    folder = write_files(tmp_path, {"0.jpg": image(0), "2.jpg": image(2)})
    names = ["0.jpg", "1.jpg", "2.jpg"]
    nothing = [None] * 3
    rows = [names, [300] * 3, nothing, nothing, nothing, nothing, ["train"] * 3, [1, 2, 3], [0] * 3, *[nothing] * 3]
    chunk = ImageEncoder(str(folder))(to_batch(rows, PLANNED))
    assert chunk.examples == 2
    assert chunk.rejects == [Reject("1.jpg", None, "write", "no such file: it vanished after it was listed")]


def test_files_that_vanish_while_the_job_runs_are_rejects(tmp_path: Path) -> None:
    """Once the job has begun a shard it has listed all; the images are large, so most are still to be read."""
    content = io.BytesIO()
    Image.linear_gradient("L").resize((2400, 1800)).save(content, "JPEG")
    large = content.getvalue()
    folder = write_files(
        tmp_path / "in", {f"{kind}/{number}.jpg": large for kind in ("doomed", "kept") for number in range(40)}
    )
    command = (
        "images",
        "--input",
        folder,
        "--output",
        tmp_path,
        "--name",
        "n",
        "--resize",
        "40x30",
        "--max_reject_fraction",
        "0.6",
    )
    process = Process(tmp_path / "process", *command)
    while process.is_alive() and not any(tmp_path.glob("n/1.0.0/beam-temp-*/*.tfrecord-*")):
        time.sleep(0.001)
    shutil.rmtree(folder / "doomed")
    assert process.result().status == 0
    contents = read_back(tmp_path / "n")
    rejects = contents.rejects()
    assert {reject["reason"] for reject in rejects} == {"no such file: it vanished after it was listed"}
    assert all(reject["source"].startswith("doomed/") for reject in rejects)
    assert len(contents.records) + len(rejects) == 80
    assert {f"kept/{number}.jpg" for number in range(40)} <= contents.records.keys()
    assert sum(split.rejected for split in contents.dataset.manifest.splits) == len(rejects)


MANIFEST_ROWS = [f"{name},{name[:3]},{number}" for number, name in enumerate(GOOD)]


def write_manifest(
    folder: Path, rows: Iterable[str], name: str = "meta.csv", header: str = "file_name,label,age"
) -> Path:
    """A manifest beside the good files."""
    write_files(folder, GOOD)
    (folder / name).write_text("".join(f"{row}\n" for row in (header, *rows) if row))
    return folder / name


@pytest.fixture(scope="session")
def undisturbed_manifest(tmp_path_factory: pytest.TempPathFactory) -> Contents:
    """The good rows alone."""
    root = tmp_path_factory.mktemp("goodrows")
    manifest = write_manifest(root / "in", MANIFEST_ROWS)
    assert cli.main(["images", "--manifest", str(manifest), "--output", str(root), "--name", "n", *SHARDS]) == 0
    return read_back(root / "n")


BAD_ROWS = [
    (b"ant/gone.jpg,ant,1", "ant/gone.jpg", "index", "no such file"),
    (b"ant/000.jpg,ant,0", "ant/000.jpg", "index", "duplicate of line 2 in"),
    (b"./ant//000.jpg,ant,0", "ant/000.jpg", "index", "duplicate of line 2 in"),
    (b"ant/too-few.jpg,ant", None, "index", "the row has 2 fields; the header has 3"),
    (b"ant/too-many.jpg,ant,1,2", None, "index", "the row has 4 fields; the header has 3"),
    (b"ant/caf\xe9.jpg,ant,1", None, "index", "the row is not UTF-8"),
    (b"../outside.jpg,ant,1", "../outside.jpg", "index", "lies outside the manifest's folder; give --allow_outside"),
    (b"ant/../../outside.jpg,ant,1", "ant/../../outside.jpg", "index", "lies outside the manifest's folder"),
    (b"/etc/hostname,ant,1", "/etc/hostname", "index", "lies outside the manifest's folder"),
    (b"gs://bucket/a.jpg,ant,1", "gs://bucket/a.jpg", "index", "lies outside the manifest's folder"),
    (b",ant,1", None, "index", "the row has no file_name"),
    (b"nul\0.jpg,ant,1", "nul\0.jpg", "index", "NUL"),
    (b"ant,ant,1", "ant", "index", "not a regular file"),
    (b"pipe.jpg,ant,1", "pipe.jpg", "index", "not a regular file"),
    (b"dangling.jpg,ant,1", "dangling.jpg", "index", "no such file"),
    (b"looping.jpg,ant,1", "looping.jpg", "index", os.strerror(errno.ELOOP)),
    (b"no-label.jpg,,1", "no-label.jpg", "index", "no label"),
    (b"text.jpg,ant,1", "text.jpg", "write", "not an image"),
    (b"ant/" + b"x" * 300 + b",ant,1", "ant/" + "x" * 300, "index", os.strerror(errno.ENAMETOOLONG)),
]


@pytest.fixture(scope="session")
def disturbed_manifest(tmp_path_factory: pytest.TempPathFactory) -> Contents:
    """The good rows, then the bad ones; a BOM, CRLF, blank lines and a last line without an end besides."""
    root = tmp_path_factory.mktemp("badrows")
    folder = write_files(
        root / "in", {**GOOD, "no-label.jpg": image(1), "text.jpg": b"text", "../outside.jpg": image(2)}
    )
    os.mkfifo(folder / "pipe.jpg")
    (folder / "dangling.jpg").symlink_to("nowhere")
    (folder / "looping.jpg").symlink_to("looping.jpg")
    lines = [b"file_name,label,age", *(row.encode() for row in MANIFEST_ROWS), *(row for row, *_ in BAD_ROWS)]
    (folder / "meta.csv").write_bytes(b"\xef\xbb\xbf" + b"\r\n".join([*lines[:5], b"", *lines[5:]]))
    arguments = ["images", "--manifest", str(folder / "meta.csv"), "--output", str(root), "--name", "n", *SHARDS]
    assert cli.main([*arguments, "--max_reject_fraction", "0.9"]) == 0
    return read_back(root / "n")


@pytest.mark.parametrize("number", range(len(BAD_ROWS)), ids=lambda number: BAD_ROWS[number][3][:40])
def test_bad_row_is_one_reject_with_its_line_and_reason(disturbed_manifest: Contents, number: int) -> None:
    _, source, stage, reason = BAD_ROWS[number]
    line = 1 + len(MANIFEST_ROWS) + 1 + 1 + number  # header, good rows, a blank line; counted from 1
    (reject,) = (reject for reject in disturbed_manifest.rejects() if reject["line"] == line)
    assert reason in reject["reason"]
    assert reject["stage"] == stage
    if source is None:
        assert reject["source"].endswith("meta.csv")
    else:
        assert reject["source"] == source


def test_bad_rows_change_no_byte_of_the_others(undisturbed_manifest: Contents, disturbed_manifest: Contents) -> None:
    assert disturbed_manifest.records.keys() == GOOD.keys()
    assert len(disturbed_manifest.rejects()) == len(BAD_ROWS)
    assert disturbed_manifest.records == undisturbed_manifest.records
    assert disturbed_manifest.splits == undisturbed_manifest.splits
    assert disturbed_manifest.dataset.manifest.features == undisturbed_manifest.dataset.manifest.features


def test_bad_json_lines_are_rejects(run: Run, undisturbed_manifest: Contents, tmp_path: Path) -> None:
    good = [{"file_name": name, "label": name[:3], "age": number} for number, name in enumerate(GOOD)]
    bad = {
        b"{": "not JSON",
        b"[1, 2]": "not a JSON object",
        b"null": "not a JSON object",
        b"[" * 100_000: "not JSON",
        b'{"file_name": "ant/000.jpg", "label": "ant", "age": {"years": 3}}': "column 'age'",
        b'{"file_name": "ant/000.jpg", "label": "ant", "age": [[3]]}': "column 'age'",
        b'{"file_name": "ant/000.jpg", "label": "ant", "age": 18446744073709551616}': "does not fit a 64-bit integer",
        b'{"file_name": "ant/000.jpg", "label": ["ant"], "age": 3}': 'label or split ["ant"] is not a string',
        b'{"file_name": "ant/000.jpg", "label": 1.5, "age": 3}': "label or split 1.5 is not a string",
        b'{"file_name": 7, "label": "ant", "age": 3}': "the row has no file_name",
        b'{"label": "ant", "age": 3}': "the row has no file_name",
        b'{"file_name": "\\ud800.jpg", "label": "ant", "age": 3}': "not UTF-8",
        b'{"file_name": "\xff.jpg", "label": "ant", "age": 3}': "not UTF-8",
        b'{"file_name": "ant/000.jpg", "age": 0, "label": "ant"}': "duplicate of line 1",
    }
    folder = write_files(tmp_path / "in", GOOD)
    lines = [json.dumps(row).encode() for row in good] + list(bad)
    (folder / "meta.jsonl").write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(lines))
    options = (
        "--manifest",
        folder / "meta.jsonl",
        "--output",
        tmp_path,
        "--name",
        "n",
        *SHARDS,
        "--max_reject_fraction",
        "1",
    )
    assert run("images", *options).status == 0
    contents = read_back(tmp_path / "n")
    assert contents.records == undisturbed_manifest.records
    assert sorted(reject["line"] for reject in contents.rejects()) == list(range(len(good) + 1, len(lines) + 1))
    reasons = {reject["line"]: reject["reason"] for reject in contents.rejects()}
    for line, reason in enumerate(bad.values(), len(good) + 1):
        assert reason in reasons[line]


def test_names_outside_the_manifests_folder_are_read_when_allowed(run: Run, tmp_path: Path) -> None:
    write_files(tmp_path, {"a.jpg": image(1), "other/b.jpg": image(2), "in/c.jpg": image(3)})
    (tmp_path / "in" / "meta.csv").write_text(f"file_name\n../a.jpg\n{tmp_path}/other/b.jpg\n{tmp_path}/in/c.jpg\n")
    command = ("images", "--manifest", tmp_path / "in" / "meta.csv", "--output", tmp_path, "--name", "n")
    refused = run(*command, "--max_reject_fraction", "0.9")
    assert refused.status == 0
    contents = read_back(tmp_path / "n")
    assert contents.records.keys() == {"c.jpg"}
    assert [reject["source"] for reject in contents.rejects()] == ["../a.jpg", f"{tmp_path}/other/b.jpg"]
    assert run(*command, "--overwrite", "--allow_outside").status == 0
    contents = read_back(tmp_path / "n")
    assert {name: contents.example(name)["image"] for name in contents.records} == {
        "../a.jpg": [image(1)],
        f"{tmp_path}/other/b.jpg": [image(2)],
        "c.jpg": [image(3)],
    }


def test_names_are_relative_to_the_manifests_folder_however_it_is_given(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder within it that bears its own name is no reason to look elsewhere, nor is a relative path to it."""
    write_files(tmp_path / "in", {"a.jpg": image(1), "in/a.jpg": image(2)})
    (tmp_path / "in" / "meta.csv").write_text(f"file_name\nin/a.jpg\n{tmp_path}/in/./a.jpg\n")
    monkeypatch.chdir(tmp_path)
    assert run("images", "--manifest", "in/meta.csv", "--output", tmp_path, "--name", "n").status == 0
    contents = read_back(tmp_path / "n")
    assert {name: contents.example(name)["image"] for name in contents.records} == {
        "a.jpg": [image(1)],
        "in/a.jpg": [image(2)],
    }


# Flags beside --name, --output and --input (unless --manifest or --input stands among them), and words of the sentence.
WRONG_FLAGS: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    (("--splits", "train=0.8,test=0.3"), ("--splits", "add up to 1.1", "expected 1")),
    (("--splits", "train=0.5"), ("--splits", "add up to 0.5")),
    (("--splits", "train=1.5,test=-0.5"), ("--splits", "'test' has fraction -0.5")),
    (("--splits", "train=0.5,train=0.5"), ("--splits", "'train' is named twice")),
    (("--splits", "train=lots,test=0.1"), ("--splits", "'train=lots' is not name=fraction")),
    (("--splits", "train=nan,test=0.1"), ("--splits", "'train=nan' is not name=fraction")),
    (("--splits", "a-b=1"), ("--splits", "'a-b=1'", "letters, digits and '_'")),
    (("--splits", ""), ("--splits", "is not name=fraction")),
    (("--num_shards", "0"), ("--num_shards 0", "expected 1 to 99,999")),
    (("--num_shards", "-3"), ("--num_shards", "-3")),
    (("--num_shards", "1000000"), ("--num_shards 1000000", "expected 1 to 99,999")),
    (("--num_shards", "train=1000000"), ("--num_shards train=1000000", "expected 1 to 99,999")),
    (("--num_shards", "many"), ("--num_shards", "'many'", "neither a number nor split=number")),
    (("--num_shards", "train=2,train=3"), ("--num_shards", "names a split twice")),
    (("--num_shards", "nosuch=2"), ("--num_shards nosuch=", "the splits are train")),
    (("--num_shards", "=2"), ("--num_shards",)),
    (("--num_shards", "tets=2", "--splits", "train=0.5,test=0.5"), ("--num_shards tets=2", "--splits has train, test")),
    (("--num_shards", "2", "--shard_size", "1MB"), ("--num_shards or --shard_size, not both",)),
    (("--shard_size", "0"), ("--shard_size 0", "at least 1 byte")),
    (("--shard_size", "big"), ("--shard_size", "'big' is not a size")),
    (("--shard_size", "1e9"), ("--shard_size", "'1e9' is not a size")),
    (("--resize", "224"), ("--resize", "'224' is not WIDTHxHEIGHT")),
    (("--resize", "0x10"), ("--resize", "'0x10' is not WIDTHxHEIGHT")),
    (("--resize", "99999999999x1"), ("--resize", "is not WIDTHxHEIGHT")),
    (("--resize_mode", "cover"), ("--resize_mode cover needs --resize",)),
    (("--resize", "9x9", "--resize_mode", "squash"), ("--resize_mode", "squash", "contain")),
    (("--jpeg_quality", "101"), ("--jpeg_quality 101", "1 to 100")),
    (("--jpeg_quality", "x"), ("--jpeg_quality", "x")),
    (("--max_pixels", "0"), ("--max_pixels 0", "positive")),
    (("--max_reject_fraction", "1.1"), ("--max_reject_fraction 1.1", "0 to 1")),
    (("--max_reject_fraction", "nan"), ("--max_reject_fraction nan", "0 to 1")),
    (("--threads", "-1"), ("--threads -1",)),
    (("--threads", "1000"), ("--threads 1000",)),
    (("--seed", "-1"), ("--seed -1", "2^64")),
    (("--split_seed", str(1 << 64)), ("--split_seed", "2^64")),
    (("--image_format", "webp"), ("--image_format", "webp", "jpeg", "png")),
    (("--verify", "all"), ("--verify", "all", "header")),
    (("--balance", "pixels"), ("--balance", "pixels", "bytes")),
    (("--compression", "zip"), ("--compression", "zip", "gzip")),
    (("--name", "my-flowers"), ("--name 'my-flowers'", "letters, digits and '_'")),
    (("--name", ""), ("--name ''",)),
    (("--name", "../up"), ("--name '../up'",)),
    (("--version", "1.0"), ("--version '1.0'", "1.0.0")),
    (("--version", "../1.0.0"), ("--version '../1.0.0'",)),
    (("--output", ""), ("--output: '' is no path and no URL",)),
    (("--input", ""), ("--input: '' is no path and no URL",)),
    (("--manifest", ""), ("--manifest: '' is no path and no URL",)),
    (("--input", "/no/such/folder"), ("--input /no/such/folder: no such file or folder",)),
    (("--input", "/no/such/*.jpg"), ("nothing matches --input /no/such/*.jpg",)),
    (("--input", "two\nlines"), ("--input two\\nlines", "no such file or folder")),
    (("--group_by", "user"), ("--group_by user needs --splits",)),
    (("--stratify_by", "label"), ("--stratify_by label needs --splits",)),
    (("--group_by", "user", "--splits", "a=1"), ("--group_by user: no such column", "--manifest")),
    (("--stratify_by", "user", "--splits", "a=1"), ("--stratify_by user: no such column", "label")),
    (("--group_by", "a", "--stratify_by", "b", "--splits", "a=1"), ("--group_by and --stratify_by contradict",)),
    (("--allow_outside",), ("--allow_outside", "--manifest")),
    (("--on_new_label", "append"), ("--on_new_label append needs --labels_file",)),
    (("--labels_file", "/no/such/file"), ("--labels_file /no/such/file", "No such file")),
    (("--numshards", "3"), ("unknown flag --numshards", "did you mean --num_shards?")),
    (("--shuffel",), ("unknown flag --shuffel",)),
    (("--num_shard", "3"), ("unknown flag --num_shard", "did you mean --num_shards?")),
    (("--direct_num_worker=2",), ("unknown flag --direct_num_worker=2", "did you mean --direct_num_workers?")),
    (("--direct_num_workers", "two"), ("--direct_num_workers", "two")),
    (
        ("--direct_running_mode", "multi_threading"),
        ("--direct_running_mode multi_threading loses records", "multi_processing"),
    ),
    (("--runner", "NoSuchRunner"), ("--runner", "NoSuchRunner")),
    (("stray",), ("stray",)),
    (("--manifest", "/no/such.csv"), ("--manifest /no/such.csv: no such file",)),
    (("--manifest", "/no/such.parquet"), ("--manifest /no/such.parquet", ".csv or .jsonl")),
    (("--input", "/tmp", "--manifest", "m.csv"), ("either --input", "or --manifest")),
]


@pytest.fixture(scope="session")
def good_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("folder") / "in", image_tree(("ant", "bee"), 2))


@pytest.mark.parametrize(("flags", "words"), WRONG_FLAGS, ids=lambda value: " ".join(value)[:40] if len(value) else "")
def test_wrong_flag_is_one_sentence_and_writes_nothing(
    run: Run,
    good_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    flags: tuple[str, ...],
    words: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    usual = {"--input": good_folder, "--output": tmp_path / "out", "--name": "n"}
    given = {"--input" if flag == "--manifest" else flag for flag in flags}
    result = run(
        "images", *(part for flag, value in usual.items() if flag not in given for part in (flag, value)), *flags
    )
    check_mistake(result, *words)
    assert not any(tmp_path.iterdir())


def test_neither_input_nor_manifest(run: Run, tmp_path: Path) -> None:
    check_mistake(run("images", "--output", tmp_path / "out", "--name", "n"), "either --input", "or --manifest")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("missing", ["--output", "--name"])
def test_missing_flag_is_named(run: Run, good_folder: Path, tmp_path: Path, missing: str) -> None:
    flags = {"--output": str(tmp_path / "out"), "--name": "n"}
    del flags[missing]
    check_mistake(run("images", "--input", good_folder, *(part for item in flags.items() for part in item)), missing)
    assert not any(tmp_path.iterdir())


def test_unknown_command(run: Run) -> None:
    known = ", ".join([*KINDS, "inspect", "verify"])
    check_mistake(run("qwerty"), "unknown command 'qwerty'", f"expected {known}")
    for typo, command in (("image", "images"), ("imagse", "images"), ("json", "jsonl"), ("cvs", "csv")):
        check_mistake(run(typo), f"unknown command '{typo}'; did you mean {command}? The commands are {known}")


def test_output_that_is_published(run: Run, good_folder: Path, tmp_path: Path) -> None:
    command = ("images", "--input", good_folder, "--output", tmp_path, "--name", "n")
    assert run(*command).status == 0
    before = tree_bytes(tmp_path)
    check_mistake(
        run(*command, "--seed", "7"), f"{tmp_path}/n/1.0.0 is a published data set", "--overwrite", "--version"
    )
    assert tree_bytes(tmp_path) == before


def test_output_that_holds_files_of_others(run: Run, good_folder: Path, tmp_path: Path) -> None:
    write_files(tmp_path, {"n/1.0.0/thesis.tex": b"years of work"})
    for flags in ((), ("--overwrite",)):
        result = run("images", "--input", good_folder, "--output", tmp_path, "--name", "n", *flags)
        check_mistake(result, "thesis.tex", "which shardmill did not write")
    assert tree_bytes(tmp_path) == {"n/1.0.0/thesis.tex": b"years of work"}


@pytest.mark.parametrize("place", ["out", "out/n", "out/n/1.0.0"])
def test_output_that_is_a_file(run: Run, good_folder: Path, tmp_path: Path, place: str) -> None:
    write_files(tmp_path, {place: b"a file"})
    check_mistake(
        run("images", "--input", good_folder, "--output", tmp_path / "out", "--name", "n"), f"{place} is not a folder"
    )
    assert tree_bytes(tmp_path) == {place: b"a file"}


def test_output_that_is_a_dangling_link(run: Run, good_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("unmounted")
    check_mistake(
        run("images", "--input", good_folder, "--output", tmp_path / "out", "--name", "n"), "out is not a folder"
    )
    assert not (tmp_path / "unmounted").exists()


def test_output_that_is_not_writable(good_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out").chmod(0o555)
    command = ("images", "--input", good_folder, "--output", tmp_path / "out", "--name", "n")
    result = Process(tmp_path / "process", *command, before=bind_root_to_permissions).result()
    check_mistake(result, f"--output: {tmp_path}/out is not writable")
    assert not any((tmp_path / "out").iterdir())


@pytest.mark.parametrize("output", ["in", "in/out", "in/ant", "link"])
def test_output_inside_the_input(run: Run, tmp_path: Path, output: str) -> None:
    folder = write_files(tmp_path / "in", image_tree(("ant",), 2))
    (tmp_path / "link").symlink_to("in")
    before = tree_bytes(folder)
    check_mistake(run("images", "--input", folder, "--output", tmp_path / output, "--name", "n"), "lies inside --input")
    assert tree_bytes(folder) == before


def test_output_inside_a_glob_that_would_match_it(run: Run, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", image_tree(("ant",), 2))
    before = tree_bytes(folder)
    for pattern in ("**", "**/*", "*/*/*/*"):
        result = run("images", "--input", folder / pattern, "--output", folder / "out", "--name", "n")
        check_mistake(result, "--output", "lies inside --input")
    assert tree_bytes(folder) == before
    assert run("images", "--input", folder / "**/*.jpg", "--output", folder / "out", "--name", "n").status == 0


def test_input_that_cannot_be_listed(good_folder: Path, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", image_tree(("ant",), 2))
    folder.chmod(0)
    command = ("images", "--input", folder, "--output", tmp_path / "out", "--name", "n")
    result = Process(tmp_path / "process", *command, before=bind_root_to_permissions).result()
    folder.chmod(0o755)
    check_mistake(result, f"--input {folder}", "cannot be read")
    assert not (tmp_path / "out").exists()


def test_input_whose_own_path_is_not_utf8(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    write_files(folder, image_tree(("ant",), 2))
    check_mistake(run("images", "--input", folder, "--output", tmp_path / "out", "--name", "n"), "--input", "UTF-8")
    good = write_files(tmp_path / "in", image_tree(("ant",), 2))
    check_mistake(run("images", "--input", good, "--output", folder / "out", "--name", "n"), "--output", "UTF-8")
    assert not (tmp_path / "out").exists()
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, ("nothing matches --input",)),
        ({"ant/": b"", "bee/": b""}, ("no images in --input", "2 folders without images")),
        ({"notes.txt": b"", "ant/list.csv": b""}, ("no images in --input", "1 .txt file, such as 'notes.txt'", "glob")),
        ({".hidden/1.jpg": image(1)}, ("no images in --input", "1 hidden file, such as '.hidden'")),
    ],
    ids=["empty", "empty label folders", "no images", "hidden"],
)
def test_input_without_an_image(run: Run, tmp_path: Path, files: dict[str, bytes], words: tuple[str, ...]) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name, content in files.items():
        if name.endswith("/"):
            (folder / name).mkdir()
        else:
            write_files(folder, {name: content})
    check_mistake(run("images", "--input", folder, "--output", tmp_path / "out", "--name", "n"), *words)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("label", [" lead", "trail ", "two\nlines"])
def test_class_folder_whose_name_cannot_stand_in_a_labels_file(run: Run, tmp_path: Path, label: str) -> None:
    folder = write_files(tmp_path / "in", image_tree((label, "bee"), 2))
    result = run("images", "--input", folder, "--output", tmp_path / "out", "--name", "n")
    check_mistake(result, repr(label), "rename the class")
    assert not (tmp_path / "out").exists()


WRONG_MANIFESTS: list[tuple[str, bytes, tuple[str, ...]]] = [
    ("m.csv", b"", ("is empty", "file_name")),
    ("m.csv", b"file_name\n", ("nothing", "--manifest")),
    ("m.csv", b"name,label\na.jpg,ant\n", ("no column file_name or image_uri", "name, label")),
    ("m.csv", b"file_name,age,age\na.jpg,1,2\n", ("the column 'age' twice",)),
    ("m.csv", b"file_name,\na.jpg,1\n", ("a column without a name",)),
    ("m.csv", b"file_name,height\na.jpg,1\n", ("column 'height'", "a feature that every example has")),
    ("m.csv", b'file_name,label\na.jpg,"ant\nb.jpg,bee\n', ("from line 2", "check the quotes")),
    ("m.csv", "file_name\na.jpg\n".encode("utf-16"), ("UTF-8", "header")),
    ("m.csv", b"file_name,caf\xe9\na.jpg,1\n", ("UTF-8", "header")),
    ("m.csv", b"file_name;label\na.jpg;ant\n", ("no column file_name", "file_name;label")),
    ("m.csv", b"file_name,split\na.jpg,my split\n", ("'my split'", "letters, digits and '_'")),
    ("m.jsonl", b"", ("file_name",)),
    ("m.jsonl", b'{"name": "a.jpg"}\n', ("no row has a file_name or image_uri",)),
    ("m.jsonl", b'{"file_name": "a.jpg", "image": 1}\n', ("column 'image'", "a feature that every example has")),
    ("m.jsonl", b'{"file_name": "a.jpg", "": 1}\n', ("a column without a name",)),
]


@pytest.mark.parametrize(("name", "content", "words"), WRONG_MANIFESTS, ids=lambda value: str(value)[:50])
def test_wrong_manifest(run: Run, tmp_path: Path, name: str, content: bytes, words: tuple[str, ...]) -> None:
    folder = write_files(tmp_path / "in", {"a.jpg": image(1), "b.jpg": image(2), name: content})
    result = run("images", "--manifest", folder / name, "--output", tmp_path / "out", "--name", "n")
    check_mistake(result, f"--manifest {folder / name}" if "split" not in str(content) else "split", *words)
    assert not (tmp_path / "out").exists()


def test_manifest_that_is_a_folder(run: Run, tmp_path: Path) -> None:
    (tmp_path / "m.csv").mkdir()
    result = run("images", "--manifest", tmp_path / "m.csv", "--output", tmp_path / "out", "--name", "n")
    check_mistake(result, f"--manifest {tmp_path}/m.csv", "directory")
    assert not (tmp_path / "out").exists()


def test_split_flags_where_the_manifest_says_the_split(run: Run, tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path / "in", ["ant/000.jpg,ant,1,train"], header="file_name,label,age,split")
    for flags in (("--splits", "a=1"), ("--splits", "a=1", "--group_by", "age")):
        result = run("images", "--manifest", manifest, "--output", tmp_path / "out", "--name", "n", *flags)
        check_mistake(result, "--splits was given", "the manifest's column 'split'")
    assert not (tmp_path / "out").exists()


def labels_command(tmp_path: Path, names: str) -> tuple[object, ...]:
    """The command on a tree of ants, bees and cows, with a labels file of `names`."""
    folder = write_files(tmp_path / "in", image_tree(("ant", "bee", "cow"), 2))
    (tmp_path / "labels.txt").write_text(names)
    return (
        "images",
        "--input",
        folder,
        "--output",
        tmp_path / "out",
        "--name",
        "n",
        "--labels_file",
        tmp_path / "labels.txt",
    )


def test_class_that_the_labels_file_does_not_know_fails(run: Run, tmp_path: Path) -> None:
    result = run(*labels_command(tmp_path, "cow\nbees\n"))
    check_mistake(result, "class 'ant'", "1 more", "--on_new_label append")
    assert not (tmp_path / "out").exists()


def test_class_that_the_labels_file_does_not_know_is_appended(run: Run, tmp_path: Path) -> None:
    assert run(*labels_command(tmp_path, "cow\nbee\n"), "--on_new_label", "append").status == 0
    contents = read_back(tmp_path / "out" / "n")
    assert (contents.directory / "label.labels.txt").read_text() == "cow\nbee\nant\n"
    ids = {name.split("/")[0]: int(contents.example(name)["label"][0]) for name in contents.records}
    assert ids == {"cow": 0, "bee": 1, "ant": 2}


def test_class_that_the_labels_file_does_not_know_is_rejected(run: Run, tmp_path: Path) -> None:
    command = labels_command(tmp_path, "cow\r\nbee\r\nelk\r\n")
    assert run(*command, "--on_new_label", "reject", "--max_reject_fraction", "0.5").status == 0
    contents = read_back(tmp_path / "out" / "n")
    assert (contents.directory / "label.labels.txt").read_text() == "cow\nbee\nelk\n"
    assert [reject["reason"] for reject in contents.rejects()] == ["class 'ant' is not in --labels_file"] * 2
    assert {contents.label_of(name) for name in contents.records} == {"cow", "bee"}
    assert any("class 'elk' has no examples" in notice for notice in contents.dataset.manifest.notices)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ("is empty",)),
        (b"ant\nant\n", ("'ant' stands twice",)),
        (b"caf\xe9\n", ("is not UTF-8",)),
        (b"ant\n\n", ("''",)),
    ],
)
def test_wrong_labels_file(run: Run, good_folder: Path, tmp_path: Path, content: bytes, words: tuple[str, ...]) -> None:
    (tmp_path / "labels.txt").write_bytes(content)
    command = ("images", "--input", good_folder, "--output", tmp_path / "out", "--name", "n")
    check_mistake(run(*command, "--labels_file", tmp_path / "labels.txt"), *words)
    assert not (tmp_path / "out").exists()


def test_labels_file_for_unlabelled_images(run: Run, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {"1.jpg": image(1)})
    (tmp_path / "labels.txt").write_text("ant\n")
    command = ("images", "--input", folder, "--output", tmp_path / "out", "--name", "n")
    check_mistake(run(*command, "--labels_file", tmp_path / "labels.txt"), "--labels_file was given", "has no labels")
    assert not (tmp_path / "out").exists()
