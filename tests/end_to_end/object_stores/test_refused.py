"""A store that refuses who asks: one sentence, at once, which says of what; nothing is written."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.buckets import Bucket, S3Bucket, flags_by
from tests.support.command import Run, write_files
from tests.support.faulty_store import FaultyStore, faulty

ALWAYS = 1_000_000


@pytest.fixture
def refusing(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyStore]:
    """A proxy in front of the store."""
    with faulty(bucket.endpoint) as proxy:  # type: ignore[attr-defined]
        if bucket.url.startswith("gs:"):
            monkeypatch.setenv("STORAGE_EMULATOR_HOST", proxy.endpoint)
        yield proxy


@pytest.mark.parametrize("status", ["401", "403"])
@pytest.mark.parametrize("refused", ["input", "output"])
def test_a_store_that_refuses(
    run: Run, bucket: Bucket, refusing: FaultyStore, tmp_path: Path, status: str, refused: str
) -> None:
    refusing.fail(status, ALWAYS, most=ALWAYS)
    write_files(tmp_path / "in", {"a.csv": b"a,b\n1,2\n"})
    places = {"input": str(tmp_path / "in"), "output": str(tmp_path / "out")} | {refused: f"{bucket.url}/{refused}"}
    flags = flags_by(bucket, refusing.endpoint) if isinstance(bucket, S3Bucket) else bucket.flags
    result = run("csv", "--input", places["input"], "--output", places["output"], "--name", "n", *flags)
    assert result.status in (1, 2)
    assert result.out == ""
    assert result.err.startswith("shardmill: error: "), result.err
    assert result.err.count("\n") == 1, result.err
    assert bucket.url in result.err
    assert status in result.err
    assert not (tmp_path / "out").exists()
    assert bucket.files() == {}
