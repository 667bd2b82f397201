"""The version directory of a job: leased before it runs, cleared of what the job left if it fails."""

import os
import time
from collections.abc import Sequence
from contextlib import suppress

from pipelines.config.job import JobConfig
from shardmill.metadata import naming
from transforms.publishing import job_folder, lease
from transforms.publishing.lease import Lease
from transforms.stores import conditional, storage
from transforms.stores.error_text import of_output, of_writing
from transforms.stores.stored import Stored

_ATTEMPTS, _PAUSE = 20, 0.02  # at clearing up, with so many seconds between them


def take_lease(config: JobConfig, detached: bool = False) -> Lease:
    """Make the version directory the job's own; `detached` says that it may go on without this process.

    Raises:
      LockedError: another job builds that version.
      UserError: it cannot be written; JobError: there is no room for it.
    """
    try:
        seconds = lease.DETACHED_SECONDS if detached else lease.SECONDS
        return lease.take(config.directory, config.temporary, config.job, seconds, detached)
    except OSError as error:
        told = of_writing(error, config.directory)
        where = f": {told.filename}" if told.filename else ""
        raise of_output(f"--output {config.output} cannot be written{where}", told) from None


def sealed(config: JobConfig) -> Stored | None:
    """The `_SUCCESS` of the version directory; another one where the version was published meanwhile."""
    return conditional.read(storage.join(config.directory, naming.SUCCESS))


def missing_folders(config: JobConfig) -> list[str]:
    """The local folders that the job will make, inner ones first."""
    folders = []
    path = os.path.abspath(config.directory)
    while storage.is_local(config.output) and not os.path.lexists(path):
        folders.append(path)
        path = os.path.dirname(path)
    return folders


def clean_up(config: JobConfig, made: Sequence[str], before: Stored | None) -> str:
    """Delete what a failed job left, whose lease has ended: its temporary files, and the folders it made if they are
    empty.

    Where its publication has begun nothing is deleted: all of it is there, and is brought to its end.

    Args:
      config: of the job.
      made: folders.
      before: what `sealed` said before the job began.

    Returns:
      What to say of it.
    """
    folder = storage.join(config.directory, config.temporary)
    try:
        for _ in range(_ATTEMPTS):
            # Threads of the job are still writing there, or the store fails, which is why the job did
            with suppress(OSError):
                if not job_folder.give_up(config.directory, config.temporary):
                    return (
                        f"the publication of {config.directory} had begun: the next run, or `shardmill verify --repair "
                        f"{config.directory}`, completes it"
                    )
            if not storage.is_local(folder) or not os.path.lexists(folder):
                break
            time.sleep(_PAUSE)
        if (now := sealed(config)) is not None and now != before:
            return f"{config.directory} is published"
        for path in made:
            os.rmdir(path)
    except OSError:
        pass  # the next run clears what is left
    return "nothing was published"
