"""The folders of a job: claimed before it runs, cleared away if it fails."""

import os
import time
from contextlib import suppress

from pipelines.config.job import JobConfig
from shardmill import naming
from shardmill.errors import UserError
from transforms.publishing import job_folder
from transforms.stores import storage

_ATTEMPTS = 20  # at clearing up


def claim(config: JobConfig) -> int | None:
    """Make the job's temporary directory its own; the lock that holds it, on a local disk. Raises UserError."""
    try:
        return job_folder.claim(config.directory, config.temporary)
    except OSError as error:
        raise UserError(f"--output {config.output} cannot be written: {error}") from None


def missing_folders(config: JobConfig) -> list[str]:
    """The local folders that the job will make, inner ones first."""
    folders = []
    path = os.path.abspath(config.directory)
    while storage.is_local(config.output) and not os.path.lexists(path):
        folders.append(path)
        path = os.path.dirname(path)
    return folders


def clean_up(config: JobConfig, made: list[str]) -> str:
    """Delete what a failed job left, its temporary files and the folders it made if they are empty; what to say of it.

    Where its publication has begun nothing is deleted: all of it is there, and is brought to its end.
    """
    folder = storage.join(config.directory, config.temporary)
    try:
        claimed = job_folder.is_claimed(config.directory, config.temporary)
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
            time.sleep(0.02)
        if not claimed and storage.exists(storage.join(config.directory, naming.SUCCESS)):
            return f"{config.directory} is published"
        for path in made:
            os.rmdir(path)
    except OSError:
        pass  # the next run clears what is left
    return "nothing was published"
