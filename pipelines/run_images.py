"""`shardmill images`: flags, checks before anything is written, the run, and the report."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import NoReturn

from pipelines.config import ImagesConfig
from pipelines.options import beam_options, images_parser, to_config
from shardmill import naming
from shardmill.errors import JobError, UserError
from transforms import publish, storage
from transforms.listing import is_glob, matches
from transforms.object_store import check_url, set_options


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit status."""
    parser = images_parser()
    args, rest = parser.parse_known_args(list(arguments))
    options = beam_options(rest, parser)
    set_options(options)
    config = to_config(args)

    from pipelines import launch, report, runner
    from pipelines.dry_run import dry_run
    from pipelines.images import build_images

    runner.check_runner(options)
    check_input(config)
    check_output(config, args.overwrite)
    if args.dry_run:
        print(dry_run(config, options))
        return 0
    build = partial(build_images, config=config)
    try:
        launch.run(lambda pipeline, folder: build(pipeline, progress_folder=folder), options, config.name)
    except JobError:
        with suppress(OSError):  # a store that fails is why the job did; the next run clears what is left
            publish.delete_temporaries(config.directory)
        raise
    except KeyboardInterrupt:
        if not runner.is_local(options):
            print("shardmill: interrupted; the job itself goes on, and its runner can cancel it", file=sys.stderr)
            launch.interrupt()
        print("shardmill: interrupted; nothing was published", file=sys.stderr)
        with suppress(OSError):
            publish.delete_temporaries(config.directory)
        launch.interrupt()
    print(report.summary(config))
    return 0


def check_input(config: ImagesConfig) -> None:
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


def _check_apart(config: ImagesConfig, directory: str, root: str) -> None:
    if f"{directory}/".startswith(f"{root.rstrip('/')}/"):
        _refuse_output(config)


def _check_glob(config: ImagesConfig) -> None:
    """Check that a glob does not match what will be written; one for `*.jpg` may search a folder that the output lies in."""
    assert config.input is not None
    absolute = os.path.abspath if storage.is_local(config.input) else str
    pattern = absolute(config.input).split("/")
    files = [storage.join(config.directory, naming.MANIFEST), storage.join(storage.join(config.output, config.name), naming.LATEST)]
    if any(matches(absolute(file).split("/"), pattern) for file in files):
        _refuse_output(config)


def _refuse_output(config: ImagesConfig) -> NoReturn:
    raise UserError(f"--output {config.output} lies inside --input {config.input}: the next run would read its own output")


def check_output(config: ImagesConfig, overwrite: bool) -> None:
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
    if naming.SUCCESS in names and not overwrite:
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
