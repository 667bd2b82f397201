"""The lease of a version directory: one job at a time builds it, whatever machine it runs on.

`LOCK`, in the version directory, names its owner. It is created if there is none, and written again every so often by
the process that launched the job; whoever finds one that was not, by the clock of the store itself, puts its own in its
place if it still is that one. A process of this machine that has ended is known at once: on a local disk it no longer
holds the lock of the file, elsewhere the kernel knows no such process; so nobody waits after a crash.

A job whose workers are a cluster's goes on when the process that launched it has ended. Its lease ends when nothing of
it has been written for hours, neither LOCK nor any file of its temporary folder, which its workers write; one that has
published gives it up for the minutes that a launcher takes to see that.

A job that has lost its lease publishes nothing. A publication writes its journal first and looks at the lease then;
whoever takes a lease over writes the lease first and looks for a journal then, which it brings to its end: one of the
two sees the other, without any lock.
"""

import os
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from shardmill.errors import LockedError
from shardmill.metadata import naming
from shardmill.transforms.publishing.owner import Owner
from shardmill.transforms.stores import brief, conditional, local, locks, storage
from shardmill.transforms.stores.stored import ChangedError, Stored

SECONDS = 300.0  # after which a lease that was not renewed is another's for the taking
DETACHED_SECONDS = 6 * 3600.0  # likewise, where a cluster works; Dataflow's FlexRS begins within six hours
_RENEWALS = 5  # in that time
_ATTEMPTS = 200  # at what others change meanwhile
_PAUSE = 0.01  # seconds, before the next


class Lease:
    """A lease that this process holds, and renews until it is released."""

    def __init__(self, directory: str, folder: str, owner: Owner, lock: int | None) -> None:
        self._path, self._folder = _path(directory), storage.join(directory, folder)
        self._owner, self._lock, self._wait = owner, lock, min(owner.seconds, SECONDS) / _RENEWALS
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="shardmill-lease", daemon=True)
        self._thread.start()

    def release(self) -> None:
        """End it; another may have it at once. Nothing is raised: where LOCK cannot be deleted it expires."""
        if self._ended.is_set():
            return
        self._stop()
        with suppress(OSError):
            found = conditional.read(self._path)
            if found is not None and _owner(found).job == self._owner.job:
                if storage.is_local(self._path):  # its lock is ours, so no other process changes it
                    storage.delete([self._path])
                else:
                    conditional.delete(self._path, found)
        self._let_go()

    def leave(self) -> None:
        """Renew it no more, but let the job have it until another takes it: a job that goes on without this process."""
        if not self._ended.is_set():
            self._stop()
            self._let_go()

    def _stop(self) -> None:
        self._ended.set()
        # One that waits for a store which is gone may go on: what it then finds is no longer as it read it
        self._thread.join(brief.SECONDS)

    def _let_go(self) -> None:
        locks.release(self._lock)
        storage.remove_empty(self._folder)

    def _renew(self) -> None:
        while not self._ended.wait(self._wait):
            with suppress(OSError):  # a store that fails may work in a minute
                self._write()

    def _write(self) -> None:
        found = conditional.read(self._path)
        if found is None or (owner := _owner(found)).job != self._owner.job:
            return  # it is another's; this job will publish nothing
        if storage.is_local(self._path):
            local.touch(self._path)
            return
        conditional.replace(self._path, replace(owner, beat=owner.beat + 1).to_json(), found)


def take(directory: str, folder: str, job: str, seconds: float = SECONDS, detached: bool = False) -> Lease:
    """Make a version directory this job's own, until the lease is released or this process ends.

    Args:
      directory: of the version; it is made where it is missing.
      folder: the job's own in it, for temporary files.
      job: its nonce, by which `check` knows it anywhere.
      seconds: after which others may take it, where this process has not renewed it.
      detached: whether the job may go on without this process; nor has any other of its files been written then.

    Raises:
      LockedError: another job has it, which the message names; nothing was written.
      OSError: it cannot be written.
    """
    owner = Owner.this_process(job, seconds, detached)
    missing: BaseException | None = None
    for _ in range(_ATTEMPTS):
        try:
            taken, lock = (_take_local if storage.is_local(directory) else _take_remote)(directory, folder, owner)
            if taken and is_held(directory, job):  # which a store without conditions has not promised
                return Lease(directory, folder, owner, lock)
            locks.release(lock)
        except ChangedError as error:
            missing = error.__cause__
        except KeyboardInterrupt:
            _abandon(directory, owner)
            raise
        time.sleep(_PAUSE)
    if isinstance(missing, FileNotFoundError) and not os.path.isdir(directory):  # nobody made it, for nobody can
        raise missing
    raise LockedError(f"{directory} is wanted by several jobs at once; nothing was written")


@contextmanager
def held(directory: str, folder: str, job: str) -> Iterator[None]:
    """`take` and release."""
    lease = take(directory, folder, job)
    try:
        yield
    finally:
        lease.release()


def holder(directory: str) -> Owner | None:
    """Whom the LOCK in a version directory names, dead or alive; None if there is none."""
    found = conditional.read(_path(directory))
    return None if found is None else _owner(found)


def may_live(directory: str) -> bool:
    """Whether a job builds the version in a directory, as far as anybody knows."""
    path = _path(directory)
    found = conditional.read(path)
    if found is None:
        return False
    owner = _owner(found)
    if storage.is_local(path) and owner.on_this_kernel() and (locks.is_held(path) or not owner.detached):
        return locks.is_held(path)
    lives = owner.lives()
    return not _is_over(directory, naming.temporary_folder("look", uuid.uuid4().hex), found) if lives is None else lives


def is_held(directory: str, job: str) -> bool:
    """Whether the lease of a version directory is that of `job`, wherever its process runs."""
    owner = holder(directory)
    return owner is not None and owner.job == job


def check(directory: str, job: str) -> Owner:
    """Check, on any worker, that a job still has the lease of its version directory, which is returned.

    Raises:
      LockedError: it has not; the message says who has.
    """
    owner = holder(directory)
    if owner is None:
        raise LockedError(
            f"this job no longer has the lease of {directory}: the process that launched it has given it up; another"
            " job may write there now"
        )
    if owner.job != job:
        raise LockedError(
            f"this job has lost the lease of {directory}, which was not renewed in time, to {owner}, which writes there"
            " now"
        )
    return owner


def end_soon(directory: str, job: str) -> None:
    """Let the lease of a job that has published, and may have no launcher any more, end as that of other jobs does:
    within minutes. A launcher that lives renews it, and gives it up. Nothing is raised: else it ends within hours."""
    path = _path(directory)
    with suppress(OSError):
        found = conditional.read(path)
        if found is None or (owner := _owner(found)).job != job or not owner.detached:
            return
        if storage.is_local(path) and locks.is_held(path):  # by the launcher
            return
        conditional.replace(path, replace(owner, seconds=SECONDS, detached=False).to_json(), found)


def _take_local(directory: str, folder: str, owner: Owner) -> tuple[bool, int | None]:
    """Whether it was taken, and the lock of the file."""
    path, temporary = _path(directory), storage.join(storage.join(directory, folder), naming.LOCK)
    found = conditional.read(path)
    if found is not None and locks.is_held(path):
        if _owner(found).lives() is False:  # yet another is about to take it over
            return False, None
        raise _locked(directory, _owner(found))
    lock, taken = None, False

    def clean_up() -> None:
        storage.delete([temporary])
        if not taken:
            locks.release(lock)
            storage.remove_empty(storage.join(directory, folder))

    with storage.cleaning_up(clean_up):
        try:
            storage.make_directory(storage.join(directory, folder))
            lock = locks.hold_new(temporary, owner.to_json())
            taken = _place_local(path, temporary, directory, folder)
        except FileNotFoundError as error:  # whoever has it clears all other folders away
            raise ChangedError(str(error)) from error
        except KeyboardInterrupt:
            _abandon(directory, owner)
            raise
    return taken, lock if taken else None


def _abandon(directory: str, owner: Owner) -> None:
    """Delete the LOCK of a job that is interrupted as it takes it, and whose process holds that file's lock."""
    with suppress(OSError):
        if is_held(directory, owner.job):
            storage.delete([_path(directory)])


def _place_local(path: str, temporary: str, directory: str, folder: str) -> bool:
    """Give a lease that was written, and whose lock is held, its name."""
    with suppress(FileExistsError):
        local.link(temporary, path)
        return True
    with locks.locked(path, wait=False) as got:
        found = conditional.read(path)
        if not got or found is None:
            return False
        owner = _owner(found)
        ended_with_its_process = owner.on_this_kernel() and not owner.detached
        if not (ended_with_its_process or _is_over(directory, folder, found)):
            raise _locked(directory, owner)
        local.move(temporary, path)
        return True


def _take_remote(directory: str, folder: str, owner: Owner) -> tuple[bool, None]:
    path = _path(directory)
    with suppress(FileExistsError):
        conditional.create(path, owner.to_json())
        return True, None
    found = conditional.read(path)
    if found is None:
        return False, None
    lives = _owner(found).lives()
    if lives or (lives is None and not _is_over(directory, folder, found)):
        raise _locked(directory, _owner(found))
    conditional.replace(path, owner.to_json(), found)
    return True, None


def _is_over(directory: str, folder: str, found: Stored) -> bool:
    """Whether a lease was not renewed in its time; nor, of a job that goes on by itself, anything of it written."""
    now, owner = _now(directory, folder), _owner(found)
    if now - found.modified <= owner.seconds:
        return False
    return not owner.detached or now - _last_written(directory, owner.job) > owner.seconds


def _last_written(directory: str, job: str) -> float:
    """When a job's workers last wrote a file that is there, by the clock of the store; 0 if there is none."""
    names = [name for name in storage.list_folders(directory) if naming.is_temporary_folder_of(name, job)]
    folders = [storage.join(directory, name) for name in names]
    return max((stat.modified for folder in folders for stat in storage.stat_files(folder)), default=0.0)


def _now(directory: str, folder: str) -> float:
    """The time of the store that a directory lies on: when a file was written that is written now."""
    path = storage.join(storage.join(directory, folder), f"{naming.LOCK}{naming.TEMP_SUFFIX}")
    storage.write_parts(path, [b"now"])

    def clean_up() -> None:
        storage.delete([path])
        storage.remove_empty(storage.join(directory, folder))

    with storage.cleaning_up(clean_up):
        found = conditional.read(path)
    return time.time() if found is None else found.modified


def _locked(directory: str, owner: Owner) -> LockedError:
    if owner.lives():
        doubt = ""
    elif owner.detached:
        doubt = (
            f"; its job may go on without that process: the lease ends {owner.seconds / 3600:g} h after the job last"
            f" wrote anything; if it was cancelled, delete {_path(directory)}"
        )
    else:
        doubt = f"; if it is dead, its lease ends {owner.seconds:.0f} s after it was last renewed"
    return LockedError(
        f"{directory} is being built by {owner}; nothing was written: wait for it, or give another --version{doubt}"
    )


def _owner(found: Stored) -> Owner:
    """The owner of a LOCK; nobody knows whose it is where it was damaged, and it expires."""
    return Owner.from_json(found.data) or Owner("", "a host", "somebody", 0, "a time unknown", "", "", "", SECONDS)


def _path(directory: str) -> str:
    return storage.join(directory, naming.LOCK)
