"""Keep the memory of a local job flat."""

import ctypes

_M_MMAP_THRESHOLD = -3  # malloc.h of glibc
_LARGE_BYTES = 4 << 20  # more than a chunk of records under way, whose memory should be used again, not mapped afresh


def return_large_buffers() -> None:
    """Have freed buffers of some megabytes go back to the system at once; only glibc has to be told.

    Beam's local runner holds all references in a few large buffers, several times over while they pass from stage to stage. By
    default glibc keeps what is freed of up to 32 MiB for later use, in pieces that the next, larger buffer does not fit.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
