"""What every converting command does around its pipeline: checks before anything is written, the run, the report."""

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from pipelines.config.job import JobConfig
from pipelines.reports import summary as report
from pipelines.running import launch, runner
from pipelines.running.memory import return_large_buffers
from pipelines.running.taking_up import take_up
from shardmill import naming
from shardmill.errors import JobError, UserError
from transforms.inputs.listing import is_glob, matches
from transforms.publishing import job_folder
from transforms.stores import locks, storage
from transforms.stores.clients import check_url

_SMALL_SHARD = 1_000_000  # bytes: below, opening files takes longer than reading them
_ATTEMPTS = 20  # at clearing up


def check(config: JobConfig, options: PipelineOptions) -> None:
    """Check runner, input and output; raises UserError."""
    runner.check_runner(options)
    check_input(config)
    check_output(config, config.overwrite)
    if config.shard_size is not None and config.shard_size < _SMALL_SHARD:
        print(f"shardmill: warning: {small_shards(config.shard_size)}", file=sys.stderr)


def small_shards(shard_size: int) -> str:
    """What must be said of a --shard_size that makes very many files."""
    return (
        f"--shard_size is {shard_size:,} bytes, a file for each; a number without a unit is bytes: give one, such as 100MiB; "
        "trainers read files of 100 to 200 MB fastest"
    )


def run(
    build: Callable[[beam.Pipeline, str | None], Any],
    config: JobConfig,
    options: PipelineOptions,
    set_memory: Callable[[], None] = return_large_buffers,
) -> None:
    """Run the pipeline that `build(pipeline, progress folder)` makes, clean up after a failure, and print the report."""
    if take_up(config):
        print(report.summary(config))
        return
    missing = _missing_folders(config)
    held = None
    try:
        with launch.terminable():
            held = _claim(config)
            launch.run(build, options, config.name, set_memory)
    except (JobError, UserError):
        _clean_up(config, missing)
        raise
    except KeyboardInterrupt as cause:
        if not runner.is_local(options):
            print("shardmill: interrupted; the job itself goes on, and its runner can cancel it", file=sys.stderr)
            launch.interrupt(cause)
        print(f"shardmill: interrupted; {_clean_up(config, missing)}", file=sys.stderr)
        launch.interrupt(cause)
    finally:
        locks.release(held)
    print(report.summary(config))


def _claim(config: JobConfig) -> int | None:
    try:
        return job_folder.claim(config.directory, config.temporary)
    except OSError as error:
        raise UserError(f"--output {config.output} cannot be written: {error}") from None


def _missing_folders(config: JobConfig) -> list[str]:
    """The local folders that the job will make, inner ones first."""
    folders = []
    path = os.path.abspath(config.directory)
    while storage.is_local(config.output) and not os.path.lexists(path):
        folders.append(path)
        path = os.path.dirname(path)
    return folders


def _clean_up(config: JobConfig, made: list[str]) -> str:
    """Delete what a failed job left, its temporary files and the folders it made if they are empty; what to say of it.

    Where its publication has begun nothing is deleted: all of it is there, and is brought to its end.
    """
    folder = storage.join(config.directory, config.temporary)
    try:
        claimed = job_folder.is_claimed(config.directory, config.temporary)
        for _ in range(_ATTEMPTS):
            with suppress(OSError):  # threads of the job are still writing there, or the store fails, which is why the job did
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


def check_input(config: JobConfig) -> None:
    """Check that a local input exists and can be read, and that a remote one has a bucket.

    Raises:
      UserError: it does not, or the output lies inside it.
    """
    if config.input is None:
        return
    if is_glob(config.input):
        _check_glob(config)
        return
    if not storage.is_local(config.input):
        check_url(config.input)
        _check_apart(config, config.directory, config.root)
        return
    if not os.path.exists(config.input):
        raise UserError(f"--input {config.input}: no such file or folder")
    if not os.access(config.input, os.R_OK | (os.X_OK if os.path.isdir(config.input) else 0)):
        raise UserError(f"--input {config.input} cannot be read: permission denied")
    if storage.is_local(config.output):
        _check_apart(config, os.path.realpath(config.directory), os.path.realpath(config.input))


def _check_apart(config: JobConfig, directory: str, root: str) -> None:
    if f"{directory}/".startswith(f"{root.rstrip('/')}/"):
        _refuse_output(config)


def _check_glob(config: JobConfig) -> None:
    """Check that a glob does not match what will be written; one for `*.jpg` may search a folder that the output lies in."""
    assert config.input is not None
    absolute = os.path.abspath if storage.is_local(config.input) else str
    pattern = absolute(config.input).split("/")
    files = [storage.join(config.directory, naming.MANIFEST), storage.join(storage.join(config.output, config.name), naming.LATEST)]
    if any(matches(absolute(file).split("/"), pattern) for file in files):
        _refuse_output(config)


def _refuse_output(config: JobConfig) -> NoReturn:
    raise UserError(f"--output {config.output} lies inside --input {config.input}: the next run would read its own output")


def check_output(config: JobConfig, overwrite: bool) -> None:
    """Check that the version directory may be written.

    Raises:
      UserError: it is published and --overwrite was not given, it holds other files, or it cannot be written.
    """
    if storage.is_local(config.output):
        _check_writable(config.directory)
    try:
        names = [name for name, _ in storage.list_files(config.directory)]
    except OSError as error:
        raise UserError(f"--output {config.output} cannot be listed: {error}") from None
    if naming.SUCCESS in names and naming.PUBLISHING not in names and not overwrite:
        raise UserError(
            f"{config.directory} is a published data set; give --overwrite to replace it, or another --version to keep both"
        )
    for name in names:
        if not naming.is_dataset_file(name, config.name):
            raise UserError(f"{config.directory} holds {name!r}, which shardmill did not write; give another --output or --name")


def _check_writable(directory: str) -> None:
    path = os.path.abspath(directory)
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    if not os.path.isdir(path):
        raise UserError(f"--output: {path} is not a folder")
    if not os.access(path, os.W_OK | os.X_OK):
        raise UserError(f"--output: {path} is not writable")
