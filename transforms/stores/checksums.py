"""Checksums of whole files, wherever they lie."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import xxhash

from shardmill.transforms.stores import storage
from shardmill.transforms.stores.error_text import error_text
from shardmill.transforms.stores.failures import raise_if_store_failed

_THREADS, _REMOTE_THREADS = 8, 32  # that read files: a disk has a queue, a store answers late
_BLOCK_BYTES = 8 << 20  # read at once
UNREADABLE = "reject:"  # what stands before the reason, for a file that cannot be read


def checksums(paths: Iterable[str]) -> list[str]:
    """The xxh3 of each file, 32 hex digits behind `xxh3:`; or UNREADABLE, and why. Many are read at once.

    Raises:
      OSError: a store fails.
    """
    wanted = list(paths)
    threads = _THREADS if all(map(storage.is_local, wanted)) else _REMOTE_THREADS
    with ThreadPoolExecutor(threads, "shardmill-read") as pool:
        return list(pool.map(_checksum, wanted))


def _checksum(path: str) -> str:
    digest = xxhash.xxh3_128()
    try:
        with storage.open_read(path) as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
    except OSError as error:
        raise_if_store_failed(error, path)
        return f"{UNREADABLE}{error_text(error)}"
    return f"xxh3:{digest.hexdigest()}"
