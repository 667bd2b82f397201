"""`--tokenizer` on object stores: runs lie there with an entry before each record."""

from pathlib import Path

import pytest

from tests.support.buckets import Bucket, below, local_files, upload, without_source
from tests.support.command import Run, write_files
from tests.support.tokenizer_files import texts, tokenizer_json


@pytest.mark.parametrize("flags", [("--pack_to", "32"), ("--balance", "tokens")])
def test_an_object_store_gives_the_bytes_of_a_disk(
    flags: tuple[str, ...], bucket: Bucket, tmp_path: Path, run: Run
) -> None:
    text = "".join(f"{text}\n" for text in texts(200)).encode()
    files = {"in/a.txt": text[: len(text) // 2], "in/b.txt": text[len(text) // 2 :], "t.json": tokenizer_json()}
    url = upload(bucket, "x", files)
    told = (*flags, "--num_shards", "3", "--block_size", "1KiB", "--name", "n")
    there = ("--input", f"{url}/in", "--output", f"{bucket.url}/sets", "--tokenizer", f"{url}/t.json")
    assert run("text", *there, *told, *bucket.flags).status == 0
    write_files(tmp_path, files)
    here = ("--input", tmp_path / "in", "--output", tmp_path / "sets", "--tokenizer", tmp_path / "t.json")
    assert run("text", *here, *told).status == 0

    assert without_source(below(bucket.files(), "sets")) == without_source(local_files(tmp_path / "sets"))
