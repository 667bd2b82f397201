"""`shardmill rebuild` on object stores: the recipe, the input and the data set lie there."""

import pytest

from shardmill.metadata.versions import BuildRecord
from tests.support.buckets import Bucket
from tests.support.command import Run

pytestmark = pytest.mark.slow

RECIPE = """\
name: events
output: ${BUCKET}/sets
version: 1.0.{YYYY}{MM}{DD}
window: 2d
csv:
  input: ${BUCKET}/in/dt={YYYY}-{MM}-{DD}/*.csv
  label: kind
labels: keep
checks: {min_examples_per_class: 50}
"""


def put_day(bucket: Bucket, day: str, kinds: tuple[str, ...]) -> None:
    lines = (f"{kinds[n % len(kinds)]},{n % 7}\n" for n in range(60))
    bucket.put(f"in/dt={day}/a.csv", f"kind,number\n{''.join(lines)}".encode())


def test_nights_of_which_one_fails_and_is_accepted(run: Run, bucket: Bucket) -> None:
    bucket.put("recipes/events.yaml", RECIPE.encode())
    bucket.put("recipes/read.me", b"no recipe")
    put_day(bucket, "2026-11-19", ("buy", "view"))
    put_day(bucket, "2026-11-20", ("buy", "view"))

    def rebuild(day: str) -> tuple[int, str]:
        flags = ("--set", f"BUCKET={bucket.url}", "--date", day, "--json", *bucket.flags)
        result = run("rebuild", f"{bucket.url}/recipes", *flags)
        record = BuildRecord.from_json(result.out, "stdout")
        return result.status, f"{record.status} {record.version}: {record.reason}"

    assert rebuild("2026-11-20") == (0, "published 1.0.20261120: there is no version yet")
    assert rebuild("2026-11-20") == (0, "unchanged 1.0.20261120: unchanged since 1.0.20261120: 2 files")

    put_day(bucket, "2026-11-21", ("view",))
    failed, version = "sets/events/failed/1.0.20261121", "sets/events/1.0.20261121"
    page = "sets/events/builds/1.0.20261121.html"
    status, said = rebuild("2026-11-21")
    assert status == 3
    assert said.startswith("checks_failed 1.0.20261121: 1 check failed; compared with 1.0.20261120; ")
    assert "min_examples_per_class: " in said
    kept = {name.removeprefix(failed): data for name, data in bucket.files(f"{failed}/").items()}
    assert "/anomalies.pbtxt" in kept
    assert not bucket.names(f"{version}/")
    assert bucket.files("sets/events/LATEST")["sets/events/LATEST"] == b"1.0.20261120\n"
    assert b"against 1.0.20261120, and not published" in bucket.files(page)[page]
    looked = run("inspect", f"{bucket.url}/{failed}", *bucket.flags)
    assert (looked.status, "events 1.0.20261121" in looked.out) == (0, True)

    result = run("accept", f"{bucket.url}/sets/events", "1.0.20261121", "--reason", "a holiday", *bucket.flags)

    assert result.status == 0, result.err
    published = {name.removeprefix(version): data for name, data in bucket.files(f"{version}/").items()}
    assert published.pop("/_SUCCESS")
    assert published == {name: kept[name] for name in published}
    assert not bucket.names(f"{failed}/")
    assert bucket.files("sets/events/LATEST")["sets/events/LATEST"] == b"1.0.20261121\n"
    assert run("verify", f"{bucket.url}/sets/events", *bucket.flags).status == 0
    assert rebuild("2026-11-21")[1].startswith("unchanged 1.0.20261121: ")
