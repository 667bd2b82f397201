"""Manifests with bad rows: each is a reject, with its line and its reason."""

import errno
import json
import os
from pathlib import Path

import pytest

from shardmill.pipelines import cli
from tests.support.command import (
    Contents,
    Run,
    image,
    read_back,
    write_files,
)
from tests.support.image_jobs import GOOD, SHARDS, write_manifest

MANIFEST_ROWS = [f"{name},{name[:3]},{number}" for number, name in enumerate(GOOD)]


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
