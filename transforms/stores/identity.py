"""Whether a file is still the one it was, from what a listing says of it: nothing is read. It is 64 bits, for
references to billions of files carry it."""

import time

import xxhash

from transforms.stores.protocol import TIME_STAMP

# Within one tick of a disk's clock, 2 s on FAT, a file may change again without a trace.
_TICK_SECONDS = 2.0


def identity_of(size: int, stamp: str, modified: float, now: float | None = None) -> int | None:
    """What changes whenever a file does, as its store tells it; None where a change might not show.

    Args:
      size: of the file, in bytes.
      stamp, modified: as transforms.stores.protocol.FileStat has them.
      now: the time, in seconds since 1970; by default that of this moment.
    """
    moment = time.time() if now is None else now
    if stamp.startswith(TIME_STAMP) and not 0 < modified <= moment - _TICK_SECONDS:
        return None
    return xxhash.xxh3_64_intdigest(f"{size}\0{stamp}".encode())
