"""Parallel text on object stores: the files of a pair are walked together there, too."""

from pathlib import Path

from tests.support.buckets import Bucket, below, local_files, upload, without_source
from tests.support.command import Run, check_mistake, write_files

FILES = {
    **{f"in/de/{n}.txt": "".join(f"Zeile {n} {line} ä\n" for line in range(300)).encode() for n in range(2)},
    **{f"in/en/{n}.txt": "".join(f"line {n} {line}\n" for line in range(300)).encode() for n in range(2)},
}


def _inputs(folder: object) -> tuple[str, ...]:
    return tuple(word for name in ("de", "en") for word in ("--input", f"{name}={folder}/in/{name}"))


def test_an_object_store_gives_the_bytes_of_a_disk(bucket: Bucket, tmp_path: Path, run: Run) -> None:
    told = ("--num_shards", "3", "--block_size", "1KiB", "--name", "n", "--splits", "train=0.7,test=0.3")
    url = upload(bucket, "x", FILES)
    done = run("text", *_inputs(url), "--output", f"{bucket.url}/sets", *told, *bucket.flags)
    assert done.status == 0, done.err
    write_files(tmp_path, FILES)
    assert run("text", *_inputs(tmp_path), "--output", tmp_path / "sets", *told).status == 0

    assert without_source(below(bucket.files(), "sets")) == without_source(local_files(tmp_path / "sets"))


def test_files_of_different_length_are_a_sentence(bucket: Bucket, run: Run) -> None:
    url = upload(bucket, "y", FILES | {"in/en/1.txt": b"one\n"})
    done = run("text", *_inputs(url), "--output", f"{bucket.url}/none", "--name", "n", *bucket.flags)
    check_mistake(done, "de=1.txt has 300 lines and en=1.txt has 1 line: line n of the one belongs to line n")
