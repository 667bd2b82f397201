"""Files that are written as they come, because they may be too large for memory."""

import os
from collections.abc import Iterable
from contextlib import suppress

from shardmill.metadata.naming import TEMP_SUFFIX
from shardmill.transforms.stores import storage

_WHOLE_BYTES = 8 << 20  # in one request of an object store


def write_stream(path: str, chunks: Iterable[bytes], size_bytes: int) -> None:
    """Write `size_bytes` that come in `chunks`, whole or not at all, in the place of what was there; one process at a
    time. A local file is not yet synced.

    Raises:
      OSError: it cannot be written; nothing is left of it.
    """
    if size_bytes <= _WHOLE_BYTES:
        storage.write_bytes(path, b"".join(chunks), sync=False)
        return
    temporary = path + TEMP_SUFFIX if storage.is_local(path) else path
    try:
        with suppress(FileNotFoundError):  # of an attempt that was killed
            os.unlink(temporary)
        with storage.open_write(temporary) as file:
            for chunk in chunks:
                file.write(chunk)
        if temporary != path:
            os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary)
        raise
