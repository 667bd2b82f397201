"""Permissions that a user who is not root loses while a job runs: nothing is left out without a word."""

import json
from functools import partial
from pathlib import Path

import pytest

from shardmill.reading.dataset import open_dataset
from tests.support.command import Process, Run, image_tree, rejects_of, write_files
from tests.support.processes import forbid_at

IMAGES = image_tree("ab", 200)  # of which one reject is allowed
TABLE = {f"{number}.csv": "".join(["x,y\n", *(f"{row},1\n" for row in range(500))]).encode() for number in range(3)}
INPUTS = {"images": (IMAGES, "a/007.jpg", 400), "csv": (TABLE, "1.csv", 1500)}
# What is taken away, from which paths below the folder
LOSSES = {
    "a file of the input": (0, "in/{file}"),
    "the input": (0, "in"),
    "the output": (0, "out"),
    "writing to the data set": (0o500, "out/n"),
    "the version": (0, "out/n/1.0.0"),
    "writing to the version": (0o500, "out/n/1.0.0"),
    "temporary files": (0, "tmp"),
}
EACH = 13  # uses of files between two moments; a job makes about 200
MOMENTS = (1, 2, 3, 4, 6, 11, 12, 14)  # every second of them for every second loss


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize(
    ("loss", "number"),
    [
        *((loss, 8) for loss in LOSSES),
        *(
            pytest.param(loss, number, marks=pytest.mark.slow)
            for place, loss in enumerate(LOSSES)
            for number in MOMENTS[place % 2 :: 2]
        ),
    ],
)
def test_all_is_published_or_a_sentence_says_what_is_not(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, loss: str, number: int
) -> None:
    files, file, examples = INPUTS[kind]
    write_files(tmp_path / "in", files)
    (tmp_path / "tmp").mkdir()
    (tmp_path / "out/n/1.0.0").mkdir(parents=True)
    mode, name = LOSSES[loss]
    path = tmp_path / name.format(file=file)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    command = (kind, "--input", tmp_path / "in", "--output", tmp_path / "out", "--name", "n")
    before = partial(forbid_at, "", str(tmp_path), [path], mode, EACH * number)
    result = Process(tmp_path / "p", *command, before=before).result()
    path.chmod(0o700)

    version = tmp_path / "out/n/1.0.0"
    sentence = result.err.rpartition("shardmill: error: ")[2]
    assert "Traceback" not in result.err
    assert (result.status == 0) == (result.err == ""), result.err
    assert not result.status or "ermission denied" in sentence or "is not writable" in sentence, sentence
    if not (version / "_SUCCESS").exists():
        assert result.status in (1, 2)
        assert "is published" not in sentence
    else:
        assert not result.status or f"{version} is published" in sentence
        rejects = rejects_of(version)
        manifest = json.loads((version / "manifest.json").read_text())
        assert {(line["source"], line["reason"]) for line in rejects} <= {(file, "cannot be read: Permission denied")}
        assert manifest["rejects"]["records"] == len(rejects)
        assert sum(split.examples for split in open_dataset(str(version)).manifest.splits) == examples - len(rejects)
    again = run(*command)  # which completes what had begun
    assert again.status == 0 or f"{version} is a published data set" in again.err, again.err
    assert run("verify", version).status == 0
