"""How many cores this process may use: in a container, fewer than the machine has."""

import math
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_CGROUPS, _OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def cores(cgroups: Path = _CGROUPS, own: Path = _OWN) -> int:
    """Cores that this process may run on, and has the time of; at least one.

    The least of: those that it is bound to, and the quota of its control group and of each that this lies in, as Docker
    and Kubernetes set it: `cpu.max` of version 2, `cpu.cfs_quota_us` and `cpu.cfs_period_us` of version 1
    (docs.kernel.org/admin-guide/cgroup-v2.html, docs.kernel.org/scheduler/sched-bwc.html).

    Args:
      cgroups: where control groups are mounted.
      own: the file that names this process's.
    """
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [math.ceil(quota) for quota in _quotas(cgroups, own)]
    return max(1, min([bound, *quotas]))


def _quotas(cgroups: Path, own: Path) -> Iterator[float]:
    """The limits of all control groups of this process, in cores."""
    for line in _lines(own):
        _, controllers, name = line.split(":", 2)
        path = PurePosixPath(name.lstrip("/"))
        # In a container the group's own folder may be mounted in place of all, under which its name is not there.
        groups = dict.fromkeys([path, *path.parents, PurePosixPath(".")])
        if not controllers:
            for mount in (cgroups, cgroups / "unified"):
                for group in groups:
                    yield from _quota(*_words(mount / group / "cpu.max"))
        elif "cpu" in controllers.split(","):
            for mount in (cgroups / controllers, cgroups / "cpu"):
                for group in groups:
                    folder = mount / group
                    yield from _quota(*_words(folder / "cpu.cfs_quota_us"), *_words(folder / "cpu.cfs_period_us"))


def _quota(*words: str) -> Iterator[float]:
    """Time over period, from both in microseconds; nothing where there is no limit: `max`, or -1."""
    if len(words) == 2 and words[0].isdigit() and words[1].isdigit() and int(words[1]):
        yield int(words[0]) / int(words[1])


def _words(path: Path) -> list[str]:
    return " ".join(_lines(path)).split()


def _lines(path: Path) -> list[str]:
    """The lines of a file of the kernel's; none where it is not there, or may not be read."""
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
