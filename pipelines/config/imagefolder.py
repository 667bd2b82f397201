"""Find the metadata files of a Hugging Face imagefolder."""

import os
from collections.abc import Iterable

from shardmill.errors import UserError
from shardmill.transforms.inputs.folders import SPLIT_FOLDERS, normalize_split
from shardmill.transforms.inputs.listing import METADATA_NAMES
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.clients import object_store

_BEGIN = "metadata."  # of their names, asked for at once


def find_metadata_files(folder: str) -> tuple[tuple[str, str], ...]:
    """Return the (split, path) of the metadata files of a folder, as Hugging Face's imagefolder finds them.

    A metadata file is in the folder itself, or in each of its split folders. The result is empty for any other
    arrangement, including a file next to split folders, whose files would all be of one split. It is also empty if a
    local folder cannot be listed; the check of the input reports that.

    Raises OSError if a store fails: without its metadata files, the folder would be another data set.
    """
    try:
        own = _list_metadata_files(folder)
        inner = sorted(name for name in _list_folders(folder) if not name.startswith("."))
        are_splits = bool(inner) and all(name.lower() in SPLIT_FOLDERS for name in inner)
        if own:
            return (("", own[0]),) if len(own) == 1 and not are_splits else ()
        if not are_splits:
            return ()
        found = [(name, _list_metadata_files(storage.join(folder, name))) for name in inner]
    except (FileNotFoundError, UserError):
        return ()
    except OSError:
        if not storage.is_local(folder):
            raise
        return ()
    if any(len(paths) != 1 for _, paths in found):
        return ()
    return tuple((normalize_split(name), paths[0]) for name, paths in found)


def _list_folders(folder: str) -> Iterable[str]:
    if not storage.is_local(folder):
        return storage.list_folders(folder)
    return [item.name for item in os.scandir(folder) if item.is_dir()]


def _list_metadata_files(folder: str) -> list[str]:
    paths = [storage.join(folder, name) for name in METADATA_NAMES]
    if storage.is_local(folder):
        return list(filter(os.path.isfile, paths))
    listed = {found.path for found in object_store(folder).stats(storage.join(folder, _BEGIN))}
    return [path for path in paths if path in listed]
