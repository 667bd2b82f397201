"""Objects that are replaced while a job over whole files reads them: nothing is published."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from shardmill.pipelines import cli
from shardmill.transforms.files import stacked
from shardmill.transforms.files.encoding import FileEncoder
from tests.support.buckets import Bucket, Files, jpeg, upload
from tests.support.command import npy
from tests.support.masks import write_pairs


def pairs(folder: Path) -> Files:
    write_pairs(folder)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.png")}


# By the kind: flags with {0} for the folder, its files, the one that is replaced, and by what
KINDS: dict[str, tuple[str, Callable[[Path], Files], str, bytes]] = {
    "images": ("images --input {0}", lambda _: {f"{n % 2}/{n}.jpg": jpeg(n) for n in range(8)}, "1/3.jpg", jpeg(99)),
    "masks": ("images --input {0}/images --masks {0}/masks", pairs, "masks/a/0.png", b"no mask"),
    "rows": (
        "arrays --stacked --input {0}",
        lambda _: {"X_train.npy": npy(np.zeros((9, 2), np.float32)), "y_train.npy": npy(np.arange(9) % 2)},
        "X_train.npy",
        npy(np.ones((9, 2), np.float32)),
    ),
}


@pytest.mark.parametrize(
    ("bucket", "kind"), [("gs", "images"), ("s3", "images"), ("gs", "masks"), ("s3", "rows")], indirect=["bucket"]
)
def test_a_replaced_object_fails_the_job(
    kind: str, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flags, make, name, new = KINDS[kind]
    source = upload(bucket, "in", make(tmp_path))
    words = [*flags.format(source).split(), "--output", f"{bucket.url}/sets", "--name", "n", *bucket.flags]
    encode = FileEncoder.encode_batch
    with monkeypatch.context() as patch:

        def replace(*arguments: object, **options: object) -> object:
            bucket.put(f"in/{name}", new)
            stacked._open_revision.cache_clear()  # as in another process than that which listed the rows
            return encode(*arguments, **options)  # type: ignore[arg-type]

        patch.setattr(FileEncoder, "encode_batch", replace)
        assert cli.main(words) == 1
    assert "was changed while the job read it; leave the input" in (text := capsys.readouterr().err), text
    assert name in text
