"""Readers on data sets in object stores, in processes that know nothing of the job: the lines that its summary prints,
and every function of shardmill that reads."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.end_to_end.convert.test_every_route import COUNT, printed_readers
from tests.support.buckets import Bucket, azure_connection
from tests.support.command import REPOSITORY, SOURCE, Run
from tests.support.golden_cases import command

pytestmark = pytest.mark.slow

# What differs by store: plain and compressed shards, files in other formats, and a SavedModel
CASES = ("images-splits", "csv-gzip", "csv-array-record", "csv-transform")
FUNCTIONS = """
import json, shardmill
path, kept = {path!r}, {kept!r}
info = shardmill.info(path)
split = next(name for name, found in info.splits.items() if found.examples)
defaults = {{name: "" if found.dtype == "bytes" else 0 for name, found in info.features.items() if not found.required}}
fills = dict(split=split, defaults=defaults)
counts = [info.splits[split].examples]
counts.append(sum(1 for _ in shardmill.examples(path, **fills)))
for shuffle in (False, True):
    counts.append(sum(1 for _ in shardmill.load(path, shuffle=shuffle, **fills)))
if kept:
    counts.append(sum(1 for _ in shardmill.load(path, split=split, transform=True, defaults=dict(age=0))))
shardmill.feature_spec(path)
print(json.dumps(counts))
"""

SOURCE_CODE = """
import json, multiprocessing, shardmill
from concurrent.futures import ProcessPoolExecutor

path, cache = {path!r}, {cache!r}
source, expected = shardmill.source(path), list(map(repr, shardmill.examples(path)))
numbers = list(range(len(source)))[::-1]

def read(source):
    return [*map(repr, source.__getitems__(numbers)), repr(source[1]), repr(source[-1])]

found = [read(source)]
with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
    found += pool.map(read, [source] * 3)
with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
    found += pool.map(read, [shardmill.source(path, cache_dir=cache)] * 3)
print(json.dumps([len(source), [one == [*expected[::-1], expected[1], expected[-1]] for one in found]]))
"""


def environment_of(bucket: Bucket) -> dict[str, str]:
    """Return the environment in which the store's own client reaches a bucket."""
    endpoint: str = bucket.endpoint  # type: ignore[attr-defined]
    if bucket.url.startswith("gs:"):
        return bucket.environment
    if bucket.url.startswith("az:"):
        return {"AZURE_STORAGE_CONNECTION_STRING": azure_connection(endpoint)}
    keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}
    return {"AWS_ENDPOINT_URL": endpoint, **keys}


def run_code(code: str, environment: Mapping[str, str]) -> str:
    """Run Python code in a process of its own; return what it prints on stdout."""
    known = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "AZURE_", "STORAGE_"))}
    everything = {**known, **environment, "PYTHONPATH": str(SOURCE), "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, env=everything, capture_output=True, text=True)
    assert done.returncode == 0, f"{code}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("case", CASES)
def test_readers(run: Run, bucket: Bucket, inputs: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    monkeypatch.chdir(inputs)
    result = run(*command(case), "--output", f"{bucket.url}/sets", *bucket.flags)
    assert result.status == 0, result.err
    environment = environment_of(bucket)
    counts = {run_code("\n".join([*piece, COUNT]), environment) for piece in printed_readers(result.out)}
    directory = result.out.splitlines()[0]
    assert directory.startswith(f"{bucket.url}/sets/")
    (found,) = {*json.loads(run_code(FUNCTIONS.format(path=directory, kept=case.endswith("transform")), environment))}
    assert counts == {f"{found}\n"}


def test_any_example(run: Run, bucket: Bucket, inputs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(inputs)
    result = run(*command("csv-label"), "--output", f"{bucket.url}/sets", "--index", *bucket.flags)
    assert result.status == 0, result.err
    path, cache = result.out.splitlines()[0], str(tmp_path / "cache")
    count, same = json.loads(run_code(SOURCE_CODE.format(path=path, cache=cache), environment_of(bucket)))
    assert count > 2
    assert same == [True] * 7
    assert list(Path(cache).glob("*/*.part"))


def test_what_the_reader_names_when_nothing_is_there(bucket: Bucket) -> None:
    lines = [
        "import shardmill",
        "try:",
        "    shardmill.info(%r)",
        "except shardmill.UserError as error:",
        "    print(error)",
    ]
    code = "\n".join(lines) % f"{bucket.url}/none"
    assert run_code(code, environment_of(bucket)).startswith(f"{bucket.url}/none is not a data set: ")
