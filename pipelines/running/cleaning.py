"""The version directory of a job: leased before it runs, cleared of what the job left if it fails."""

import os
import time
from collections.abc import Sequence
from contextlib import suppress

from shardmill.metadata import naming
from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.reports import log
from shardmill.transforms.publishing import job_folder, lease
from shardmill.transforms.publishing.lease import Lease
from shardmill.transforms.stores import conditional, storage
from shardmill.transforms.stores.error_text import of_output, of_writing, sentence_of
from shardmill.transforms.stores.stored import Stored

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

    Where its publication has begun nothing is deleted: all of it is there, and is brought to its end. What cannot be
    deleted is said: the next run does that.

    Args:
      config: of the job.
      made: folders.
      before: what `sealed` said before the job began.

    Returns:
      What to say of it.
    """
    folder = storage.join(config.directory, config.temporary)
    completes = f"the next run, or `shardmill verify --repair {config.directory}`, completes it"
    for _ in range(_ATTEMPTS):
        failed: OSError | None = None
        try:
            if not job_folder.give_up(config.directory, config.temporary):
                return f"the publication of {config.directory} had begun: {completes}"
        except (
            OSError
        ) as error:  # threads of the job are still writing there, or the store fails, as it did for the job
            failed = error
        if not storage.is_local(folder) or not os.path.lexists(folder):
            break
        time.sleep(_PAUSE)
    if failed is not None:
        log.warn(
            f"{folder} could not be deleted, nor perhaps {naming.LOCK} beside it, and the next run does that:"
            f" {sentence_of(failed)}"
        )
    try:
        now = sealed(config)
    except OSError:
        return f"whether {config.directory} is published nobody can tell now; if that had begun, {completes}"
    if now is not None and now != before:
        return f"{config.directory} is published"
    with suppress(OSError):  # another job may have begun there
        for path in made:
            os.rmdir(path)
    return "nothing was published"
