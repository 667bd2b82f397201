"""How many bytes of records, encoded or not, this process holds at once, whatever the number of its threads."""

import ctypes
import os
from functools import cache
from pathlib import Path

import pyarrow as pa

from shardmill.transforms.workers.budget import Budget
from shardmill.transforms.workers.cgroups import CGROUPS, OWN, settings
from shardmill.transforms.workers.cores import cores

BASE_BYTES = 300 << 20  # of Python, Beam, Arrow and what describes the work, before any record is read
_LEAST_BYTES = 64 << 20  # that are held at once, or nothing would go on


def budget() -> Budget:
    """What readers, encoders and mergers of this process take from while they hold records."""
    from shardmill.transforms.workers.memory_options import asked_bytes

    return _budget(asked_bytes() or container_bytes() // cores())


def return_freed() -> None:
    """Have what this process has freed go back to the system, which allocators keep for what is needed next: before
    something else begins that needs much, in pieces of other sizes."""
    pa.default_memory_pool().release_unused()
    if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:  # glibc's
        trim(0)


@cache
def _budget(process_bytes: int) -> Budget:
    return Budget(max(process_bytes - BASE_BYTES, _LEAST_BYTES))


@cache
def container_bytes(cgroups: Path = CGROUPS, own: Path = OWN) -> int:
    """The memory that all processes of this container may have together.

    The least of: what the machine has, and the limit of this process's control group and of each that this lies in:
    `memory.max` of version 2, `memory.limit_in_bytes` of version 1, which says a number beyond any machine for none.

    Args:
      cgroups: where control groups are mounted.
      own: the file that names this process's.
    """
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    found = settings("memory", "memory.max", ("memory.limit_in_bytes",), cgroups, own)
    return min([machine, *(int(words[0]) for words in found if len(words) == 1 and words[0].isdigit())])
