"""Which version a new one comes after: what it is compared with, and keeps ids and types of."""

from shardmill.metadata import naming
from shardmill.printable import beginning
from shardmill.transforms.publishing.catalog import published
from shardmill.transforms.publishing.latest import latest_in
from shardmill.transforms.stores import storage


def version_before(parent: str) -> tuple[str, str]:
    """The version that LATEST names; where that is not published, or there is no LATEST, the newest that is. With it
    what is to be said, "" if nothing.

    A file that somebody deleted must not make the next version of a data set its first.

    Args:
      parent: the folder of all versions.

    Returns:
      The version, "" where none is published.

    Raises:
      OSError: the store fails.
    """
    named = latest_in(parent)
    if naming.is_version(named) and storage.exists(storage.join(storage.join(parent, named), naming.SUCCESS)):
        return named, ""
    standing = [state.version for state in published(parent)]
    if not standing:
        return "", ""
    what = f"LATEST names {beginning(named)!r}, which is not published" if named else "there is no LATEST"
    return standing[0], f"{what}: {standing[0]}, the newest that is published, takes its place"
