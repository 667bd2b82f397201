"""Inputs that lie in zip archives, as configurations have them."""

from shardmill.transforms.stores import storage


def is_on_disk(path: str) -> bool:
    """Whether what lies at `path`, or the archive that it is in, is on a local disk."""
    return storage.is_local(path.removeprefix("zip://"))


def inside_archive(path: str) -> str:
    """What a zip archive of files holds, where that is what `path` names; else `path`."""
    if not path.lower().endswith(".zip") or path.startswith("zip://"):
        return path
    from shardmill.transforms.inputs.listing import is_file, is_glob
    from shardmill.transforms.stores.clients import object_store
    from shardmill.transforms.stores.zip_archive import folder_in

    try:
        return path if is_glob(path) or not is_file(path) else folder_in(path, object_store)
    except OSError:
        return path  # which is said where the input is checked
