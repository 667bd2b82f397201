"""A store that fails is tried again; a disk's fault, and what a store answers of one file, is the file's."""

import pytest

from shardmill.transforms.stores.storage import raise_if_store_failed


@pytest.mark.parametrize("error", [OSError(5, "input/output error"), PermissionError(), FileNotFoundError()])
def test_a_fault_of_a_disk_is_final(error: OSError) -> None:
    raise_if_store_failed(error, "/data/a.csv")
    raise_if_store_failed(error, "a.csv")


@pytest.mark.parametrize("path", ["gs://bucket/a.csv", "s3://bucket/a.csv", "hdfs://host/a.csv"])
def test_a_store_that_fails_is_tried_again(path: str) -> None:
    error = OSError("503")

    with pytest.raises(OSError, match="503") as raised:
        raise_if_store_failed(error, path)

    assert raised.value is error


@pytest.mark.parametrize("answer", [FileNotFoundError, PermissionError])
def test_a_store_that_answers_is_not_asked_again(answer: type[OSError]) -> None:
    raise_if_store_failed(answer("gs://bucket/a.csv"), "gs://bucket/a.csv")
