"""Whether a file is still the one it was, from what a listing says of it: nothing is read. It is 64 bits, for
references to billions of files carry it."""

import time
from collections.abc import Iterable

import xxhash

from shardmill.transforms.stores.protocol import TIME_STAMP

# Within one tick of a disk's clock, 2 s on FAT, a file may change again without a trace.
_TICK_SECONDS = 2.0


def identity_of(size: int, stamp: str, modified: float, now: float | None = None) -> int | None:
    """What changes whenever a file does, as its store tells it; None where a change might not show.

    Args:
      size: of the file, in bytes.
      stamp, modified: as shardmill.transforms.stores.protocol.FileStat has them.
      now: the time, in seconds since 1970; by default that of this moment.
    """
    moment = time.time() if now is None else now
    if stamp.startswith(TIME_STAMP) and not 0 < modified <= moment - _TICK_SECONDS:
        return None
    return xxhash.xxh3_64_intdigest(f"{size}\0{stamp}".encode())


def identity_of_all(identity: int | None, others: Iterable[tuple[str, int | None]]) -> int | None:
    """What changes whenever one of several files does; None where a change of one might not show.

    Args:
      identity: of the first.
      others: the path and the identity of each other one; without any, it is that of the first.
    """
    told = list(others)
    if not told or identity is None or any(of_other is None for _, of_other in told):
        return None if any(of_other is None for _, of_other in told) else identity
    return xxhash.xxh3_64_intdigest("\0".join([str(identity), *(f"{path}\0{other}" for path, other in told)]).encode())
