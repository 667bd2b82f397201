"""az://, as far as it needs no server; tests/end_to_end/stores/check_azure.py has one."""

from typing import cast

import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from azure.core.exceptions import HttpResponseError, IncompleteReadError, ServiceRequestError
from azure.storage.blob import BlobBlock, BlobClient

from shardmill.errors import UserError
from shardmill.transforms.stores.azure import AzureUpload, blob_client, split_az_url, translate_errors
from shardmill.transforms.stores.clients import check_url
from shardmill.transforms.stores.protocol import is_transient


@pytest.mark.parametrize(
    ("url", "parts"),
    [("az://a/c/d/e f.jpg", ("a", "c", "d/e f.jpg")), ("az://a/c", ("a", "c", "")), ("az://a/c/", ("a", "c", ""))],
)
def test_parts_of_a_url(url: str, parts: tuple[str, str, str]) -> None:
    assert split_az_url(url) == parts
    check_url(url)


@pytest.mark.parametrize("url", ["az://", "az://account", "az://account/", "az:///container/x"])
def test_a_url_without_an_account_or_a_container(url: str) -> None:
    with pytest.raises(UserError, match="expected az://account/container/path"):
        check_url(url)


def test_where_an_account_is_without_a_connection_string(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials are looked for as requests are made, not before."""
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING", raising=False)
    public = blob_client("az://pictures/raw/a [1].jpg", PipelineOptions([]))
    assert public.url == "https://pictures.blob.core.windows.net/raw/a%20%5B1%5D.jpg"
    private = blob_client("az://pictures/raw/x", PipelineOptions(["--blob_service_endpoint", "https://blobs.example"]))
    assert private.url == "https://blobs.example/raw/x"


@pytest.mark.parametrize(
    ("error", "again"),
    [(ServiceRequestError("no route"), True), (IncompleteReadError("cut"), True), (HttpResponseError("odd"), False)],
)
def test_which_errors_may_be_gone_in_a_minute(error: Exception, again: bool) -> None:
    with pytest.raises(OSError, match="az://a/c/x: ") as raised, translate_errors("az://a/c/x"):
        raise error
    assert is_transient(raised.value) is again


class Blob:
    """The client of an object, which notes what is asked of it."""

    def __init__(self) -> None:
        self.staged: dict[str, bytes] = {}
        self.committed: list[bytes] | None = None

    def stage_block(self, name: str, data: bytes) -> None:
        self.staged[name] = data

    def commit_block_list(self, blocks: list[BlobBlock]) -> None:
        self.committed = [self.staged[block.id] for block in blocks]


def test_it_is_written_block_by_block_and_asked_for_nothing_else() -> None:
    AzureUpload("az://a/c/x", cast("BlobClient", empty := Blob())).close()
    assert empty.committed == []
    blob = Blob()
    upload = AzureUpload("az://a/c/x", cast("BlobClient", blob))
    upload.write(bytes(5 << 20))
    upload.write(np.ones(5 << 20, np.uint8))  # type: ignore[arg-type]  # any buffer
    upload.write(memoryview(b"end"))  # type: ignore[arg-type]
    assert list(blob.staged.values()) == [bytes(5 << 20) + b"\1" * (5 << 20)]
    assert blob.committed is None
    upload.close()
    assert blob.committed == [bytes(5 << 20) + b"\1" * (5 << 20), b"end"]
