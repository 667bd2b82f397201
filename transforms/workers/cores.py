"""How many cores this process may use: in a container, fewer than the machine has."""

import math
import os
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from shardmill.transforms.workers.cgroups import CGROUPS, OWN, settings


@cache
def cores(cgroups: Path = CGROUPS, own: Path = OWN) -> int:
    """Cores that this process may run on, and has the time of; at least one.

    Found out once a process: the kernel's files are asked, and each block of work wants to know.

    The least of: those that it is bound to, and the quota of its control group and of each that this lies in, as Docker
    and Kubernetes set it: `cpu.max` of version 2, `cpu.cfs_quota_us` and `cpu.cfs_period_us` of version 1
    (docs.kernel.org/admin-guide/cgroup-v2.html, docs.kernel.org/scheduler/sched-bwc.html).

    Args:
      cgroups: where control groups are mounted.
      own: the file that names this process's.
    """
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    found = settings("cpu", "cpu.max", ("cpu.cfs_quota_us", "cpu.cfs_period_us"), cgroups, own)
    quotas = [math.ceil(quota) for words in found for quota in _quota(words)]
    return max(1, min([bound, *quotas]))


def _quota(words: Sequence[str]) -> Iterator[float]:
    """Time over period, from both in microseconds; nothing where there is no limit: `max`, or -1."""
    if len(words) == 2 and words[0].isdigit() and words[1].isdigit() and int(words[1]):
        yield int(words[0]) / int(words[1])
