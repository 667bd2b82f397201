"""What --dry_run says of requests to a store is about what a job then asks."""

import re

import pytest

from tests.end_to_end.object_stores.test_requests import asked
from tests.support.buckets import Bucket, jpeg, upload
from tests.support.command import Run

pytestmark = pytest.mark.slow

_SAID = re.compile(r"^Requests to stores: about ([\d,]+)$", re.MULTILINE)
_WITHIN = 1.3  # times


@pytest.mark.parametrize(
    ("command", "more"),
    [
        ("images", ("--num_shards", "1")),
        ("images", ("--num_shards", "12")),
        ("csv", ("--num_shards", "1", "--block_size", "8KiB")),
        ("csv", ("--num_shards", "12", "--block_size", "8KiB")),
        ("csv", ("--num_shards", "2")),
    ],
)
def test_requests_are_about_as_many_as_said(bucket: Bucket, run: Run, command: str, more: tuple[str, ...]) -> None:
    rows = b"".join(b"%d,%d\n" % (number, number * number) for number in range(4000))
    files = {f"{number}.csv": b"x,y\n" + rows for number in range(3)}
    photos = {f"{'ab'[number % 2]}/{number}.jpg": jpeg(number) for number in range(60)}
    source = upload(bucket, "in", photos if command == "images" else files)
    words = [command, "--input", source, "--output", f"{bucket.url}/sets", "--name", "n", *more, *bucket.flags]
    dry = run(*words, "--dry_run")
    assert dry.status == 0, dry.err
    (said,) = (int(number.replace(",", "")) for number in _SAID.findall(dry.out))
    asked(bucket)
    assert run(*words).status == 0
    found = len(asked(bucket))
    assert said / _WITHIN <= found <= said * _WITHIN, (said, found)
