"""What is checked before a job starts, so that a mistake writes nothing: the runner, the input, the output."""

import os
import re
from typing import NoReturn

from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions

from shardmill.errors import UserError
from shardmill.metadata import naming
from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.running import runner
from shardmill.pipelines.running.dataflow import check_paths, local_paths
from shardmill.reading.dataset import open_dataset
from shardmill.transforms.inputs.listing import choices, input_root, is_glob, matches
from shardmill.transforms.publishing.job_folder import templates_in
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.clients import check_url
from shardmill.transforms.stores.error_text import sentence_of
from shardmill.transforms.stores.zip_archive import SCHEME
from shardmill.versions.tags import find_version

_ARCHIVE = re.compile(r"\.(zip|7z|rar|tgz|tar(?:\.\w+)?)$", re.IGNORECASE)


def check(config: JobConfig, options: PipelineOptions, asks: bool = True) -> None:
    """Check runner, input and output; raises UserError. Unless it `asks`, what runs the job need not be there."""
    (runner.check_runner if asks else runner.check_runner_options)(options)
    check_paths(config, options)
    _check_whole(config, options)
    check_input(config)
    check_output(config, config.overwrite)
    check_baseline(config)


def check_input(config: JobConfig) -> None:
    """Check that a local input exists and can be read, and that a remote one has a bucket.

    Raises:
      UserError: it does not, or the output lies inside it.
    """
    for path in config.inputs:
        _check_one(config, path)


def _check_one(config: JobConfig, path: str) -> None:
    if is_glob(path):
        _check_archive(config, path)
        _check_glob(config, path)
        return
    if not storage.is_local(path):
        _check_archive(config, path)
        check_url(path)
        _check_apart(config, path, config.directory, config.root if path == config.input else input_root(path))
        return
    if not os.path.exists(path):
        raise UserError(f"--input {path}: no such file or folder{_meant(path)}")
    _check_archive(config, path)
    if not os.access(path, os.R_OK | (os.X_OK if os.path.isdir(path) else 0)):
        raise UserError(f"--input {path} cannot be read: permission denied")
    if storage.is_local(config.output):
        _check_apart(config, path, os.path.realpath(config.directory), os.path.realpath(path))


def _meant(path: str) -> str:
    """What the user may have meant by a path that is not there, as the end of a sentence."""
    name, named, rest = path.partition("=")
    if named and os.path.exists(rest):
        return f"; {rest} is there, and is given without {name}="
    if "," in path and all(map(os.path.exists, path.split(","))):
        return "; it is one path, not a list: give a folder that holds everything, or a glob such as 'data/*/*'"
    return ""


def _check_archive(config: JobConfig, path: str) -> None:
    """Check that an --input is no archive, where the command does not read such; raises UserError."""
    found = _ARCHIVE.search(path)
    is_folder = storage.is_local(path) and os.path.isdir(path)
    if found is None or is_folder or config.kind.accepts(path) or path.startswith(SCHEME):
        return
    if config.takes_archives and found[1].lower() == "zip":
        if not is_glob(path):
            return  # a store has no such object, which its listing says
        raise UserError(
            f"--input {path} is a glob of archives, and of zip archives one is read, given by its path; unpack them"
            " into one folder, and give --input that"
        )
    tar = (
        "; tar files of samples, 1.jpg beside 1.cls, are for `shardmill webdataset`"
        if found[1].lower().startswith("t")
        else ""
    )
    raise UserError(
        f"--input {path} is an archive, and {config.kind.plural} in it are not read; unpack it, and give"
        f" --input the folder{tar}"
    )


def _check_whole(config: JobConfig, options: PipelineOptions) -> None:
    """Check that a path means the same to workers that are processes of their own, in folders of their own."""
    environment = options.view_as(PortableOptions).environment_type
    if environment in (None, "LOOPBACK"):
        return
    for flag, path in local_paths(config):
        if not os.path.isabs(path):
            raise UserError(
                f"{flag} {path} begins in the folder of this process, where workers of --environment_type {environment}"
                " do not run; expected a URL, or a whole path on a disk that they have, too"
            )


def _check_apart(config: JobConfig, path: str, directory: str, root: str) -> None:
    if f"{directory}/".startswith(f"{root.rstrip('/')}/"):
        _refuse_output(config, path)


def _check_glob(config: JobConfig, path: str) -> None:
    """Check that a glob does not match what will be written; one for `*.jpg` may search a folder that the output lies
    in."""
    absolute = os.path.abspath if storage.is_local(path) else str
    patterns = [absolute(choice).split("/") for choice in choices(path)]
    files = [
        storage.join(config.directory, naming.MANIFEST),
        storage.join(storage.join(config.output, config.name), naming.LATEST),
    ]
    if any(matches(absolute(file).split("/"), pattern) for file in files for pattern in patterns):
        _refuse_output(config, path)


def _refuse_output(config: JobConfig, path: str) -> NoReturn:
    raise UserError(f"--output {config.output} lies inside --input {path}: the next run would read its own output")


def check_output(config: JobConfig, overwrite: bool) -> list[str]:
    """Check that the version directory may be written; the files that are in it.

    Raises:
      UserError: it is published and --overwrite was not given, it holds other files, or it cannot be written.
    """
    if storage.is_local(config.output):
        _check_writable(config.directory)
    else:
        check_url(config.output)
    try:
        names = [name for name, _ in storage.list_files(config.directory)]
    except OSError as error:
        raise UserError(f"--output {config.output} cannot be listed: {sentence_of(error)}") from None
    if naming.SUCCESS in names and naming.PUBLISHING not in names and not overwrite:
        raise UserError(
            f"{config.directory} is a published data set; give --overwrite to replace it, or another --version to keep"
            " both"
        )
    odd = [name for name in names if not naming.is_dataset_file(name, config.name, (config.file_template,))]
    if odd:
        templates = templates_in(config.directory, names)
        odd = [name for name in odd if not naming.is_dataset_file(name, config.name, templates)]
    if odd:
        raise UserError(
            f"{config.directory} holds {odd[0]!r}, which shardmill did not write; give another --output or --name"
        )
    return names


def check_baseline(config: JobConfig) -> None:
    """Check that the version, or the tag, that the new one is to be compared with is there.

    LATEST need not be: the first version has none to be compared with.

    Raises:
      UserError: there is no such version.
      CorruptDataError: it is damaged.
    """
    if config.checks is None or config.checks.baseline == naming.LATEST:
        return
    files = storage.StorageFiles()
    version, _ = find_version(files, config.parent, config.checks.baseline)
    open_dataset(storage.join(config.parent, version), files)


def _check_writable(directory: str) -> None:
    path = os.path.abspath(directory)
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    if not os.path.isdir(path):
        raise UserError(f"--output: {path} is not a folder")
    if not os.access(path, os.W_OK | os.X_OK):
        raise UserError(f"--output: {path} is not writable")
