"""Stores that cannot be reached, or refuse or fail while a command or a recipe is read: one sentence, and the status of
a failure. No store is asked before the options of a recipe hold."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from shardmill.transforms.stores.clients import set_options
from tests.end_to_end.stores.test_faults import _OF_THE_BUCKET
from tests.support.buckets import Bucket, azure_connection, free_port, jpeg
from tests.support.command import Run, check_mistake, npy, write_files
from tests.support.faulty_store import faulty

ALWAYS = 1_000_000
STORES = {"gs": "gs://box", "s3": "s3://box", "az": "az://devstoreaccount1/box"}


def options(store: str, endpoint: str) -> list[str]:
    """Return the options of Beam with which a store is reached at an endpoint; Google's client is only made anew."""
    if store == "gs":
        return ["store_patience=600"]
    if store == "az":
        return [f"azure_connection_string={azure_connection(endpoint)}"]
    keys = {"endpoint_url": endpoint, "access_key_id": "k", "secret_access_key": "s", "region_name": "us-east-1"}
    return [f"s3_{name}={value}" for name, value in keys.items()]


def write_recipe(folder: Path, place: str, beam: Sequence[str], command: str = "images", more: str = "") -> Path:
    lines = [f"name: n\noutput: {place}/out\n{command}:\n  input: {place}/in\n{more}", *(["beam:\n"] if beam else [])]
    lines += [f"  {name}: '{value}'\n" for name, _, value in (option.partition("=") for option in beam)]
    write_files(folder, {"n.yaml": "".join(lines).encode()})
    return folder / "n.yaml"


REFUSALS = {"401": "Unauthorized", "403": "Forbidden"}  # as Azure's client says it


def check_sentence(run: Run, folder: Path, store: str, endpoint: str, way: str, words: str) -> None:
    """Have a command or a recipe fail at a store: with one line on stderr, and nothing is written."""
    beam, place, here = options(store, endpoint), STORES[store], folder / "here"
    if way in ("recipe", "dry_run"):
        result = run("rebuild", write_recipe(folder, place, beam), *(["--dry_run"] if way == "dry_run" else []))
    else:  # to a disk, nothing asks the store before the steps of the job do
        write_files(here, {"in/a.csv": b"a,b\n1,2\n"})
        source, output = here if way == "from a disk" else place, here if way == "to a disk" else place
        command = "images" if way == "command" else "csv"
        flags = [f"--{option}" for option in beam]
        result = run(command, "--input", f"{source}/in", "--output", f"{output}/out", "--name", "n", *flags)
        assert [path.name for path in here.iterdir()] == ["in"]
    assert (result.status, result.out) == (1, ""), result
    assert result.err.startswith("shardmill: error: ")
    assert result.err.count("\n") == 1, result.err
    assert place in result.err
    assert words in result.err


@pytest.mark.parametrize(
    "way", ["command", *(pytest.param(way, marks=pytest.mark.slow) for way in ("from a disk", "dry_run"))]
)
@pytest.mark.parametrize("store", STORES)
def test_nobody_listens(
    run: Run, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str, way: str
) -> None:
    endpoint = f"http://127.0.0.1:{free_port()}"
    if store == "gs":
        request.getfixturevalue("gs_endpoint")  # whose credentials Beam keeps for the whole process
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", endpoint)
    check_sentence(run, tmp_path, store, endpoint, way, f"no store can be reached at {endpoint}")


@pytest.mark.slow
@pytest.mark.parametrize(("way", "status"), [("to a disk", "403"), ("recipe", "403"), ("from a disk", "401")])
@pytest.mark.parametrize("store", STORES)
def test_all_is_refused(
    run: Run,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    store: str,
    way: str,
    status: str,
) -> None:
    behind = request.getfixturevalue("gs_endpoint")[0] if store == "gs" else "http://127.0.0.1:1"  # never asked
    with faulty(behind) as proxy:
        proxy.fail(status, ALWAYS, most=ALWAYS)
        if store == "gs":
            monkeypatch.setenv("STORAGE_EMULATOR_HOST", proxy.endpoint)
        check_sentence(run, tmp_path, store, proxy.endpoint, way, REFUSALS[status] if store == "az" else status)
        asked = [times for request, times in proxy.asked.items() if not _OF_THE_BUCKET.match(request)]
        assert max(asked) <= (3 if status == "401" else 2)  # not again and again; Google's client gets another token


@pytest.mark.parametrize(("bucket", "command"), [("gs", "images"), ("s3", "arrays")], indirect=["bucket"])
def test_only_the_store_of_the_recipe_is_asked(
    run: Run, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Metadata files and flags that name files are read there, too, as the recipe is checked."""
    name, data = ("a/1.jpg", jpeg(1)) if command == "images" else ("a/1.npy", npy(np.zeros(3, np.float32)))
    other = name.replace("1.", "2.")
    bucket.put_all("in", {name: data, other: data, "metadata.csv": f"file_name,label\n{name},cat\n".encode()})
    bucket.put("labels.txt", b"cat\ndog\n")
    with faulty("http://127.0.0.1:1") as elsewhere:
        elsewhere.fail("403", ALWAYS, most=ALWAYS)
        for variable, value in {
            "AWS_ENDPOINT_URL": elsewhere.endpoint,
            "AWS_ACCESS_KEY_ID": "k",
            "AWS_SECRET_ACCESS_KEY": "s",
            "AZURE_STORAGE_CONNECTION_STRING": azure_connection(elsewhere.endpoint),
        }.items():
            monkeypatch.setenv(variable, value)
        set_options(None)
        beam = [flag.removeprefix("--") for flag in bucket.flags]
        more = f"  labels_file: {bucket.url}/labels.txt\n"
        result = run("rebuild", write_recipe(tmp_path, bucket.url, beam, command, more))
        assert elsewhere.agents == []
    assert result.status == 0, result.err
    manifest = json.loads(bucket.files("out/n/1.0.0/manifest.json")["out/n/1.0.0/manifest.json"])
    assert sum(shard["examples"] for split in manifest["splits"] for shard in split["shards"]) == 1


def test_an_endpoint_that_is_no_url(run: Run) -> None:
    places = ("--input", "s3://box/in", "--output", "s3://box/out", "--name", "n")
    result = run("images", *places, "--s3_endpoint_url=localhost:9000")
    check_mistake(
        result, "s3://: the endpoint, of --s3_endpoint_url", "is not a URL; expected one such as https://host:9000"
    )
