"""The lease of a version directory, and the job that holds it."""

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from getpass import getuser
from pathlib import Path

from shardmill.errors import LockedError
from shardmill.metadata import file_names
from shardmill.transforms.stores import local, protocol, storage
from shardmill.transforms.stores.protocol import ChangedError, StoredFile

FORMAT = 1  # raised when what was written before would be misread
_BOOT_ID_FILE = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE_LINK = "/proc/self/ns/pid"
_DEAD_STATES = ("Z", "X")  # a process that has ended, but whose parent has not asked yet


@dataclass(frozen=True, slots=True)
class Owner:
    """The content of a LOCK file: the job and the process that hold a version's folder.

    Attributes:
        host, user, pid, since: of the launcher's process; since is in UTC
        boot, processes, started: boot id, namespace of process ids, start tick: identify that process; "" if unknown
    """

    job: str  # nonce of the job; only its holder publishes
    host: str
    user: str
    pid: int
    since: str
    boot: str
    processes: str
    started: str
    seconds: float  # time after the last write, by the store's clock, when it expires
    beat: int = 0  # number of renewals
    detached: bool = False  # the job may continue without that process, on a cluster

    @classmethod
    def this_process(cls, job: str, seconds: float, detached: bool = False) -> "Owner":
        """Return this process as the owner of a lease for `job`."""
        since = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        identity = _boot_id(), _pid_namespace(), _read_start_tick(os.getpid())
        return cls(
            job, socket.gethostname(), _find_user_name(), os.getpid(), since, *identity, seconds, detached=detached
        )

    def to_json(self) -> str:
        """Return the text of the LOCK file."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: bytes) -> "Owner | None":
        """Parse the text of a LOCK; return None if it is invalid, for example cut short."""
        try:
            content = json.loads(text)
            if content.pop("format") != FORMAT:
                return None
            owner = cls(**content)
            numbers = isinstance(owner.pid, int) and isinstance(owner.seconds, int | float)
            others = isinstance(owner.job, str) and isinstance(owner.beat, int) and isinstance(owner.detached, bool)
            return owner if numbers and others else None
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            return None

    def is_on_this_kernel(self) -> bool:
        """Return True if this process's kernel runs, or ran, the process; it then knows all locks that it holds."""
        return bool(self.boot) and self.boot == _boot_id()

    def is_alive(self) -> bool | None:
        """Return True if the job's process lives; None if that is unknown, or it has left the job to a cluster."""
        if not self.is_on_this_kernel() or self.processes != _pid_namespace():
            return None
        process_lives = self.started != "" and _read_start_tick(self.pid) == self.started
        return None if self.detached and not process_lives else process_lives

    def __str__(self) -> str:
        return f"process {self.pid} of {self.user} on {self.host} since {self.since}"


def _find_user_name() -> str:
    try:
        return getuser()
    except (KeyError, OSError):  # a number without a name, as in containers
        return str(os.getuid())


def user_at_host() -> str:
    """Return who runs this process, and where."""
    return f"{_find_user_name()}@{socket.gethostname()}"


def _boot_id() -> str:
    with suppress(OSError):
        return _BOOT_ID_FILE.read_text().strip()
    return ""


def _pid_namespace() -> str:
    with suppress(OSError):
        return os.readlink(_PID_NAMESPACE_LINK)
    return ""


def _read_start_tick(pid: int) -> str:
    """Return the tick since boot at which a process started, see proc_pid_stat(5); "" if there is no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in _DEAD_STATES else fields[19]


LEASE_SECONDS = 300.0  # after which a lease that was not renewed is another's for the taking
DETACHED_LEASE_SECONDS = 6 * 3600.0  # the same for jobs on a cluster; Dataflow's FlexRS begins within six hours
_RENEWALS_PER_LEASE = 5  # in that time
_ATTEMPTS = 200  # at what others change meanwhile
_PAUSE_SECONDS = 0.01  # seconds, before the next


class Lease:
    """A lease that this process holds and renews until it is released."""

    def __init__(self, directory: str, folder: str, owner: Owner, lock: int | None) -> None:
        self._path, self._folder = _lock_path(directory), storage.join(directory, folder)
        self._owner, self._lock, self._wait = owner, lock, min(owner.seconds, LEASE_SECONDS) / _RENEWALS_PER_LEASE
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="shardmill-lease", daemon=True)
        self._thread.start()

    def release(self) -> None:
        """Release the lease, so that another job can take it at once; if LOCK cannot be deleted, it expires."""
        if self._ended.is_set():
            return
        self._stop()
        end_lease(self._path.rpartition("/")[0], self._owner.job)
        self._release_lock()

    def leave(self) -> None:
        """Stop renewing the lease but do not release it, for a job that continues without this process."""
        if not self._ended.is_set():
            self._stop()
            self._release_lock()

    def _stop(self) -> None:
        self._ended.set()
        # One that waits for a store which is gone may go on: what it then finds is no longer as it read it
        self._thread.join(protocol.TIMEOUT_S)

    def _release_lock(self) -> None:
        storage.release_lock(self._lock)
        storage.remove_empty(self._folder)

    def _renew(self) -> None:
        while not self._ended.wait(self._wait):
            with suppress(OSError):  # a store that fails may work in a minute
                self._write()

    def _write(self) -> None:
        found = storage.read(self._path)
        if found is None or (owner := _parse_owner(found)).job != self._owner.job:
            return  # it is another's; this job will publish nothing
        if storage.is_local(self._path):
            os.utime(self._path)
            return
        storage.replace(self._path, replace(owner, beat=owner.beat + 1).to_json(), found)


def take_lease(directory: str, folder: str, job: str, seconds: float = LEASE_SECONDS, detached: bool = False) -> Lease:
    """Take the lease of a version directory, until it is released or this process ends.

    Args:
        directory: version directory; created if missing.
        folder: the job's folder in it, for temporary files.
        job: nonce of the job.
        seconds: time without renewal after which others may take the lease.
        detached: the job may continue without this process. Others then also wait until none of its files has been
            written for that time.

    Raises:
        LockedError: if another job, which the message names, has the lease; nothing was written.
        OSError: if it cannot be written.
    """
    owner = Owner.this_process(job, seconds, detached)
    missing: BaseException | None = None
    for _ in range(_ATTEMPTS):
        try:
            taken, lock = (_take_local if storage.is_local(directory) else _take_remote)(directory, folder, owner)
            if taken and is_lease_held(directory, job):  # which a store without conditions has not promised
                return Lease(directory, folder, owner, lock)
            storage.release_lock(lock)
        except ChangedError as error:
            missing = error.__cause__
        except KeyboardInterrupt:
            _abandon_taking(directory, owner)
            raise
        time.sleep(_PAUSE_SECONDS)
    if isinstance(missing, FileNotFoundError) and not os.path.isdir(directory):  # nobody made it, for nobody can
        raise missing
    raise LockedError(
        f"{directory} is wanted by several jobs at once; nothing was written; run this one again when the"
        " others have ended"
    )


@contextmanager
def hold_lease(directory: str, folder: str, job: str) -> Iterator[None]:
    """Hold the lease of a version directory within the context."""
    lease = take_lease(directory, folder, job)
    try:
        yield
    finally:
        lease.release()


def read_holder(directory: str) -> Owner | None:
    """Return the owner in a version directory's LOCK, dead or alive; None without one."""
    found = storage.read(_lock_path(directory))
    return None if found is None else _parse_owner(found)


def is_maybe_building(directory: str) -> bool:
    """Return True if a job builds the version in a directory, as far as can be known."""
    path = _lock_path(directory)
    found = storage.read(path)
    if found is None:
        return False
    owner = _parse_owner(found)
    if storage.is_local(path) and owner.is_on_this_kernel() and (storage.is_locked(path) or not owner.detached):
        return storage.is_locked(path)
    lives = owner.is_alive()
    if lives is not None:
        return lives
    return not _is_expired(directory, file_names.temporary_folder("look", uuid.uuid4().hex), found)


def is_lease_held(directory: str, job: str) -> bool:
    """Return True if `job` has the lease of a version directory, wherever its process runs."""
    owner = read_holder(directory)
    return owner is not None and owner.job == job


def check_lease(directory: str, job: str, outcome: str = "") -> Owner:
    """Return the owner of a version directory's lease, on any worker, if it is `job`; else raise LockedError, with the
    `outcome` of that.
    """
    owner = read_holder(directory)
    if owner is not None and owner.job == job:
        return owner
    problem = (
        f"this job no longer has the lease of {directory}: the process that launched it has given it up; another"
        " job may write there now"
    )
    if owner is not None:
        problem = (
            f"this job has lost the lease of {directory}, which was not renewed in time, to {owner}, which writes there"
            " now"
        )
    raise LockedError(f"{problem}; {outcome}" if outcome else problem)


def end_lease(directory: str, job: str) -> None:
    """End the lease of `job`, whichever process took it; on failure it expires."""
    path = _lock_path(directory)
    with suppress(OSError):
        found = storage.read(path)
        if found is not None and _parse_owner(found).job == job:
            if storage.is_local(path):  # no other job changes it as long as it names this one
                storage.delete([path])
            else:
                storage.delete_if_unchanged(path, found)


def shorten_lease(directory: str, job: str) -> None:
    """Let the lease of a detached job that has published end within minutes, in case its launcher has ended.

    A launcher that lives renews and releases it. Nothing is raised: on failure the lease ends within hours.
    """
    path = _lock_path(directory)
    with suppress(OSError):
        found = storage.read(path)
        if found is None or (owner := _parse_owner(found)).job != job or not owner.detached:
            return
        if storage.is_local(path) and storage.is_locked(path):  # by the launcher
            return
        storage.replace(path, replace(owner, seconds=LEASE_SECONDS, detached=False).to_json(), found)


def _take_local(directory: str, folder: str, owner: Owner) -> tuple[bool, int | None]:
    path, temporary = _lock_path(directory), storage.join(directory, folder, file_names.LOCK)
    found = storage.read(path)
    if found is not None and storage.is_locked(path):
        if _parse_owner(found).is_alive() is False:  # yet another is about to take it over
            return False, None
        raise _make_locked_error(directory, _parse_owner(found))
    lock, taken = None, False

    def clean_up() -> None:
        storage.delete([temporary])
        if not taken:
            storage.release_lock(lock)
            storage.remove_empty(storage.join(directory, folder))

    with storage.cleaning_up(clean_up):
        try:
            storage.make_directory(storage.join(directory, folder))
            lock = storage.create_locked(temporary, owner.to_json())
            taken = _place_local(path, temporary, directory, folder)
        except FileNotFoundError as error:  # the job that took it deletes all other folders
            raise ChangedError(str(error)) from error
        except KeyboardInterrupt:
            _abandon_taking(directory, owner)
            raise
    return taken, lock if taken else None


def _abandon_taking(directory: str, owner: Owner) -> None:
    with suppress(OSError):
        if is_lease_held(directory, owner.job):
            storage.delete([_lock_path(directory)])


def _place_local(path: str, temporary: str, directory: str, folder: str) -> bool:
    """Rename a written and locked lease file to LOCK; return False if another job was faster."""
    with suppress(FileExistsError):
        local.link(temporary, path)
        return True
    with storage.locked(path, wait=False) as got:
        found = storage.read(path)
        if not got or found is None:
            return False
        owner = _parse_owner(found)
        ended_with_its_process = owner.is_on_this_kernel() and not owner.detached
        if not (ended_with_its_process or _is_expired(directory, folder, found)):
            raise _make_locked_error(directory, owner)
        local.move(temporary, path)
        return True


def _take_remote(directory: str, folder: str, owner: Owner) -> tuple[bool, None]:
    path = _lock_path(directory)
    with suppress(FileExistsError):
        storage.create(path, owner.to_json())
        return True, None
    found = storage.read(path)
    if found is None:
        return False, None
    lives = _parse_owner(found).is_alive()
    if lives or (lives is None and not _is_expired(directory, folder, found)):
        raise _make_locked_error(directory, _parse_owner(found))
    storage.replace(path, owner.to_json(), found)
    return True, None


def _is_expired(directory: str, folder: str, found: StoredFile) -> bool:
    """Return True if a lease was not renewed in time, and a detached job has not written any file in that time."""
    now, owner = _read_store_time(directory, folder), _parse_owner(found)
    if now - found.modified <= owner.seconds:
        return False
    return not owner.detached or now - _find_last_write(directory, owner.job) > owner.seconds


def _find_last_write(directory: str, job: str) -> float:
    """Return when a job's workers last wrote a file that still exists, by the clock of the store; 0 without one."""
    names = storage.list_folders(directory)
    folders = [name for name in names if name.startswith(file_names.TEMP_PREFIX) and name.endswith(f"-{job}")]
    stats = (stat for name in folders for stat in storage.stat_files(storage.join(directory, name)))
    return max((stat.modified for stat in stats), default=0.0)


def _read_store_time(directory: str, folder: str) -> float:
    path = storage.join(directory, folder, f"{file_names.LOCK}{file_names.TEMP_SUFFIX}")
    storage.write_parts(path, [b"now"])

    def clean_up() -> None:
        storage.delete([path])
        storage.remove_empty(storage.join(directory, folder))

    with storage.cleaning_up(clean_up):
        found = storage.read(path)
    return time.time() if found is None else found.modified


def _make_locked_error(directory: str, owner: Owner) -> LockedError:
    if owner.is_alive():
        doubt = ""
    elif owner.detached:
        doubt = (
            f"; its job may go on without that process: the lease ends {owner.seconds / 3600:g} h after the job last"
            f" wrote anything; if it was cancelled, delete {_lock_path(directory)}"
        )
    else:
        doubt = f"; if it is dead, its lease ends {owner.seconds:.0f} s after it was last renewed"
    return LockedError(
        f"{directory} is being built by {owner}; nothing was written: wait for it, or give another --version{doubt}"
    )


def _parse_owner(found: StoredFile) -> Owner:
    """Return the owner of a LOCK. A damaged LOCK has an unknown owner, and it expires."""
    unknown = Owner("", "a host", "somebody", 0, "a time unknown", "", "", "", LEASE_SECONDS)
    return Owner.from_json(found.data) or unknown


def _lock_path(directory: str) -> str:
    return storage.join(directory, file_names.LOCK)
