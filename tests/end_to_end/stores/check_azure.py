"""Azure's Blob Storage, by its emulator, which npm has: `make check NAME=azure`. Tests of other stores, and its own."""

import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from shardmill.transforms.stores import patience
from shardmill.transforms.stores.clients import set_options
from tests.end_to_end.stores.test_disturbed import (
    expected,
    test_a_fault_of_what_is_written,
    test_a_fault_that_passes,
    test_a_fault_that_stays,
    test_a_listing_of_yesterday,
    test_metadata_files_that_cannot_be_listed,
    test_one_object_is_forbidden,
    test_other_etags,
)
from tests.end_to_end.stores.test_faults import store, test_every_operation
from tests.end_to_end.stores.test_images import (
    test_next_run_clears_what_a_killed_one_left,
    test_rerun_refuses_and_overwrite_replaces_that_version_only,
)
from tests.end_to_end.stores.test_leases import (
    test_a_pair_of_builders,
    test_one_of_many_has_the_lease,
    test_the_second_command_names_the_first,
)
from tests.end_to_end.stores.test_operations import (
    test_a_change_needs_what_was_read,
    test_files_for_a_reader,
    test_listing_finds_what_a_local_one_finds,
    test_lists_and_deletions_take_names_as_they_are,
    test_operations_on_more_objects_than_a_request_holds,
    test_ranges,
    test_reading,
    test_rename_may_be_repeated_and_moves_nothing_where_one_is_lost,
    test_what_is_missing,
    test_writing,
)
from tests.end_to_end.stores.test_reading import test_readers, test_what_the_reader_names_when_nothing_is_there
from tests.end_to_end.stores.test_rebuild import test_nights_of_which_one_fails_and_is_accepted
from tests.end_to_end.stores.test_routes import (
    on_disk,
    test_a_failed_table_leaves_its_rejects_alone_until_one_succeeds,
    test_an_object_store_gives_the_bytes_of_a_disk,
)
from tests.end_to_end.stores.test_unreachable import test_only_the_store_of_the_recipe_is_asked
from tests.end_to_end.stores.test_versions import parent, test_deletion, test_versions_tags_and_rollback
from tests.support.buckets import AzureBucket, Files, azure_connection, below, server
from tests.support.command import Run, check_mistake, local_files
from tests.support.faulty_store import FaultyStore
from tests.support.golden_cases import CASES, DIGESTS
from tests.support.golden_inputs import write_inputs

GOLDEN = json.loads(DIGESTS.read_text())
NAME_THE_INPUT = ("d/1.0.0/_SUCCESS", "d/1.0.0/dataset_info.json", "d/1.0.0/manifest.json")  # a URL here


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with server("az", tmp_path_factory.mktemp("az") / "log") as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def photos(photos: Files) -> Files:
    """Those of other stores, but that no name has a backslash, which Azure does not keep."""
    return {name.replace("\\", "-"): data for name, data in photos.items()}


@pytest.fixture
def bucket(azurite: str) -> Iterator[AzureBucket]:
    """A new container for each test."""
    made = AzureBucket(f"container-{random.SystemRandom().getrandbits(64):x}", azurite)
    set_options(PipelineOptions(made.flags))
    yield made
    set_options(None)


@pytest.fixture
def place(bucket: AzureBucket) -> AzureBucket:
    """A bucket, where a test also runs on a disk."""
    return bucket


@pytest.fixture
def patient(bucket: AzureBucket, store: FaultyStore) -> Iterator[FaultyStore]:
    """The store, failing, as a step of a job reaches it."""
    set_options(PipelineOptions([f"--azure_connection_string={azure_connection(store.endpoint)}"]))
    patience.set_patience()
    yield store
    patience.set_patience(False)


@pytest.mark.parametrize("case", ["images-splits", "csv-label", "text", "reshard"])
def test_the_bytes_that_were_promised(run: Run, bucket: AzureBucket, tmp_path: Path, case: str) -> None:
    write_inputs(tmp_path)
    bucket.put_all("in", local_files(tmp_path))
    command, _, source, *flags = CASES[case]
    places = ["--input", f"{bucket.url}/in/{source}", "--output", f"{bucket.url}/out", "--name", "d"]
    result = run(command, *places, *flags, "--max_reject_fraction", "0.9", *bucket.flags)
    assert result.status == 0, result.err
    found = {name: data for name, data in below(bucket.files(), "out").items() if "/builds/" not in name}
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in found.items()}
    assert digests.keys() == GOLDEN[case].keys()
    for name in set(digests) - set(NAME_THE_INPUT):
        assert digests[name] == GOLDEN[case][name], name


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("az://another/box/out", "the connection string of Azure is of the account devstoreaccount1; expected one of"),
        ("az://devstoreaccount1", "there is no account or no container in it; expected az://account/container/path"),
        ("az://devstoreaccount1/B/out", "cannot be listed: az://devstoreaccount1/B: "),
        ("az://devstoreaccount1/no-such-box/out", "cannot be listed: az://devstoreaccount1/no-such-box: not found"),
    ],
)
def test_mistakes(run: Run, bucket: AzureBucket, output: str, words: str) -> None:
    bucket.put("in/a/1.jpg", b"x")
    places = ("--input", f"{bucket.url}/in", "--output", output, "--name", "d")
    check_mistake(run("images", *places, *bucket.flags), words)
    assert bucket.names() == ["in/a/1.jpg"]


def test_a_connection_string_that_is_none(run: Run) -> None:
    places = ("--input", "az://a/box/in", "--output", "az://a/box/out", "--name", "d")
    check_mistake(run("images", *places, "--azure_connection_string=x"), "the connection string of Azure is invalid")
