"""A store that fails is tried again; a disk's fault, and what a store answers of one file, is the file's."""

import pytest

from transforms.stores.failures import raise_if_store_failed


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
    raise_if_store_failed(FileNotFoundError(path), path)


def test_who_reads_says_what_else_is_an_answer() -> None:
    with pytest.raises(PermissionError):
        raise_if_store_failed(PermissionError(), "gs://bucket/a.csv")

    raise_if_store_failed(PermissionError(), "gs://bucket/a.csv", (FileNotFoundError, PermissionError))
