"""Manifests with bad rows: each is a reject, with its line and its reason."""

import errno
import json
import os
from pathlib import Path

import pytest

from shardmill.pipelines import cli
from tests.support.command import Contents, image, read_back
from tests.support.image_jobs import GOOD, SHARDS, write_manifest
from tests.support.jobs import Jobs

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
    (b"ant/too-few.jpg,ant", "the row has 2 fields; the header has 3", ""),
    (b"ant/too-many.jpg,ant,1,2", "the row has 4 fields; the header has 3", ""),
    (b"ant/caf\xe9.jpg,ant,1", "the row is not UTF-8", ""),
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

    made = jobs.build("images --manifest in/meta.csv --max_reject_fraction 0.9", *SHARDS, files={"meta.csv": text})

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


def test_bad_json_lines_are_rejects(jobs: Jobs, undisturbed_manifest: Contents) -> None:
    good = [{"file_name": name, "label": name[:3], "age": number} for number, name in enumerate(GOOD)]
    bad = {
        b"[" * 100_000: "not JSON",
        b'{"file_name": "ant/000.jpg", "label": "ant", "age": {"years": 3}}': "column 'age'",
        b'{"file_name": "ant/000.jpg", "label": "ant", "age": [[3]]}': "column 'age'",
        b'{"file_name": "ant/000.jpg", "label": "ant", "age": 18446744073709551616}': "does not fit a 64-bit integer",
        b'{"file_name": "ant/000.jpg", "age": 0, "label": "ant"}': "duplicate of line 1",
    }
    lines = [json.dumps(row).encode() for row in good] + list(bad)
    files = {**GOOD, "meta.jsonl": b"\xef\xbb\xbf" + b"\r\n".join(lines)}

    made = jobs.build("images --manifest in/meta.jsonl --max_reject_fraction 1", *SHARDS, files=files)

    assert made.contents.records == undisturbed_manifest.records
    reasons = {reject["line"]: reject["reason"] for reject in made.rejects}
    assert sorted(reasons) == list(range(len(good) + 1, len(lines) + 1))
    for line, reason in enumerate(bad.values(), len(good) + 1):
        assert reason in reasons[line]


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
