"""Who builds a version: the job and the process that launched it, as its LOCK names them, and whether that process
lives."""

import json
import os
import socket
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from getpass import getuser
from pathlib import Path

FORMAT = 1  # raised when what was written before would be misread
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = "/proc/self/ns/pid"
_DEAD_STATES = ("Z", "X")  # a process that has ended, but whose parent has not asked yet


@dataclass(frozen=True, slots=True)
class Owner:
    """The content of a LOCK.

    Attributes:
      job: the nonce of the job: the token without which nothing is published.
      host, user, pid, since: of the process that launched it; the time is UTC.
      boot, processes, started: what tells that process from all others: its kernel since it started, the kernel's
        namespace of process ids, and the tick in which the process started; empty where the system does not say.
      seconds: after which it no longer counts, from when it was last written by the clock of the store.
      beat: how often it was written.
      detached: whether the job may go on when that process has ended: its workers are a cluster's.
    """

    job: str
    host: str
    user: str
    pid: int
    since: str
    boot: str
    processes: str
    started: str
    seconds: float
    beat: int = 0
    detached: bool = False

    @classmethod
    def this_process(cls, job: str, seconds: float, detached: bool = False) -> "Owner":
        """This process as the owner of a version for `job`."""
        since = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        pid = os.getpid()
        made = cls(job, socket.gethostname(), _user(), pid, since, _boot(), _namespace(), _started(pid), seconds)
        return replace(made, detached=detached)

    def to_json(self) -> str:
        """The text of the file."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: bytes) -> "Owner | None":
        """Parse the text of a LOCK; None of what is none, such as one that was cut short."""
        try:
            content = json.loads(text)
            if content.pop("format") != FORMAT:
                return None
            owner = cls(**content)
            types = (
                *((owner.job, str), (owner.pid, int), (owner.seconds, (int, float)), (owner.beat, int)),
                (owner.detached, bool),
            )
            return owner if all(isinstance(value, kind) for value, kind in types) else None
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            return None

    def on_this_kernel(self) -> bool:
        """Whether its process runs, or ran, on the kernel of this one, which then knows all locks that it holds."""
        return bool(self.boot) and self.boot == _boot()

    def lives(self) -> bool | None:
        """Whether its job may live, by its process; None where that does not tell: it runs on another machine, or has
        ended and left the job to a cluster."""
        if not self.on_this_kernel() or self.processes != _namespace():
            return None
        process_lives = self.started != "" and _started(self.pid) == self.started
        return None if self.detached and not process_lives else process_lives

    def __str__(self) -> str:
        return f"process {self.pid} of {self.user} on {self.host} since {self.since}"


def _user() -> str:
    try:
        return getuser()
    except (KeyError, OSError):  # a number without a name, as in containers
        return str(os.getuid())


def _boot() -> str:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""


def _namespace() -> str:
    try:
        return os.readlink(_NAMESPACE)
    except OSError:
        return ""


def _started(pid: int) -> str:
    """The tick since boot in which a process started; empty if there is none. Source: proc_pid_stat(5)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in _DEAD_STATES else fields[19]
