"""`<name>/builds/<version>.inputs`: what a version was made from, for the next build to compare with.

A job stages it in its temporary directory before it reads anything, and whoever completes the publication puts it in
its place: so it belongs to the version that stands there, and to no other build of the same name. It is no part of the
version, for it holds times.
"""

from shardmill.metadata import naming
from shardmill.transforms.stores import renames, storage

_STAGED = "_INPUTS"


def inputs_path(parent: str, version: str) -> str:
    """Where it lies, of a version of the data set whose versions are in `parent`."""
    return storage.join(storage.join(parent, naming.BUILDS), f"{version}.inputs")


def stage(folder: str, content: bytes) -> None:
    """Write it to the temporary directory of a job; raises OSError."""
    storage.write_parts(_staged(folder), [content])


def forget(directory: str) -> None:
    """Delete that of the version in `directory`, which is about to be replaced, or deleted."""
    storage.delete([_of(directory)])


def put_in_place(directory: str, temporary: str) -> None:
    """Let what the job staged in its `temporary` directory be that of the version in `directory`, which is published;
    done once already, or of a job that staged none, this does nothing."""
    renames.put_in_place(_staged(storage.join(directory, temporary)), _of(directory))


def _staged(folder: str) -> str:
    return storage.join(folder, _STAGED)


def _of(directory: str) -> str:
    parent, _, version = directory.rpartition("/")
    return inputs_path(parent or ("/" if directory.startswith("/") else "."), version)
