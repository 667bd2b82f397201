"""What the control groups of this process say: in a container, less than the machine has."""

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

CGROUPS, OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def settings(controller: str, unified: str, single: Sequence[str], cgroups: Path, own: Path) -> Iterator[list[str]]:
    """What the process's control group, and each that this lies in, says of one thing, as words.

    Args:
      controller: of version 1, such as `cpu`.
      unified: the file of version 2 (docs.kernel.org/admin-guide/cgroup-v2.html).
      single: the files of version 1, whose words are put together.
      cgroups: where control groups are mounted.
      own: the file that names this process's.
    """
    for line in _lines(own):
        _, controllers, name = line.split(":", 2)
        path = PurePosixPath(name.lstrip("/"))
        # In a container the group's own folder may be mounted in place of all, under which its name is not there.
        groups = dict.fromkeys([path, *path.parents, PurePosixPath(".")])
        if not controllers:
            mounts, files = (cgroups, cgroups / "unified"), [unified]
        elif controller in controllers.split(","):
            mounts, files = (cgroups / controllers, cgroups / controller), list(single)
        else:
            continue
        for mount in mounts:
            for group in groups:
                yield [word for file in files for word in " ".join(_lines(mount / group / file)).split()]


def _lines(path: Path) -> list[str]:
    """The lines of a file of the kernel's; none where it is not there, or may not be read."""
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
